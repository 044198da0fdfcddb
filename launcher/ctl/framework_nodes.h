// SPDX-License-Identifier: Apache-2.0
// What the probes of the catalogue find on other nodes: the question, and what their answers say together.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"

namespace dl::ctl {

// One finding, and the nodes that share it.
struct FoundOnNodes {
  std::string name, version;       // of the catalogue's entry; version is empty if it lists none
  std::string found;               // what the probe printed; "no" if it failed, "-" if there is none
  std::vector<std::string> nodes;  // in the order in which they were asked
};
struct NodeAnswers {
  std::vector<FoundOnNodes> found;  // by name and version, as the first node lists them
  std::vector<std::string> silent;  // nodes that were asked and did not answer
};

// Pure. `text` holds what `dlctl frameworks --findings` prints on each node: a line for each entry, {"node": NAME,
// "name": …, "version": …, "here": …, "probed": …}, and behind them {"node": NAME, "count": ENTRIES}. The lines of
// several nodes may be mixed; each is short, since srun mixes parts of lines that are longer than 1,024 bytes
// (MAX_MSG_LEN in slurmstepd's io.c). A line that is none of these (a message of the day) is passed over. A node whose
// count does not fit is silent.
NodeAnswers merge_answers(const std::string& text, const std::vector<std::string>& asked);

// The nodes that `given` means: a list in Slurm's short form, or "all": those of the allocation we are in, else all
// that can run a job now, by sinfo. kInvalid for a bad list, or for none.
Result<std::vector<std::string>> nodes_to_ask(const std::string& given);

// Runs `dlctl frameworks --findings` with the same choice of versions on each node by one srun: inside an allocation as
// a step of it, else as a job of its own, which must start within a minute. kFailed with srun's words if nobody
// answered.
Result<NodeAnswers> ask_nodes(const std::vector<std::string>& nodes, bool hidden);

}  // namespace dl::ctl
