// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/command.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <system_error>

#include "checkpoint/store/directory.h"
#include "checkpoint/store/file.h"
#include "checkpoint/tools/objects.h"
#include "common/base/local_time.h"
#include "common/base/parse.h"

namespace dl::ckpt::tool {

Target resolve_target(const std::string& path) {
  std::string clean = path;
  while (clean.size() > 1 && clean.back() == '/') clean.pop_back();
  const size_t slash = clean.rfind('/');
  const std::string last = slash == std::string::npos ? clean : clean.substr(slash + 1);
  const auto name = parse_checkpoint_name(last);
  if (!name) {  // "." in a checkpoint, or a link to one, is that checkpoint
    std::error_code failure;
    const std::filesystem::path real = std::filesystem::canonical(clean, failure);
    const auto meant = failure ? std::nullopt : parse_checkpoint_name(real.filename().string());
    return meant ? Target{real.parent_path().string(), meant} : Target{clean, std::nullopt};
  }
  if (slash == std::string::npos) return Target{".", name};
  return Target{slash == 0 ? "/" : clean.substr(0, slash), name};
}

Status check_directory(const std::string& dir) {
  Io::Info info;
  const int rc = posix_io().stat(dir, &info);
  if (rc == -ENOENT && is_object_place(dir))
    return Error{Errc::kNotFound, "there is no directory " + dir + "; if it is a place in an object store, fetch the " +
                                      "checkpoint first: dlckpt fetch " + dir + " DIR"};
  if (rc == -ENOENT) return Error{Errc::kNotFound, "there is no directory " + dir};
  if (rc == -ENOTDIR || (rc == 0 && !info.directory))
    return Error{Errc::kNotFound, dir + " is not a directory; allowed: a checkpoint directory, or a checkpoint in one"};
  if (rc < 0) return io_error("look at", dir, rc);
  return {};
}

Status make_directory(const std::string& dir) {
  DL_TRY(refuse_checkpoint(dir));
  const int rc = posix_io().mkdir(dir);
  if (rc == 0 || rc == -EEXIST) return check_directory(dir);
  return io_error("make the directory", dir, rc);
}

Result<std::vector<CheckpointName>> select_checkpoints(const Target& target, const std::optional<int64_t>& step) {
  DL_TRY(check_directory(target.dir));
  DL_TRY_ASSIGN(const std::vector<CheckpointName> all, scan_checkpoints(posix_io(), target.dir));
  std::vector<CheckpointName> names;
  for (const CheckpointName& name : all) {
    if (target.only && (name.save_id != target.only->save_id || name.step != target.only->step)) continue;
    if (step && name.step != *step) continue;
    names.push_back(name);
  }
  if (names.empty()) {
    std::string what = target.only ? format_checkpoint_name(*target.only) : "committed checkpoint";
    if (step) what += " of train step " + std::to_string(*step);
    return Error{Errc::kNotFound, "no " + what + " in " + target.dir};
  }
  return names;
}

void complain(const std::string& text) {
  fmt::print(stderr, "dlckpt: {}\n", text);
}
void print_line(const std::string& text) {
  fmt::print("{}\n", text);
}
void print_json(const Json& json) {
  print_line(json.dump(2));
}

std::string format_time(int64_t unix_ms) {
  return format_local_time(unix_ms / 1000, "%Y-%m-%d %H:%M:%S");
}

namespace {

Result<Manifest> with_files(const std::string& dir, const CheckpointName& name, Result<Manifest> loaded) {
  DL_TRY_ASSIGN(Manifest manifest, std::move(loaded));
  const std::string checkpoint = checkpoint_path(dir, name);
  DL_TRY(check_files(posix_io(), checkpoint, manifest));
  for (size_t i = 0; i < manifest.files.size(); ++i) {
    auto file = DataFile::open(posix_io(), checkpoint, manifest, i);
    if (!file) return std::move(file).error();
  }
  return manifest;
}

Result<Manifest> unless_gone(const std::string& dir, const CheckpointName& name, Result<Manifest> found) {
  if (found) return found;
  return error_or_gone(posix_io(), dir, name, std::move(found).error());
}

}  // namespace

Result<Manifest> inspect(const std::string& dir, const CheckpointName& name) {
  return unless_gone(dir, name, with_files(dir, name, load_manifest(posix_io(), dir, name)));
}

Result<Manifest> inspect_outline(const std::string& dir, const CheckpointName& name) {
  return unless_gone(dir, name, with_files(dir, name, load_outline(posix_io(), dir, name)));
}

Result<Newest> select_newest(const Target& target, const std::optional<int64_t>& step) {
  for (int look = 1;; ++look) {
    DL_TRY_ASSIGN(const std::vector<CheckpointName> names, select_checkpoints(target, step));
    Newest newest{names.front(), inspect(target.dir, names.front())};
    const bool gone = !newest.manifest && newest.manifest.error().code == Errc::kNotFound;
    if (!gone || target.only || step || look == kLooks) return newest;
  }
}

void ProgressBar::update(uint64_t done, uint64_t total) {
  if (total == 0) return;
  bar_.show(static_cast<double>(done) / static_cast<double>(total), [&](double seconds) {
    const auto rate = static_cast<uint64_t>(static_cast<double>(done) / seconds);
    return fmt::format("{} of {}, {}/s", format_bytes(done), format_bytes(total), format_bytes(rate));
  });
}

}  // namespace dl::ckpt::tool
