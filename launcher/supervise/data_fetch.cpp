// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/data_fetch.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/base/count.h"
#include "common/base/parse.h"

namespace dl::supervise {

void DataFetch::begin_attempt(const plan::LaunchPlan& plan) {
  wanted_ = plan.data.has_value();
  nodes_.clear();
}

std::vector<std::pair<int, protocol::Fetch>> DataFetch::ask(const plan::LaunchPlan& plan, const record::JobDir& dir) {
  std::vector<std::pair<int, protocol::Fetch>> asked;
  const plan::PlannedData& data = *plan.data;
  for (const plan::PlannedLearner& learner : plan.learners) {
    if (learner.local_rank != 0) continue;
    protocol::Fetch fetch;
    fetch.progress = dir.fetched(plan.nodes[static_cast<size_t>(learner.node)].name);
    fetch.command = {plan.data_program,
                     "fetch",
                     "--hold",
                     "--sources",
                     dir.sources(),
                     "--cache",
                     data.cache,
                     "--dest",
                     data.folder,
                     "--node",
                     std::to_string(learner.node),
                     "--nodes",
                     std::to_string(plan.nodes.size()),
                     "--progress",
                     fetch.progress};
    if (data.limit > 0) {
      fetch.command.emplace_back("--limit");
      fetch.command.push_back(std::to_string(data.limit));
    }
    nodes_[learner.rank] = {};
    asked.emplace_back(learner.rank, std::move(fetch));
  }
  return asked;
}

bool DataFetch::ready() const {
  if (!wanted_) return true;
  return !nodes_.empty() &&
         std::all_of(nodes_.begin(), nodes_.end(), [](const auto& node) { return node.second.done; });
}

std::optional<Failure> DataFetch::heard(int rank, const protocol::Fetched& fetched) {
  const auto found = nodes_.find(rank);
  if (found == nodes_.end()) return std::nullopt;
  // Once all was there, its end means no more than that the data could be evicted.
  const bool was_done = found->second.done;
  found->second = fetched;
  found->second.done = fetched.done || was_done;
  if (fetched.exit < 0 || was_done) return std::nullopt;
  Failure failure;
  failure.kind = Failure::Kind::kData;
  failure.exit = fetched.exit;
  failure.text = fetched.error;
  return failure;
}

std::string DataFetch::text() const {
  if (!under_way()) return {};
  int64_t bytes = 0, total = 0, rate = 0;
  size_t done = 0;
  for (const auto& [rank, node] : nodes_) {
    bytes += node.bytes;
    total += node.total;
    done += node.done ? 1U : 0U;
    rate += node.done ? 0 : node.rate;
  }
  const std::string where = nodes_.size() == 1
                                ? std::string()
                                : fmt::format(" on {}", count_text(static_cast<int64_t>(nodes_.size()), "node"));
  if (total <= 0) return fmt::format("looking at what there is to fetch{}", where);
  return fmt::format("fetching data: {} of {}{} at {}/s{}",
                     format_bytes(static_cast<uint64_t>(std::max<int64_t>(bytes, 0))),
                     format_bytes(static_cast<uint64_t>(total)), where,
                     format_bytes(static_cast<uint64_t>(std::max<int64_t>(rate, 0))),
                     done > 0 ? fmt::format(", {} of {} nodes done", done, nodes_.size()) : "");
}

}  // namespace dl::supervise
