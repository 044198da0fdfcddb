// SPDX-License-Identifier: Apache-2.0
// Programs in Python that read files of other formats, tensor by tensor, and write a safetensors stream. None of them
// runs code that a file brings: pickles are opened by torch with weights_only=True, or by an unpickler that knows
// nothing but descriptions of tensors.
#pragma once

#include <string>

namespace dl::ckpt::tool {

// What all of these programs begin with: fail(text), and write(tensors, pieces_of) of the stream.
extern const char* const kCommon;
// What programs with torch go on with: NAMES, from safetensors' element types to torch's.
extern const char* const kTorchNames;

struct PythonReader {
  const char* files;  // what it reads, as users call it
  const char* needs;  // the module without which it ends with status 77
  const char* begin;  // the program behind kCommon, in two parts
  const char* rest;
};

// Files of torch.save; directories of torch.distributed.checkpoint; HDF5 files of any program.
extern const PythonReader kTorchReader, kDcpReader, kHdf5Reader;

std::string python_program(const PythonReader& reader);

}  // namespace dl::ckpt::tool
