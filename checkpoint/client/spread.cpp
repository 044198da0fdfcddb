// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/client/spread.h"

#include <algorithm>
#include <set>

namespace dl::ckpt {
namespace {

uint64_t bytes_of(const Replica& replica, const Dims& extent) {
  return volume(extent).value_or(0) * replica.element_size;
}

// The pieces [first, end), which one rank gets.
struct Bundle {
  size_t first, end;
  uint64_t bytes;
};

class Spreader {
 public:
  Spreader(const std::vector<Replica>& replicas, int world_size, int max_writers, uint64_t min_piece_bytes)
      : replicas_(replicas), min_piece_bytes_(min_piece_bytes), writes_(static_cast<size_t>(world_size), false) {
    const int count = std::clamp(max_writers, 1, world_size);
    for (int i = 0; i < count; ++i) {
      const auto rank = static_cast<int>(static_cast<int64_t>(i) * world_size / count);
      writers_.push_back(rank);
      writes_[static_cast<size_t>(rank)] = true;
    }
    uint64_t total = 0;
    for (const Replica& replica : replicas) total += bytes_of(replica, replica.box.extent);
    share_ = std::max(min_piece_bytes, (total + writers_.size() - 1) / writers_.size());
  }

  std::vector<ReplicaPiece> spread() {
    for (size_t i = 0; i < replicas_.size(); ++i) cut(i);
    assign();
    return std::move(pieces_);
  }

 private:
  std::vector<int> candidates(const Replica& replica) const {
    if (replica.holders.empty()) return writers_;
    std::vector<int> found;
    for (const int rank : replica.holders)
      if (writes_[static_cast<size_t>(rank)]) found.push_back(rank);
    if (found.empty()) found.push_back(replica.holders[0]);
    return found;
  }

  void cut(size_t index) {
    const Replica& replica = replicas_[index];
    const uint64_t bytes = bytes_of(replica, replica.box.extent);
    const Dims& extent = replica.box.extent;
    const uint64_t rows = extent.empty() ? 1 : static_cast<uint64_t>(extent[0]);
    uint64_t count = 1;
    if (bytes > share_ && rows >= 2)
      count = std::min({(bytes + share_ - 1) / share_, uint64_t{candidates(replica).size()}, rows});
    for (uint64_t k = 0; k < count; ++k) {
      ReplicaPiece piece{index, 0, replica.box};
      if (count > 1) {
        // Divided before the multiplication, since rows * k could overflow.
        const uint64_t begin = rows / count * k + std::min(k, rows % count);
        const uint64_t end = rows / count * (k + 1) + std::min(k + 1, rows % count);
        piece.box.offset[0] += static_cast<int64_t>(begin);
        piece.box.extent[0] = static_cast<int64_t>(end - begin);
      }
      add(std::move(piece));
    }
  }

  void add(ReplicaPiece piece) {
    const uint64_t bytes = bytes_of(replicas_[piece.replica], piece.box.extent);
    const bool join = !bundles_.empty() && bundles_.back().bytes + bytes <= min_piece_bytes_ &&
                      replicas_[pieces_.back().replica].holders == replicas_[piece.replica].holders;
    pieces_.push_back(std::move(piece));
    if (join) {
      bundles_.back().end = pieces_.size();
      bundles_.back().bytes += bytes;
    } else {
      bundles_.push_back(Bundle{pieces_.size() - 1, pieces_.size(), bytes});
    }
  }

  void assign() {
    std::stable_sort(bundles_.begin(), bundles_.end(),
                     [](const Bundle& a, const Bundle& b) { return a.bytes > b.bytes; });
    std::vector<uint64_t> load(writes_.size(), 0);
    // load and rank of each writer; of equal loads the lowest rank comes first
    std::set<std::pair<uint64_t, int>> least;
    for (const int rank : writers_) least.emplace(0, rank);
    for (const Bundle& bundle : bundles_) {
      const Replica& replica = replicas_[pieces_[bundle.first].replica];
      int rank = least.begin()->second;
      if (!replica.holders.empty()) {
        const std::vector<int> able = candidates(replica);
        rank = *std::min_element(able.begin(), able.end(), [&](int a, int b) {
          return load[static_cast<size_t>(a)] < load[static_cast<size_t>(b)];
        });
      }
      uint64_t& had = load[static_cast<size_t>(rank)];
      if (writes_[static_cast<size_t>(rank)]) {
        least.erase({had, rank});
        least.emplace(had + bundle.bytes, rank);
      }
      had += bundle.bytes;
      for (size_t i = bundle.first; i < bundle.end; ++i) pieces_[i].rank = rank;
    }
  }

  const std::vector<Replica>& replicas_;
  const uint64_t min_piece_bytes_;
  uint64_t share_ = 0;
  std::vector<int> writers_;  // sorted
  std::vector<bool> writes_;  // by rank
  std::vector<ReplicaPiece> pieces_;
  std::vector<Bundle> bundles_;
};

}  // namespace

std::vector<ReplicaPiece> spread_replicas(const std::vector<Replica>& replicas, int world_size, int max_writers,
                                          uint64_t min_piece_bytes) {
  return Spreader(replicas, world_size, max_writers, min_piece_bytes).spread();
}

}  // namespace dl::ckpt
