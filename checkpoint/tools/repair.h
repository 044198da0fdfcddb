// SPDX-License-Identifier: Apache-2.0
// Repairing a damaged checkpoint from another copy of the same save: each bad file is written anew beside the old one
// from what is good in either copy, fsynced and renamed into its place. A repair that is interrupted changes nothing.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/tools/judge.h"

namespace dl::ckpt::tool {

// Where copies may lie: `path` is a checkpoint directory that has a checkpoint of that name, or a copy itself.
// kNotFound if neither.
Result<std::string> find_copy(Io& io, const std::string& path, const CheckpointName& name);

// Mends what the verdict found in dir/name. Returns the names of the files that were written. kCorrupt if something is
// bad in both copies (the message tells what); what could be mended is mended then too.
Result<std::vector<std::string>> repair(Io& io, const std::string& dir, const CheckpointName& name,
                                        const Verdict& verdict, const std::string& copy);

}  // namespace dl::ckpt::tool
