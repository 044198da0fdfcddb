// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/client/save_plan.h"

#include "checkpoint/device/strided.h"
#include "checkpoint/format/names.h"

namespace dl::ckpt {
namespace {

class WorkListBuilder {
 public:
  WorkListBuilder(const Registry& registry, int rank, int world_size, const Holders* holders, int max_files)
      : registry_(registry), rank_(rank), world_size_(world_size), holders_(holders), max_files_(max_files) {}

  WorkList build() {
    add_tensors();
    work_.part.fingerprint = to_hex(registry_.fingerprint());
    work_.part.tensor_count = registry_.tensors().size();
    return std::move(work_);
  }

 private:
  // What several ranks hold, by path.
  std::vector<Replica> replicas() const {
    std::vector<Replica> found;
    for (const auto& [path, tensor] : registry_.tensors()) {
      if (!tensor.replicated || volume(tensor.shape).value_or(0) == 0) continue;
      if (!tensor.boxed) {
        found.push_back(Replica{whole(tensor.shape), tensor.dtype->size, {}});
      } else if (holders_) {
        for (const BoxHolders& one : holders_->of(path))
          found.push_back(Replica{one.box, tensor.dtype->size, one.ranks});
      } else {
        for (const RegisteredPart& part : tensor.parts)
          if (tensor.bytes(part) > 0) found.push_back(Replica{part.box, tensor.dtype->size, {rank_}});
      }
    }
    return found;
  }

  void add_tensors() {
    const std::vector<Replica> shared = replicas();
    const std::vector<ReplicaPiece> pieces = spread_replicas(shared, world_size_, max_files_);
    size_t next_piece = 0, replica = 0;
    for (const auto& [path, tensor] : registry_.tensors()) {
      TensorRecord record{path, tensor.dtype, tensor.shape, tensor.replicated, {}};
      if (volume(tensor.shape).value_or(0) == 0) {
        // An empty dataset, so that people see it is there.
        if (rank_ == 0) add_piece(path, tensor, tensor.parts[0], whole(tensor.shape), &record);
      } else if (tensor.replicated) {
        const size_t end = replica + replica_count(path, tensor);
        for (; next_piece < pieces.size() && pieces[next_piece].replica < end; ++next_piece) {
          const ReplicaPiece& piece = pieces[next_piece];
          if (piece.rank != rank_) continue;
          for (const RegisteredPart& part : tensor.parts)
            if (part.box == shared[piece.replica].box) add_piece(path, tensor, part, piece.box, &record);
        }
        replica = end;
      } else {
        for (const RegisteredPart& part : tensor.parts)
          if (tensor.bytes(part) > 0) add_piece(path, tensor, part, part.box, &record);
      }
      if (record.shards.empty() && rank_ != 0) continue;
      work_.part.tensors.push_back(std::move(record));
    }
  }

  // How many entries of replicas() are this tensor's.
  size_t replica_count(const std::string& path, const RegisteredTensor& tensor) const {
    if (!tensor.boxed) return 1;
    if (holders_) return holders_->of(path).size();
    size_t count = 0;
    for (const RegisteredPart& part : tensor.parts)
      if (tensor.bytes(part) > 0) ++count;
    return count;
  }

  // box: within the part.
  void add_piece(const std::string& path, const RegisteredTensor& tensor, const RegisteredPart& part, const Box& box,
                 TensorRecord* record) {
    ShardRecord shard;
    shard.box = box;
    shard.h5_path = h5_path(path, 's', static_cast<unsigned>(record->shards.size()));
    WriteItem item;
    item.item = LayoutItem{shard.h5_path, path, tensor.dtype, tensor.shape, box, tensor.replicated, false};
    item.frozen = tensor.frozen;
    if (part.data && volume(box.extent).value_or(0) > 0) {
      item.data = part.data + offset_within(part.box, box, part.strides);
      item.place = part.place;
      if (!is_dense(box.extent, part.strides, tensor.dtype->size)) item.strides = part.strides;
    }
    work_.items.push_back(std::move(item));
    work_.targets.push_back({false, work_.part.tensors.size(), record->shards.size()});
    record->shards.push_back(std::move(shard));
  }

  const Registry& registry_;
  int rank_, world_size_;
  const Holders* holders_;
  int max_files_;
  WorkList work_;
};

void set_place(const WorkList::Target& target, const SaveJob::Place& place, Part* part) {
  const auto set = [&](auto& record) {
    record.file = place.file;
    record.at = place.at;
  };
  if (target.blob) {
    set(part->blobs[target.record]);
  } else {
    set(part->tensors[target.record].shards[target.shard]);
  }
}

}  // namespace

WorkList plan_tensors(const Registry& registry, int rank, int world_size, const Holders* holders, int max_files) {
  return WorkListBuilder(registry, rank, world_size, holders, max_files).build();
}

WorkList plan_blobs(const Registry& registry, int rank) {
  WorkList work;
  for (const auto& [path, blob] : registry.blobs()) {
    if (!blob.per_rank && rank != 0) continue;
    BlobRecord record;
    record.path = path;
    record.rank = blob.per_rank ? rank : -1;
    record.h5_path = h5_path(path, 'b', 0);
    record.size = blob.bytes.size();
    const Dims shape{static_cast<int64_t>(blob.bytes.size())};
    WriteItem item;
    item.item = LayoutItem{record.h5_path, path, find_dtype(DLCKPT_U8), shape, whole(shape), false, true};
    item.data = blob.bytes.data();
    work.items.push_back(std::move(item));
    work.targets.push_back({true, work.part.blobs.size(), 0});
    work.part.blobs.push_back(std::move(record));
  }
  return work;
}

std::vector<WriteItem> SavePlan::items() const {
  std::vector<WriteItem> all;
  all.reserve(tensors->items.size() + blobs.items.size());
  all.insert(all.end(), tensors->items.begin(), tensors->items.end());
  all.insert(all.end(), blobs.items.begin(), blobs.items.end());
  return all;
}

Part SavePlan::part(const std::vector<SaveJob::Place>* places) const {
  Part part = tensors->part;
  part.blobs = blobs.part.blobs;
  if (!places) return part;
  auto place = places->begin();
  for (const WorkList* work : {tensors.get(), &blobs})
    for (const WorkList::Target& target : work->targets) set_place(target, *place++, &part);
  return part;
}

}  // namespace dl::ckpt
