// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/client/load_plan.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "checkpoint/client/box_text.h"
#include "common/base/parse.h"

namespace dl::ckpt {
namespace {

constexpr uint64_t kGranuleBytes = kBlockBytes;  // smaller blocks are read together
// Gaps of at most this many bytes between wanted blocks (padding between tensors) are read, too, because another
// request to the disk costs more.
constexpr uint64_t kGapBytes = 65536;

Error conflict(const std::string& path, const std::string& what) {
  return Error{Errc::kConflict, "tensor '" + printable(path) + "': " + what};
}

// As intersect(), but without computing the box: most pairs have nothing in common.
bool touch(const Box& a, const Box& b) {
  for (size_t d = 0; d < a.offset.size(); ++d)
    if (a.offset[d] >= b.offset[d] + b.extent[d] || b.offset[d] >= a.offset[d] + a.extent[d]) return false;
  return true;
}

class Planner {
 public:
  Planner(const Manifest& manifest, const std::vector<Wants>& wants, int alone)
      : manifest_(manifest), wants_(wants), alone_(alone) {}

  LoadPlan plan(bool with_blobs) {
    add_tensors();
    if (with_blobs) add_blobs();
    std::sort(plan_.regions.begin(), plan_.regions.end(), [](const Region& a, const Region& b) {
      return a.file != b.file ? a.file < b.file : a.at != b.at ? a.at < b.at : a.bytes < b.bytes;
    });
    cut_granules();
    assign();
    return std::move(plan_);
  }

 private:
  // Ranks that want the same box of a tensor are treated as one taker.
  struct Wish {
    Box box;
    size_t box_number;
    std::vector<int> ranks;
  };

  bool counts(int rank) const { return alone_ < 0 || alone_ == rank; }

  void add_tensors() {
    std::vector<std::vector<Wish>> wishes(manifest_.tensors.size());
    const bool one_rank = wants_.size() == 1 || alone_ >= 0;         // then no two ranks can want the same box
    std::map<std::tuple<size_t, size_t, Dims, Dims>, size_t> known;  // tensor, box number, box -> index of the wish
    for (size_t rank = 0; rank < wants_.size(); ++rank) {
      if (!counts(static_cast<int>(rank))) continue;
      for (const Want& want : wants_[rank]) {
        std::vector<Wish>& of_tensor = wishes[want.tensor];
        for (size_t n = 0; n < want.boxes.size(); ++n) {
          const Box& box = want.boxes[n];
          if (one_rank) {
            of_tensor.push_back(Wish{box, n, {static_cast<int>(rank)}});
            continue;
          }
          const auto [at, added] = known.try_emplace({want.tensor, n, box.offset, box.extent}, of_tensor.size());
          if (added) of_tensor.push_back(Wish{box, n, {}});
          of_tensor[at->second].ranks.push_back(static_cast<int>(rank));
        }
      }
    }
    for (size_t t = 0; t < wishes.size(); ++t) {
      const TensorRecord& tensor = manifest_.tensors[t];
      const uint64_t size = tensor.dtype->size;
      for (const ShardRecord& shard : tensor.shards) {
        Region region{shard.file, shard.at, volume(shard.box.extent).value_or(0) * size, &tensor, nullptr, &shard, {}};
        for (const Wish& wish : wishes[t]) {
          if (!touch(shard.box, wish.box)) continue;
          if (const auto common = intersect(shard.box, wish.box))
            region.takers.push_back(
                Taker{wish.box, wish.box_number, wish.ranks,
                      StridedMap(shard.box, wish.box, *common, dense_strides(wish.box.extent, size), size)});
        }
        if (!region.takers.empty()) plan_.regions.push_back(std::move(region));
      }
    }
  }

  void add_blobs() {
    for (const BlobRecord& blob : manifest_.blobs) {
      std::vector<int> ranks;
      for (int rank = 0; rank < static_cast<int>(wants_.size()); ++rank)
        if (counts(rank) && (blob.rank == -1 || blob.rank == rank)) ranks.push_back(rank);
      if (blob.size == 0 || ranks.empty()) continue;
      const Box box{{0}, {static_cast<int64_t>(blob.size)}};
      Region region{blob.file, blob.at, blob.size, nullptr, &blob, nullptr, {}};
      region.takers.push_back(Taker{box, 0, std::move(ranks), StridedMap(box, box, box, {1}, 1)});
      plan_.regions.push_back(std::move(region));
    }
  }

  // Collects the blocks of which a rank wants something. Small blocks that lie near one another are joined into one
  // granule.
  void cut_granules() {
    std::vector<std::vector<std::vector<size_t>>> regions_of(manifest_.files.size());
    for (size_t f = 0; f < regions_of.size(); ++f) regions_of[f].resize(manifest_.files[f].blocks.size());
    for (size_t r = 0; r < plan_.regions.size(); ++r) {
      const Region& region = plan_.regions[r];
      const std::vector<Block>& blocks = manifest_.files[region.file].blocks;
      for (size_t b = find_block(blocks, region.at); b < blocks.size() && blocks[b].at < region.end(); ++b)
        if (wanted(region, blocks[b])) regions_of[region.file][b].push_back(r);
    }
    for (size_t f = 0; f < regions_of.size(); ++f) {
      const std::vector<Block>& blocks = manifest_.files[f].blocks;
      for (size_t b = 0; b < blocks.size(); ++b) {
        const std::vector<size_t>& regions = regions_of[f][b];
        if (regions.empty()) continue;
        Granule* last = plan_.granules.empty() ? nullptr : &plan_.granules.back();
        if (last && last->file == f && blocks[b].at - (last->at + last->bytes) <= kGapBytes &&
            blocks[b].end() - last->at <= kGranuleBytes) {
          last->blocks.push_back(b);
          last->bytes = blocks[b].end() - last->at;
          last->needed += blocks[b].length;
          for (const size_t r : regions)
            if (std::find(last->regions.rbegin(), last->regions.rend(), r) == last->regions.rend())
              last->regions.push_back(r);
        } else {
          plan_.granules.push_back(Granule{f, {b}, regions, 0, {}, blocks[b].at, blocks[b].length, blocks[b].length});
        }
        plan_.bytes += blocks[b].length;
      }
    }
  }

  static bool wanted(const Region& region, const Block& block) {
    const uint64_t from = std::max(block.at, region.at) - region.at,
                   to = std::min(block.end(), region.end()) - region.at;
    return std::any_of(region.takers.begin(), region.takers.end(),
                       [&](const Taker& taker) { return taker.map.bytes(from, to) > 0; });
  }

  // Each granule goes to one of the ranks that take at least half as much of it as the rank that takes most: to the one
  // that has the least to read so far.
  void assign() {
    const size_t ranks = wants_.size();
    std::vector<uint64_t> load(ranks, 0), takes(ranks, 0);
    plan_.file_checkers.assign(manifest_.files.size(), -1);
    for (Granule& granule : plan_.granules) {
      for (const size_t r : granule.regions) {
        const Region& region = plan_.regions[r];
        const uint64_t from = std::max(granule.at, region.at) - region.at;
        const uint64_t to = std::min(granule.at + granule.bytes, region.end()) - region.at;
        for (const Taker& taker : region.takers) {
          const uint64_t bytes = taker.map.bytes(from, to);
          if (bytes == 0) continue;
          for (const int rank : taker.ranks) {
            uint64_t& total = takes[static_cast<size_t>(rank)];
            if (total == 0) granule.ranks.push_back(rank);
            total += bytes;
          }
        }
      }
      std::sort(granule.ranks.begin(), granule.ranks.end());
      uint64_t most = 0;
      for (const int rank : granule.ranks) most = std::max(most, takes[static_cast<size_t>(rank)]);
      int reader = -1;
      for (const int rank : granule.ranks) {
        const auto r = static_cast<size_t>(rank);
        if (takes[r] * 2 >= most && (reader < 0 || load[r] < load[static_cast<size_t>(reader)])) reader = rank;
      }
      granule.reader = reader;
      load[static_cast<size_t>(reader)] += granule.bytes;
      for (const int rank : granule.ranks) takes[static_cast<size_t>(rank)] = 0;
      int& checker = plan_.file_checkers[granule.file];
      if (checker < 0) checker = reader;
    }
    for (size_t f = 0; f < plan_.file_checkers.size(); ++f)
      if (plan_.file_checkers[f] < 0) plan_.file_checkers[f] = static_cast<int>(f % ranks);
  }

  const Manifest& manifest_;
  const std::vector<Wants>& wants_;
  const int alone_;
  LoadPlan plan_;
};

}  // namespace

Status check_fit(const Manifest& manifest, const Registry& registry) {
  for (const auto& [path, tensor] : registry.tensors()) {
    const TensorRecord* record = manifest.find_tensor(path);
    if (!record) {
      if (tensor.kind().optional) continue;
      return conflict(path, "the checkpoint does not have this tensor");
    }
    if (record->dtype != tensor.dtype())
      return conflict(
          path, std::string("it is ") + record->dtype->name + " in the checkpoint, " + tensor.dtype()->name + " here");
    if (record->shape != tensor.shape())
      return conflict(path, "its shape is " + describe(record->shape) + " in the checkpoint, " +
                                describe(tensor.shape()) + " here");
  }
  return {};
}

std::string format_wants(const Manifest& manifest, const Registry& registry) {
  std::string text;
  for (const auto& [path, tensor] : registry.tensors()) {
    const TensorRecord* record = manifest.find_tensor(path);
    if (!record || tensor.bytes() == 0) continue;
    text += std::to_string(record - manifest.tensors.data()) + ":" + format_boxes(tensor) + "\n";
  }
  return text;
}

Result<Wants> parse_wants(std::string_view text, const Manifest& manifest) {
  Wants wants;
  while (!text.empty()) {
    const size_t end = text.find('\n'), colon = text.find(':');
    if (end == std::string_view::npos || colon > end)
      return Error{
          Errc::kInternal,
          "a message of another rank about what it restores cannot be read; all ranks need the same libdlckpt"};
    DL_TRY_ASSIGN(const int64_t index, parse_int(text.substr(0, colon), 0, INT64_MAX));
    const auto tensor = static_cast<size_t>(index);
    if (tensor >= manifest.tensors.size() || (!wants.empty() && tensor <= wants.back().tensor))
      return Error{
          Errc::kInternal,
          "another rank asks for a tensor that the checkpoint does not have; all ranks need the same libdlckpt"};
    DL_TRY_ASSIGN(std::vector<Box> boxes,
                  parse_boxes(text.substr(colon + 1, end - colon - 1), manifest.tensors[tensor].shape));
    wants.push_back(Want{tensor, std::move(boxes)});
    text.remove_prefix(end + 1);
  }
  return wants;
}

LoadPlan plan_load(const Manifest& manifest, const std::vector<Wants>& wants, const LoadOptions& options) {
  return Planner(manifest, wants, options.alone).plan(options.with_blobs);
}

}  // namespace dl::ckpt
