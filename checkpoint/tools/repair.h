// SPDX-License-Identifier: Apache-2.0
// Repairs a damaged checkpoint with the help of another copy of the same save: each bad file is written anew, beside
// the old one, from the parts that are good in either copy, then fsynced and renamed into its place. A repair that is
// interrupted changes nothing.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/tools/judge.h"

namespace dl::ckpt::tool {

// Finds the copy: `path` is a checkpoint directory that has a checkpoint of that name, or the copy itself. kNotFound if
// it is neither.
Result<std::string> find_copy(Io& io, const std::string& path, const CheckpointName& name);

// Repairs the damage of the verdict in dir/name. Returns the names of the files that were written. kCorrupt if
// something is bad in both copies (the message names it); everything else is repaired all the same.
Result<std::vector<std::string>> repair(Io& io, const std::string& dir, const CheckpointName& name,
                                        const Verdict& verdict, const std::string& copy);

}  // namespace dl::ckpt::tool
