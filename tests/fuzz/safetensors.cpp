// SPDX-License-Identifier: Apache-2.0
// The header of a safetensors file: first byte how many bytes of data follow it (255: as many as make it whole), then
// the header's JSON. Also as model.safetensors.index.json.
#include "checkpoint/convert/safetensors.h"

#include "tests/fuzz/target.h"

namespace dl::ckpt::fuzz {

void safetensors(const uint8_t* data, size_t size) {
  Bytes input(data, size);
  const uint8_t follow = input.u8();
  const std::string text = input.rest();
  if (auto index = parse_safetensors_index(text)) {
    for (const auto& [name, file] : index->files)
      must(file.find('/') == std::string::npos && file != "..", "an index names files beside it");
    must(static_cast<bool>(parse_safetensors_index(format_safetensors_index(*index))), "an index can be written");
  }
  auto header = parse_safetensors(text, follow == 255 ? 108 : follow, /*all_dtypes=*/true);
  if (!header) {
    must(!header.error().text.empty(), "an error has a sentence");
    return;
  }
  uint64_t at = 0;
  for (const SafetensorsEntry& entry : header->entries) {
    must(entry.at == at && entry.bytes <= header->data_bytes - at, "tensors lie one after the other in the data");
    must(volume(entry.shape) && *volume(entry.shape) * entry.dtype->size == entry.bytes,
         "sizes are those of the shape");
    at += entry.bytes;
  }
  must(at == header->data_bytes, "every byte belongs to a tensor");
  const size_t count = header->entries.size();
  const std::string written = lay_out_safetensors(&*header, /*all_dtypes=*/true);
  auto again = parse_safetensors(std::string_view(written).substr(8), header->data_bytes, /*all_dtypes=*/true);
  must(again && again->entries.size() == count, "what was written can be read");
}

}  // namespace dl::ckpt::fuzz
