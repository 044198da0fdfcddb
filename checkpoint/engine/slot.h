// SPDX-License-Identifier: Apache-2.0
// Recycled slots: the data files of a retired checkpoint are written again in place by the next save. Their blocks are
// there already, so that the file system need not find new ones.
//
// A slot is a folder .tmp-slot-NAME in the checkpoint directory: what was the checkpoint NAME, renamed away, durably,
// so that nothing in it is ever taken for a checkpoint again. At most one is kept, by the holder of the lease. Each
// rank takes its own file from it: moved into the attempt, its user block overwritten and that fsynced before anything
// else is written, so that no crash leaves a mixture that calls itself whole. A file with more than one name is shared
// with a checkpoint (or somebody's hard link) and is never written to.
#pragma once

#include <string>

#include "checkpoint/store/io.h"
#include "checkpoint/store/retire.h"

namespace dl::ckpt {

// Like retire(), but the oldest of the checkpoints to be removed becomes the slot. Former slots are removed. After an
// error nothing is lost: the next call removes what is left.
Result<std::vector<std::string>> retire_into_slot(Io& io, const std::string& dir, const RetentionPolicy& policy,
                                                  const CheckpointName& newest, SurveyMemory* memory);

// The name of the slot's folder within dir; empty if there is none or dir cannot be read.
std::string find_slot(Io& io, const std::string& dir);
// Whether a text that another rank sent has the form of such a name.
bool is_slot_name(const std::string& text);
// Removes it, and ignores errors: the next start removes what is left.
void remove_slots(Io& io, const std::string& dir);

// Moves `file` from the slot to `to` if it may be overwritten and its size suits `wanted` bytes; returns its size then,
// else 0. A file that cannot be used is removed, since its space will be needed.
uint64_t take_from_slot(Io& io, const std::string& slot, const std::string& file, const std::string& to,
                        uint64_t wanted);

}  // namespace dl::ckpt
