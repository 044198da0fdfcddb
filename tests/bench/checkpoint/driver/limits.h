// SPDX-License-Identifier: Apache-2.0
// What no checkpoint can beat, and the simplest peer: one memcpy of the state, and HDF5 used in the plain way.
#pragma once

#include <string>
#include <vector>

#include "tests/bench/checkpoint/driver/state.h"

namespace bench {

// Copies the state to memory that was touched before, tensor by tensor, with `threads` threads that share the bytes
// evenly.
class Copier {
 public:
  explicit Copier(State& state);
  double copy(unsigned threads);  // seconds

 private:
  State& state_;
  std::vector<Memory> to_;
};

// One file, one contiguous dataset per tensor, H5Dwrite, H5Fclose, fsync of file and directory. Seconds; throws
// std::runtime_error. Only for a state that one rank holds whole.
double hdf5_save(State& state, const std::string& path);
double hdf5_restore(State& state, const std::string& path);

}  // namespace bench
