// SPDX-License-Identifier: Apache-2.0
// Who writes which part of the replicated tensors: each byte once, about the same number of bytes on every rank. A pure
// function of what all ranks know, so nobody has to be asked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/format/box.h"

namespace dl::ckpt {

struct Replica {
  std::string path;
  Dims shape;
  uint64_t element_size = 1;
};

struct ReplicaPiece {
  size_t replica = 0;  // index into the list given
  int rank = 0;        // who writes it
  Box box;
};

// Tensors larger than a rank's share (and than min_piece_bytes) are cut along dimension 0; the pieces then go, largest
// first, to the rank that has least. The result is sorted by replica, then offset. `replicas` must be in the same order
// everywhere.
std::vector<ReplicaPiece> spread_replicas(const std::vector<Replica>& replicas, int world_size,
                                          uint64_t min_piece_bytes = uint64_t{1} << 20);

}  // namespace dl::ckpt
