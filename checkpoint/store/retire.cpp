// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/store/retire.h"

#include <cerrno>

#include "checkpoint/store/directory.h"
#include "checkpoint/store/file.h"
#include "checkpoint/store/verify.h"

namespace dl::ckpt {
namespace {

constexpr uint64_t kMostNote = uint64_t{1} << 20;

std::string pin_path(const std::string& dir, const CheckpointName& name) {
  return checkpoint_path(dir, name) + "/" + kPinnedName;
}
std::string unpin_path(const std::string& dir, const CheckpointName& name) {
  return checkpoint_path(dir, name) + "/" + kUnpinnedName;
}

// Success also if it exists.
Status write_mark(Io& io, const std::string& path, const std::string& text) {
  Status written = write_new_file(io, path, text, /*durable=*/true);
  if (!written && written.error().code == Errc::kExists) return {};
  return written;
}

Status remove_mark(Io& io, const std::string& path) {
  const int rc = io.unlink(path);
  return rc < 0 && rc != -ENOENT ? Status(io_error("remove", path, rc)) : Status();
}

}  // namespace

bool is_pinned(Io& io, const std::string& dir, const CheckpointName& name) {
  Io::Info info;
  const int rc = io.stat(pin_path(dir, name), &info);
  // If it is not known, the checkpoint counts as pinned: one kept checkpoint too many does no harm.
  return rc != -ENOENT;
}

bool was_unpinned(Io& io, const std::string& dir, const CheckpointName& name) {
  Io::Info info;
  return !is_pinned(io, dir, name) && io.stat(unpin_path(dir, name), &info) == 0;
}

Result<std::string> pin_note(Io& io, const std::string& dir, const CheckpointName& name) {
  return read_small_file(io, pin_path(dir, name), kMostNote);
}

Status pin(Io& io, const std::string& dir, const CheckpointName& name, const std::string& why) {
  if (!why.empty() && is_pinned(io, dir, name))
    DL_TRY(replace_file(io, pin_path(dir, name), checkpoint_path(dir, name) + "/." + kPinnedName + ".tmp", why + "\n",
                        /*durable=*/true));
  else
    DL_TRY(write_mark(io, pin_path(dir, name), why + "\n"));
  ignore(remove_mark(io, unpin_path(dir, name)), "PINNED counts before it, and unpin() writes it again");
  const int rc = io.fsync_directory(checkpoint_path(dir, name));
  if (rc < 0) return io_error("fsync", checkpoint_path(dir, name), rc);
  return {};
}

Status unpin(Io& io, const std::string& dir, const CheckpointName& name) {
  DL_TRY(write_mark(io, unpin_path(dir, name), "\n"));
  return remove_mark(io, pin_path(dir, name));
}

Result<std::vector<CheckpointFacts>> survey(Io& io, const std::string& dir, SurveyMemory* memory) {
  DL_TRY_ASSIGN(const std::vector<CheckpointName> names, scan_checkpoints(io, dir));
  std::vector<CheckpointFacts> found;
  SurveyMemory now;
  for (const CheckpointName& name : names) {
    CheckpointFacts facts;
    const auto known = memory ? memory->find(name.save_id) : SurveyMemory::iterator();
    if (memory && known != memory->end() && known->second.name.step == name.step) {
      facts = known->second;
    } else {
      facts.name = name;
      auto manifest = load_outline(io, dir, name);
      if (!manifest && is_gone(io, dir, name)) continue;  // a survey without the lease, beside the job
      facts.intact = static_cast<bool>(manifest);
      if (manifest) {
        facts.metrics = std::move(manifest->metrics);
        facts.bytes = manifest->total_bytes();
      }
    }
    facts.pinned = is_pinned(io, dir, name);
    if (facts.intact) now[name.save_id] = facts;
    found.push_back(std::move(facts));
  }
  if (memory) memory->swap(now);
  return found;
}

Result<std::vector<CheckpointName>> choose_retired(Io& io, const std::string& dir, const RetentionPolicy& policy,
                                                   const CheckpointName& newest, SurveyMemory* memory) {
  DL_TRY_ASSIGN(const std::vector<CheckpointFacts> found, survey(io, dir, memory));
  std::vector<CheckpointName> removed;
  for (const RetentionVerdict& verdict : decide_retention(found, policy, newest))
    if (verdict.remove) removed.push_back(verdict.name);
  return removed;
}

Result<std::vector<std::string>> retire(Io& io, const std::string& dir, const RetentionPolicy& policy,
                                        const CheckpointName& newest, SurveyMemory* memory) {
  DL_TRY_ASSIGN(const std::vector<CheckpointName> removed, choose_retired(io, dir, policy, newest, memory));
  return set_aside(io, dir, removed);
}

}  // namespace dl::ckpt
