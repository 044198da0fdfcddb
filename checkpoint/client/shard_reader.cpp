// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/client/shard_reader.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "checkpoint/store/verify.h"
#include "launcher/common/parse.h"

namespace dl::ckpt {
namespace {

// Bytes of a checkpoint's files by position; the file and block in use are kept.
class Reader {
 public:
  Reader(Io& io, const std::string& checkpoint, const Manifest& manifest)
      : io_(io), checkpoint_(checkpoint), manifest_(manifest) {}

  Status copy(size_t file, uint64_t at, uint64_t length, void* out) {
    if (!open_ || file != index_) {
      open_.reset();
      DL_TRY_ASSIGN(DataFile opened, DataFile::open(io_, checkpoint_, manifest_, file));
      open_.emplace(std::move(opened));
      index_ = file;
      block_ = 0;
    }
    const std::vector<Block>& blocks = manifest_.files[file].blocks;
    auto* to = static_cast<unsigned char*>(out);
    while (length > 0) {
      if (block_ >= blocks.size() || at < blocks[block_].at || at >= blocks[block_].end()) {
        block_ = find_block(blocks, at);
        if (block_ == blocks.size()) return Error{Errc::kCorrupt, "data outside all blocks"};
      }
      const Block& block = blocks[block_];
      DL_TRY_ASSIGN(const unsigned char* bytes, open_->read_block(block_));
      const uint64_t part = std::min(length, block.end() - at);
      std::memcpy(to, bytes + (at - block.at), part);
      at += part;
      to += part;
      length -= part;
    }
    return {};
  }

 private:
  Io& io_;
  const std::string& checkpoint_;
  const Manifest& manifest_;
  std::optional<DataFile> open_;
  size_t index_ = 0, block_ = 0;
};

Error conflict(const std::string& path, const std::string& what) {
  return Error{Errc::kConflict, "tensor '" + printable(path) + "': " + what};
}

}  // namespace

Result<ReadPlan> plan_reads(const Manifest& manifest, const Registry& registry) {
  ReadPlan plan;
  for (const auto& [path, tensor] : registry.tensors()) {
    const TensorRecord* record = manifest.find_tensor(path);
    if (!record) {
      if (tensor.optional) continue;
      return conflict(path, "the checkpoint does not have it");
    }
    if (record->dtype != tensor.dtype)
      return conflict(
          path, std::string("it is ") + record->dtype->name + " in the checkpoint, " + tensor.dtype->name + " here");
    if (record->shape != tensor.shape)
      return conflict(
          path, "its shape is " + describe(record->shape) + " in the checkpoint, " + describe(tensor.shape) + " here");
    const uint64_t size = tensor.dtype->size;
    for (const ShardRecord& shard : record->shards)
      for (const RegisteredPart& part : tensor.parts)
        if (const auto common = intersect(shard.box, part.box))
          plan.push_back(ShardRead{&shard, volume(shard.box.extent).value_or(0) * size, part.data,
                                   StridedMap(shard.box, part.box, *common, part.strides, size)});
  }
  std::sort(plan.begin(), plan.end(), [](const ShardRead& a, const ShardRead& b) {
    return a.shard->file != b.shard->file ? a.shard->file < b.shard->file : a.shard->at < b.shard->at;
  });
  return plan;
}

Status execute_reads(Io& io, const std::string& checkpoint, const Manifest& manifest, const ReadPlan& plan) {
  Reader reader(io, checkpoint, manifest);
  for (const ShardRead& read : plan) {
    Status outcome;
    read.map.each(0, read.bytes, [&](uint64_t at, int64_t offset, uint64_t length) {
      if (outcome) outcome = reader.copy(read.shard->file, read.shard->at + at, length, read.memory + offset);
    });
    DL_TRY(outcome);
  }
  return {};
}

Result<std::map<std::string, std::string>> read_blobs(Io& io, const std::string& checkpoint, const Manifest& manifest,
                                                      int rank) {
  Reader reader(io, checkpoint, manifest);
  std::map<std::string, std::string> blobs;
  for (const BlobRecord& blob : manifest.blobs) {
    if (blob.rank != -1 && blob.rank != rank) continue;
    std::string bytes(blob.size, '\0');
    if (blob.size > 0) DL_TRY(reader.copy(blob.file, blob.at, blob.size, bytes.data()));
    blobs[blob.path] = std::move(bytes);
  }
  return blobs;
}

}  // namespace dl::ckpt
