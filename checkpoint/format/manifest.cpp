// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/manifest.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "checkpoint/format/manifest_json.h"
#include "checkpoint/format/manifest_scan.h"
#include "checkpoint/format/manifest_text.h"
#include "checkpoint/format/user_block.h"
#include "common/base/parse.h"
#include "common/contract/request_values.h"

namespace dl::ckpt {
namespace {

// The manifest ends with exactly these two texts, with the digits between them. The digits are the hash of the whole
// text with zeros in their place.
constexpr std::string_view kChecksumHead = "\"checksum\": \"";
constexpr std::string_view kChecksumTail = "\"\n}\n";

Error corrupt(const std::string& what) {
  return Error{Errc::kCorrupt, what};
}

// The place of the digits of the self-checksum, or npos.
size_t checksum_at(std::string_view text) {
  const size_t tail = kHashHexDigits + kChecksumTail.size();
  if (text.size() < tail + kChecksumHead.size()) return std::string_view::npos;
  const size_t at = text.size() - tail;
  if (text.substr(at + kHashHexDigits) != kChecksumTail) return std::string_view::npos;
  if (text.substr(at - kChecksumHead.size(), kChecksumHead.size()) != kChecksumHead) return std::string_view::npos;
  return at;
}

void append_json(const BlobRecord& blob, std::string* out) {
  *out += blob_to_json(blob).dump_sorted();
}
void append_json(const MemberRecord& member, std::string* out) {
  *out += member_to_json(member).dump_sorted();
}

bool stands_elsewhere(const TensorRecord& tensor) {
  return tensor.packed;
}
template <typename Record>
bool stands_elsewhere(const Record& /*record*/) {
  return false;
}

template <typename Record>
void append_list(std::string* text, const char* name, const std::vector<Record>& records) {
  *text += std::string("\"") + name + "\": [";
  const char* before = "\n  ";
  for (const Record& record : records) {
    if (stands_elsewhere(record)) continue;
    *text += std::exchange(before, ",\n  ");
    append_json(record, text);
  }
  *text += "\n],\n";
}

// Whether `bytes` of data at `at` lie in the file, outside its user block and block table.
bool data_fits(const Manifest& manifest, size_t file, uint64_t at, uint64_t bytes) {
  if (file >= manifest.files.size()) return false;
  if (bytes == 0) return true;
  const FileRecord& record = manifest.files[file];
  if (at < kUserBlockBytes || at > record.size || bytes > record.size - at) return false;
  return at + bytes <= record.table.at || at >= record.table.end();
}

// The shortest line, "a<TAB>bool<TAB><TAB>0<TAB>whole<NEWLINE>". It bounds the number of tensors before memory for them
// is allocated.
constexpr uint64_t kLeastPackedLine = 16;

Status check_packed(const FileRecord& file) {
  const PackedRecord& packed = *file.packed;
  if (file.part != 0) return corrupt("a file of what does not change has packed tensors");
  if (packed.count == 0 || packed.index.length > kMaxPackedIndexBytes ||
      packed.count > packed.index.length / kLeastPackedLine)
    return corrupt("the number of its packed tensors, or the length of their index, cannot be");
  for (const Extent& place : {packed.data, packed.index}) {
    if (place.length == 0) continue;
    if (place.at < kUserBlockBytes || place.at > file.size || place.length > file.size - place.at ||
        (place.at < file.table.end() && file.table.at < place.end()))
      return corrupt("its packed tensors lie outside it");
  }
  return {};
}

Status check_file(const FileRecord& file) {
  if (file.size > kMaxBytes || file.size < kUserBlockBytes || file.table.at < kUserBlockBytes ||
      file.table.at > file.size || file.table.length > file.size - file.table.at)
    return corrupt("its sizes do not fit together");
  if (file.blocks.size() > file.table.length / kTableRowBytes) return corrupt("it has more blocks than table rows");
  DL_TRY(check_table(file.blocks, kUserBlockBytes, file.size, file.table));
  if (table_root(file.blocks) != file.root) return corrupt("its root checksum is not that of its blocks");
  return file.packed ? check_packed(file) : Status();
}

Status check_tensor(const Manifest& manifest, const TensorRecord& tensor) {
  DL_TRY(check_path(tensor.path));
  const auto elements = volume(tensor.shape);
  if (!elements || *elements > kMaxBytes / tensor.dtype->size) return corrupt("it is too large");
  std::vector<Box> boxes;
  boxes.reserve(tensor.shards.size());
  for (const ShardRecord& shard : tensor.shards) {
    if (!within(shard.box, tensor.shape)) return corrupt("a part lies outside its shape");
    const uint64_t bytes = volume(shard.box.extent).value_or(0) * tensor.dtype->size;
    if (!data_fits(manifest, shard.file, shard.at, bytes)) return corrupt("a part lies outside its file");
    boxes.push_back(shard.box);
  }
  return check_cover(tensor.shape, boxes);
}

Status check_blob(const Manifest& manifest, const BlobRecord& blob) {
  DL_TRY(check_path(blob.path));
  if (blob.size > kMaxBlobBytes || !data_fits(manifest, blob.file, blob.at, blob.size))
    return corrupt("it lies outside its file");
  if (blob.rank < -1 || blob.rank >= manifest.world_size)
    return corrupt("it belongs to rank " + std::to_string(blob.rank) + ", and the world size is " +
                   std::to_string(manifest.world_size));
  return {};
}

Status check_member(const Manifest& manifest, const MemberRecord& member) {
  DL_TRY(check_path(member.name));
  const auto file = parse_member_file_name(member.file);
  if (!file || file->writer >= static_cast<uint32_t>(manifest.world_size))
    return corrupt("its file '" + printable(member.file, 40) +
                   "' is not called mNNNNN.NNNN, or NNNNN is not a rank below the world size");
  if (member.rank < -1 || member.rank >= manifest.world_size)
    return corrupt("it belongs to rank " + std::to_string(member.rank) + ", and the world size is " +
                   std::to_string(manifest.world_size));
  if (member.size > kMaxBytes) return corrupt("it is too large");
  DL_TRY(check_table(member.blocks, 0, member.size, Extent{member.size, 0}));
  if (table_root(member.blocks) != member.root) return corrupt("its root checksum is not that of its blocks");
  return {};
}

bool member_before(const MemberRecord& a, const MemberRecord& b) {
  return a.name != b.name ? a.name < b.name : a.rank < b.rank;
}

Status check_members(const Manifest& manifest, uint64_t total) {
  std::set<std::string> files;
  for (size_t i = 0; i < manifest.members.size(); ++i) {
    const MemberRecord& member = manifest.members[i];
    if (i > 0 && !member_before(manifest.members[i - 1], member))
      return corrupt("its members are not sorted by name and rank, or one is there twice");
    auto checked = check_member(manifest, member);
    if (!checked) return std::move(checked).error().with_context(printable(member.name));
    if (!files.insert(member.file).second) return corrupt("two members have the same file " + member.file);
    total += member.size;
    if (total > kMaxBytes) return corrupt("it is larger than any checkpoint");
  }
  return {};
}

Status check_metrics(const Manifest& manifest) {
  if (manifest.metrics.size() > kMaxMetrics)
    return corrupt("it has " + std::to_string(manifest.metrics.size()) + " metrics, more than " +
                   std::to_string(kMaxMetrics));
  for (const auto& [name, value] : manifest.metrics)
    if (!is_metric_name(name) || !std::isfinite(value))
      return corrupt("the metric '" + printable(name, 80) + "' has a malformed name, or no finite value");
  return {};
}

bool blob_before(const BlobRecord& a, const BlobRecord& b) {
  return a.path != b.path ? a.path < b.path : a.rank < b.rank;
}

}  // namespace

const TensorRecord* Manifest::find_tensor(std::string_view path) const {
  const auto at = std::lower_bound(tensors.begin(), tensors.end(), path,
                                   [](const TensorRecord& record, std::string_view key) { return record.path < key; });
  return at != tensors.end() && at->path == path ? &*at : nullptr;
}

uint64_t Manifest::total_bytes() const {
  uint64_t total = 0;
  for (const FileRecord& file : files) total += file.size;
  for (const MemberRecord& member : members) total += member.size;
  return total;
}

uint64_t Manifest::new_bytes() const {
  uint64_t total = total_bytes();
  for (const FileRecord& file : files)
    if (file.origin) total -= file.size;
  return total;
}

uint64_t Manifest::tensor_count() const {
  uint64_t count = 0;
  for (const TensorRecord& tensor : tensors) count += tensor.packed ? 0 : 1;
  for (const FileRecord& file : files)
    if (file.packed) count += file.packed->count;
  return count;
}

// The lowest schema that can express the manifest, so that older programs can read it if possible.
int Manifest::schema() const {
  if (std::any_of(files.begin(), files.end(), [](const FileRecord& file) { return file.packed.has_value(); })) return 3;
  const bool shared =
      std::any_of(files.begin(), files.end(), [](const FileRecord& file) { return file.part != 0 || file.origin; });
  return shared || !members.empty() || !metrics.empty() ? 2 : 1;
}

std::string format_manifest(const Manifest& manifest) {
  std::string text = "{\n";
  const auto add = [&](const char* name, const Json& value) {
    text += std::string("\"") + name + "\": " + value.dump_sorted() + ",\n";
  };
  const int schema = manifest.schema();
  add("schema", schema);
  add("save_id", format_save_id(manifest.name.save_id));
  add("step", manifest.name.step);
  add("world_size", manifest.world_size);
  add("created_ms", manifest.created_ms);
  add("writer", manifest.writer);
  add("run_id", manifest.run_id);
  append_list(&text, "files", manifest.files);
  append_list(&text, "tensors", manifest.tensors);
  append_list(&text, "blobs", manifest.blobs);
  if (schema >= 2) {
    append_list(&text, "members", manifest.members);
    add("metrics", Json(manifest.metrics));
  }
  text += kChecksumHead;
  const size_t at = text.size();
  text += std::string(kHashHexDigits, '0');
  text += kChecksumTail;
  const std::string digits = to_hex(hash_bytes(text.data(), text.size()));
  text.replace(at, kHashHexDigits, digits);
  return text;
}

namespace {

Status check_text(std::string_view text) {
  if (text.size() > kMaxManifestBytes) return corrupt("it is larger than any manifest");
  const size_t at = checksum_at(text);
  if (at == std::string_view::npos) return corrupt("it does not end with its checksum: cut off, or not a manifest");
  const std::string zeros(kHashHexDigits, '0');
  const std::string_view rest = text.substr(at + kHashHexDigits);
  Hasher hasher;
  hasher.update(text.data(), at);
  hasher.update(zeros.data(), zeros.size());
  hasher.update(rest.data(), rest.size());
  if (text.substr(at, kHashHexDigits) != to_hex(hasher.digest())) return corrupt("its checksum is wrong");
  return {};
}

// The text that replaces a list that was cut out. No real list contains it, since their items are objects.
constexpr std::string_view kCut = "cut";

bool is_cut(const Json* list) {
  return list && list->is_array() && list->size() == 1 && (*list)[0].is_string() && (*list)[0].text() == kCut;
}

// Cuts a list out of the text, if it is laid out as format_manifest() does it: `list` gets the lines of its items; the
// remaining text is returned, with kCut in place of the list. A forger may have put the same characters elsewhere: see
// is_cut().
std::optional<std::string> cut_list(std::string_view text, const char* name, std::string_view* list) {
  const std::string head = std::string("\n\"") + name + "\": [";
  const size_t at = text.find(head);
  if (at == std::string_view::npos) return std::nullopt;
  const size_t begin = at + head.size();
  const size_t end = text.find("\n],\n", begin);
  if (end == std::string_view::npos) return std::nullopt;
  *list = text.substr(begin, end - begin);
  return std::string(text.substr(0, begin)) + '"' + std::string(kCut) + '"' + std::string(text.substr(end));
}

std::optional<TensorRecord> tensor_of_line(std::string_view line) {
  if (auto scanned = scan_tensor(line)) return scanned;
  const auto json = parse_json(line);
  if (!json) return std::nullopt;
  auto tensor = tensor_from_json(*json);
  if (!tensor) return std::nullopt;
  return *std::move(tensor);
}

std::optional<FileRecord> file_of_line(std::string_view line) {
  std::string rest;
  auto blocks = scan_blocks(line, &rest);
  const auto json = parse_json(blocks ? std::string_view(rest) : line);
  if (!json) return std::nullopt;
  auto file = file_from_json(*json);
  if (!file) return std::nullopt;
  if (!blocks) return *std::move(file);
  for (const Block& block : *blocks)
    if (block.at > file->size) return std::nullopt;
  file->blocks = *std::move(blocks);
  return *std::move(file);
}

// Reads one value from each line of such a list: parsed as one JSON value, a million of them would take gigabytes. None
// if a line is anything else.
template <typename Record>
std::optional<std::vector<Record>> records_of_lines(std::string_view list,
                                                    std::optional<Record> (*read)(std::string_view line)) {
  std::vector<Record> records;
  while (!list.empty()) {
    if (list.front() != '\n') return std::nullopt;
    const size_t end = std::min(list.find('\n', 1), list.size());
    std::string_view line = list.substr(1, end - 1);
    list.remove_prefix(end);
    if (!list.empty()) {
      if (line.empty() || line.back() != ',') return std::nullopt;
      line.remove_suffix(1);
    }
    const size_t indent = line.find_first_not_of(' ');
    if (indent != std::string_view::npos) line.remove_prefix(indent);
    auto record = read(line);
    if (!record) return std::nullopt;
    records.push_back(*std::move(record));
  }
  return records;
}

// which lists are still to be read from the JSON value (kNeither: neither tensors nor blobs)
enum class Lists { kAll, kNoTensors, kNeither };

// Lists that were read already are passed in.
Result<Manifest> manifest_from_json(const Json& json, Lists lists, std::vector<TensorRecord> tensors_read = {},
                                    std::optional<std::vector<FileRecord>> files_read = std::nullopt) {
  DL_TRY_ASSIGN(const int64_t schema, int_member(json, "schema", 1, INT32_MAX));
  if (schema > kManifestSchema)
    return Error{Errc::kUnsupported, "it has schema version " + std::to_string(schema) +
                                         "; this program reads versions up to " + std::to_string(kManifestSchema)};
  Manifest manifest;
  DL_TRY_ASSIGN(const std::string save_id, string_member(json, "save_id", 16));
  const auto id = parse_save_id(save_id);
  if (!id) return corrupt("save_id is not 16 hex digits");
  manifest.name.save_id = *id;
  DL_TRY_ASSIGN(manifest.name.step, int_member(json, "step", 0, kMaxStep));
  DL_TRY_ASSIGN(const int64_t world_size, int_member(json, "world_size", 1, kMaxRanks));
  manifest.world_size = static_cast<int>(world_size);
  DL_TRY_ASSIGN(manifest.created_ms, int_member(json, "created_ms", 0, INT64_MAX));
  DL_TRY_ASSIGN(manifest.writer, string_member(json, "writer", 256));
  DL_TRY_ASSIGN(manifest.run_id, string_member(json, "run_id", 256));
  DL_TRY_ASSIGN(const Json* files, array_member(json, "files"));
  DL_TRY_ASSIGN(const Json* tensors, array_member(json, "tensors"));
  DL_TRY_ASSIGN(const Json* blobs, array_member(json, "blobs"));
  if (files_read) {
    manifest.files = *std::move(files_read);
  } else {
    for (const Json& item : *files) {
      DL_TRY_ASSIGN(FileRecord file, file_from_json(item));
      manifest.files.push_back(std::move(file));
    }
  }
  manifest.tensors = std::move(tensors_read);
  if (lists == Lists::kAll)
    for (const Json& item : *tensors) {
      DL_TRY_ASSIGN(TensorRecord tensor, tensor_from_json(item));
      manifest.tensors.push_back(std::move(tensor));
    }
  if (lists != Lists::kNeither)
    for (const Json& item : *blobs) {
      DL_TRY_ASSIGN(BlobRecord blob, blob_from_json(item));
      manifest.blobs.push_back(std::move(blob));
    }
  if (schema >= 2 && json.contains("members")) {
    DL_TRY_ASSIGN(const Json* members, array_member(json, "members"));
    for (const Json& item : *members) {
      DL_TRY_ASSIGN(MemberRecord member, member_from_json(item));
      manifest.members.push_back(std::move(member));
    }
    DL_TRY_ASSIGN(manifest.metrics, metrics_member(json, "metrics"));
  }
  auto checked = check_manifest(manifest);
  if (!checked) return corrupt(checked.error().text);
  return manifest;
}

}  // namespace

Result<Manifest> parse_manifest(std::string_view text) {
  DL_TRY(check_text(text));
  std::string_view tensor_lines, file_lines;
  if (const auto without_tensors = cut_list(text, "tensors", &tensor_lines)) {
    const auto rest = cut_list(*without_tensors, "files", &file_lines);
    const auto json = parse_json(rest ? *rest : *without_tensors);
    if (json && is_cut(json->find("tensors"))) {
      auto tensors = records_of_lines(tensor_lines, tensor_of_line);
      std::optional<std::vector<FileRecord>> files;
      if (rest && is_cut(json->find("files"))) files = records_of_lines(file_lines, file_of_line);
      if (tensors && (files || !rest))
        return manifest_from_json(*json, Lists::kNoTensors, *std::move(tensors), std::move(files));
    }
  }
  const auto json = parse_json(text);
  if (!json) return corrupt("it is not JSON");
  return manifest_from_json(*json, Lists::kAll);
}

Result<Manifest> parse_manifest_outline(std::string_view text) {
  DL_TRY(check_text(text));
  std::string_view tensor_lines, file_lines;
  if (const auto without_tensors = cut_list(text, "tensors", &tensor_lines)) {
    const auto rest = cut_list(*without_tensors, "files", &file_lines);
    const auto json = parse_json(rest ? *rest : *without_tensors);
    if (json && is_cut(json->find("tensors"))) {
      std::optional<std::vector<FileRecord>> files;
      if (rest && is_cut(json->find("files"))) files = records_of_lines(file_lines, file_of_line);
      if (files || !rest)
        if (auto manifest = manifest_from_json(*json, Lists::kNeither, {}, std::move(files))) return manifest;
    }
  }
  const auto json = parse_json(text);
  if (!json) return corrupt("it is not JSON");
  return manifest_from_json(*json, Lists::kNeither);
}

Status check_manifest(const Manifest& manifest) {
  if (manifest.files.empty() || manifest.files.size() > static_cast<size_t>(kMaxFiles))
    return corrupt("it names " + std::to_string(manifest.files.size()) + " files, which is none or too many");
  uint64_t total = 0;
  for (size_t i = 0; i < manifest.files.size(); ++i) {
    const FileRecord& file = manifest.files[i];
    if (i > 0 &&
        !(FileName{manifest.files[i - 1].writer, manifest.files[i - 1].part} < FileName{file.writer, file.part}))
      return corrupt("its files are not sorted by rank");
    if (file.writer >= static_cast<uint32_t>(manifest.world_size))
      return corrupt(file.name() + " is of rank " + std::to_string(file.writer) + ", and the world size is " +
                     std::to_string(manifest.world_size));
    auto checked = check_file(file);
    if (!checked) return std::move(checked).error().with_context(file.name());
    total += file.size;
    if (total > kMaxBytes) return corrupt("it is larger than any checkpoint");
  }
  for (size_t i = 0; i < manifest.tensors.size(); ++i) {
    if (i > 0 && !(manifest.tensors[i - 1].path < manifest.tensors[i].path))
      return corrupt("its tensors are not sorted by name, or one is named twice");
    auto checked = check_tensor(manifest, manifest.tensors[i]);
    if (!checked) return std::move(checked).error().with_context(printable(manifest.tensors[i].path));
  }
  for (size_t i = 0; i < manifest.blobs.size(); ++i) {
    if (i > 0 && !blob_before(manifest.blobs[i - 1], manifest.blobs[i]))
      return corrupt("its blobs are not sorted by name and rank, or one is there twice");
    auto checked = check_blob(manifest, manifest.blobs[i]);
    if (!checked) return std::move(checked).error().with_context(printable(manifest.blobs[i].path));
  }
  DL_TRY(check_members(manifest, total));
  return check_metrics(manifest);
}

}  // namespace dl::ckpt
