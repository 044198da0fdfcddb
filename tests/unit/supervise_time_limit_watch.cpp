// SPDX-License-Identifier: Apache-2.0
// Who gets the user's own signal before the time limit, and what follows where Slurm does not answer. When a stop
// follows is tried in supervise_stop_controller.cpp.
#include "launcher/supervise/time_limit_watch.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "common/base/awake_clock.h"
#include "tests/unit/supervise_loop.h"

namespace dl::supervise {

using namespace protocol;

namespace {

// A job that began 100 minutes ago and ends in 100 minutes, or as a test says. Its own signal is due now, so it has to
// stop if that would end something. Slurm is not asked: without a job id it answers at once that it knows nothing.
class TimeLimitWatchTest : public LoopTest {
 protected:
  static plan::LaunchPlan plan(int64_t ends_in_s) {
    plan::LaunchPlan plan;
    plan.under_slurm = true;
    plan.end_time_s = unix_ms() / 1000 + ends_in_s;
    plan.nodes.resize(1);
    plan.learners.resize(1);
    return plan;
  }
  // The stops that a look asks for.
  std::vector<StopAsked> look(int64_t ends_in_s, const std::optional<OwnSignal>& own, pid_t script,
                              bool attached = false) {
    const plan::LaunchPlan its = plan(ends_in_s);
    StopController stops(its, 120'000);
    stops.run_begins(unix_ms() - 6'000'000, false);
    Attempt attempt(its, awake_ms(), unix_ms());
    Progress progress;
    progress.state = attached ? ProgressPage::kTraining : ProgressPage::kNotAttached;
    attempt.progressed(0, progress, awake_ms());
    std::vector<StopAsked> asked;
    TimeLimitWatch watch(&stops, &slurm_, &attempt, own, script, [&](const StopAsked& stop) { asked.push_back(stop); });
    watch.look();
    return asked;
  }
  static OwnSignal own(int number, bool to_script, int lead_s = 6000) {
    OwnSignal signal;
    signal.number = number;
    signal.lead_s = lead_s;
    signal.to_script = to_script;
    return signal;
  }

  SlurmJob slurm_{&loop_, "", {}};
};

TEST_F(TimeLimitWatchTest, AStopIsAskedForWhenTheLimitIsNear) {
  EXPECT_TRUE(look(6000, std::nullopt, 0).empty());
  const auto stops = look(10, std::nullopt, 0);
  ASSERT_EQ(stops.size(), 1U);
  EXPECT_EQ(stops[0].cause, StopCause::kTimeLimit);
}

TEST_F(TimeLimitWatchTest, ASignalToTheLearnersMattersIfItWouldEndThemAndTheyCanBeAsked) {
  EXPECT_TRUE(look(6000, own(SIGUSR1, false), 0).empty()) << "no learner uses the checkpoint library";
  EXPECT_EQ(look(6000, own(SIGUSR1, false), 0, /*attached=*/true).size(), 1U);
  EXPECT_TRUE(look(6000, own(SIGUSR2, false), 0, true).empty()) << "learners take it as a request to save";
  EXPECT_TRUE(look(6000, own(SIGCHLD, false), 0, true).empty()) << "it ends nothing";
}

TEST_F(TimeLimitWatchTest, ASignalToTheScriptMattersUnlessTheScriptSurvivesItOrHasBecomeDlrun) {
  const pid_t script = ::fork();
  if (script == 0) {
    ::signal(SIGUSR1, SIG_DFL);
    ::signal(SIGUSR2, SIG_IGN);
    for (;;) ::pause();
  }
  ASSERT_GT(script, 0);
  // Until it has done so.
  for (const int64_t since = awake_ms(); look(6000, own(SIGUSR2, true), script).size() == 1U;) {
    ASSERT_LT(awake_ms() - since, 10'000);
    ::usleep(1000);
  }
  EXPECT_EQ(look(6000, own(SIGUSR1, true), script).size(), 1U);
  EXPECT_TRUE(look(6000, own(SIGUSR2, true), script).empty()) << "it is saved often before the signal";
  EXPECT_TRUE(look(6000, own(SIGUSR1, true), ::getppid()).empty()) << "dlrun gets it";
  ::kill(script, SIGKILL);
  ::waitpid(script, nullptr, 0);
}

}  // namespace
}  // namespace dl::supervise
