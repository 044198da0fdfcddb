// SPDX-License-Identifier: Apache-2.0
// Decides which rank writes which part of data that several ranks hold: each byte is written once, and every rank
// writes about as many bytes. A pure function of what all ranks know.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/format/box.h"

namespace dl::ckpt {

struct Replica {
  Box box;
  uint64_t element_size = 1;
  std::vector<int> holders;  // rising; empty: every rank holds it
};

struct ReplicaPiece {
  size_t replica = 0;  // index into the list given
  int rank = 0;        // who writes it
  Box box;
};

constexpr int kDefaultMaxFiles = 256;

// Boxes larger than a rank's share (and than min_piece_bytes) are cut along dimension 0, smaller neighbours stay
// together. The pieces are given out, the largest first, each to the rank with the fewest bytes so far among its
// holders. At most max_writers ranks, evenly spaced, are given anything, unless none of them holds it. The result is
// sorted by replica, then offset. `replicas` must be in the same order everywhere.
std::vector<ReplicaPiece> spread_replicas(const std::vector<Replica>& replicas, int world_size,
                                          int max_writers = kDefaultMaxFiles,
                                          uint64_t min_piece_bytes = uint64_t{1} << 20);

}  // namespace dl::ckpt
