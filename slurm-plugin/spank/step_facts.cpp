// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/spank/step_facts.h"

#include <algorithm>

#include "common/base/hostlist.h"

namespace dl {
namespace {

constexpr int kFirstPort = 16384;
constexpr int kPorts = 16000;

}  // namespace

std::string learners_on_command_line(const std::string& line) {
  const std::string flag = "--dl-learners";
  std::string found;
  bool next = false;
  size_t start = 0;
  while (start < line.size()) {
    size_t end = line.find('\0', start);
    if (end == std::string::npos) end = line.size();
    const std::string word = line.substr(start, end - start);
    start = end + 1;
    if (next) {
      found = word;
      next = false;
    } else if (word == "--") {
      break;
    } else if (word == flag) {
      next = true;
    } else if (word.compare(0, flag.size() + 1, flag + "=") == 0) {
      found = word.substr(flag.size() + 1);
    }
  }
  return found;
}

bool has_option(const std::string& line, const std::string& option) {
  for (size_t start = 0; start < line.size();) {
    const size_t end = std::min(line.find('\0', start), line.size());
    const std::string word = line.substr(start, end - start);
    start = end + 1;
    if (word == "--") return false;
    if (word == option || word.rfind(option + "=", 0) == 0) return true;
  }
  return false;
}

bool script_has_option(const std::string& script, const std::string& option) {
  const std::string mark = "#SBATCH";
  if (script.rfind("#!", 0) != 0) return false;
  for (size_t start = 0; start < script.size();) {
    const size_t end = std::min(script.find('\n', start), script.size());
    std::string line = script.substr(start, end - start);
    start = end + 1;
    if (line.rfind(mark, 0) != 0) continue;
    std::replace_if(
        line.begin(), line.end(), [](char c) { return c == ' ' || c == '\t' || c == '\r'; }, '\0');
    if (has_option(line, option)) return true;
  }
  return false;
}

std::string first_host(const std::string& node_list) {
  std::string host;
  size_t i = 0;
  while (i < node_list.size() && node_list[i] != ',') {
    if (node_list[i] != '[') {
      host += node_list[i++];
      continue;
    }
    const size_t close = node_list.find(']', i);
    if (close == std::string::npos) return "";
    const size_t end = node_list.find_first_of(",-]", i);
    host += node_list.substr(i + 1, end - i - 1);
    i = close + 1;
  }
  return host;
}

std::pair<int, int> place_across_nodes(const std::string& tasks_per_node, int num_nodes, int node_rank,
                                       int local_rank) {
  const auto counts = expand_counts(tasks_per_node, static_cast<size_t>(std::max(0, num_nodes)));
  if (!counts || node_rank < 0 || node_rank >= num_nodes) return {0, 0};
  const auto has_one = [local_rank](int tasks) { return tasks > local_rank; };
  return {static_cast<int>(std::count_if(counts->begin(), counts->begin() + node_rank, has_one)),
          static_cast<int>(std::count_if(counts->begin(), counts->end(), has_one))};
}

int rendezvous_port(uint32_t job_id, uint32_t step_id) {
  return kFirstPort + static_cast<int>((uint64_t{job_id} * 7 + step_id) % kPorts);
}

}  // namespace dl
