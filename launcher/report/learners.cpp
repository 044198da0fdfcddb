// SPDX-License-Identifier: Apache-2.0
// Learners and nodes of the newest attempt.
#include <algorithm>

#include "launcher/report/section.h"
#include "launcher/report/used.h"
#include "launcher/report/words.h"

namespace dl::report {
namespace {

constexpr size_t kMostLearners = 128, kMostNodes = 128;

// Nothing, if nothing was measured of any of them.
void write_use_of_learners(const std::vector<LearnerLine>& learners, Html* html) {
  const auto any = [&](auto of) { return std::any_of(learners.begin(), learners.end(), of); };
  if (!any([](const LearnerLine& line) { return !line.use.empty(); })) return;
  const std::vector<UsedCell> columns = used_columns(any([](const LearnerLine& line) { return !line.gpus.empty(); }));
  html->markup("<h3>What each learner used</h3>\n");
  std::vector<const char*> head{"#Rank"};
  for (const UsedCell& column : columns) head.push_back(column.title);
  Table table(html, head);
  for (size_t i = 0; i < std::min(learners.size(), kMostLearners); ++i) {
    std::vector<std::string> cells{std::to_string(learners[i].rank)};
    for (const UsedCell& column : columns) cells.push_back(column.text(learners[i].use));
    table.row(cells);
  }
  if (learners.size() > kMostLearners) table.line("and " + std::to_string(learners.size() - kMostLearners) + " more");
}

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
  write_use_of_learners(learners, html);
  if (nodes.size() < 2) return;
  Table table(html, {"Node", "#Ranks", "#GPUs"});
  for (size_t i = 0; i < std::min(nodes.size(), kMostNodes); ++i)
    table.row({nodes[i].name, std::to_string(nodes[i].learners), number_or_none(nodes[i].gpus)});
  if (nodes.size() > kMostNodes) table.line("and " + std::to_string(nodes.size() - kMostNodes) + " more");
}

}  // namespace dl::report
