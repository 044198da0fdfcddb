// SPDX-License-Identifier: Apache-2.0
#include "launcher/data/rclone_origin.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "common/base/atomic_file.h"
#include "common/base/parse.h"
#include "common/json/json.h"
#include "common/remote/rclone.h"
#include "launcher/data/digest.h"
#include "launcher/data/fault.h"
#include "launcher/data/listing.h"

namespace dl::data {
namespace {

constexpr uint64_t kRcloneSpan = 512 << 20;
constexpr unsigned kRcloneStreams = 6;
constexpr const char* kTransfers = "--transfers=8";
constexpr int64_t kListStallMs = 600'000;  // a server may think long before it tells the first name

}  // namespace

Status RcloneOrigin::list_into(Manifest* manifest) {
  std::string rest;
  auto line_of = [&](std::string_view line) -> Status {
    Entry entry;
    DL_TRY_ASSIGN(const bool is_entry, parse_listed(line, &entry));
    if (is_entry) manifest->entries.push_back(std::move(entry));
    return {};
  };
  HelperRun run;
  run.argv = rclone_command("lsjson");
  run.argv.insert(run.argv.end(), {"--recursive", "--no-mimetype"});
  if (checksums_) run.argv.emplace_back("--hash");
  run.argv.push_back(remote_);
  run.stop = &stop;
  run.stall_ms = kListStallMs;
  run.out = [&](std::string_view data) -> Status {
    rest += data;
    size_t begin = 0;
    for (size_t end = rest.find('\n'); end != std::string::npos; end = rest.find('\n', begin)) {
      DL_TRY(line_of(std::string_view(rest).substr(begin, end - begin)));
      begin = end + 1;
    }
    rest.erase(0, begin);
    return {};
  };
  auto end = run_helper(run);
  if (!end) return no_rclone(std::move(end).error());
  if (end->status != 0) return rclone_error("list " + remote_, *end);
  return line_of(rest);
}

Result<bool> RcloneOrigin::names_file(const Entry& entry) {
  const size_t at = remote_.find_last_of("/:");
  if (entry.folder || remote_.substr(at + 1) != entry.path) return false;
  std::string text;
  HelperRun run;
  run.argv = rclone_command("lsjson");
  run.argv.insert(run.argv.end(), {"--stat", remote_});
  run.stop = &stop;
  run.out = [&](std::string_view data) {
    text += data;
    return Status();
  };
  auto end = run_helper(run);
  if (!end) return no_rclone(std::move(end).error());
  if (end->status != 0) return rclone_error("look at " + remote_, *end);
  const Json json = Json::parse(text);
  const Json* folder = json.find("IsDir");
  return folder != nullptr && folder->is_boolean() && !folder->get<bool>();
}

Result<Manifest> RcloneOrigin::list() {
  if (!asked_type_) {
    DL_TRY_ASSIGN(const std::string type, remote_type(remote_));
    if (type.empty())
      return Error{Errc::kNotFound,
                   fmt::format("{}: this remote is not in your rclone configuration on this node", remote_)};
    checksums_ = has_cheap_checksums(type);
    asked_type_ = true;
  }
  Manifest manifest;
  DL_TRY(list_into(&manifest));
  // Object stores know no folders: where nothing is, they list nothing.
  if (manifest.entries.empty()) return Error{Errc::kNotFound, remote_ + ": not found, or nothing is in it"};
  single_ = false;
  if (manifest.entries.size() == 1) {
    DL_TRY_ASSIGN(single_, names_file(manifest.entries[0]));
  }
  if (Status settled = settle(&manifest); !settled) return std::move(settled).error().with_context(remote_);
  listed_small_ =
      static_cast<size_t>(std::count_if(manifest.entries.begin(), manifest.entries.end(),
                                        [&](const Entry& entry) { return !entry.folder && entry.size <= small(); }));
  return manifest;
}

Status RcloneOrigin::read(const Entry& entry, uint64_t offset, uint64_t count, const Take& take) {
  HelperRun run;
  const std::string place = single_ ? remote_ : below(remote_, entry.path);
  run.argv = rclone_command("cat");
  run.argv.insert(run.argv.end(), {fmt::format("--offset={}", offset), fmt::format("--count={}", count), place});
  run.stop = &stop;
  run.out = take;
  auto end = run_helper(run);
  if (!end) return no_rclone(std::move(end).error());
  if (end->status == 0) return {};
  Error error = rclone_error("read " + printable(place, 400), *end);
  // The file was in the listing, so it was removed since then: the source has changed.
  if (error.code == Errc::kNotFound) error.code = Errc::kConflict;
  return error;
}

uint64_t RcloneOrigin::span() const {
  return kRcloneSpan;
}
unsigned RcloneOrigin::streams() const {
  return kRcloneStreams;
}
uint64_t RcloneOrigin::small() const {
  return kChunkBytes;
}

Status RcloneOrigin::read_many(const Manifest& all, const std::vector<size_t>& entries, const std::string& folder,
                               const TakeFile& take) {
  std::unordered_map<std::string_view, size_t> places;
  std::string names;
  for (const size_t entry : entries) {
    places.emplace(all.entries[entry].path, entry);
    names += all.entries[entry].path + "\n";
  }
  HelperRun run;
  run.argv = rclone_command("copy");
  run.argv.insert(run.argv.end(), {"--verbose", "--stats=30s", kTransfers, "--checkers=16", "--no-check-dest",
                                   fmt::format("--max-size={}B", small())});
  // For all of a remote one listing is cheaper than asking for each file.
  const std::string list = folder + ".names";
  if (entries.size() != listed_small_) {
    if (Status written = replace_file(list, names, 0600); !written)
      return local_error("write " + list, written.error().sys_errno);
    run.argv.insert(run.argv.end(), {"--files-from-raw", list});
  }
  run.argv.insert(run.argv.end(), {remote_, folder});
  std::atomic<bool> ended{false};
  std::optional<Error> failed;
  auto arrived = [&](size_t entry, const std::string& path) {
    if (failed) return;
    if (Status taken = take(entry, path); !taken) failed = std::move(taken).error(), ended = true;
  };
  run.line = [&](std::string_view line) {
    if (stop) ended = true;
    RcloneLine logged;
    if (!parse_logged(line, &logged) || logged.message.compare(0, 6, "Copied") != 0) return;
    const auto at = places.find(logged.object);
    if (at == places.end()) return;
    const size_t entry = at->second;
    places.erase(at);
    arrived(entry, folder + "/" + all.entries[entry].path);
  };
  run.stop = &ended;
  auto end = run_helper(run);
  if (failed) return *std::move(failed);
  if (!end) return no_rclone(std::move(end).error());
  if (end->status != 0) return rclone_error("fetch " + remote_, *end);
  // A configuration may send the log elsewhere. Now that all is well, what is here is whole.
  for (const auto& [path, entry] : places) arrived(entry, folder + "/" + std::string(path));
  if (failed && failed->code == Errc::kIo && failed->sys_errno == ENOENT)
    return Error{Errc::kConflict, remote_ + " was changed while it was fetched: a file is gone"};
  if (failed) return *std::move(failed);
  return {};
}

}  // namespace dl::data
