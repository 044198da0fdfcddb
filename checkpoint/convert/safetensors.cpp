// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/convert/safetensors.h"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "checkpoint/format/hash.h"
#include "common/base/parse.h"
#include "common/json/json.h"

namespace dl::ckpt {
namespace {

constexpr const char* kMetadata = "__metadata__";

struct DtypeName {
  dlckpt_dtype id;
  const char* name;
};
constexpr DtypeName kDtypeNames[] = {
    {DLCKPT_F64, "F64"},        {DLCKPT_F32, "F32"},        {DLCKPT_F16, "F16"},   {DLCKPT_BF16, "BF16"},
    {DLCKPT_F8E4M3, "F8_E4M3"}, {DLCKPT_F8E5M2, "F8_E5M2"}, {DLCKPT_I64, "I64"},   {DLCKPT_I32, "I32"},
    {DLCKPT_I16, "I16"},        {DLCKPT_I8, "I8"},          {DLCKPT_U64, "U64"},   {DLCKPT_U32, "U32"},
    {DLCKPT_U16, "U16"},        {DLCKPT_U8, "U8"},          {DLCKPT_BOOL, "BOOL"}, {DLCKPT_C64, "C64"},
};
constexpr const char* kComplex128 = "C128";

Error corrupt(const std::string& what) {
  return Error{Errc::kCorrupt, what};
}

const DtypeInfo* dtype_of(const std::string& name, bool all_dtypes) {
  for (const DtypeName& row : kDtypeNames)
    if (name == row.name) return find_dtype(row.id);
  return all_dtypes && name == kComplex128 ? find_dtype(DLCKPT_C128) : nullptr;
}

std::optional<uint64_t> unsigned_of(const Json& json) {
  if (!json.is_number_unsigned()) return std::nullopt;
  const auto value = json.get<uint64_t>();
  if (value > kMaxBytes) return std::nullopt;
  return value;
}

Result<SafetensorsEntry> parse_entry(const std::string& name, const Json& json, bool all_dtypes) {
  SafetensorsEntry entry;
  entry.name = name;
  const Json *of_dtype = json.find("dtype"), *of_shape = json.find("shape"), *of_offsets = json.find("data_offsets");
  if (json.size() != 3 || !of_dtype || !of_shape || !of_offsets)
    return corrupt("it must have dtype, shape and data_offsets, and nothing else");
  const Json &dtype = *of_dtype, &shape = *of_shape, &offsets = *of_offsets;
  if (!dtype.is_string() || !shape.is_array() || !offsets.is_array() || offsets.size() != 2)
    return corrupt("dtype must be text, shape a list, data_offsets a list of two");
  entry.dtype = dtype_of(dtype.text(), all_dtypes);
  if (!entry.dtype) return Error{Errc::kUnsupported, "checkpoints have no dtype " + printable(dtype.text(), 20)};
  if (shape.size() > DLCKPT_MAX_DIMS) return corrupt("it has more than 32 dimensions");
  for (const Json& size : shape) {
    const auto value = unsigned_of(size);
    if (!value) return corrupt("a size of its shape is not a whole number, or too large");
    entry.shape.push_back(static_cast<int64_t>(*value));
  }
  const auto begin = unsigned_of(offsets[0]), end = unsigned_of(offsets[1]);
  if (!begin || !end || *begin > *end) return corrupt("its data_offsets are not [begin, end]");
  const auto elements = volume(entry.shape);
  if (!elements || *elements > kMaxBytes / entry.dtype->size || *elements * entry.dtype->size != *end - *begin)
    return corrupt("its data_offsets hold " + std::to_string(*end - *begin) + " bytes, which is not " + dtype.text() +
                   " of shape " + describe(entry.shape));
  entry.at = *begin;
  entry.bytes = *end - *begin;
  return entry;
}

Status parse_metadata(const Json& json, std::map<std::string, std::string>* metadata) {
  if (!json.is_object()) return corrupt(std::string(kMetadata) + " is not an object");
  for (const auto& [key, value] : json.members()) {
    if (!value.is_string()) return corrupt(std::string(kMetadata) + " must hold texts only");
    (*metadata)[key] = value.text();
  }
  return {};
}

}  // namespace

const char* safetensors_dtype(const DtypeInfo& dtype) {
  for (const DtypeName& row : kDtypeNames)
    if (row.id == dtype.id) return row.name;
  return nullptr;
}

std::string lay_out_safetensors(SafetensorsHeader* header, bool all_dtypes) {
  std::sort(header->entries.begin(), header->entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return a.dtype->size != b.dtype->size ? a.dtype->size > b.dtype->size : a.name < b.name;
  });
  const auto quoted = [](const std::string& text) { return Json(text).dump(); };
  std::string text = "{";
  if (!header->metadata.empty()) text += quoted(kMetadata) + ":" + Json(header->metadata).dump();
  uint64_t at = 0;
  for (SafetensorsEntry& entry : header->entries) {
    entry.at = at;
    entry.bytes = volume(entry.shape).value_or(0) * entry.dtype->size;
    at += entry.bytes;
    const char* dtype = safetensors_dtype(*entry.dtype);
    if (!dtype && all_dtypes) dtype = kComplex128;
    text += (text.size() > 1 ? "," : "") + quoted(entry.name) + R"(:{"dtype":")" + (dtype ? dtype : "?") +
            R"(","shape":)" + Json(entry.shape).dump() + R"(,"data_offsets":[)" + std::to_string(entry.at) + "," +
            std::to_string(at) + "]}";
  }
  text += "}";
  text.append((8 - text.size() % 8) % 8, ' ');
  header->data_bytes = at;
  header->data_at = 8 + text.size();
  unsigned char length[8];
  put_u64(length, text.size());
  return std::string(reinterpret_cast<const char*>(length), sizeof length) + text;
}

Result<SafetensorsHeader> parse_safetensors(std::string_view text, uint64_t data_bytes, bool all_dtypes) {
  if (text.empty() || text[0] != '{') return corrupt("its header does not begin with '{': not a safetensors file");
  const Json json = Json::parse_strictly(text, 4);
  if (json.is_broken()) return corrupt("its header is not JSON, or has a name twice");
  SafetensorsHeader header;
  header.data_at = 8 + text.size();
  header.data_bytes = data_bytes;
  for (const auto& [name, value] : json.members()) {
    if (name == kMetadata) {
      DL_TRY(parse_metadata(value, &header.metadata));
      continue;
    }
    auto entry = parse_entry(name, value, all_dtypes);
    if (!entry) return std::move(entry).error().with_context("tensor '" + printable(name) + "'");
    header.entries.push_back(*std::move(entry));
  }
  std::sort(header.entries.begin(), header.entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return a.at != b.at ? a.at < b.at : a.bytes < b.bytes;
  });
  uint64_t at = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    if (entry.at != at)
      return corrupt("tensor '" + printable(entry.name) + "': its data begin at byte " + std::to_string(entry.at) +
                     " where byte " + std::to_string(at) + " should follow");
    at += entry.bytes;
  }
  if (at != data_bytes)
    return corrupt("it has " + std::to_string(data_bytes) + " bytes of data, its header tells of " +
                   std::to_string(at));
  return header;
}

std::string format_safetensors_index(const SafetensorsIndex& index) {
  const Json json{{"metadata", {{"total_size", index.total_bytes}}}, {"weight_map", index.files}};
  return json.dump_sorted(2) + "\n";
}

Result<SafetensorsIndex> parse_safetensors_index(std::string_view text) {
  const Json json = Json::parse_strictly(text, 8);
  if (!json.is_object()) return corrupt("it is not JSON, or has a name twice");
  const Json* weight_map = json.find("weight_map");
  if (!weight_map || !weight_map->is_object()) return corrupt("it has no weight_map");
  SafetensorsIndex index;
  for (const auto& [name, file] : weight_map->members()) {
    if (!file.is_string()) return corrupt("weight_map must hold file names");
    const std::string& file_name = file.text();
    if (file_name.empty() || file_name == "." || file_name == ".." || file_name.find('/') != std::string::npos ||
        file_name.find('\0') != std::string::npos)
      return corrupt("weight_map names '" + printable(file_name) + "', which is not a file beside it");
    index.files[name] = file_name;
  }
  return index;
}

std::string safetensors_shard_name(const std::string& file, size_t index, size_t count) {
  const std::string suffix = ".safetensors";
  std::string stem = file;
  if (stem.size() > suffix.size() && stem.compare(stem.size() - suffix.size(), suffix.size(), suffix) == 0)
    stem.resize(stem.size() - suffix.size());
  char numbers[64];
  std::snprintf(numbers, sizeof numbers, "-%05zu-of-%05zu", index + 1, count);
  return stem + numbers + suffix;
}

}  // namespace dl::ckpt
