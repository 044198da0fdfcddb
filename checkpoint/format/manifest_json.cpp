// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/manifest_json.h"

#include "checkpoint/format/user_block.h"

namespace dl::ckpt {
namespace {

constexpr int kMaxDepth = 16;
constexpr auto kMaxInt = static_cast<int64_t>(kMaxBytes);

// Counts brackets outside strings, without building anything.
bool nests_too_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

Error corrupt(const std::string& what) {
  return Error{Errc::kCorrupt, what};
}

Result<int64_t> integer(const Json& json, int64_t min, int64_t max) {
  if (json.is_number_unsigned()) {
    const auto value = json.get<uint64_t>();
    if (value <= static_cast<uint64_t>(INT64_MAX) && static_cast<int64_t>(value) >= min &&
        static_cast<int64_t>(value) <= max)
      return static_cast<int64_t>(value);
  } else if (json.is_number_integer()) {
    const auto value = json.get<int64_t>();
    if (value >= min && value <= max) return value;
  }
  return corrupt("a number is missing or out of range");
}

Result<Dims> dims_member(const Json& json, const char* name) {
  DL_TRY_ASSIGN(const Json* array, array_member(json, name));
  if (array->size() > DLCKPT_MAX_DIMS) return corrupt(std::string(name) + " has more than 32 dimensions");
  Dims dims;
  for (const Json& value : *array) {
    DL_TRY_ASSIGN(const int64_t size, integer(value, 0, kMaxInt));
    dims.push_back(size);
  }
  return dims;
}

Result<Hash128> hash_value(const Json& json) {
  if (!json.is_string()) return corrupt("a checksum is missing");
  const auto hash = hash_from_hex(json.text());
  if (!hash) return corrupt("a checksum is not 32 hex digits");
  return *hash;
}

Result<const Json*> member(const Json& json, const char* name) {
  if (!json.is_object()) return corrupt(std::string("an object with ") + name + " was expected");
  const auto found = json.find(name);
  if (found == nullptr) return corrupt(std::string(name) + " is missing");
  return found;
}

// Reads [offset, length], which must lie behind the user block of a file of `size` bytes.
Result<Extent> extent_member(const Json& json, const char* name, int64_t size) {
  DL_TRY_ASSIGN(const Json* pair, array_member(json, name));
  if (pair->size() != 2) return corrupt(std::string("the place of a ") + name + " is not [offset, length]");
  DL_TRY_ASSIGN(const int64_t at, integer((*pair)[0], static_cast<int64_t>(kUserBlockBytes), size));
  DL_TRY_ASSIGN(const int64_t length, integer((*pair)[1], 0, size - at));
  return Extent{static_cast<uint64_t>(at), static_cast<uint64_t>(length)};
}

Result<ShardRecord> shard_from_json(const Json& json) {
  ShardRecord shard;
  DL_TRY_ASSIGN(const int64_t file, int_member(json, "file", 0, kMaxFiles - 1));
  shard.file = static_cast<size_t>(file);
  DL_TRY_ASSIGN(shard.h5_path, string_member(json, "h5", 4096));
  DL_TRY_ASSIGN(const int64_t at, int_member(json, "at", 0, kMaxInt));
  shard.at = static_cast<uint64_t>(at);
  DL_TRY_ASSIGN(shard.box.offset, dims_member(json, "offset"));
  DL_TRY_ASSIGN(shard.box.extent, dims_member(json, "extent"));
  return shard;
}

Json blocks_to_json(const std::vector<Block>& blocks) {
  Json rows = Json::array();
  for (const Block& block : blocks) rows.push_back({block.at, block.length, to_hex(block.hash)});
  return rows;
}

// Reads the member "blocks" of an object that describes a file of `size` bytes.
Result<std::vector<Block>> blocks_from_json(const Json& json, int64_t size) {
  DL_TRY_ASSIGN(const Json* rows, array_member(json, "blocks"));
  std::vector<Block> blocks;
  blocks.reserve(rows->size());
  for (const Json& row : *rows) {
    if (!row.is_array() || row.size() != 3) return corrupt("a block is not [offset, length, checksum]");
    Block block;
    DL_TRY_ASSIGN(const int64_t at, integer(row[0], 0, size));
    DL_TRY_ASSIGN(const int64_t length, integer(row[1], 1, static_cast<int64_t>(kMaxBlockBytes)));
    block.at = static_cast<uint64_t>(at);
    block.length = static_cast<uint64_t>(length);
    DL_TRY_ASSIGN(block.hash, hash_value(row[2]));
    blocks.push_back(block);
  }
  return blocks;
}

}  // namespace

std::optional<Json> parse_json(std::string_view text) {
  if (nests_too_deep(text)) return std::nullopt;
  Json json = Json::parse(text);
  if (json.is_broken()) return std::nullopt;
  return json;
}

Result<int64_t> int_member(const Json& json, const char* name, int64_t min, int64_t max) {
  DL_TRY_ASSIGN(const Json* value, member(json, name));
  auto number = integer(*value, min, max);
  if (!number) return std::move(number).error().with_context(name);
  return number;
}

Result<std::string> string_member(const Json& json, const char* name, size_t max_length) {
  DL_TRY_ASSIGN(const Json* value, member(json, name));
  if (!value->is_string()) return corrupt(std::string(name) + " is not text");
  const auto& text = value->text();
  if (text.size() > max_length) return corrupt(std::string(name) + " is too long");
  return text;
}

Result<const Json*> array_member(const Json& json, const char* name) {
  DL_TRY_ASSIGN(const Json* value, member(json, name));
  if (!value->is_array()) return corrupt(std::string(name) + " is not a list");
  return value;
}

Result<FileRecord> file_from_json(const Json& json) {
  FileRecord file;
  DL_TRY_ASSIGN(const std::string name, string_member(json, "name", 64));
  const auto parsed = parse_file_name(name);
  if (!parsed) return corrupt("a file is not called rNNNNN.h5 or rNNNNN.fN.h5");
  file.writer = parsed->writer;
  file.part = parsed->part;
  if (json.contains("origin")) {
    const Json& from = json.at("origin");
    DL_TRY_ASSIGN(const std::string save_id, string_member(from, "save_id", 16));
    const auto id = parse_save_id(save_id);
    if (!id) return corrupt("the save_id of an origin is not 16 hex digits");
    DL_TRY_ASSIGN(const int64_t step, int_member(from, "step", 0, kMaxStep));
    file.origin = CheckpointName{step, *id};
  }
  DL_TRY_ASSIGN(const int64_t size, int_member(json, "size", static_cast<int64_t>(kUserBlockBytes), kMaxInt));
  file.size = static_cast<uint64_t>(size);
  DL_TRY_ASSIGN(const Json* root, member(json, "root"));
  DL_TRY_ASSIGN(file.root, hash_value(*root));
  DL_TRY_ASSIGN(file.table, extent_member(json, "table", size));
  if (json.contains("packed")) {
    const Json& packed = json.at("packed");
    DL_TRY_ASSIGN(const int64_t count, int_member(packed, "count", 1, kMaxInt));
    file.packed = PackedRecord{static_cast<uint64_t>(count), {}, {}};
    DL_TRY_ASSIGN(file.packed->data, extent_member(packed, "data", size));
    DL_TRY_ASSIGN(file.packed->index, extent_member(packed, "index", size));
  }
  DL_TRY_ASSIGN(file.blocks, blocks_from_json(json, size));
  return file;
}

Result<TensorRecord> tensor_from_json(const Json& json) {
  TensorRecord tensor;
  DL_TRY_ASSIGN(tensor.path, string_member(json, "path", 512));
  DL_TRY_ASSIGN(const std::string dtype, string_member(json, "dtype", 32));
  tensor.dtype = find_dtype(std::string_view(dtype));
  if (!tensor.dtype) return corrupt("a tensor has an unknown dtype");
  DL_TRY_ASSIGN(tensor.shape, dims_member(json, "shape"));
  DL_TRY_ASSIGN(const Json* replicated, member(json, "replicated"));
  if (!replicated->is_boolean()) return corrupt("replicated is not true or false");
  tensor.replicated = replicated->get<bool>();
  DL_TRY_ASSIGN(const Json* shards, array_member(json, "shards"));
  tensor.shards.reserve(shards->size());
  for (const Json& item : *shards) {
    DL_TRY_ASSIGN(ShardRecord shard, shard_from_json(item));
    tensor.shards.push_back(std::move(shard));
  }
  return tensor;
}

Json blob_to_json(const BlobRecord& blob) {
  return Json{{"path", blob.path},  {"rank", blob.rank}, {"file", blob.file},
              {"h5", blob.h5_path}, {"at", blob.at},     {"size", blob.size}};
}

Result<BlobRecord> blob_from_json(const Json& json) {
  BlobRecord blob;
  DL_TRY_ASSIGN(blob.path, string_member(json, "path", 512));
  DL_TRY_ASSIGN(const int64_t rank, int_member(json, "rank", -1, kMaxRanks - 1));
  blob.rank = static_cast<int>(rank);
  DL_TRY_ASSIGN(const int64_t file, int_member(json, "file", 0, kMaxFiles - 1));
  blob.file = static_cast<size_t>(file);
  DL_TRY_ASSIGN(blob.h5_path, string_member(json, "h5", 4096));
  DL_TRY_ASSIGN(const int64_t at, int_member(json, "at", 0, kMaxInt));
  blob.at = static_cast<uint64_t>(at);
  DL_TRY_ASSIGN(const int64_t size, int_member(json, "size", 0, static_cast<int64_t>(kMaxBlobBytes)));
  blob.size = static_cast<uint64_t>(size);
  return blob;
}

Json member_to_json(const MemberRecord& member) {
  return Json{{"name", member.name}, {"rank", member.rank},         {"file", member.file},
              {"size", member.size}, {"root", to_hex(member.root)}, {"blocks", blocks_to_json(member.blocks)}};
}

Result<MemberRecord> member_from_json(const Json& json) {
  MemberRecord record;
  DL_TRY_ASSIGN(record.name, string_member(json, "name", 512));
  DL_TRY_ASSIGN(const int64_t rank, int_member(json, "rank", -1, kMaxRanks - 1));
  record.rank = static_cast<int>(rank);
  DL_TRY_ASSIGN(record.file, string_member(json, "file", 64));
  DL_TRY_ASSIGN(const int64_t size, int_member(json, "size", 0, kMaxInt));
  record.size = static_cast<uint64_t>(size);
  DL_TRY_ASSIGN(const Json* root, member(json, "root"));
  DL_TRY_ASSIGN(record.root, hash_value(*root));
  DL_TRY_ASSIGN(record.blocks, blocks_from_json(json, size));
  return record;
}

Result<std::map<std::string, double>> metrics_member(const Json& json, const char* name) {
  DL_TRY_ASSIGN(const Json* object, member(json, name));
  if (!object->is_object() || object->size() > kMaxMetrics)
    return corrupt(std::string(name) + " is not a list of numbers");
  std::map<std::string, double> metrics;
  for (const auto& [key, value] : object->members()) {
    if (!value.is_number()) return corrupt("a metric is not a number");
    metrics[key] = value.get<double>();
  }
  return metrics;
}

}  // namespace dl::ckpt
