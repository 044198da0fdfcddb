// SPDX-License-Identifier: Apache-2.0
// The runs of a job that are at work at once: what each has of the nodes, and who puts the job back.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <thread>

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
using Outcome = BookFile::Outcome;
constexpr std::chrono::milliseconds kNow{0};
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
  made.runs = {run(kTwo)};
  EXPECT_FALSE(tidy(0, everybody, &made)) << "of a later start";
  EXPECT_EQ(made.runs.size(), 1U);
  EXPECT_TRUE(tidy(
      0, [](const ProcessId&) { return false; }, &made))
      << "of a job of long ago that had the same number";
  EXPECT_EQ(made.start, 0);
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
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    ::_exit(static_cast<int>(::read(ends[0], &byte, 1)));
  }
  const ProcessId lives = process_of(child);
  EXPECT_TRUE(is_alive(lives));
  EXPECT_EQ(::write(ends[1], "x", 1), 1);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(is_alive(lives)) << "nobody has asked for its status, but it has ended";
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(is_alive(lives));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(JobBook, the_file_is_shared_changed_in_turn_and_removed_with_its_last_run) {
  const std::string number = "test-" + std::to_string(::getpid());
  const std::string path = "/dev/shm/dl-job-" + std::to_string(::geteuid()) + "-" + number;
  BookFile one(number), two(number);
  const ProcessId self = process_of(::getpid());
  ASSERT_EQ(one.change(0, kNow,
                       [&](JobBook* b) {
                         b->runs.push_back(run(self));
                         return true;
                       }),
            Outcome::kDone);
  EXPECT_TRUE(two.has_changed());
  EXPECT_FALSE(two.has_changed());
  size_t seen = 0;
  two.change(0, kNow, [&](JobBook* b) {
    seen = b->runs.size();
    return false;
  });
  EXPECT_EQ(seen, 1U);
  EXPECT_FALSE(one.has_changed() && one.has_changed()) << "to read is not to change";
  // A stop of an earlier start of the job, whose node had died, comes late.
  EXPECT_EQ(one.change(3, kNow,
                       [&](JobBook* b) {
                         b->runs.push_back(run(self));
                         return true;
                       }),
            Outcome::kDone);
  EXPECT_EQ(two.change(2, kNow, [](JobBook*) { return true; }), Outcome::kNoBook);
  EXPECT_EQ(two.change(3, kNow,
                       [&](JobBook* b) {
                         seen = b->runs.size();
                         b->runs.clear();
                         return true;
                       }),
            Outcome::kDone);
  EXPECT_EQ(seen, 1U);
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
}

// Makes a book with this process in it.
class Book : public testing::Test {
 protected:
  Book()
      : number_("book-" + std::to_string(::getpid())),
        path_("/dev/shm/dl-job-" + std::to_string(::geteuid()) + "-" + number_) {}
  ~Book() override {
    ::unlink(path_.c_str());
    ::rmdir((path_ + ".new").c_str());
  }
  Outcome enter(const ProcessId& who) {
    return BookFile(number_).change(0, kNow, [&](JobBook* b) {
      b->runs.push_back(run(who));
      return true;
    });
  }
  size_t runs() {
    size_t seen = 0;
    BookFile(number_).change(0, kNow, [&](JobBook* b) {
      seen = b->runs.size();
      return false;
    });
    return seen;
  }
  std::string number_, path_;
};

TEST_F(Book, is_written_though_another_user_has_laid_something_under_the_new_ones_name) {
  ASSERT_EQ(enter(process_of(::getpid())), Outcome::kDone);
  ASSERT_EQ(::mkdir((path_ + ".new").c_str(), 0700), 0) << "as little to be unlinked as another user's file";
  EXPECT_EQ(enter(process_of(::getppid())), Outcome::kDone);
  EXPECT_EQ(runs(), 2U);
  ASSERT_EQ(::rmdir((path_ + ".new").c_str()), 0);
}

TEST_F(Book, that_cannot_be_written_keeps_what_others_have_written) {
  ASSERT_EQ(enter(process_of(::getpid())), Outcome::kDone);
  struct rlimit limit {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const struct rlimit none = {0, limit.rlim_max};
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0) << "a write fails as it does without room";
  const Outcome without_room = enter(process_of(::getppid()));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, before);
  EXPECT_EQ(without_room, Outcome::kNotWritten);
  EXPECT_EQ(runs(), 1U);
  EXPECT_EQ(enter(process_of(::getppid())), Outcome::kDone);
  EXPECT_EQ(runs(), 2U);
}

TEST_F(Book, whose_lock_another_has_is_not_waited_for_longer_than_said) {
  ASSERT_EQ(enter(process_of(::getpid())), Outcome::kDone);
  const int other = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  Siblings siblings(BookFile(number_), process_of(::getpid()), 0);
  EXPECT_FALSE(siblings.look());
  EXPECT_FALSE(siblings.ask_all({kPauseCause, "dlctl pause", 0}));
  EXPECT_EQ(siblings.turn(false).kind, Kind::kWait);
  ::close(other);
  EXPECT_TRUE(siblings.ask_all({kPauseCause, "dlctl pause", 0}));
  const auto stop = Siblings(BookFile(number_), process_of(::getppid()), 0).look();
  ASSERT_TRUE(stop);
  EXPECT_EQ(stop->cause, kPauseCause);
}

TEST_F(Book, of_a_job_that_is_back_has_one_run_that_keeps_its_begin_time) {
  const ProcessId one = process_of(::getpid()), two = process_of(::getppid());
  enter(one);
  enter(two);
  Siblings first(BookFile(number_), one, 0), second(BookFile(number_), two, 0);
  EXPECT_TRUE(second.keeps_begin_time()) << "Slurm did it by itself: the first that comes";
  EXPECT_FALSE(first.keeps_begin_time());
  EXPECT_TRUE(second.keeps_begin_time());
  BookFile(number_).change(0, kNow, [&](JobBook* book) {
    book->putting_back = ProcessId{two.pid, two.started + 1};
    return true;
  });
  EXPECT_TRUE(first.keeps_begin_time()) << "the one that asked Slurm has died";
}

TEST_F(Book, of_another_user_is_none_and_nobody_waits_for_its_lock) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a file of another user";
  const int other = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  ASSERT_EQ(::fchown(other, 65534, 65534), 0);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  EXPECT_EQ(BookFile(number_).change(0, std::chrono::hours(1), [](JobBook*) { return true; }), Outcome::kNoBook);
  ::close(other);
}

TEST_F(Book, a_run_that_never_began_has_the_job_put_back_when_the_others_are_ready) {
  const ProcessId self = process_of(::getpid()), other = process_of(::getppid());
  enter(self);
  enter(other);
  int asked = 0;
  std::string without;
  std::thread waits([&] {
    const Status outcome =
        put_back_together(Siblings(BookFile(number_), self, 0), "n2", "bad nodes", [&](const std::string& excluded) {
          ++asked;
          without = excluded;
          return Status();
        });
    EXPECT_TRUE(outcome);
  });
  Siblings theirs(BookFile(number_), other, 0);
  std::optional<BookedStop> stop;
  for (int i = 0; i < 3000 && !stop; ++i, std::this_thread::sleep_for(std::chrono::milliseconds(10)))
    stop = theirs.look();
  EXPECT_TRUE(stop && stop->cause == kTogetherCause);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(asked, 0) << "the other one is saving";
  // The lock is the other thread's now and then.
  bool arrived = false;
  for (int i = 0; i < 3000 && !arrived; ++i, std::this_thread::sleep_for(std::chrono::milliseconds(10)))
    arrived = theirs.arrive(false, "n7");
  EXPECT_TRUE(arrived);
  waits.join();
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(without, "n2,n7");
  EXPECT_EQ(theirs.turn(false).kind, Kind::kDone);
}

TEST(JobBook, a_link_that_somebody_has_put_there_is_no_book) {
  const std::string number = "link-" + std::to_string(::getpid());
  const std::string path = "/dev/shm/dl-job-" + std::to_string(::geteuid()) + "-" + number;
  const std::string target = testing::TempDir() + "/target-" + number;
  std::ofstream(target) << "mine";
  ASSERT_EQ(::symlink(target.c_str(), path.c_str()), 0);
  EXPECT_EQ(BookFile(number).change(0, kNow, [](JobBook*) { return true; }), Outcome::kNoBook);
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

plan::LaunchPlan plan_of(std::vector<std::vector<int>> own, std::vector<int> free) {
  plan::LaunchPlan plan;
  plan.gpus_per_learner = 1;
  for (size_t i = 0; i < own.size(); ++i) {
    plan::PlannedNode node;
    node.name = "n" + std::to_string(i + 1);
    node.learners = 1;
    node.gpus = free[i];
    node.own_gpus = own[i];
    plan.nodes.push_back(node);
  }
  return plan;
}

TEST(Shares, nodes_of_different_gpus_are_not_counted_by_position_beside_others) {
  plan::LaunchPlan plan = plan_of({{0}, {0}}, {2, 1});
  EXPECT_EQ(obstacle(plan, plan, {}), "");
  EXPECT_EQ(obstacle(plan, plan, {{"n1", {0}, 1, 1}}), "its nodes have different numbers of GPUs");
  EXPECT_EQ(obstacle(plan, plan, {{"n3", {0}, 1, 1}}), "") << "elsewhere";
  EXPECT_FALSE(shares_of(plan).at(0).counted);
  plan.nodes[1].taken = {1};
  EXPECT_EQ(obstacle(plan, plan, {{"n1", {0}, 1, 1}}), "");
  EXPECT_TRUE(shares_of(plan).at(0).counted);
}

TEST(Shares, beside_a_run_whose_gpus_slurm_has_chosen_another_one_waits_for_a_node_of_its_own) {
  const plan::LaunchPlan one = plan_of({{1}}, {2});
  EXPECT_NE(obstacle(one, one, {{"n1", {0}, 1, 1, false}}), "");
  EXPECT_EQ(obstacle(one, one, {{"n2", {0}, 1, 1, false}}), "");
  plan::LaunchPlan without = plan_of({{}}, {2});
  without.gpus_per_learner = 0;
  EXPECT_EQ(obstacle(without, without, {{"n1", {0}, 1, 1, false}}), "") << "--gpus 0";
}

TEST(Shares, of_two_plans_of_a_run_it_has_what_is_in_either) {
  const auto shares = both({{"n1", {0, 1}, 4, 2}}, {{"n1", {1, 3}, 8, 1}, {"n2", {0}, 1, 1}});
  ASSERT_EQ(shares.size(), 2U);
  EXPECT_EQ(shares[0].gpus, (std::vector<int>{0, 1, 3}));
  EXPECT_EQ(shares[0].cpus, 8);
  EXPECT_EQ(shares[1].node, "n2");
}

}  // namespace
}  // namespace dl::runs
