// SPDX-License-Identifier: Apache-2.0
// The runs of a job that are at work at once: what each has of the nodes, and who puts the job back.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "launcher/runs/siblings.h"

namespace dl::runs {
namespace {

constexpr ProcessId kOne{100, 1}, kTwo{200, 2}, kThree{300, 3};
bool everybody(const ProcessId& process) {
  return process.pid != 0;
}

BookedRun run(const ProcessId& guard, bool arrived = false, bool hold = false, const std::string& excluded = {}) {
  BookedRun made;
  made.guard = guard;
  made.arrived = arrived;
  made.hold = hold;
  made.excluded = excluded;
  return made;
}
JobBook book(std::vector<BookedRun> runs) {
  JobBook made;
  made.runs = std::move(runs);
  return made;
}
using Kind = Siblings::Turn::Kind;
Kind kind(const JobBook& of, const ProcessId& own, bool at_once = false) {
  return turn_of(of, own, at_once, everybody).kind;
}

TEST(Siblings, a_run_alone_puts_its_job_back_at_once) {
  EXPECT_EQ(kind(book({run(kOne, true)}), kOne), Kind::kMine);
}

TEST(Siblings, the_job_is_put_back_when_the_last_one_is_ready) {
  EXPECT_EQ(kind(book({run(kOne, true), run(kTwo)}), kOne), Kind::kWait);
  EXPECT_EQ(kind(book({run(kOne, true), run(kTwo, true)}), kOne), Kind::kMine);
}

TEST(Siblings, one_asks_slurm_and_the_others_learn_what_came_of_it) {
  JobBook made = book({run(kOne, true), run(kTwo, true)});
  made.putting_back = kOne;
  EXPECT_EQ(kind(made, kTwo), Kind::kWait);
  EXPECT_EQ(kind(made, kOne), Kind::kMine);
  made.back = true;
  EXPECT_EQ(kind(made, kTwo), Kind::kDone);
  made.back = false;
  made.refused = "Job/step already completing or completed";
  EXPECT_EQ(turn_of(made, kTwo, false, everybody).kind, Kind::kRefused);
  EXPECT_EQ(turn_of(made, kTwo, false, everybody).refused, made.refused);
}

TEST(Siblings, another_asks_where_the_one_that_asked_has_died) {
  JobBook made = book({run(kTwo, true)});
  made.putting_back = kOne;
  EXPECT_EQ(turn_of(made, kTwo, false, [](const ProcessId& who) { return who == kTwo; }).kind, Kind::kMine);
}

TEST(Siblings, the_job_is_held_where_any_of_them_wants_it_and_kept_from_all_bad_nodes) {
  const auto turn = turn_of(book({run(kOne, true, false, "n1"), run(kTwo, true, true), run(kThree, true, false, "n3")}),
                            kOne, false, everybody);
  EXPECT_TRUE(turn.hold);
  EXPECT_EQ(turn.excluded, "n1,n3");
}

TEST(Siblings, nobody_is_waited_for_when_the_time_is_over) {
  EXPECT_EQ(kind(book({run(kOne, true), run(kTwo)}), kOne, true), Kind::kMine);
}

TEST(Siblings, a_pause_and_an_earlier_deadline_take_the_place_of_what_was_asked) {
  JobBook made;
  EXPECT_TRUE(book_stop({"time limit", "time limit near", 5000}, &made));
  EXPECT_FALSE(book_stop({"preemption", "preempted", 6000}, &made));
  EXPECT_TRUE(book_stop({"preemption", "preempted", 4000}, &made));
  EXPECT_EQ(made.stop->cause, "time limit");
  EXPECT_EQ(made.stop->deadline_ms, 4000);
  EXPECT_TRUE(book_stop({kPauseCause, "dlctl pause", 0}, &made));
  EXPECT_EQ(made.stop->cause, kPauseCause);
  EXPECT_EQ(made.stop->deadline_ms, 4000);
  EXPECT_FALSE(book_stop({"time limit", "time limit near", 0}, &made));
  EXPECT_EQ(made.stop->cause, kPauseCause);
}

TEST(JobBook, is_read_back_as_it_was_written) {
  JobBook made = book({run(kOne, true, true, "n2")});
  made.start = 3;
  made.runs[0].number = 2;
  made.runs[0].dir = "/x/dl-1.2";
  made.runs[0].checkpoint = "/x/ck";
  made.runs[0].shares = {{"n1", {0, 3}, 4, 2}};
  made.stop = BookedStop{"yield", "why", 7};
  made.putting_back = kTwo;
  const JobBook read = parse_book(format_book(made));
  EXPECT_EQ(format_book(read), format_book(made));
  EXPECT_EQ(read.runs.at(0).shares.at(0).gpus, (std::vector<int>{0, 3}));
  EXPECT_EQ(read.stop->deadline_ms, 7);
}

TEST(JobBook, of_anything_else_is_empty) {
  for (const char* text :
       {"", "{", "[]", "7", R"({"runs": 7})", R"({"start": "no"})", R"({"runs": [{"shares": [{"gpus": ["x"]}]}]})"})
    EXPECT_TRUE(parse_book(text).runs.empty()) << text;
}

TEST(JobBook, forgets_who_has_died_and_all_of_an_earlier_start) {
  JobBook made = book({run(kOne), run(kTwo)});
  made.stop = BookedStop{"yield", "", 0};
  EXPECT_TRUE(tidy(
      0, [](const ProcessId& who) { return who == kTwo; }, &made));
  ASSERT_EQ(made.runs.size(), 1U);
  EXPECT_TRUE(made.stop);
  EXPECT_FALSE(tidy(0, everybody, &made));
  EXPECT_TRUE(tidy(1, everybody, &made));
  EXPECT_TRUE(made.runs.empty());
  EXPECT_FALSE(made.stop);
  EXPECT_EQ(made.start, 1);
}

TEST(JobBook, a_stop_ends_with_the_last_run_unless_slurm_has_the_job_back) {
  JobBook made = book({run(kOne)});
  made.stop = BookedStop{"yield", "", 0};
  EXPECT_TRUE(tidy(
      0, [](const ProcessId&) { return false; }, &made));
  EXPECT_FALSE(made.stop);
}

TEST(JobBook, a_process_is_told_from_a_later_one_of_the_same_number) {
  const ProcessId self = process_of(::getpid());
  EXPECT_TRUE(is_alive(self));
  EXPECT_FALSE(is_alive({self.pid, self.started + 1}));
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  const ProcessId gone = process_of(child);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(is_alive(gone));
}

TEST(JobBook, the_file_is_shared_changed_in_turn_and_removed_with_its_last_run) {
  const std::string number = "test-" + std::to_string(::getpid());
  const std::string path = "/dev/shm/dl-job-" + std::to_string(::geteuid()) + "-" + number;
  BookFile one(number), two(number);
  const ProcessId self = process_of(::getpid());
  ASSERT_TRUE(one.change(0, [&](JobBook* b) {
    b->runs.push_back(run(self));
    return true;
  }));
  EXPECT_TRUE(two.has_changed());
  EXPECT_FALSE(two.has_changed());
  size_t seen = 0;
  EXPECT_TRUE(two.change(0, [&](JobBook* b) {
    seen = b->runs.size();
    return false;
  }));
  EXPECT_EQ(seen, 1U);
  EXPECT_FALSE(one.has_changed() && one.has_changed()) << "to read is not to change";
  EXPECT_TRUE(two.change(0, [&](JobBook* b) {
    b->runs.clear();
    return true;
  }));
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
}

TEST(JobBook, a_link_that_somebody_has_put_there_is_no_book) {
  const std::string number = "link-" + std::to_string(::getpid());
  const std::string path = "/dev/shm/dl-job-" + std::to_string(::geteuid()) + "-" + number;
  const std::string target = testing::TempDir() + "/target-" + number;
  std::ofstream(target) << "mine";
  ASSERT_EQ(::symlink(target.c_str(), path.c_str()), 0);
  EXPECT_FALSE(BookFile(number).change(0, [](JobBook*) { return true; }));
  ::unlink(path.c_str());
  std::string text;
  std::ifstream(target) >> text;
  EXPECT_EQ(text, "mine");
  ::unlink(target.c_str());
}

plan::Allocation four_gpus() {
  plan::Allocation allocation;
  allocation.source = plan::Allocation::Source::kSlurm;
  plan::Node node;
  node.name = "n1";
  node.tasks = 4;
  node.cpus = 16;
  node.gpus = 4;
  allocation.nodes.push_back(node);
  return allocation;
}

TEST(Shares, what_others_have_is_taken_out) {
  plan::Allocation allocation = four_gpus();
  take_out({{"n1", {0, 2}, 8, 2}, {"n1", {2}, 0, 0}, {"n9", {1}, 4, 1}}, &allocation);
  EXPECT_EQ(allocation.nodes[0].gpus, 2);
  EXPECT_EQ(allocation.nodes[0].taken, (std::vector<int>{0, 2}));
  EXPECT_EQ(allocation.nodes[0].taken_cpus, 8);
  EXPECT_EQ(allocation.nodes[0].taken_tasks, 2);
}

TEST(Shares, a_plan_takes_its_learners_gpus_and_its_part_of_the_cpus) {
  plan::LaunchPlan plan;
  plan.cpus_per_learner = 4;
  plan::PlannedNode node;
  node.name = "n1";
  node.learners = 2;
  node.gpus = 2;
  node.taken = {0, 1};
  node.own_gpus = {2, 3};
  plan.nodes.push_back(node);
  const auto shares = shares_of(plan);
  ASSERT_EQ(shares.size(), 1U);
  EXPECT_EQ(shares[0].gpus, (std::vector<int>{2, 3}));
  EXPECT_EQ(shares[0].cpus, 8);
  EXPECT_EQ(shares[0].learners, 2);
}

TEST(Shares, nodes_of_different_gpus_are_not_counted_by_position_beside_others) {
  plan::LaunchPlan plan;
  plan.gpus_per_learner = 1;
  plan.nodes.resize(2);
  plan.nodes[0].gpus = 2;
  plan.nodes[1].gpus = 1;
  EXPECT_TRUE(is_countable(plan, {}));
  EXPECT_FALSE(is_countable(plan, {{"n1", {0}, 1, 1}}));
  plan.nodes[1].taken = {1};
  EXPECT_TRUE(is_countable(plan, {{"n1", {0}, 1, 1}}));
}

}  // namespace
}  // namespace dl::runs
