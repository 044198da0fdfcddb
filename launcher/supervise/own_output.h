// SPDX-License-Identifier: Apache-2.0
// Whether what is written to a descriptor of this process would be lost.
#pragma once

#include <string>

namespace dl::supervise {

// Why nothing more can be written there, "NAME: No space left on device"; empty if it can, or if that is not known, as
// of a pipe. Of a file it may allocate the block behind its end, and it blocks as long as its file system does.
std::string why_full(int descriptor, const std::string& name);

}  // namespace dl::supervise
