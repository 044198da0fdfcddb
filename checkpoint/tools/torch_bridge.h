// SPDX-License-Identifier: Apache-2.0
// To and from files of Python's frameworks, by a python3 that has them. Tensors pass as a safetensors stream, so that
// nothing but torch (or h5py) is needed there.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "checkpoint/tools/python_readers.h"
#include "common/base/result.h"

namespace dl::ckpt::tool {

// Starts `python` and has it write `path` (a file that exists already) from a stream; `feed` writes the stream to the
// descriptor it is given. Errors: what Python said last; kUnsupported if there is no Python with torch.
Status write_torch_file(const std::string& python, const std::string& path, const std::function<Status(int)>& feed);

// Has `python` write the tensors of a file in another format as safetensors (with all dtypes) to the descriptor, a
// file. Returns what it left out: "" or a sentence.
Result<std::string> read_with_python(const PythonReader& reader, const std::string& python, const std::string& path,
                                     int out_fd);

}  // namespace dl::ckpt::tool
