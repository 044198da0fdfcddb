// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/read/tensor_stream.h"

#include <algorithm>
#include <cstring>

namespace dl::ckpt {
namespace {

// Most files that are open (each with a block in memory) at once. A tensor with more shards opens some of them again
// and again.
constexpr size_t kMaxSlots = 32;

class RangeCutter {
 public:
  RangeCutter(const Dims& shape, std::vector<Box>* out) : shape_(shape), out_(out), inner_(shape.size() + 1, 1) {
    for (size_t d = shape.size(); d > 0; --d) inner_[d - 1] = inner_[d] * static_cast<uint64_t>(shape[d - 1]);
    box_.offset.assign(shape.size(), 0);
    box_.extent.assign(shape.size(), 1);
  }

  // Cuts [first, last), counted within the part of the array that the indices of the dimensions before d select.
  void cut(size_t d, uint64_t first, uint64_t last) {
    if (first >= last) return;
    if (d == shape_.size()) return emit(d, 0, 0);
    const uint64_t inner = inner_[d + 1];
    uint64_t from = first / inner;
    const uint64_t to = last / inner;
    if (from == to) return pick(d, from, first % inner, last % inner);
    if (first % inner != 0) pick(d, from++, first % inner, inner);
    if (from < to) emit(d, from, to);
    if (last % inner != 0) pick(d, to, 0, last % inner);
  }

 private:
  void pick(size_t d, uint64_t index, uint64_t first, uint64_t last) {
    box_.offset[d] = static_cast<int64_t>(index);
    cut(d + 1, first, last);
  }
  void emit(size_t d, uint64_t from, uint64_t to) {
    Box box = box_;
    for (size_t i = d; i < shape_.size(); ++i) {
      box.offset[i] = i == d ? static_cast<int64_t>(from) : 0;
      box.extent[i] = i == d ? static_cast<int64_t>(to - from) : shape_[i];
    }
    out_->push_back(std::move(box));
  }

  const Dims& shape_;
  std::vector<Box>* out_;
  std::vector<uint64_t> inner_;  // number of elements below one index of the dimension before
  Box box_;
};

}  // namespace

std::vector<Box> boxes_of_range(const Dims& shape, uint64_t first, uint64_t last) {
  std::vector<Box> boxes;
  RangeCutter(shape, &boxes).cut(0, first, last);
  return boxes;
}

TensorStream::TensorStream(Io& io, std::string checkpoint, const Manifest& manifest)
    : io_(io), checkpoint_(std::move(checkpoint)), manifest_(manifest) {}

Result<TensorStream::Slot*> TensorStream::slot(size_t file, size_t part) {
  for (auto it = slots_.begin(); it != slots_.end(); ++it) {
    if (it->file != file || it->part != part) continue;
    slots_.splice(slots_.begin(), slots_, it);
    return &slots_.front();
  }
  DL_TRY_ASSIGN(DataFile data, DataFile::open(io_, checkpoint_, manifest_, file));
  if (slots_.size() >= kMaxSlots) slots_.pop_back();
  slots_.push_front(Slot{file, part, 0, std::move(data)});
  return &slots_.front();
}

Status TensorStream::copy(size_t file, size_t part, uint64_t at, uint64_t length, unsigned char* out) {
  if (length == 0) return {};
  DL_TRY_ASSIGN(Slot * from, slot(file, part));
  const std::vector<Block>& blocks = manifest_.files[file].blocks;
  while (length > 0) {
    if (from->block >= blocks.size() || at < blocks[from->block].at || at >= blocks[from->block].end()) {
      from->block = find_block(blocks, at);
      if (from->block == blocks.size()) return Error{Errc::kCorrupt, checkpoint_ + ": data outside all blocks"};
    }
    const Block& block = blocks[from->block];
    DL_TRY_ASSIGN(const unsigned char* bytes, from->data.read_block(from->block));
    const uint64_t now = std::min(length, block.end() - at);
    std::memcpy(out, bytes + (at - block.at), now);
    at += now;
    out += now;
    length -= now;
  }
  return {};
}

Status TensorStream::read(const TensorRecord& tensor, uint64_t at, uint64_t size, void* out) {
  auto* to = static_cast<unsigned char*>(out);
  const uint64_t element = tensor.dtype->size;
  for (const Box& box : boxes_of_range(tensor.shape, at / element, (at + size) / element)) {
    DL_TRY(read_box(tensor, box, to));
    to += volume(box.extent).value_or(0) * element;
  }
  return {};
}

Status TensorStream::read_box(const TensorRecord& tensor, const Box& box, void* out) {
  for (size_t s = 0; s < tensor.shards.size(); ++s) {
    const ShardRecord& shard = tensor.shards[s];
    const auto common = intersect(shard.box, box);
    if (!common) continue;
    RunWalker runs(shard.box, box, *common, tensor.dtype->size);
    // Up to four neighbouring parts in one file are read in turn; each has a slot of its own and keeps its block.
    while (const auto run = runs.next())
      DL_TRY(copy(shard.file, s % 4, shard.at + run->source, run->length,
                  static_cast<unsigned char*>(out) + run->destination));
  }
  return {};
}

Status TensorStream::read_blob(const BlobRecord& blob, void* out) {
  return copy(blob.file, 0, blob.at, blob.size, static_cast<unsigned char*>(out));
}

}  // namespace dl::ckpt
