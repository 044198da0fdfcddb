// SPDX-License-Identifier: Apache-2.0
// The checkpoint directory as a whole: what is committed, how an attempt becomes committed, what is removed. Only the
// holder of the lease may call these functions, except scan_checkpoints(), is_gone(), gone_error() and error_or_gone().
#pragma once

#include <string>
#include <vector>

#include "checkpoint/format/names.h"
#include "checkpoint/store/io.h"
#include "common/base/result.h"

namespace dl::ckpt {

// The path from the root, so that it still leads there when the program has changed its working directory. As it is if
// it is empty, or if there is no working directory any more.
std::string from_root(const std::string& path);
// kInvalid if the path has the name of one checkpoint in a directory: nobody keeps checkpoints in a checkpoint.
Status refuse_checkpoint(const std::string& dir);

// The names of committed checkpoints, newest (highest generation) first. Their content is not looked at.
Result<std::vector<CheckpointName>> scan_checkpoints(Io& io, const std::string& dir);

// For those who read without the lease: whether a checkpoint that scan_checkpoints() listed is gone. Its job has then
// retired it meanwhile, and a failed read does not mean that it is damaged.
bool is_gone(Io& io, const std::string& dir, const CheckpointName& name);
// kNotFound: "the checkpoint of train step 5 in DIR was removed by its job meanwhile; the newest is that of train step
// 9".
Error gone_error(Io& io, const std::string& dir, const CheckpointName& name);
// The error that was met while the checkpoint was read; gone_error() instead if it is gone.
Error error_or_gone(Io& io, const std::string& dir, const CheckpointName& name, Error error);
// How often a reader of the newest checkpoint lists the directory again if all the checkpoints that it saw are gone.
constexpr int kLooks = 100;

// A name for a new checkpoint, newer than all in the directory, and than all of generation `above`.
Result<CheckpointName> next_checkpoint_name(Io& io, const std::string& dir, int64_t step, uint32_t above = 0);
// The path of the attempt with that name.
std::string attempt_path(const std::string& dir, const CheckpointName& name);
std::string checkpoint_path(const std::string& dir, const CheckpointName& name);

// Commits: manifest (written and fsynced), fsync of the attempt's directory, rename to the published name, fsync of
// `dir`. The data files must have been fsynced before. After an error nothing is committed: a checkpoint whose last
// fsync failed is renamed back. LATEST is replaced, too; errors of that are ignored, since it is only a hint.
Status publish(Io& io, const std::string& dir, const CheckpointName& name, const std::string& manifest_text);

// Removes an attempt, never a committed checkpoint. Success also if there is none.
Status discard_attempt(Io& io, const std::string& dir, const CheckpointName& name);

// Renames committed checkpoints away, durably, so that a half removed one is never taken for a checkpoint;
// checkpoint/retention decides which ones may be removed. Returns the folders that remain to be removed by
// remove_tree(), which may take a second for each, because the file system frees their space. Missing checkpoints are
// no error.
Result<std::vector<std::string>> set_aside(Io& io, const std::string& dir, const std::vector<CheckpointName>& names);
// Does set_aside() and remove_tree() in one call.
Status remove_checkpoints(Io& io, const std::string& dir, const std::vector<CheckpointName>& names);

// Removes attempts that can no longer commit (.tmp-*) and the messages of other runs (.run-* except `own_run`).
Status collect_garbage(Io& io, const std::string& dir, const std::string& own_run);

// Random bits from the kernel.
uint64_t random_u64();

}  // namespace dl::ckpt
