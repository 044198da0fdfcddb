// SPDX-License-Identifier: Apache-2.0
// Which failures have nodes checked again, and what a bad node then means.
#include <gtest/gtest.h>

#include "common/contract/exit_codes.h"
#include "launcher/supervise/recheck.h"

namespace dl::supervise {
namespace {

Failure says(const std::string& line) {
  Failure failure;
  failure.kind = Failure::Kind::kExit;
  failure.exit = 1;
  failure.last_lines = {line};
  return failure;
}

TEST(Recheck, NodesAreBlamedForTheirOwnFailuresAlone) {
  const auto blamed = [](const std::string& line) { return blames_nodes(classify(says(line), {})); };
  for (const char* line :
       {"Xid (PCI:0000:17:00): 79, GPU has fallen off the bus", "CUDA driver version is insufficient",
        "ncclSystemError", "No route to host", "OSError: [Errno 116] Stale file handle"})
    EXPECT_TRUE(blamed(line)) << line;
  for (const char* line : {"", "ValueError: x", "CUDA out of memory", "MemoryError", "SyntaxError: x",
                           "Address already in use", "No space left on device", "Disk quota exceeded"})
    EXPECT_FALSE(blamed(line)) << line;
  Failure failure;
  for (const Failure::Kind kind : {Failure::Kind::kNoAgent, Failure::Kind::kAgentLost, Failure::Kind::kHang}) {
    failure.kind = kind;
    EXPECT_TRUE(blames_nodes(classify(failure, {})));
  }
  FailureClass site;  // a class of the site's own
  site.name = "fabric";
  site.fault = Fault::kOurs;
  EXPECT_TRUE(blames_nodes(site));
}

TEST(Recheck, ABadNodeIsLeftOutOrTheJobGoesAwayFromItOrFails) {
  EndDecision restart;
  restart.action = EndDecision::Action::kRestart;
  restart.reason = "learner 1 died";
  RestartLimits limits;
  limits.can_requeue = limits.measurable = true;
  EndDecision decided = decide_without_bad(restart, {"n2"}, true, limits);
  EXPECT_EQ(decided.action, EndDecision::Action::kRestart);
  EXPECT_TRUE(decided.without_lost);
  EXPECT_EQ(decided.reason, "learner 1 died; n2 is bad");
  decided = decide_without_bad(restart, {"n2", "n3"}, false, limits);
  EXPECT_EQ(decided.action, EndDecision::Action::kRequeue);
  EXPECT_EQ(decided.reason, "learner 1 died; n[2-3] are bad");
  EXPECT_EQ(decided.exit_status, kExitNodeLost);
  limits.measurable = false;
  EXPECT_EQ(decide_without_bad(restart, {"n2"}, false, limits).action, EndDecision::Action::kFail);
  // It was to go on without a lost node, and now another one is bad.
  restart.without_lost = true;
  EXPECT_FALSE(decide_without_bad(restart, {"n2"}, false, limits).without_lost);
}

}  // namespace
}  // namespace dl::supervise
