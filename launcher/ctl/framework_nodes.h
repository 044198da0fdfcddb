// SPDX-License-Identifier: Apache-2.0
// Runs the catalogue's probes on other nodes, and merges what the nodes answer.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"

namespace dl::ctl {

// One finding, and the nodes that share it.
struct FoundOnNodes {
  std::string name, version;       // the catalogue's entry; version: empty if it lists none
  std::string found;               // what the probe printed; "no" if it failed, "-" without a probe
  std::vector<std::string> nodes;  // in the order in which they were asked
};
struct NodeAnswers {
  std::vector<FoundOnNodes> found;  // by name and version, as the first node lists them
  std::vector<std::string> silent;  // nodes that were asked and did not answer
};

// Pure. `text` is what `dlctl frameworks --findings` printed on all nodes: from each node a line for each entry,
// {"node": NAME, "name": …, "version": …, "here": …, "probed": …}, then {"node": NAME, "count": ENTRIES}. The lines of
// several nodes may alternate; each line is short, because srun splits lines longer than 1,024 bytes and mixes the
// parts (MAX_MSG_LEN in slurmstepd's io.c). Other lines (a message of the day) are skipped. A node whose count differs
// from its number of lines counts as silent.
NodeAnswers merge_answers(const std::string& text, const std::vector<std::string>& asked);

// The nodes that `given` names: a list in Slurm's short form, or "all" for the nodes of the current allocation, or
// outside of one for all nodes that can run a job now (sinfo). kInvalid for a bad or empty list; kNotFound if sinfo
// names no node.
Result<std::vector<std::string>> nodes_to_ask(const std::string& given);

// Runs `dlctl frameworks --findings` on each node by one srun: inside an allocation as a job step, else as a job of its
// own, which must start within a minute. hidden: also versions that are not advertised. Blocks for up to five minutes
// (then kTimeout). kBusy with srun's words if no node answered.
Result<NodeAnswers> ask_nodes(const std::vector<std::string>& nodes, bool hidden);

}  // namespace dl::ctl
