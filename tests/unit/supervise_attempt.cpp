// SPDX-License-Identifier: Apache-2.0
// An attempt is a value: what its learners report, and that another one begins with nothing of it.
#include "launcher/supervise/attempt.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "common/contract/exit_codes.h"
#include "tests/unit/supervise_plan.h"

namespace dl::supervise {
namespace {

using namespace protocol;

Progress at_step(int64_t step, int64_t saved = -1) {
  Progress progress;
  progress.state = ProgressPage::kTraining;
  progress.step = step;
  progress.saved_step = saved;
  return progress;
}

Failure by_signal(int signal, bool asked = false) {
  Failure failure;
  failure.kind = Failure::Kind::kSignal;
  failure.signal = signal;
  failure.asked = asked;
  return failure;
}

Hello hello_from(const std::string& host, const std::string& address) {
  Hello hello;
  hello.host = host;
  hello.address = address;
  return hello;
}

TEST(AttemptTest, ItBeginsWithItsLearnersWhereTheyArePlannedToBe) {
  Attempt attempt(plan_of(2), 1000, 1789000000000);
  ASSERT_EQ(attempt.learners().size(), 2U);
  EXPECT_EQ(attempt.learner(1).host, "n1");
  EXPECT_FALSE(attempt.all_said_hello());
  attempt.said_hello(0, hello_from("n0", "10.0.0.1"));
  EXPECT_FALSE(attempt.all_said_hello());
  attempt.said_hello(1, hello_from("real", "10.0.0.2"));
  EXPECT_TRUE(attempt.all_said_hello());
  EXPECT_EQ(attempt.learner(1).host, "real");
  attempt.started(0, 4711);
  EXPECT_EQ(attempt.learner(0).pid, 4711);
  EXPECT_EQ(attempt.learner(0).state, record::JobState::kProcessing);
  attempt.end(1);
  EXPECT_TRUE(attempt.all_started());
  EXPECT_FALSE(attempt.is_over());
  attempt.end(0);
  EXPECT_TRUE(attempt.all_ended());
  EXPECT_TRUE(attempt.is_over());
  EXPECT_FALSE(attempt.is_over()) << "told once";
}

TEST(AttemptTest, ItsPaceIsTheNewestTrainStepAndTheSpeedOfALearnerThatKnowsIt) {
  Attempt attempt(plan_of(2), 0, 0);
  EXPECT_EQ(attempt.pace(50).step, -1);
  attempt.progressed(0, at_step(4), 1000);
  EXPECT_EQ(attempt.pace(50).step, 4);
  EXPECT_EQ(attempt.pace(50).steps_per_s, 0) << "not known yet";
  for (int i = 1; i <= 10; ++i) attempt.progressed(1, at_step(5 * i), 1000 * i);
  const PaceHint pace = attempt.pace(1'789'000'000);
  EXPECT_EQ(pace.step, 50);
  EXPECT_NEAR(pace.steps_per_s, 5, 1e-9);
  EXPECT_EQ(pace.at_s, 1'789'000'000);
}

TEST(AttemptTest, AHelloIsAwaitedOnceFromTheAgentOfEachLearner) {
  Attempt attempt(plan_of(2), 1000, 0);
  Hello hello = hello_from("n1", "10.0.0.2");
  hello.role = "agent";
  hello.rank = 1;
  EXPECT_TRUE(attempt.awaits(hello));
  for (const int rank : {-1, 2}) {
    hello.rank = rank;
    EXPECT_FALSE(attempt.awaits(hello)) << rank;
  }
  hello.rank = 1;
  hello.role = "stranger";
  EXPECT_FALSE(attempt.awaits(hello));
  hello.role = "agent";
  attempt.said_hello(1, hello);
  EXPECT_FALSE(attempt.awaits(hello));
  EXPECT_FALSE(Attempt().awaits(hello)) << "no attempt has begun";
}

TEST(AttemptTest, ALearnerThatFailsIsNamedWithItsHostOnlyIfThereAreOthers) {
  for (const int learners : {1, 2}) {
    Attempt attempt(plan_of(learners), 1000, 0);
    attempt.progressed(0, at_step(41), 1500);
    const Failure& failure = attempt.fail(0, by_signal(9), 2000);
    EXPECT_EQ(failure.host, learners == 1 ? "" : "n0");
    EXPECT_EQ(failure.step, 41);
    EXPECT_EQ(failure.at_ms, 2000);
    EXPECT_EQ(attempt.learner(0).exit, 137);
    EXPECT_EQ(attempt.learner(0).state, record::JobState::kFailed);
    EXPECT_FALSE(attempt.learner(0).ended) << "a learner that hangs has failed, and still runs";
  }
}

TEST(AttemptTest, TheCauseIsTheFirstFailureThatNobodyAskedFor) {
  Attempt attempt(plan_of(3), 1000, 0);
  EXPECT_FALSE(attempt.cause());
  attempt.fail(0, by_signal(9, /*asked=*/true), 1000);
  EXPECT_EQ(attempt.learner(0).state, record::JobState::kHalted);
  EXPECT_FALSE(attempt.cause());
  attempt.fail(2, by_signal(11), 2000);
  attempt.fail(1, by_signal(9), 9000);
  ASSERT_TRUE(attempt.cause());
  EXPECT_EQ(attempt.cause()->rank, 2);
  EXPECT_EQ(attempt.failures().size(), 3U);
}

TEST(AttemptTest, LearnersWhoseAgentsHaveNotComeEndAndNoneBeginsAnew) {
  Attempt attempt(plan_of(3), 1000, 0);
  attempt.said_hello(0, hello_from("n0", "10.0.0.1"));
  attempt.said_hello(1, hello_from("n1", "10.0.0.2"));
  attempt.lose_agent(1);
  attempt.end_unheard();
  EXPECT_FALSE(attempt.learner(0).ended);
  EXPECT_TRUE(attempt.learner(1).ended) << "its agent had come, and was lost";
  EXPECT_TRUE(attempt.learner(2).ended);
}

TEST(AttemptTest, AgentsMayStayUnlessOneWasLostOrCanBeginOnlyOnceOrANodeIsBad) {
  const plan::LaunchPlan plan = plan_of(2);
  EXPECT_TRUE(Attempt(plan, 0, 0).agents_may_stay());

  Attempt lost(plan, 0, 0);
  lost.lose_agent(1);
  EXPECT_FALSE(lost.agents_may_stay());
  EXPECT_TRUE(lost.agent_lost());
  EXPECT_FALSE(lost.agent_silent());
  EXPECT_TRUE(lost.learner(1).ended);
  EXPECT_FALSE(lost.learner(0).ended);

  Attempt silent(plan, 0, 0);
  silent.silence_agent(0);
  EXPECT_TRUE(silent.agent_lost());
  EXPECT_TRUE(silent.agent_silent());
  EXPECT_TRUE(silent.learner(0).ended);

  Attempt pmi(plan, 0, 0);
  Hello hello;
  hello.pmi = true;
  pmi.said_hello(0, hello);
  pmi.said_hello(1, {});
  EXPECT_FALSE(pmi.agents_may_stay());

  Attempt bad_node(plan, 0, 0);
  bad_node.dismiss_agents();
  EXPECT_FALSE(bad_node.agents_may_stay());
  EXPECT_FALSE(bad_node.agent_lost()) << "nothing has to be swept";
}

TEST(AttemptTest, TheAgentOfALearnerThatHasEndedStaysIfItCanServeAnotherOrAPmixServerNeedsIt) {
  plan::LaunchPlan plan = plan_of(1);
  plan.restarts = 2;
  Attempt attempt(plan, 0, 0);
  EXPECT_TRUE(attempt.agent_stays(plan, /*restarts_done=*/1));
  EXPECT_FALSE(attempt.agent_stays(plan, /*restarts_done=*/2));
  plan.pmix_server = "/opt/dl-pmix";
  EXPECT_TRUE(attempt.agent_stays(plan, /*restarts_done=*/2));
  Hello hello;
  hello.pmi = true;
  attempt.said_hello(0, hello);
  EXPECT_FALSE(attempt.agent_stays(plan, /*restarts_done=*/0)) << "it can begin only once";
}

TEST(AttemptTest, LearnersThatAreGivenUpAreToBlameUnlessTheyWereToEnd) {
  Failure why;
  why.kind = Failure::Kind::kAgentLost;
  why.text = "its agent is gone";
  Attempt attempt(plan_of(2), 0, 0);
  const Failure blamed = attempt.give_up(0, why, /*to_end=*/false);
  EXPECT_FALSE(blamed.asked);
  EXPECT_EQ(blamed.text, "its agent is gone");
  EXPECT_EQ(blamed.exit, kExitCannotStart);
  EXPECT_TRUE(attempt.learner(0).ended);
  EXPECT_FALSE(attempt.learner(1).ended);
  EXPECT_TRUE(attempt.agent_lost());
  EXPECT_TRUE(attempt.give_up(1, why, /*to_end=*/true).asked);
}

TEST(AttemptTest, OfAgentsThatDoNotConnectInTimeOnlyTheirOwnLearnersAreToBlame) {
  Failure why;
  why.kind = Failure::Kind::kNoAgent;
  Attempt attempt(plan_of(2), 0, 0);
  attempt.said_hello(0, hello_from("n0", "10.0.0.1"));
  EXPECT_TRUE(attempt.give_up(0, why, /*to_end=*/false).asked);
  EXPECT_FALSE(attempt.give_up(1, why, /*to_end=*/false).asked);
  EXPECT_TRUE(attempt.learner(0).ended && attempt.learner(1).ended);
  EXPECT_FALSE(attempt.agent_lost()) << "nothing has to be swept";
}

TEST(AttemptTest, WithOtherAgentsItKeepsItsName) {
  Attempt attempt(plan_of(2), 1000, 0);
  attempt.is_called(3, 2, "7-3-abc");
  attempt.said_hello(0, hello_from("n0", "10.0.0.1"));
  attempt.begin_again(plan_of(2), 3000, 0);
  EXPECT_EQ(attempt.started_ms(), 3000);
  EXPECT_EQ(attempt.facts().attempt, 3);
  EXPECT_EQ(attempt.facts().run_id, "7-3-abc");
  EXPECT_FALSE(attempt.learner(0).said_hello);
}

TEST(AttemptTest, LearnersThatServeHaveAMomentToEndByThemselves) {
  plan::LaunchPlan plan = plan_of(3);
  plan.servers = 2;
  plan.first_decides = true;
  Attempt attempt(plan, 1000, 0);
  EXPECT_FALSE(attempt.end_serving(100'000)) << "the one that decides still runs";
  attempt.end_well(0, 0, /*stopped=*/false, 4000);
  EXPECT_EQ(attempt.learner(0).state, record::JobState::kCompleted);
  attempt.end_well(1, 0, /*stopped=*/false, 4500);
  EXPECT_FALSE(attempt.end_serving(4999));
  EXPECT_FALSE(attempt.served(2));
  EXPECT_TRUE(attempt.end_serving(5000)) << "counted from the end of the last that decides";
  EXPECT_TRUE(attempt.served(2));
  EXPECT_FALSE(attempt.served(0));
}

TEST(AttemptTest, DeafLearnersAreLeftOnceNoneThatRunsCanBeAskedToStop) {
  Attempt attempt(plan_of(3), 1000, 0);
  attempt.progressed(0, at_step(1), 2000);
  EXPECT_TRUE(attempt.any_attached());
  EXPECT_FALSE(attempt.deaf_are_left());
  attempt.end_well(0, 85, /*stopped=*/true, 3000);
  EXPECT_EQ(attempt.learner(0).exit, 85);
  EXPECT_EQ(attempt.learner(0).state, record::JobState::kHalted);
  EXPECT_TRUE(attempt.deaf_are_left());
  attempt.end(1);
  attempt.end(2);
  EXPECT_FALSE(attempt.deaf_are_left()) << "none is left";
}

TEST(AttemptTest, LearnersMeetWhereTheAgentOfTheFirstOneHasSaid) {
  for (const bool peers : {false, true}) {
    Attempt attempt(plan_of(2), 1000, 0);
    Hello first = hello_from("n0", "::ffff:10.0.0.1");
    first.port = 29500;
    first.ports = {7001};
    first.coordinator_port = 7002;
    first.ras_port = 7003;
    attempt.said_hello(0, first);
    attempt.said_hello(1, hello_from("n1", "fd00::2"));
    attempt.is_called(1, 0, "run");
    plan::RunFacts stores = attempt.facts();
    stores.store_port = 1234;
    attempt.meet(std::move(stores), peers);
    const plan::RunFacts& facts = attempt.facts();
    EXPECT_EQ(facts.run_id, "run");
    EXPECT_EQ(facts.store_port, 1234);
    EXPECT_EQ(facts.master_addr, "10.0.0.1") << "as users write it";
    EXPECT_EQ(facts.master_port, 29500);
    EXPECT_EQ(facts.coordinator_port, 7002);
    EXPECT_EQ(facts.ras_port, 7003);
    const std::vector<std::string> both = {"10.0.0.1:7001", format_endpoint("fd00::2", 0)};
    EXPECT_EQ(facts.peers, peers ? both : std::vector<std::string>{});
  }
}

TEST(AttemptTest, NoPeriodicSaveIsDueBeforeAllLearnersOfThisAttemptRun) {
  Attempt first(plan_of(1), 1000, 0);
  EXPECT_FALSE(first.save_due(100'000, 5000));
  EXPECT_TRUE(first.all_run(2000));
  EXPECT_FALSE(first.all_run(3000)) << "told once";
  EXPECT_FALSE(first.save_due(6999, 5000));
  EXPECT_TRUE(first.save_due(7000, 5000));
  first.save_tried(7000);
  EXPECT_FALSE(first.save_due(11000, 5000));
  EXPECT_DOUBLE_EQ(first.running_s(12000), 10);

  Attempt second(plan_of(1), 60'000, 0);
  EXPECT_FALSE(second.save_due(70'000, 5000)) << "its learners still start";
  EXPECT_DOUBLE_EQ(second.running_s(70'000), 0) << "the time between the attempts is none of training";
  EXPECT_TRUE(second.all_run(71'000));
  EXPECT_FALSE(second.save_due(75'000, 5000));
}

TEST(AttemptTest, TheSlowestLearnerTellsHowLongASaveTakes) {
  Attempt attempt(plan_of(2), 1000, 0);
  Progress slow = at_step(10);
  slow.save_ms = 4000;
  slow.local_ms = 300;
  slow.cost_ms = 90;
  Progress quick = at_step(10);
  quick.save_ms = 2500;
  quick.cost_ms = 120;
  attempt.progressed(0, slow, 2000);
  attempt.progressed(1, quick, 2000);
  EXPECT_EQ(attempt.save_times().save_ms, 4000U);
  EXPECT_EQ(attempt.save_times().local_ms, 300U);
  EXPECT_DOUBLE_EQ(attempt.save_costs().cost_s, 0.12);
  slow.step = 14;
  attempt.progressed(0, slow, 2400);
  EXPECT_EQ(attempt.save_times().step_ms, 100U) << "four train steps in 400 ms";
}

TEST(AttemptTest, ASaveIsNewsOncePerLearnerAndPutsOffTheNext) {
  Attempt attempt(plan_of(2), 1000, 0);
  attempt.all_run(1000);
  EXPECT_FALSE(attempt.progressed(0, at_step(3), 2000));
  EXPECT_EQ(attempt.progressed(0, at_step(5, 5), 5500), 5);
  EXPECT_FALSE(attempt.progressed(0, at_step(6, 5), 5600));
  EXPECT_EQ(attempt.newest_saved_step(), 5);
  EXPECT_FALSE(attempt.save_due(9000, 5000));
  EXPECT_TRUE(attempt.learner(0).ever_attached);
}

TEST(AttemptTest, AnAnswerToARequestTellsWhereALearnerStands) {
  Attempt attempt(plan_of(1), 1000, 0);
  attempt.progressed(0, at_step(7), 2000);
  StepReport report;
  report.attached = true;
  report.state = ProgressPage::kSaving;
  report.step = 6;
  attempt.stands_at(0, report);
  EXPECT_EQ(attempt.learner(0).step, 7) << "an older word";
  EXPECT_EQ(attempt.learner(0).page_state, ProgressPage::kSaving);
}

// Two learners, and three places of a pool.
plan::LaunchPlan with_pool() {
  plan::LaunchPlan plan = plan_of(5);
  plan.servers = 3;
  plan.pool = ServerRange{1, 3, true};
  return plan;
}

TEST(AttemptTest, PlacesOfAPoolWaitInReserveAndHoldNobodyUp) {
  Attempt attempt(with_pool(), 0, 0);
  EXPECT_EQ(attempt.first_place(), 2);
  EXPECT_FALSE(attempt.is_place(1));
  EXPECT_TRUE(attempt.is_place(2));
  for (int rank = 0; rank < 5; ++rank) attempt.said_hello(rank, hello_from("n", "10.0.0.1"));
  attempt.call_up(2);
  attempt.started(0, 1);
  attempt.started(1, 2);
  EXPECT_FALSE(attempt.all_started()) << "the server is on its way";
  attempt.started(2, 3);
  EXPECT_TRUE(attempt.all_started());
  attempt.meet({}, true);
  EXPECT_EQ(attempt.facts().peers.size(), 2U) << "servers are no peers";
}

TEST(AttemptTest, APlaceWhoseServerHasEndedBeginsAnew) {
  Attempt attempt(with_pool(), 0, 0);
  Hello hello = hello_from("n4", "10.0.0.1");
  hello.role = "agent";
  hello.rank = 4;
  attempt.said_hello(4, hello);
  EXPECT_FALSE(attempt.awaits(hello));
  attempt.call_up(4);
  attempt.started(4, 4711);
  attempt.to_reserve(4);
  EXPECT_TRUE(attempt.awaits(hello));
  EXPECT_EQ(attempt.learner(4).pid, 0);
  EXPECT_EQ(attempt.learner(4).host, "n4");
  attempt.said_hello(4, hello);
  EXPECT_TRUE(attempt.learner(4).in_reserve);
}

TEST(AttemptTest, AnAttemptIsOverWithItsLearnersAndTheServersThatRun) {
  Attempt attempt(with_pool(), 0, 0);
  attempt.call_up(3);
  attempt.started(3, 1);
  attempt.end_well(0, 0, false, 100);
  EXPECT_FALSE(attempt.only_servers_left());
  attempt.end_well(1, 0, false, 100);
  EXPECT_TRUE(attempt.only_servers_left());
  EXPECT_FALSE(attempt.is_over());
  EXPECT_EQ(attempt.end_reserve(), std::vector<int>({2, 4}));
  EXPECT_TRUE(attempt.end_reserve().empty());
  EXPECT_FALSE(attempt.is_over()) << "a server runs";
  attempt.end_well(3, 0, false, 200);
  EXPECT_TRUE(attempt.is_over());
}

TEST(AttemptTest, AFailureNamesTheServerByItsPlace) {
  Attempt attempt(with_pool(), 0, 0);
  EXPECT_EQ(describe(attempt.fail(3, by_signal(9), 0)), "server 1 on n3 was killed by signal 9 (SIGKILL)");
  EXPECT_EQ(describe(attempt.fail(1, by_signal(9), 0)), "learner 1 on n1 was killed by signal 9 (SIGKILL)");
}

}  // namespace
}  // namespace dl::supervise
