// SPDX-License-Identifier: Apache-2.0
// The state that is saved: tensors of float32 full of random bits, each with memory of its own, as a training job has
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace bench {

struct Free {
  void operator()(void* memory) const;
};
using Memory = std::unique_ptr<unsigned char[], Free>;
Memory allocate(size_t bytes);  // aligned to 64 bytes; throws std::bad_alloc

struct Tensor {
  std::string name;
  std::vector<int64_t> shape;           // of the whole
  std::vector<int64_t> offset, extent;  // this rank's rows
  size_t bytes = 0;                     // of this rank's rows
  Memory data;
};

class State {
 public:
  // `tensors` tensors of about bytes / tensors each, divided by rows among `world` ranks, or held whole by each if
  // replicated. The whole is the same for every world size.
  State(size_t tensors, uint64_t bytes, int rank, int world, bool replicated);

  std::vector<Tensor>& tensors() { return tensors_; }
  uint64_t bytes() const { return bytes_; }  // of this rank
  bool replicated() const { return replicated_; }

  // Changes a word in each 4 KiB of the first `count` tensors, so that no block of them is what it was.
  void touch(size_t count = SIZE_MAX);
  void clobber();        // sets all to zero
  uint64_t sum() const;  // of all 32-bit words: adds up over the ranks of a divided state

 private:
  std::vector<Tensor> tensors_;
  uint64_t bytes_ = 0;
  bool replicated_;
};

}  // namespace bench
