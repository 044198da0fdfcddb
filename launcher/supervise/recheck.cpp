// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/recheck.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "common/base/hostlist.h"
#include "common/contract/exit_codes.h"

namespace dl::supervise {
namespace {

// Classes of failure that are not the user's fault, but not a node's either: a check of nodes would find nothing.
const char* const kOfNoNode[] = {"port", "not-started", "storage-full"};

}  // namespace

bool blames_nodes(const FailureClass& failure_class) {
  return failure_class.fault == Fault::kOurs &&
         std::none_of(std::begin(kOfNoNode), std::end(kOfNoNode),
                      [&](const char* name) { return failure_class.name == name; });
}

EndDecision decide_without_bad(EndDecision decision, const std::vector<std::string>& bad, bool rest_suffices,
                               const RestartLimits& limits) {
  decision.reason += fmt::format("; {} {} bad", compress_hostlist(bad), bad.size() == 1 ? "is" : "are");
  decision.without_lost = rest_suffices;
  if (rest_suffices) return decision;
  decision.exit_status = kExitNodeLost;
  decision.exclude_node = false;
  decision.action =
      limits.can_requeue && limits.measurable ? EndDecision::Action::kRequeue : EndDecision::Action::kFail;
  return decision;
}

}  // namespace dl::supervise
