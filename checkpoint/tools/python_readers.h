// SPDX-License-Identifier: Apache-2.0
// Python programs that read files of other formats, tensor by tensor, and write a safetensors stream. None of them runs
// code that a file contains: torch opens pickles with weights_only=True, and other pickles are opened by an unpickler
// that knows only descriptions of tensors.
#pragma once

#include <string>

namespace dl::ckpt::tool {

// The common beginning of all these programs: fail(text), and write(tensors, pieces_of), which writes the stream.
extern const char* const kCommon;
// The continuation for programs with torch: NAMES, which maps safetensors' element types to torch's.
extern const char* const kTorchNames;

struct PythonReader {
  const char* files;  // the files that it reads, as users call them
  const char* needs;  // the module without which it exits with status 77
  const char* begin;  // the program after kCommon, in two parts
  const char* rest;
};

// Files of torch.save; directories of torch.distributed.checkpoint; HDF5 files of any program.
extern const PythonReader kTorchReader, kDcpReader, kHdf5Reader;

std::string python_program(const PythonReader& reader);

}  // namespace dl::ckpt::tool
