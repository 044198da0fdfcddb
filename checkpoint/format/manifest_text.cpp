// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/manifest_text.h"

#include <algorithm>
#include <charconv>

#include "common/json/json.h"

namespace dl::ckpt {
namespace {

template <typename Integer>
void append_number(Integer value, std::string* out) {
  char digits[24];
  out->append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

void append_text(const std::string& text, std::string* out) {
  const bool plain =
      std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c < 0x7f && c != '"' && c != '\\'; });
  if (plain) {
    out->append(1, '"').append(text).append(1, '"');
  } else {
    *out += Json(text).dump_sorted();
  }
}

// Appends "[offset,length]".
void append_extent(const Extent& extent, std::string* out) {
  *out += '[';
  append_number(extent.at, out);
  *out += ',';
  append_number(extent.length, out);
  *out += ']';
}

// Appends "[1,2]".
void append_dims(const Dims& dims, std::string* out) {
  *out += '[';
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) *out += ',';
    append_number(dims[i], out);
  }
  *out += ']';
}

}  // namespace

void append_json(const FileRecord& file, std::string* out) {
  *out += "{\"blocks\":[";
  for (size_t i = 0; i < file.blocks.size(); ++i) {
    const Block& block = file.blocks[i];
    *out += i > 0 ? ",[" : "[";
    append_number(block.at, out);
    *out += ',';
    append_number(block.length, out);
    *out += ",\"";
    *out += to_hex(block.hash);
    *out += "\"]";
  }
  *out += "],\"name\":";
  append_text(file.name(), out);
  if (file.origin) {
    *out += ",\"origin\":{\"save_id\":";
    append_text(format_save_id(file.origin->save_id), out);
    *out += ",\"step\":";
    append_number(file.origin->step, out);
    *out += '}';
  }
  if (file.packed) {
    *out += ",\"packed\":{\"count\":";
    append_number(file.packed->count, out);
    *out += ",\"data\":";
    append_extent(file.packed->data, out);
    *out += ",\"index\":";
    append_extent(file.packed->index, out);
    *out += '}';
  }
  *out += ",\"root\":";
  append_text(to_hex(file.root), out);
  *out += ",\"size\":";
  append_number(file.size, out);
  *out += ",\"table\":";
  append_extent(file.table, out);
  *out += '}';
}

void append_json(const TensorRecord& tensor, std::string* out) {
  *out += "{\"dtype\":";
  append_text(tensor.dtype->name, out);
  *out += ",\"path\":";
  append_text(tensor.path, out);
  *out += tensor.replicated ? ",\"replicated\":true" : ",\"replicated\":false";
  *out += ",\"shape\":";
  append_dims(tensor.shape, out);
  *out += ",\"shards\":[";
  for (size_t i = 0; i < tensor.shards.size(); ++i) {
    const ShardRecord& shard = tensor.shards[i];
    *out += i > 0 ? ",{\"at\":" : "{\"at\":";
    append_number(shard.at, out);
    *out += ",\"extent\":";
    append_dims(shard.box.extent, out);
    *out += ",\"file\":";
    append_number(shard.file, out);
    *out += ",\"h5\":";
    append_text(shard.h5_path, out);
    *out += ",\"offset\":";
    append_dims(shard.box.offset, out);
    *out += '}';
  }
  *out += "]}";
}

}  // namespace dl::ckpt
