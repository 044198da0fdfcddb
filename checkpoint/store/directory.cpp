// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/store/directory.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "checkpoint/retention/retention.h"
#include "checkpoint/store/file.h"

namespace dl::ckpt {
namespace {

bool starts_with(const std::string& text, const std::string& prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

}  // namespace

uint64_t random_u64() {
  uint64_t value = 0;
  if (getrandom(&value, sizeof value, 0) == static_cast<ssize_t>(sizeof value)) return value;
  // For kernels without getrandom: this is random enough for names that only have to differ.
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  return static_cast<uint64_t>(now) * 0x9E3779B97F4A7C15U ^ static_cast<uint64_t>(getpid());
}

std::string from_root(const std::string& path) {
  if (path.empty() || path.front() == '/') return path;
  std::error_code failure;
  const std::filesystem::path here = std::filesystem::current_path(failure);
  return failure ? path : (here / path).string();
}

Status refuse_checkpoint(const std::string& dir) {
  std::filesystem::path path = dir;
  if (!path.has_filename()) path = path.parent_path();  // it ends in a slash
  const auto name = parse_checkpoint_name(path.filename().string());
  if (!name) return {};
  const std::string above = path.has_parent_path() ? path.parent_path().string() : ".";
  return Error{Errc::kInvalid, dir + " is one checkpoint; allowed: a checkpoint directory, such as " + above +
                                   ", of which this is train step " + std::to_string(name->step)};
}

Result<std::vector<CheckpointName>> scan_checkpoints(Io& io, const std::string& dir) {
  DL_TRY_ASSIGN(const std::vector<std::string> entries, list_directory(io, dir));
  std::vector<CheckpointName> names;
  for (const std::string& entry : entries)
    if (const auto name = parse_checkpoint_name(entry)) names.push_back(*name);
  std::sort(names.begin(), names.end(), newer);
  return names;
}

bool is_gone(Io& io, const std::string& dir, const CheckpointName& name) {
  Io::Info info;
  return io.stat(checkpoint_path(dir, name), &info) == -ENOENT;
}

Error gone_error(Io& io, const std::string& dir, const CheckpointName& name) {
  const std::string what =
      "the checkpoint of train step " + std::to_string(name.step) + " in " + dir + " was removed by its job meanwhile";
  const auto names = scan_checkpoints(io, dir);
  if (!names || names->empty()) return Error{Errc::kNotFound, what + ", and no other is there"};
  return Error{Errc::kNotFound, what + "; the newest is that of train step " + std::to_string(names->front().step) +
                                    " (dlckpt pin, before it is read, has one kept)"};
}

Error error_or_gone(Io& io, const std::string& dir, const CheckpointName& name, Error error) {
  return is_gone(io, dir, name) ? gone_error(io, dir, name) : error;
}

Result<CheckpointName> next_checkpoint_name(Io& io, const std::string& dir, int64_t step, uint32_t above) {
  DL_TRY_ASSIGN(const std::vector<CheckpointName> names, scan_checkpoints(io, dir));
  const uint32_t highest = std::max(above, names.empty() ? 0 : names.front().generation());
  const uint64_t generation = std::min<uint64_t>(uint64_t{highest} + 1, UINT32_MAX);
  return CheckpointName{step, generation << 32 | (random_u64() & UINT32_MAX)};
}

std::string attempt_path(const std::string& dir, const CheckpointName& name) {
  return dir + "/" + kTemporaryPrefix + format_checkpoint_name(name);
}

std::string checkpoint_path(const std::string& dir, const CheckpointName& name) {
  return dir + "/" + format_checkpoint_name(name);
}

Status publish(Io& io, const std::string& dir, const CheckpointName& name, const std::string& manifest_text) {
  const std::string attempt = attempt_path(dir, name);
  const std::string published = checkpoint_path(dir, name);
  DL_TRY(write_new_file(io, attempt + "/" + kManifestName, manifest_text, /*durable=*/true));
  int rc = io.fsync_directory(attempt);
  if (rc < 0) return io_error("fsync", attempt, rc);
  rc = io.rename(attempt, published);
  const char* failed = "rename to";
  if (rc == 0) {
    rc = io.fsync_directory(dir);
    failed = "make durable";
  }
  if (rc < 0) {
    // It is not known whether the rename is durable, so it is undone. (This is also done if the rename was reported as
    // failed, because on NFS it may have happened.)
    io.rename(published, attempt);
    return io_error(failed, published, rc);
  }
  ignore(replace_file(io, dir + "/" + kLatestName, dir + "/" + kTemporaryPrefix + "latest",
                      format_checkpoint_name(name) + "\n", /*durable=*/false),
         "a hint for people; readers scan");
  return {};
}

Status discard_attempt(Io& io, const std::string& dir, const CheckpointName& name) {
  return remove_tree(io, attempt_path(dir, name));
}

Result<std::vector<std::string>> set_aside(Io& io, const std::string& dir, const std::vector<CheckpointName>& names) {
  std::vector<std::string> retired;
  for (const CheckpointName& name : names) {
    const std::string away = dir + "/" + kTemporaryPrefix + "retired-" + format_checkpoint_name(name);
    const int rc = io.rename(checkpoint_path(dir, name), away);
    if (rc < 0 && rc != -ENOENT) return io_error("retire", checkpoint_path(dir, name), rc);
    retired.push_back(away);
  }
  if (retired.empty()) return retired;
  // Otherwise a power loss could leave the removals on the disk, but not the new name.
  const int rc = io.fsync_directory(dir);
  if (rc < 0) return io_error("fsync", dir, rc);
  return retired;
}

Status remove_checkpoints(Io& io, const std::string& dir, const std::vector<CheckpointName>& names) {
  DL_TRY_ASSIGN(const std::vector<std::string> retired, set_aside(io, dir, names));
  for (const std::string& away : retired) DL_TRY(remove_tree(io, away));
  return {};
}

Status collect_garbage(Io& io, const std::string& dir, const std::string& own_run) {
  DL_TRY_ASSIGN(const std::vector<std::string> entries, list_directory(io, dir));
  bool renames_are_durable = false;
  for (const std::string& entry : entries) {
    // Folders of this run stay: other ranks may use them already. The folder of a second group begins with the same
    // name.
    const bool own = !own_run.empty() && starts_with(entry, own_run);
    const bool left_over = starts_with(entry, kTemporaryPrefix) || (starts_with(entry, kRunPrefix) && !own);
    if (!left_over) continue;
    const std::string path = dir + "/" + entry;
    const int rc = io.unlink(path);
    if (rc == -EISDIR || rc == -EPERM) {
      // A moment before its process was killed the folder may have had a published name, so the rename must be durable
      // before the folder's content is removed.
      if (!std::exchange(renames_are_durable, true)) {
        const int synced = io.fsync_directory(dir);
        if (synced < 0) return io_error("fsync", dir, synced);
      }
      DL_TRY(remove_tree(io, path, 4));
    } else if (rc < 0 && rc != -ENOENT) {
      return io_error("remove", path, rc);
    }
  }
  return {};
}

}  // namespace dl::ckpt
