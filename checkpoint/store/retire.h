// SPDX-License-Identifier: Apache-2.0
// Carries out retention: lists the checkpoints of a directory, asks decide_retention(), and removes those that are not
// kept.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/retention/retention.h"
#include "checkpoint/store/io.h"
#include "common/base/result.h"

namespace dl::ckpt {

// The name of a file in a checkpoint's directory that protects it from all retention. Its text is for people.
constexpr const char* kPinnedName = "PINNED";
// Says that people took the pin away, for the copies of the checkpoint elsewhere: a file PINNED that is only missing
// (part of the directory was lost, or its old files were cleaned away) must not unpin those. PINNED counts before it.
constexpr const char* kUnpinnedName = "UNPINNED";
bool is_pinned(Io& io, const std::string& dir, const CheckpointName& name);
// Whether unpin() was the last that was done. False if it is not known.
bool was_unpinned(Io& io, const std::string& dir, const CheckpointName& name);
// The text of the file PINNED. kNotFound: not pinned.
Result<std::string> pin_note(Io& io, const std::string& dir, const CheckpointName& name);
// Errors: kNotFound (no such checkpoint), kIo, kDenied, kNoSpace. It is no error to pin a checkpoint twice, which
// replaces the note unless the new one is empty, or to unpin one that is not pinned.
Status pin(Io& io, const std::string& dir, const CheckpointName& name, const std::string& why);
Status unpin(Io& io, const std::string& dir, const CheckpointName& name);

// A cache of facts from manifests by save id, since a manifest never changes and may be large. It only holds intact
// ones.
using SurveyMemory = std::map<uint64_t, CheckpointFacts>;

// All committed checkpoints, newest first. `memory` (may be nullptr) is used and updated.
Result<std::vector<CheckpointFacts>> survey(Io& io, const std::string& dir, SurveyMemory* memory);

// The checkpoints that the policy does not keep, newest first; never `newest`. Removes nothing.
Result<std::vector<CheckpointName>> choose_retired(Io& io, const std::string& dir, const RetentionPolicy& policy,
                                                   const CheckpointName& newest, SurveyMemory* memory);

// Renames the checkpoints of choose_retired() away, so that they are no checkpoints any more. Returns the folders that
// remain to be removed (remove_tree() in store/directory.h), for which nobody has to wait. Data files that newer
// checkpoints share (hard links) stay in these. Only for the holder of the lease.
Result<std::vector<std::string>> retire(Io& io, const std::string& dir, const RetentionPolicy& policy,
                                        const CheckpointName& newest, SurveyMemory* memory = nullptr);

}  // namespace dl::ckpt
