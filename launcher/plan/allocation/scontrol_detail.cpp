// SPDX-License-Identifier: Apache-2.0
// What the environment leaves open, from `scontrol show job -d`. scontrol quotes nothing, so a job's own name can hold
// "EndTime=": the first occurrence of a key counts, and who forges one in his own job's name deceives himself.
#include <algorithm>
#include <ctime>

#include <map>
#include <optional>
#include <string_view>

#include "launcher/common/hostlist.h"
#include "launcher/common/parse.h"
#include "launcher/plan/allocation/allocation.h"

namespace dl::plan {
namespace {

constexpr size_t kMaxText = 16UL << 20;

// Where "KEY=" begins at the start of the line or after a blank, from `from` on; npos if nowhere.
size_t find_key(std::string_view line, std::string_view key, size_t from) {
  while (from < line.size()) {
    const size_t at = line.find(key, from);
    if (at == std::string_view::npos) return at;
    const size_t end = at + key.size();
    if ((at == 0 || line[at - 1] == ' ') && end < line.size() && line[end] == '=') return at;
    from = at + 1;
  }
  return std::string_view::npos;
}

// The word after "KEY=", up to the next blank; empty if the key is not there.
std::string_view word(std::string_view line, std::string_view key) {
  const size_t at = find_key(line, key, 0);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = line.substr(at + key.size() + 1);
  return rest.substr(0, rest.find(' '));
}

std::optional<int64_t> read_time(std::string_view text) {
  auto seconds = parse_int(text, 0, INT64_MAX);
  if (seconds) return *seconds;
  struct tm fields = {};
  const std::string copy(text);
  const char* end = ::strptime(copy.c_str(), "%Y-%m-%dT%H:%M:%S", &fields);
  if (end == nullptr || *end != '\0') return std::nullopt;
  fields.tm_isdst = -1;
  const time_t value = ::mktime(&fields);
  return value < 0 ? std::nullopt : std::optional<int64_t>(value);
}

// "gpu:2(IDX:0-1)", "gpu:a100:1(IDX:0),gpu:v100:2(IDX:1,3),shard:8" -> GPUs.
int count_gpus(std::string_view gres) {
  std::string flat;  // without what stands in parentheses, which may hold commas
  int depth = 0;
  for (const char c : gres) {
    if (c == '(') ++depth;
    if (depth == 0) flat += c;
    if (c == ')' && depth > 0) --depth;
  }
  int64_t sum = 0;
  for (const std::string& item : split(flat, ',')) {
    if (item.rfind("gpu:", 0) != 0) continue;
    auto count = parse_int(item.substr(item.rfind(':') + 1), 0, 1000000);
    if (count) sum += *count;
  }
  return static_cast<int>(std::min<int64_t>(sum, 1000000));
}

// "Nodes=n[1-2] CPU_IDs=0-1 Mem=0 GRES=gpu:2(IDX:0-1)", once for each group of nodes that are alike.
void read_gpus_by_node(std::string_view line, std::map<std::string, int>* gpus) {
  size_t at = find_key(line, "Nodes", 0);
  while (at != std::string_view::npos) {
    const size_t next = find_key(line, "Nodes", at + 1);
    const std::string_view group = line.substr(at, next == std::string_view::npos ? next : next - at);
    // CPU_IDs= tells it from anything else called so.
    if (!word(group, "CPU_IDs").empty()) {
      auto names = expand_hostlist(word(group, "Nodes"));
      if (names) {
        for (const std::string& name : *names) (*gpus)[name] = count_gpus(word(group, "GRES"));
      }
    }
    at = next;
  }
}

}  // namespace

Status refine_from_scontrol(const std::string& text, Allocation* allocation) {
  if (text.size() > kMaxText) return Error{Errc::kInvalid, "scontrol printed more than 16 MiB about one job"};
  std::string line = text;
  std::replace(line.begin(), line.end(), '\n', ' ');
  if (line.rfind("JobId=", 0) != 0) {
    return Error{Errc::kInvalid, "scontrol printed no job but '" + printable(line) + "'"};
  }
  if (auto end = read_time(word(line, "EndTime"))) allocation->end_time_s = end;
  std::map<std::string, int> gpus;
  read_gpus_by_node(line, &gpus);
  for (Node& node : allocation->nodes) {
    auto found = gpus.find(node.name);
    if (found != gpus.end()) node.gpus = found->second;
  }
  return {};
}

}  // namespace dl::plan
