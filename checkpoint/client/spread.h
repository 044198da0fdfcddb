// SPDX-License-Identifier: Apache-2.0
// Decides which rank writes which part of data that several ranks hold: each byte is written once, and every rank
// writes about the same number of bytes. A pure function of data that all ranks know.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/format/box.h"

namespace dl::ckpt {

struct Replica {
  Box box;
  uint64_t element_size = 1;
  std::vector<int> holders;  // sorted; empty: every rank holds it
};

struct ReplicaPiece {
  size_t replica = 0;  // index into the given list
  int rank = 0;        // the rank that writes it
  Box box;
};

constexpr int kDefaultMaxFiles = 256;

// Cuts boxes larger than a rank's share (and than min_piece_bytes) along dimension 0; smaller neighbours stay together.
// Then the pieces are given out, largest first, each to that one of its holders that has the fewest bytes so far. At
// most max_writers ranks, evenly spaced, get anything, unless none of them holds a piece. The result is sorted by
// replica, then offset. `replicas` must have the same order on all ranks.
std::vector<ReplicaPiece> spread_replicas(const std::vector<Replica>& replicas, int world_size,
                                          int max_writers = kDefaultMaxFiles,
                                          uint64_t min_piece_bytes = uint64_t{1} << 20);

}  // namespace dl::ckpt
