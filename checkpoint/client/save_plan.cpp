// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/client/save_plan.h"

#include <algorithm>

#include "checkpoint/device/strided.h"
#include "checkpoint/format/names.h"
#include "checkpoint/format/packed_index.h"

namespace dl::ckpt {
namespace {

class WorkListBuilder {
 public:
  WorkListBuilder(const Registry& registry, int rank, int world_size, const Holders* holders, int max_files)
      : registry_(registry), rank_(rank), world_size_(world_size), holders_(holders), max_files_(max_files) {}

  WorkList build() {
    decide_packing();
    add_tensors();
    if (packing_) add_packed();
    work_.part.fingerprint = to_hex(registry_.fingerprint());
    work_.part.tensor_count = registry_.tensors().size();
    return std::move(work_);
  }

 private:
  // The answer depends only on the fingerprint and the world size, since all ranks must get the same. Divided tensors
  // are not packed, because rank 0 has to check that their parts fit together.
  bool can_be_packed(const RegisteredTensor& tensor) const {
    const uint64_t bytes = tensor.whole_bytes();
    if (bytes == 0 || bytes >= kOwnBlocksFrom) return false;
    if (world_size_ > 1) return tensor.replicated() && !tensor.boxed();
    return tensor.plain() || !tensor.boxed() || is_whole(tensor);
  }
  static bool is_whole(const RegisteredTensor& tensor) {
    const std::vector<RegisteredPart> parts = tensor.parts();
    return parts.size() == 1 && parts[0].box == whole(tensor.shape());
  }
  bool packs(const RegisteredTensor& tensor) const { return packing_ && can_be_packed(tensor); }

  void decide_packing() {
    for (const auto& [path, tensor] : registry_.tensors()) {
      if (!can_be_packed(tensor)) continue;
      ++packed_count_;
      packed_names_ += path.size();
      packed_bytes_ += tensor.whole_bytes();
    }
    packing_ = packed_count_ >= kPackFrom;
  }

  // Adds this rank's share of the packed tensors. All their bytes, sorted by name, are divided into equal parts; a
  // tensor belongs to the part in which its first byte lies.
  void add_packed() {
    const auto writers = static_cast<uint64_t>(std::min(world_size_, max_files_));
    const uint64_t share = (packed_bytes_ + writers - 1) / writers;
    auto source = std::make_shared<PackSource>();
    if (world_size_ == 1) source->reserve(packed_count_);
    auto index = std::make_shared<std::string>();
    index->reserve(packed_names_ / writers + packed_count_ / writers * 32);
    uint64_t begin = 0;
    MemoryPlace place;
    for (const auto& [path, tensor] : registry_.tensors()) {
      if (!can_be_packed(tensor)) continue;
      // The writers are spread evenly over the ranks, as in spread_replicas().
      const uint64_t writer = begin / share * static_cast<uint64_t>(world_size_) / writers;
      begin += tensor.whole_bytes();
      if (writer != static_cast<uint64_t>(rank_)) continue;
      const uint64_t at = pack(path, tensor, source.get(), &place);
      append_packed_line(path, *tensor.dtype(), tensor.shape(), tensor.replicated(), at, index.get());
    }
    if (source->count() == 0) return;
    work_.packed = PackedRecord();
    work_.packed->count = source->count();
    add_bytes("/_dlckpt/packed/data", "bytes of the tensors in the index", source->bytes(), &work_.packed->data,
              WorkList::Target::kPackedData);
    work_.items.back().place = place;
    work_.items.back().pack = std::move(source);
    add_bytes("/_dlckpt/packed/index", "lines of name, dtype, shape, offset in data, replicated or whole; tabs between",
              index->size(), &work_.packed->index, WorkList::Target::kPackedIndex);
    index->shrink_to_fit();
    work_.items.back().data = index->data();
    work_.index = std::move(index);
  }

  static uint64_t pack(const std::string& path, const RegisteredTensor& tensor, PackSource* source,
                       MemoryPlace* place) {
    if (const unsigned char* data = tensor.plain())
      return source->add(data, tensor.whole_bytes(), tensor.dtype()->size);
    const RegisteredPart part = tensor.parts()[0];
    WriteItem item;
    item.dataset = std::make_shared<const LayoutItem>(
        LayoutItem{"", path, tensor.dtype(), tensor.shape(), part.box, tensor.replicated(), false});
    set_source(tensor, part, part.box, &item);
    if (!item.place.on_host()) *place = item.place;
    return source->add(std::move(item));
  }

  void add_bytes(const char* h5_path, const char* description, uint64_t size, Extent* extent,
                 WorkList::Target::Kind kind) {
    const Dims shape{static_cast<int64_t>(size)};
    WriteItem item;
    item.dataset = std::make_shared<const LayoutItem>(
        LayoutItem{h5_path, description, find_dtype(DLCKPT_U8), shape, whole(shape), false, true});
    work_.items.push_back(std::move(item));
    work_.targets.push_back({kind, 0, 0});
    extent->length = size;
  }

  // The data that several ranks hold, sorted by path.
  std::vector<Replica> replicas() const {
    std::vector<Replica> found;
    for (const auto& [path, tensor] : registry_.tensors()) {
      if (!tensor.replicated() || packs(tensor) || volume(tensor.shape()).value_or(0) == 0) continue;
      if (!tensor.boxed()) {
        found.push_back(Replica{whole(tensor.shape()), tensor.dtype()->size, {}});
      } else if (holders_) {
        for (const BoxHolders& one : holders_->of(path))
          found.push_back(Replica{one.box, tensor.dtype()->size, one.ranks});
      } else {
        for (const RegisteredPart& part : tensor.parts())
          if (tensor.bytes(part) > 0) found.push_back(Replica{part.box, tensor.dtype()->size, {rank_}});
      }
    }
    return found;
  }

  void add_tensors() {
    const std::vector<Replica> shared = replicas();
    const std::vector<ReplicaPiece> pieces = spread_replicas(shared, world_size_, max_files_);
    size_t next_piece = 0, replica = 0;
    for (const auto& [path, tensor] : registry_.tensors()) {
      if (packs(tensor)) continue;
      TensorRecord record{path, tensor.dtype(), tensor.shape(), tensor.replicated(), {}};
      if (volume(tensor.shape()).value_or(0) == 0) {
        // An empty tensor becomes an empty dataset, so that people see that it exists.
        if (rank_ == 0) add_piece(path, tensor, tensor.parts()[0], whole(tensor.shape()), &record);
      } else if (tensor.replicated()) {
        const size_t end = replica + replica_count(path, tensor);
        for (; next_piece < pieces.size() && pieces[next_piece].replica < end; ++next_piece) {
          const ReplicaPiece& piece = pieces[next_piece];
          if (piece.rank != rank_) continue;
          for (const RegisteredPart& part : tensor.parts())
            if (part.box == shared[piece.replica].box) add_piece(path, tensor, part, piece.box, &record);
        }
        replica = end;
      } else {
        for (const RegisteredPart& part : tensor.parts())
          if (tensor.bytes(part) > 0) add_piece(path, tensor, part, part.box, &record);
      }
      if (record.shards.empty() && rank_ != 0) continue;
      work_.part.tensors.push_back(std::move(record));
    }
  }

  // The number of entries in replicas() that belong to this tensor.
  size_t replica_count(const std::string& path, const RegisteredTensor& tensor) const {
    if (!tensor.boxed()) return 1;
    if (holders_) return holders_->of(path).size();
    size_t count = 0;
    for (const RegisteredPart& part : tensor.parts())
      if (tensor.bytes(part) > 0) ++count;
    return count;
  }

  static void set_source(const RegisteredTensor& tensor, const RegisteredPart& part, const Box& box, WriteItem* item) {
    item->data = part.data + offset_within(part.box, box, part.strides);
    item->place = part.place;
    if (!is_dense(box.extent, part.strides, tensor.dtype()->size)) item->strides = part.strides;
  }

  // `box` lies within the part.
  void add_piece(const std::string& path, const RegisteredTensor& tensor, const RegisteredPart& part, const Box& box,
                 TensorRecord* record) {
    ShardRecord shard;
    shard.box = box;
    shard.h5_path = h5_path(path, 's', static_cast<unsigned>(record->shards.size()));
    WriteItem item;
    item.dataset = std::make_shared<const LayoutItem>(
        LayoutItem{shard.h5_path, path, tensor.dtype(), tensor.shape(), box, tensor.replicated(), false});
    item.frozen = tensor.kind().frozen;
    if (part.data && volume(box.extent).value_or(0) > 0) set_source(tensor, part, box, &item);
    work_.items.push_back(std::move(item));
    work_.targets.push_back({WorkList::Target::kShard, work_.part.tensors.size(), record->shards.size()});
    record->shards.push_back(std::move(shard));
  }

  const Registry& registry_;
  int rank_, world_size_;
  const Holders* holders_;
  int max_files_;
  bool packing_ = false;
  uint64_t packed_count_ = 0, packed_bytes_ = 0, packed_names_ = 0;
  WorkList work_;
};

// `packed` is the record of the work list.
void set_place(const WorkList::Target& target, const SaveJob::Place& place, const std::optional<PackedRecord>& packed,
               Part* part) {
  const auto set = [&](auto& record) {
    record.file = place.file;
    record.at = place.at;
  };
  // Data and index of packed tensors lie in the same file.
  const auto packed_record = [&]() -> PackedRecord& {
    FileRecord& file = part->files[place.file];
    if (!file.packed) file.packed = packed;
    return *file.packed;
  };
  switch (target.kind) {
    case WorkList::Target::kShard:
      return set(part->tensors[target.record].shards[target.shard]);
    case WorkList::Target::kBlob:
      return set(part->blobs[target.record]);
    case WorkList::Target::kPackedData:
      packed_record().data.at = place.at;
      return;
    case WorkList::Target::kPackedIndex:
      packed_record().index.at = place.at;
      return;
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
    item.dataset = std::make_shared<const LayoutItem>(
        LayoutItem{record.h5_path, path, find_dtype(DLCKPT_U8), shape, whole(shape), false, true});
    item.data = blob.bytes.data();
    work.items.push_back(std::move(item));
    work.targets.push_back({WorkList::Target::kBlob, work.part.blobs.size(), 0});
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

Part SavePlan::part(const std::vector<SaveJob::Place>& places, std::vector<FileRecord> files) const {
  Part part = tensors->part;
  part.blobs = blobs.part.blobs;
  part.files = std::move(files);
  auto place = places.begin();
  for (const WorkList* work : {tensors.get(), &blobs})
    for (const WorkList::Target& target : work->targets) set_place(target, *place++, work->packed, &part);
  return part;
}

}  // namespace dl::ckpt
