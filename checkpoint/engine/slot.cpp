// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/engine/slot.h"

#include "checkpoint/store/directory.h"
#include "checkpoint/store/file.h"

namespace dl::ckpt {
namespace {

constexpr const char* kSlotPrefix = ".tmp-slot-";
// For smaller files recycling has no advantage.
constexpr uint64_t kWorthIt = 65536;

}  // namespace

bool is_slot_name(const std::string& text) {
  const std::string prefix = kSlotPrefix;
  return text.compare(0, prefix.size(), prefix) == 0 &&
         parse_checkpoint_name(std::string_view(text).substr(prefix.size()));
}

std::string find_slot(Io& io, const std::string& dir) {
  auto entries = list_directory(io, dir);
  if (entries)
    for (const std::string& entry : *entries)
      if (is_slot_name(entry)) return entry;
  return std::string();
}

void remove_slots(Io& io, const std::string& dir) {
  auto entries = list_directory(io, dir);
  if (!entries) return;
  for (const std::string& entry : *entries)
    if (is_slot_name(entry)) ignore(remove_tree(io, dir + "/" + entry), "the next run removes it");
}

Result<std::vector<std::string>> retire_into_slot(Io& io, const std::string& dir, const RetentionPolicy& policy,
                                                  const CheckpointName& newest, SurveyMemory* memory) {
  remove_slots(io, dir);
  DL_TRY_ASSIGN(std::vector<CheckpointName> removed, choose_retired(io, dir, policy, newest, memory));
  if (removed.empty()) return std::vector<std::string>();
  const CheckpointName kept = removed.back();
  Io::Info info;
  // What a link leads to is somebody else's, and must not be written over.
  if (io.stat_link(checkpoint_path(dir, kept), &info) < 0 || !info.directory) return set_aside(io, dir, removed);
  removed.pop_back();
  const int rc = io.rename(checkpoint_path(dir, kept), dir + "/" + kSlotPrefix + format_checkpoint_name(kept));
  if (rc < 0) return io_error("retire", checkpoint_path(dir, kept), rc);
  const int synced = io.fsync_directory(dir);
  if (synced < 0) {
    // It is not known whether the rename is durable, so nothing in the folder may be overwritten.
    remove_slots(io, dir);
    return io_error("fsync", dir, synced);
  }
  return set_aside(io, dir, removed);
}

uint64_t take_from_slot(Io& io, const std::string& slot, const std::string& file, const std::string& to,
                        uint64_t wanted) {
  const std::string from = slot + "/" + file;
  Io::Info info;
  if (io.stat_link(from, &info) < 0) return 0;
  const bool fits =
      info.regular && info.links == 1 && info.size >= kWorthIt && info.size / 2 <= wanted && wanted / 2 <= info.size;
  if (fits && io.rename(from, to) == 0) return info.size;
  io.unlink(from);
  return 0;
}

}  // namespace dl::ckpt
