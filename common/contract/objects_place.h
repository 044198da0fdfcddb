// SPDX-License-Identifier: Apache-2.0
// objects=NAME:PATH: the folder of an object store in which a run keeps its checkpoints, too. Pure.
#pragma once

#include <string_view>

#include "common/base/result.h"

namespace dl {

// kInvalid unless the text is NAME:PATH, a folder of a remote of the user's own rclone configuration, with a PATH (the
// root of a store is not for checkpoints), without a comma (DL_CHECKPOINT has options behind commas) and without a
// credential: a connection string of rclone is refused, and not repeated.
Status check_objects_place(std::string_view text);

}  // namespace dl
