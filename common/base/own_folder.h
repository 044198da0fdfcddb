// SPDX-License-Identifier: Apache-2.0
// A folder of this user alone below one that many users share.
#pragma once

#include <string>

#include "common/base/result.h"

namespace dl {

// Makes DIR (absolute; with missing parents, 0700) and DIR/NAME (0700), and returns the latter's path. No part of the
// path may be changed by somebody else, since he could put another folder in its place: a symbolic link counts only if
// root or this user has made it, and a folder that others may write to needs the sticky bit. kIo, with a sentence;
// kNoSpace.
Result<std::string> own_folder(const std::string& dir, const std::string& name);

}  // namespace dl
