// SPDX-License-Identifier: Apache-2.0
// Reads tensors of a checkpoint in their global C order, however they are sharded, in bounded memory. The data has been
// verified against the manifest. It needs no libhdf5.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "checkpoint/format/box.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/store/verify.h"

namespace dl::ckpt {

// The elements [first, last) of an array of this shape in C order, as boxes: each box is a run of them, in order.
// Precondition: first <= last <= volume(shape).
std::vector<Box> boxes_of_range(const Dims& shape, uint64_t first, uint64_t last);

// One object is used by one thread at a time. The manifest must outlive it and come from load_manifest().
class TensorStream {
 public:
  TensorStream(Io& io, std::string checkpoint, const Manifest& manifest);

  // The bytes [at, at + size) of the tensor as if it lay in one piece; both are multiples of its element's size.
  // Reading forward is cheap, jumping is not. kCorrupt (names file and block), kIo, kNotFound.
  Status read(const TensorRecord& tensor, uint64_t at, uint64_t size, void* out);
  // The elements of a box within its shape, in the box's C order. Errors as above.
  Status read_box(const TensorRecord& tensor, const Box& box, void* out);
  Status read_blob(const BlobRecord& blob, void* out);

 private:
  // An open file with its present block. Several slots may have the same file, if parts of a tensor lie in it.
  struct Slot {
    size_t file, part;
    size_t block;
    DataFile data;
  };
  Result<Slot*> slot(size_t file, size_t part);
  Status copy(size_t file, size_t part, uint64_t at, uint64_t length, unsigned char* out);

  Io& io_;
  std::string checkpoint_;
  const Manifest& manifest_;
  std::list<Slot> slots_;  // the most recently used first
};

}  // namespace dl::ckpt
