// SPDX-License-Identifier: Apache-2.0
// To and from files of torch.save, by a python3 that has torch. Tensors pass as a safetensors stream, so that nothing
// but torch is needed there, and pickles are opened by torch with weights_only=True alone: they cannot run code.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "common/base/result.h"

namespace dl::ckpt::tool {

// Starts `python` and has it write `path` (a file that exists already) from a stream; `feed` writes the stream to the
// descriptor it is given. Errors: what Python said last; kUnsupported if there is no Python with torch.
Status write_torch_file(const std::string& python, const std::string& path, const std::function<Status(int)>& feed);

// Has `python` load the tensors of a torch file, of nested dictionaries and lists as "a/b/0", and write them as
// safetensors (with all dtypes) to the descriptor, a file. Returns what it left out: "" or a sentence.
Result<std::string> read_torch_file(const std::string& python, const std::string& path, int out_fd);

}  // namespace dl::ckpt::tool
