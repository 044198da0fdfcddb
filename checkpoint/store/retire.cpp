// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/store/retire.h"

#include <cerrno>

#include "checkpoint/store/directory.h"
#include "checkpoint/store/file.h"
#include "checkpoint/store/verify.h"

namespace dl::ckpt {
namespace {

std::string pin_path(const std::string& dir, const CheckpointName& name) {
  return checkpoint_path(dir, name) + "/" + kPinnedName;
}

}  // namespace

bool is_pinned(Io& io, const std::string& dir, const CheckpointName& name) {
  Io::Info info;
  const int rc = io.stat(pin_path(dir, name), &info);
  // If it is not known, the checkpoint counts as pinned: one kept checkpoint too many does no harm.
  return rc != -ENOENT;
}

Status pin(Io& io, const std::string& dir, const CheckpointName& name, const std::string& why) {
  auto written = write_new_file(io, pin_path(dir, name), why + "\n", /*durable=*/true);
  if (!written) {
    if (written.error().code == Errc::kExists) return {};
    return written;
  }
  const int rc = io.fsync_directory(checkpoint_path(dir, name));
  if (rc < 0) return io_error("fsync", checkpoint_path(dir, name), rc);
  return {};
}

Status unpin(Io& io, const std::string& dir, const CheckpointName& name) {
  const int rc = io.unlink(pin_path(dir, name));
  if (rc < 0 && rc != -ENOENT) return io_error("remove", pin_path(dir, name), rc);
  return {};
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
