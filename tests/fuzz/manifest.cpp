// SPDX-License-Identifier: Apache-2.0
// parse_manifest of any text; what it accepts needs no further check before it is used to read. The mutator puts the
// checksums right, so that everything behind them is reached as well.
#include "checkpoint/format/manifest.h"

#include "checkpoint/format/user_block.h"
#include "tests/fuzz/target.h"

namespace dl::ckpt::fuzz {
namespace {

void check_place(const Manifest& manifest, size_t file, uint64_t at, uint64_t bytes) {
  must(file < manifest.files.size(), "data is in a file of the manifest");
  if (bytes == 0) return;
  const FileRecord& record = manifest.files[file];
  must(at >= kUserBlockBytes && at <= record.size && bytes <= record.size - at, "data lies within its file");
  must(find_block(record.blocks, at) < record.blocks.size(), "data has a block");
  must(find_block(record.blocks, at + bytes - 1) < record.blocks.size(), "the end of data has a block");
}

}  // namespace

void manifest(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto parsed = parse_manifest(text);
  if (!parsed) {
    must(!parsed.error().text.empty(), "an error has a sentence");
    return;
  }
  for (const TensorRecord& tensor : parsed->tensors) {
    must(parsed->find_tensor(tensor.path) == &tensor, "every tensor is found");
    uint64_t elements = 0;
    for (const ShardRecord& shard : tensor.shards) {
      const auto part = volume(shard.box.extent);
      must(part.has_value() && within(shard.box, tensor.shape), "a part lies within its shape");
      check_place(*parsed, shard.file, shard.at, *part * tensor.dtype->size);
      elements += *part;
    }
    must(elements == volume(tensor.shape), "the parts are the whole");
  }
  for (const BlobRecord& blob : parsed->blobs) check_place(*parsed, blob.file, blob.at, blob.size);
  if (hash_bytes(text.data(), text.size()).low % 4 != 0) return;  // often enough, and four times as fast
  const std::string again = format_manifest(*parsed);
  auto reparsed = parse_manifest(again);
  must(static_cast<bool>(reparsed), "what was written can be read");
  must(format_manifest(*reparsed) == again, "what was read is what was written");
}

}  // namespace dl::ckpt::fuzz
