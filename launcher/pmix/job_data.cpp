// SPDX-License-Identifier: Apache-2.0
#include "launcher/pmix/job_data.h"

#include <algorithm>

namespace dl::pmix {
namespace {

std::string list(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

}  // namespace

Result<JobData> job_data(const Job& job) {
  JobData data;
  for (size_t node = 0; node < job.nodes.size(); ++node) {
    data.nodes += (node == 0 ? "" : ",") + job.nodes[node];
    data.ranks += (node == 0 ? "" : ";") + list(job.ranks[node]);
    int local = 0;
    for (const int rank : job.ranks[node]) data.processes.push_back({rank, local++, static_cast<int>(node)});
  }
  std::sort(data.processes.begin(), data.processes.end(),
            [](const ProcessData& a, const ProcessData& b) { return a.rank < b.rank; });
  for (size_t i = 0; i < data.processes.size(); ++i)
    if (data.processes[i].rank != static_cast<int>(i))
      return Error{Errc::kInvalid,
                   "rank " + std::to_string(i) + " is on no node, or on several; allowed: each rank on one node"};
  data.size = static_cast<int>(data.processes.size());
  data.local = job.ranks[static_cast<size_t>(job.node)];
  data.local_peers = list(data.local);
  return data;
}

}  // namespace dl::pmix
