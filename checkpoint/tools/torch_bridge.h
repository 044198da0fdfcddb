// SPDX-License-Identifier: Apache-2.0
// Converts to and from files of Python's frameworks, with a python3 that has them. Tensors are passed as a safetensors
// stream, so that Python needs nothing but torch (or h5py).
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "checkpoint/tools/python_readers.h"
#include "common/base/result.h"

namespace dl::ckpt::tool {

// Starts `python`, which writes `path` (an existing file) from a stream; `feed` writes the stream to the descriptor
// that it gets. Errors: the last line of Python; kUnsupported if there is no Python with torch.
Status write_torch_file(const std::string& python, const std::string& path, const std::function<Status(int)>& feed);

// Makes `python` write the tensors of a file in another format as safetensors (with all dtypes) to the descriptor, a
// file. Returns a sentence on what was left out, or "".
Result<std::string> read_with_python(const PythonReader& reader, const std::string& python, const std::string& path,
                                     int out_fd);

}  // namespace dl::ckpt::tool
