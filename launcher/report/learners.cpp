// SPDX-License-Identifier: Apache-2.0
// Learners and nodes of the newest attempt.
#include <algorithm>

#include "launcher/report/section.h"
#include "launcher/report/words.h"

namespace dl::report {
namespace {

constexpr size_t kMostLearners = 128, kMostNodes = 128;

}  // namespace

void write_learners(const Material& of, Html* html) {
  const std::vector<LearnerLine>& learners = of.data.learners;
  const std::vector<PlanNode> nodes = of.data.plan ? of.data.plan->nodes : std::vector<PlanNode>();
  if (learners.empty() && nodes.empty()) {
    html->markup("<p>Learners and nodes are not known.</p>\n");
    return;
  }
  if (!learners.empty()) {
    Table table(html, {"#Rank", "Node", "GPUs", "State", "#Train step", "#Saved", "Why"});
    for (size_t i = 0; i < std::min(learners.size(), kMostLearners); ++i) {
      const LearnerLine& line = learners[i];
      table.row({std::to_string(line.rank), line.node, line.server ? "(server)" : line.gpus, line.state,
                 number_or_none(line.step), number_or_none(line.saved_step), line.why});
    }
    if (learners.size() > kMostLearners) table.line("and " + std::to_string(learners.size() - kMostLearners) + " more");
  }
  if (nodes.size() < 2) return;
  Table table(html, {"Node", "#Ranks", "#GPUs"});
  for (size_t i = 0; i < std::min(nodes.size(), kMostNodes); ++i)
    table.row({nodes[i].name, std::to_string(nodes[i].learners), number_or_none(nodes[i].gpus)});
  if (nodes.size() > kMostNodes) table.line("and " + std::to_string(nodes.size() - kMostNodes) + " more");
}

}  // namespace dl::report
