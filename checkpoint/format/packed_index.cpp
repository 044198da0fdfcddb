// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/packed_index.h"

#include <algorithm>
#include <charconv>

#include "common/base/parse.h"

namespace dl::ckpt {
namespace {

constexpr std::string_view kReplicated = "replicated", kWhole = "whole";

Error corrupt(const std::string& what) {
  return Error{Errc::kCorrupt, "the index of packed tensors: " + what};
}

template <typename Integer>
void append_number(Integer value, std::string* out) {
  char digits[24];
  out->append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

// A number in the form of append_number(), at most kMaxBytes.
std::optional<uint64_t> number(std::string_view text) {
  if (text.size() > 1 && text.front() == '0') return std::nullopt;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > kMaxBytes) return std::nullopt;
  return value;
}

std::optional<Dims> shape_of(std::string_view text) {
  Dims shape;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const auto size = number(text.substr(0, comma));
    if (!size || shape.size() == DLCKPT_MAX_DIMS) return std::nullopt;
    shape.push_back(static_cast<int64_t>(*size));
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
    if (text.empty()) return std::nullopt;  // a comma at the end, "4,"
  }
  return shape;
}

// Takes a field up to the next tab; the last field ends with the line.
std::optional<std::string_view> next_field(std::string_view* line) {
  const size_t tab = line->find('\t');
  if (tab == std::string_view::npos) return std::nullopt;
  const std::string_view field = line->substr(0, tab);
  line->remove_prefix(tab + 1);
  return field;
}

Result<TensorRecord> tensor_of(std::string_view line, const PackedRecord& packed, size_t file) {
  const auto path = next_field(&line), dtype = next_field(&line), sizes = next_field(&line), place = next_field(&line);
  if (!path || !dtype || !sizes || !place || (line != kReplicated && line != kWhole))
    return corrupt("a line is not name, dtype, shape, offset, and 'replicated' or 'whole'");
  if (auto named = check_path(*path); !named) return corrupt(named.error().text);
  TensorRecord tensor;
  tensor.path = *path;
  tensor.packed = true;
  tensor.replicated = line == kReplicated;
  tensor.dtype = find_dtype(*dtype);
  auto shape = shape_of(*sizes);
  const auto at = number(*place);
  if (!tensor.dtype || !shape || !at)
    return corrupt("the dtype, shape or offset of " + printable(*path) + " cannot be read");
  tensor.shape = *std::move(shape);
  const auto elements = volume(tensor.shape);
  if (!elements || *elements > kMaxBytes / tensor.dtype->size) return corrupt(printable(*path) + " is too large");
  const uint64_t bytes = *elements * tensor.dtype->size;
  if (*at > packed.data.length || bytes > packed.data.length - *at)
    return corrupt(printable(*path) + " lies outside the data");
  ShardRecord shard;
  shard.file = file;
  shard.at = packed.data.at + *at;
  shard.box = whole(tensor.shape);
  tensor.shards.push_back(std::move(shard));
  return tensor;
}

}  // namespace

void append_packed_line(std::string_view path, const DtypeInfo& dtype, const Dims& shape, bool replicated, uint64_t at,
                        std::string* index) {
  index->append(path).append(1, '\t').append(dtype.name).append(1, '\t');
  for (size_t d = 0; d < shape.size(); ++d) {
    if (d > 0) index->append(1, ',');
    append_number(shape[d], index);
  }
  index->append(1, '\t');
  append_number(at, index);
  index->append(1, '\t').append(replicated ? kReplicated : kWhole).append(1, '\n');
}

Status parse_packed_index(std::string_view index, const PackedRecord& packed, size_t file,
                          std::vector<TensorRecord>* tensors) {
  const size_t first = tensors->size();
  const auto lines = static_cast<uint64_t>(std::count(index.begin(), index.end(), '\n'));
  if (lines != packed.count)
    return corrupt("it has " + std::to_string(lines) + " lines for " + std::to_string(packed.count) + " tensors");
  tensors->reserve(first + lines);
  while (!index.empty()) {
    const size_t end = index.find('\n');
    if (end == std::string_view::npos) return corrupt("its last line has no end");
    DL_TRY_ASSIGN(TensorRecord tensor, tensor_of(index.substr(0, end), packed, file));
    if (tensors->size() > first && !(tensors->back().path < tensor.path))
      return corrupt("it is not sorted by name, or names a tensor twice");
    tensors->push_back(std::move(tensor));
    index.remove_prefix(end + 1);
  }
  return {};
}

}  // namespace dl::ckpt
