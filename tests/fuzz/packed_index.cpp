// SPDX-License-Identifier: Apache-2.0
// parse_packed_index of any text: what it accepts lies within the data, is sorted, and is what would be written again.
#include "checkpoint/format/packed_index.h"

#include <algorithm>

#include "tests/fuzz/target.h"

namespace dl::ckpt::fuzz {

void packed_index(const uint8_t* data, size_t size) {
  if (size < 1) return;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  // As many tensors as there are lines, or one more: the first bit says which.
  const auto lines = static_cast<uint64_t>(std::count(text.begin(), text.end(), '\n'));
  const PackedRecord packed{lines + (data[0] & 1U), {4096, uint64_t{data[0]} << 4}, {1 << 20, text.size()}};
  std::vector<TensorRecord> tensors;
  const Status parsed = parse_packed_index(text, packed, 3, &tensors);
  if (!parsed) {
    must(parsed.error().code == Errc::kCorrupt && !parsed.error().text.empty(), "an error has a sentence");
    return;
  }
  must(tensors.size() == packed.count, "there are as many as was said");
  std::string again;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorRecord& tensor = tensors[i];
    must(i == 0 || tensors[i - 1].path < tensor.path, "they are sorted");
    must(tensor.packed && tensor.shards.size() == 1 && tensor.shards[0].file == 3, "each is one part of the file");
    const ShardRecord& shard = tensor.shards[0];
    must(shard.box == whole(tensor.shape), "each is whole");
    must(shard.at >= packed.data.at && tensor.bytes() <= packed.data.end() - shard.at, "each lies within the data");
    append_packed_line(tensor.path, *tensor.dtype, tensor.shape, tensor.replicated, shard.at - packed.data.at, &again);
  }
  must(again == text, "what was read is what is written");
}

}  // namespace dl::ckpt::fuzz
