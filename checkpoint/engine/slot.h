// SPDX-License-Identifier: Apache-2.0
// Recycled slots: the next save overwrites the data files of a retired checkpoint in place. Their blocks exist already,
// so the file system need not find new ones.
//
// A slot is a folder .tmp-slot-NAME in the checkpoint directory: the former checkpoint NAME, durably renamed, so that
// nothing in it can be taken for a checkpoint again. The holder of the lease keeps at most one slot. Each rank takes
// its own file from it: it moves the file into the attempt, overwrites its user block and fsyncs that before it writes
// anything else, so that no crash leaves a mixture of two files that looks complete. A file with more than one name is
// shared with a checkpoint (or is somebody's hard link) and is never written to.
#pragma once

#include <string>

#include "checkpoint/store/io.h"
#include "checkpoint/store/retire.h"

namespace dl::ckpt {

// As retire(), but the oldest of the checkpoints to be removed becomes the slot. Former slots are removed. After an
// error nothing is lost: the next call removes what is left.
Result<std::vector<std::string>> retire_into_slot(Io& io, const std::string& dir, const RetentionPolicy& policy,
                                                  const CheckpointName& newest, SurveyMemory* memory);

// The name of the slot's folder within dir; empty if there is none or dir cannot be read.
std::string find_slot(Io& io, const std::string& dir);
// Whether a text that another rank sent has the form of such a name.
bool is_slot_name(const std::string& text);
// Removes all slots. Errors are ignored, since the next start removes what is left.
void remove_slots(Io& io, const std::string& dir);

// Moves `file` from the slot to `to` if it may be overwritten and its size suits `wanted` bytes; then returns its size,
// otherwise 0. A file that cannot be used is removed, since its space will be needed.
uint64_t take_from_slot(Io& io, const std::string& slot, const std::string& file, const std::string& to,
                        uint64_t wanted);

}  // namespace dl::ckpt
