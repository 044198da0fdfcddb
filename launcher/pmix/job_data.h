// SPDX-License-Identifier: Apache-2.0
// What the learners of an attempt are to PMIx, as texts and numbers; server.cpp hands them to libpmix. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/pmix/messages.h"

namespace dl::pmix {

struct ProcessData {
  int rank = 0;
  int local_rank = 0;
  int node = 0;
};

struct JobData {
  int size = 0;                        // learners
  std::string nodes;                   // "n1,n2"
  std::string ranks;                   // of each node: "0,1;2,3"
  std::string local_peers;             // of the server's own node: "2,3"
  std::vector<int> local;              // the same
  std::vector<ProcessData> processes;  // by rank
};

// kInvalid unless every rank 0..n-1 stands in exactly one node.
Result<JobData> job_data(const Job& job);

}  // namespace dl::pmix
