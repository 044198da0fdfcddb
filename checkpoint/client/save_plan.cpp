// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/client/save_plan.h"

#include "checkpoint/client/spread.h"
#include "checkpoint/format/names.h"

namespace dl::ckpt {
namespace {

class WorkListBuilder {
 public:
  WorkListBuilder(const Registry& registry, int rank, int world_size)
      : registry_(registry), rank_(rank), world_size_(world_size) {}

  WorkList build() {
    add_tensors();
    add_blobs();
    work_.part.fingerprint = to_hex(registry_.fingerprint());
    work_.part.tensor_count = registry_.tensors().size();
    return std::move(work_);
  }

 private:
  void add_tensors() {
    std::vector<Replica> replicas;
    for (const auto& [path, tensor] : registry_.tensors())
      if (tensor.replicated) replicas.push_back(Replica{path, tensor.shape, tensor.dtype->size});
    const std::vector<ReplicaPiece> pieces = spread_replicas(replicas, world_size_);
    size_t next_piece = 0, replica = 0;
    for (const auto& [path, tensor] : registry_.tensors()) {
      TensorRecord record{path, tensor.dtype, tensor.shape, tensor.replicated, {}};
      std::vector<Box> boxes;
      if (tensor.replicated) {
        for (; next_piece < pieces.size() && pieces[next_piece].replica == replica; ++next_piece)
          if (pieces[next_piece].rank == rank_) boxes.push_back(pieces[next_piece].box);
        ++replica;
      } else if (volume(tensor.shape).value_or(0) == 0) {
        if (rank_ == 0) boxes.push_back(whole(tensor.shape));  // an empty dataset, so that people see it is there
      } else if (tensor.bytes() > 0) {
        boxes.push_back(tensor.box);
      }
      if (boxes.empty() && rank_ != 0) continue;
      for (const Box& box : boxes) add_piece(path, tensor, box, &record);
      work_.part.tensors.push_back(std::move(record));
    }
  }

  void add_piece(const std::string& path, const RegisteredTensor& tensor, const Box& box, TensorRecord* record) {
    ShardRecord shard;
    shard.box = box;
    shard.h5_path = h5_path(path, 's', static_cast<unsigned>(record->shards.size()));
    // A piece is a range of rows of the rank's own part, so its bytes lie together.
    uint64_t skip = 0;
    if (!box.offset.empty() && tensor.shape[0] > 0 && box.offset[0] > tensor.box.offset[0])
      skip = static_cast<uint64_t>(box.offset[0] - tensor.box.offset[0]) *
             (tensor.bytes() / static_cast<uint64_t>(tensor.box.extent[0]));
    WriteItem item;
    item.item = LayoutItem{shard.h5_path, path, tensor.dtype, tensor.shape, box, tensor.replicated, false};
    item.data = tensor.data ? tensor.data + skip : nullptr;
    work_.items.push_back(std::move(item));
    work_.targets.push_back({false, work_.part.tensors.size(), record->shards.size()});
    record->shards.push_back(std::move(shard));
  }

  void add_blobs() {
    for (const auto& [path, blob] : registry_.blobs()) {
      if (!blob.per_rank && rank_ != 0) continue;
      BlobRecord record;
      record.path = path;
      record.rank = blob.per_rank ? rank_ : -1;
      record.h5_path = h5_path(path, 'b', 0);
      record.size = blob.bytes.size();
      const Dims shape{static_cast<int64_t>(blob.bytes.size())};
      WriteItem item;
      item.item = LayoutItem{record.h5_path, path, find_dtype(DLCKPT_U8), shape, whole(shape), false, true};
      item.data = blob.bytes.data();
      work_.items.push_back(std::move(item));
      work_.targets.push_back({true, work_.part.blobs.size(), 0});
      work_.part.blobs.push_back(std::move(record));
    }
  }

  const Registry& registry_;
  int rank_, world_size_;
  WorkList work_;
};

}  // namespace

void WorkList::set_place(size_t item, size_t file, uint64_t at) {
  const Target& target = targets[item];
  if (target.blob) {
    part.blobs[target.record].file = file;
    part.blobs[target.record].at = at;
  } else {
    ShardRecord& shard = part.tensors[target.record].shards[target.shard];
    shard.file = file;
    shard.at = at;
  }
}

WorkList plan_save(const Registry& registry, int rank, int world_size) {
  return WorkListBuilder(registry, rank, world_size).build();
}

}  // namespace dl::ckpt
