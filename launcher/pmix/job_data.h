// SPDX-License-Identifier: Apache-2.0
// Describes the learners of an attempt by the texts and numbers that PMIx wants; server.cpp hands them to libpmix.
// Pure.
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
  int size = 0;                        // number of learners
  std::string nodes;                   // "n1,n2"
  std::string ranks;                   // of each node: "0,1;2,3"
  std::string local_peers;             // the ranks of the server's own node: "2,3"
  std::vector<int> local;              // the same as numbers
  std::vector<ProcessData> processes;  // by rank
};

// kInvalid unless every rank 0..n-1 is on exactly one node.
Result<JobData> job_data(const Job& job);

}  // namespace dl::pmix
