// SPDX-License-Identifier: Apache-2.0
// What most owners of a run's state work on, for tests that have one of them and no Supervisor.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "launcher/supervise/attempt.h"
#include "launcher/supervise/journal.h"
#include "launcher/supervise/node_pool.h"
#include "launcher/supervise/run_state.h"
#include "launcher/supervise/voice.h"
#include "tests/unit/supervise_loop.h"
#include "tests/unit/supervise_plan.h"

namespace dl::supervise {

// A run of so many learners, each on a node of its own, with a job directory that goes with the test.
class OwnerTest : public LoopTest {
 protected:
  explicit OwnerTest(int learners) : plan_(plan_of(learners)) {}
  void SetUp() override {
    LoopTest::SetUp();
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override {
    LoopTest::TearDown();
    std::filesystem::remove_all(folder_);
  }
  // The first attempt begins; its record is the one of folder_.
  void begin_record() {
    journal_ = std::make_unique<Journal>(record::JobDir(folder_), nullptr);
    ASSERT_TRUE(journal_->open());
    journal_->begin_attempt(1, 0);
  }
  // Its learners run. The run cannot go on without one of its nodes.
  void begin_processing() {
    begin_record();
    journal_->job(record::JobState::kDeploy, "");
    journal_->job(record::JobState::kProcessing, "");
    nodes_ = std::make_unique<NodePool>(plan_, NodePool::Without{});
  }

  std::string folder_ = testing::TempDir() + "owner-XXXXXX";
  plan::LaunchPlan plan_;
  RunState state_;
  Attempt attempt_;
  std::vector<std::string> said_;  // lines, without their ends
  Voice voice_{0, false, [this](const std::string& text) { said_.push_back(text.substr(0, text.size() - 1)); }};
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<NodePool> nodes_;
};

}  // namespace dl::supervise
