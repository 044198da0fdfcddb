// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/job_submit/script_look.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace dl {
namespace {

constexpr size_t kMostScriptBytes = 256 << 10;

constexpr std::string_view kStarters[] = {"dlrun", "srun", "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun",
                                          "prun", "aprun", "ibrun", "jsrun", "flux", "pdsh", "clush", "ssh", "parallel",
                                          "xargs", "ray", "dask", "torchrun", "accelerate", "deepspeed", "horovodrun",
                                          "torch.distributed.run", "torch.distributed.launch",
                                          // These run commands that this search does not see.
                                          "source", ".", "bash", "sh", "eval", "make", "snakemake", "nextflow"};

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}
// Characters that separate words.
bool is_separator(char c) {
  constexpr std::string_view kSeparators = ";&|()<>`\"'={}";
  return is_blank(c) || kSeparators.find(c) != std::string_view::npos;
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() > end.size() && text.substr(text.size() - end.size()) == end;
}

bool may_start(std::string_view word) {
  const std::string_view name = word.substr(word.rfind('/') + 1);
  return ends_with(name, ".sh") || ends_with(name, ".bash") ||
         std::find(std::begin(kStarters), std::end(kStarters), name) != std::end(kStarters);
}

bool line_may_start_tasks(std::string_view line) {
  size_t at = 0;
  while (at < line.size() && is_blank(line[at])) ++at;
  if (at == line.size() || line[at] == '#') return false;
  // The command is the value of a variable.
  if (line[at] == '$' || line.substr(at, 2) == "\"$" || line.find("exec $") != std::string_view::npos) return true;
  while (at < line.size()) {
    while (at < line.size() && is_separator(line[at])) ++at;
    const size_t begin = at;
    while (at < line.size() && !is_separator(line[at])) ++at;
    if (may_start(line.substr(begin, at - begin))) return true;
  }
  return false;
}

}  // namespace

bool may_start_tasks(std::string_view script) {
  script = script.substr(0, kMostScriptBytes);
  while (!script.empty()) {
    const size_t end = std::min(script.find('\n'), script.size());
    if (line_may_start_tasks(script.substr(0, end))) return true;
    script.remove_prefix(std::min(end + 1, script.size()));
  }
  return false;
}

}  // namespace dl
