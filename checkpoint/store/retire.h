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

// In a checkpoint's directory: nobody's retention removes it. Its text is for people.
constexpr const char* kPinnedName = "PINNED";
bool is_pinned(Io& io, const std::string& dir, const CheckpointName& name);
// Errors: kNotFound (no such checkpoint), kIo, kDenied, kNoSpace. Pinning twice, or what is not pinned, is fine.
Status pin(Io& io, const std::string& dir, const CheckpointName& name, const std::string& why);
Status unpin(Io& io, const std::string& dir, const CheckpointName& name);

// A cache of manifests' facts by save id, since a manifest never changes and may be large. Only intact ones are
// remembered.
using SurveyMemory = std::map<uint64_t, CheckpointFacts>;

// All committed checkpoints, newest first. `memory` (may be nullptr) is used and brought up to date.
Result<std::vector<CheckpointFacts>> survey(Io& io, const std::string& dir, SurveyMemory* memory);

// The checkpoints that the policy does not keep, newest first; never `newest`. Removes nothing.
Result<std::vector<CheckpointName>> choose_retired(Io& io, const std::string& dir, const RetentionPolicy& policy,
                                                   const CheckpointName& newest, SurveyMemory* memory);

// Renames away what choose_retired() names, so that it is no checkpoint any more. The folders that are left to be
// removed (store/directory.h, remove_tree()), which need not be waited for; data files that newer checkpoints share
// (hard links) stay where these are. The holder of the lease only.
Result<std::vector<std::string>> retire(Io& io, const std::string& dir, const RetentionPolicy& policy,
                                        const CheckpointName& newest, SurveyMemory* memory = nullptr);

}  // namespace dl::ckpt
