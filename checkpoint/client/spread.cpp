// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/client/spread.h"

#include <algorithm>
#include <queue>

namespace dl::ckpt {
namespace {

uint64_t bytes_of(const Replica& replica, const Dims& extent) {
  return volume(extent).value_or(0) * replica.element_size;
}

}  // namespace

std::vector<ReplicaPiece> spread_replicas(const std::vector<Replica>& replicas, int world_size,
                                          uint64_t min_piece_bytes) {
  uint64_t total = 0;
  for (const Replica& replica : replicas) total += bytes_of(replica, replica.shape);
  const auto ranks = static_cast<uint64_t>(world_size);
  const uint64_t share = std::max(min_piece_bytes, (total + ranks - 1) / ranks);

  std::vector<ReplicaPiece> pieces;
  for (size_t i = 0; i < replicas.size(); ++i) {
    const Replica& replica = replicas[i];
    const uint64_t bytes = bytes_of(replica, replica.shape);
    const Box all = whole(replica.shape);
    if (bytes <= share || replica.shape.empty() || replica.shape[0] < 2) {
      pieces.push_back(ReplicaPiece{i, 0, all});
      continue;
    }
    const auto rows = static_cast<uint64_t>(replica.shape[0]);
    const uint64_t count = std::min({(bytes + share - 1) / share, ranks, rows});
    for (uint64_t k = 0; k < count; ++k) {
      // Divided first: rows * k could overflow.
      const uint64_t begin = rows / count * k + std::min(k, rows % count);
      const uint64_t end = rows / count * (k + 1) + std::min(k + 1, rows % count);
      Box box = all;
      box.offset[0] = static_cast<int64_t>(begin);
      box.extent[0] = static_cast<int64_t>(end - begin);
      pieces.push_back(ReplicaPiece{i, 0, std::move(box)});
    }
  }

  std::vector<size_t> order(pieces.size());
  std::vector<uint64_t> bytes(pieces.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    order[i] = i;
    bytes[i] = bytes_of(replicas[pieces[i].replica], pieces[i].box.extent);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return bytes[a] > bytes[b]; });
  using Load = std::pair<uint64_t, int>;  // bytes, rank: equal loads go to the lowest rank
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  for (int rank = 0; rank < world_size; ++rank) loads.emplace(0, rank);
  for (const size_t i : order) {
    auto [load, rank] = loads.top();
    loads.pop();
    pieces[i].rank = rank;
    loads.emplace(load + bytes[i], rank);
  }
  return pieces;
}

}  // namespace dl::ckpt
