// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/manifest_scan.h"

#include <charconv>

namespace dl::ckpt {
namespace {

constexpr auto kMaxInt = static_cast<int64_t>(kMaxBytes);
constexpr std::string_view kBlocksHead = "{\"blocks\":[";

// Reads from the front of a text. Each function returns false if the text does not begin with what it reads.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}
  std::string_view rest() const { return rest_; }

  bool take(std::string_view literal) {
    if (rest_.substr(0, literal.size()) != literal) return false;
    rest_.remove_prefix(literal.size());
    return true;
  }
  template <typename Integer>
  bool number(Integer min, Integer max, Integer* out) {
    const char* const end = rest_.data() + rest_.size();
    const auto [after, error] = std::from_chars(rest_.data(), end, *out);
    if (error != std::errc() || *out < min || *out > max) return false;
    const auto length = static_cast<size_t>(after - rest_.data());
    const bool canonical = rest_.front() >= '0' && rest_.front() <= '9' && (rest_.front() != '0' || length == 1);
    // A number such as 1.5 or 1e3 is not an integer, so it is left to the JSON reader.
    if (!canonical || (after != end && *after != ',' && *after != ']' && *after != '}')) return false;
    rest_.remove_prefix(length);
    return true;
  }
  // Reads a text in quotes.
  bool text(size_t most, std::string_view* out) {
    if (!take("\"")) return false;
    size_t n = 0;
    while (n < rest_.size() && rest_[n] != '"') {
      // char may be signed or unsigned, depending on the machine.
      const auto byte = static_cast<unsigned char>(rest_[n]);
      if (byte < 0x20 || byte > 0x7e || byte == '\\') return false;
      ++n;
    }
    if (n == rest_.size() || n > most) return false;
    *out = rest_.substr(0, n);
    rest_.remove_prefix(n + 1);
    return true;
  }
  bool dims(Dims* out) {
    if (!take("[")) return false;
    while (!take("]")) {
      int64_t size = 0;
      if (!out->empty() && !take(",")) return false;
      if (!number(int64_t{0}, kMaxInt, &size) || out->size() == DLCKPT_MAX_DIMS) return false;
      out->push_back(size);
    }
    return true;
  }

 private:
  std::string_view rest_;
};

bool scan_shard(Scanner* from, ShardRecord* shard) {
  std::string_view h5_path;
  const bool taken = from->take("{\"at\":") && from->number(uint64_t{0}, uint64_t{kMaxBytes}, &shard->at) &&
                     from->take(",\"extent\":") && from->dims(&shard->box.extent) && from->take(",\"file\":") &&
                     from->number(size_t{0}, static_cast<size_t>(kMaxFiles - 1), &shard->file) &&
                     from->take(",\"h5\":") && from->text(4096, &h5_path) && from->take(",\"offset\":") &&
                     from->dims(&shard->box.offset) && from->take("}");
  if (taken) shard->h5_path = h5_path;
  return taken;
}

}  // namespace

std::optional<TensorRecord> scan_tensor(std::string_view text) {
  Scanner from(text);
  TensorRecord tensor;
  std::string_view dtype, path;
  if (!from.take("{\"dtype\":") || !from.text(32, &dtype) || !from.take(",\"path\":") || !from.text(512, &path))
    return std::nullopt;
  tensor.dtype = find_dtype(dtype);
  tensor.path = path;
  if (!tensor.dtype) return std::nullopt;
  tensor.replicated = from.take(",\"replicated\":true");
  if (!tensor.replicated && !from.take(",\"replicated\":false")) return std::nullopt;
  if (!from.take(",\"shape\":") || !from.dims(&tensor.shape) || !from.take(",\"shards\":[")) return std::nullopt;
  while (!from.take("]")) {
    ShardRecord shard;
    if (!tensor.shards.empty() && !from.take(",")) return std::nullopt;
    if (!scan_shard(&from, &shard)) return std::nullopt;
    tensor.shards.push_back(std::move(shard));
  }
  if (from.rest() != "}") return std::nullopt;
  return tensor;
}

std::optional<std::vector<Block>> scan_blocks(std::string_view file, std::string* rest) {
  Scanner from(file);
  std::vector<Block> blocks;
  if (!from.take(kBlocksHead)) return std::nullopt;
  while (!from.take("]")) {
    Block block;
    std::string_view hash;
    if (!blocks.empty() && !from.take(",")) return std::nullopt;
    if (!from.take("[") || !from.number(uint64_t{0}, uint64_t{kMaxBytes}, &block.at) || !from.take(",") ||
        !from.number(uint64_t{1}, uint64_t{kMaxBlockBytes}, &block.length) || !from.take(",") ||
        !from.text(kHashHexDigits, &hash) || !from.take("]"))
      return std::nullopt;
    const auto value = hash_from_hex(hash);
    if (!value) return std::nullopt;
    block.hash = *value;
    blocks.push_back(block);
  }
  // The text may contain a second list of this name, whose spelling may use escapes.
  if (from.rest().find("blocks") != std::string_view::npos || from.rest().find('\\') != std::string_view::npos)
    return std::nullopt;
  *rest = std::string(kBlocksHead) + "]" + std::string(from.rest());
  return blocks;
}

}  // namespace dl::ckpt
