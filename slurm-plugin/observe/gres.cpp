// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/observe/gres.h"

#include <algorithm>
#include <optional>

#include "common/base/parse.h"

namespace dl::observe {
namespace {

// Splits at commas outside brackets: "gpu:a100:2(IDX:0,2),shard:1".
std::vector<std::string_view> entries(std::string_view text) {
  std::vector<std::string_view> found;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '(') ++depth;
    if (i < text.size() && text[i] == ')') depth = std::max(0, depth - 1);
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      found.push_back(trim(text.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  return found;
}

std::optional<GpuCount> parse_entry(std::string_view entry, bool* tres) {
  entry = entry.substr(0, entry.find('('));
  *tres = false;
  for (const std::string_view prefix : {"gres:", "gres/"}) {
    if (entry.substr(0, prefix.size()) != prefix) continue;
    entry.remove_prefix(prefix.size());
    *tres = prefix.back() == '/';
  }
  constexpr std::string_view kGpu = "gpu";
  if (entry.substr(0, kGpu.size()) != kGpu) return std::nullopt;
  entry.remove_prefix(kGpu.size());
  GpuCount gpus;
  gpus.count = 1;
  if (entry.empty()) return gpus;
  // another GRES whose name begins alike: "gpumem:4"
  if (entry.front() != ':' && entry.front() != '=') return std::nullopt;
  bool counted = false;
  while (!entry.empty()) {
    const bool is_count = entry.front() == '=';
    entry.remove_prefix(1);
    const size_t end = std::min(entry.find_first_of(":="), entry.size());
    const std::string_view word = entry.substr(0, end);
    entry.remove_prefix(end);
    const auto number = parse_int(word, 0, kMaxGpusOfNode);
    // In "gpu:4" the number at the end is the count, even if a type has such a name.
    if (number && entry.empty()) {
      gpus.count = static_cast<int>(*number);
      counted = true;
    } else if (is_count || !gpus.type.empty() || !is_plain_name(word)) {
      return std::nullopt;
    } else {
      gpus.type = std::string(word);
    }
  }
  if (!counted && gpus.type.empty()) return std::nullopt;
  if (gpus.count == 0) return std::nullopt;
  return gpus;
}

}  // namespace

std::vector<GpuCount> parse_gpus(std::string_view text) {
  std::vector<GpuCount> found;
  bool sums = false;
  for (const std::string_view entry : entries(text)) {
    bool tres = false;
    const auto gpus = parse_entry(entry, &tres);
    if (!gpus) continue;
    sums = sums || tres;
    auto same = std::find_if(found.begin(), found.end(), [&](const GpuCount& g) { return g.type == gpus->type; });
    if (same == found.end()) {
      found.push_back(*gpus);
    } else {
      same->count = std::min(kMaxGpusOfNode, same->count + gpus->count);
    }
  }
  const auto untyped = std::find_if(found.begin(), found.end(), [](const GpuCount& g) { return g.type.empty(); });
  if (sums && untyped != found.end() && found.size() > 1) {
    int typed = 0;
    for (const GpuCount& gpus : found) typed += gpus.type.empty() ? 0 : gpus.count;
    untyped->count = std::max(0, untyped->count - typed);
    if (untyped->count == 0) found.erase(untyped);
  }
  return found;
}

int total(const std::vector<GpuCount>& gpus) {
  int sum = 0;
  for (const GpuCount& count : gpus) sum += count.count;
  return sum;
}

}  // namespace dl::observe
