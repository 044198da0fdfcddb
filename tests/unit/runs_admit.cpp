// SPDX-License-Identifier: Apache-2.0
// Several dlruns of one job come to their plans: which run each is, and what it gets of the job's nodes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <mutex>
#include <thread>

#include "launcher/runs/admit.h"
#include "launcher/runs/past_runs.h"

namespace dl::runs {
namespace {

const Catalogue& catalogue() {
  static const Catalogue loaded = [] {
    const char* dir = std::getenv("top_srcdir");  // NOLINT(concurrency-mt-unsafe)
    auto result = Catalogue::load({std::string(dir != nullptr ? dir : ".") + "/frameworks/generic"});
    return result ? std::move(result).value() : Catalogue();
  }();
  return loaded;
}

// A job in a folder of its own; its dlruns are this process and those that it came from, which live on.
class Admit : public testing::Test {
 protected:
  Admit() {
    std::string pattern = testing::TempDir() + "admit-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    number_ = "test-admit-" + std::to_string(::getpid());
    input_.catalogue = &catalogue();
    input_.request.framework.name = "generic";
    input_.request.learners = LearnerRange{1, 1};
    input_.request.gpus = GpuRequest{"", 1};
    input_.allocation.source = plan::Allocation::Source::kSlurm;
    input_.allocation.job_id = "12";
    input_.allocation.submit_dir = folder_;
    input_.allocation.nodes = {{"n1", 4, 16, 4}};
    input_.command = {"python3", "train.py"};
    input_.work_dir = folder_;
  }
  ~Admit() override {
    ::unlink(("/dev/shm/dl-job-" + std::to_string(::geteuid()) + "-" + number_).c_str());
    std::filesystem::remove_all(folder_);
  }

  Applicant applicant(pid_t guard) const {
    Applicant made;
    made.number = number_;
    made.guard = process_of(guard);
    return made;
  }
  Result<Admission> admit_one(const Applicant& who, plan::PlanInput* input) {
    auto whole = plan::make_plan(*input);
    if (!whole) return whole.error();
    return admit(who, *whole, input, [this](const std::string& line) {
      const std::lock_guard<std::mutex> lock(mutex_);
      said_ += line + "\n";
      ++lines_;
      more_.notify_all();
    });
  }
  // Waits until so many lines were said: why who has to wait does so, once for each reason.
  testing::AssertionResult has_said(int lines) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (more_.wait_for(lock, std::chrono::seconds(30), [&] { return lines_ >= lines; }))
      return testing::AssertionSuccess();
    return testing::AssertionFailure() << "it said only: " << said_;
  }

  std::string folder_, number_, said_;
  std::mutex mutex_;
  std::condition_variable more_;
  int lines_ = 0;
  plan::PlanInput input_;
};

TEST_F(Admit, two_that_start_together_are_two_runs_before_either_has_a_directory) {
  plan::PlanInput first = input_, second = input_;
  const auto one = admit_one(applicant(::getpid()), &first);
  const auto two = admit_one(applicant(::getppid()), &second);
  ASSERT_TRUE(one);
  ASSERT_TRUE(two);
  EXPECT_EQ(one->run, 1);
  EXPECT_EQ(two->run, 2);
  EXPECT_EQ(one->plan.job_dir, folder_ + "/dl-12");
  EXPECT_EQ(two->plan.job_dir, folder_ + "/dl-12.2");
}

// admit() on a thread: whether it has come to an end by now, and with what.
class Waiting {
 public:
  explicit Waiting(std::function<Result<Admission>()> admit)
      : thread_([this, admit = std::move(admit)] {
          admitted = admit();
          done = true;
        }) {}
  ~Waiting() {
    if (thread_.joinable()) thread_.join();
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  void join() { thread_.join(); }

  std::atomic<bool> done{false};
  Result<Admission> admitted = Error{};

 private:
  std::thread thread_;
};

TEST_F(Admit, who_does_not_say_how_many_gpus_waits_for_those_that_another_has) {
  input_.request.gpus.reset();
  plan::PlanInput first = input_, second = input_;
  auto one = admit_one(applicant(::getpid()), &first);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->plan.gpus_per_learner, 4);
  Waiting two([&] { return admit_one(applicant(::getppid()), &second); });
  EXPECT_TRUE(has_said(1));
  EXPECT_FALSE(two.done) << "without GPUs";
  leave(applicant(::getpid()), &*one);
  two.join();
  ASSERT_TRUE(two.admitted);
  EXPECT_EQ(two.admitted->plan.gpus_per_learner, 4);
  EXPECT_EQ(said_, "waiting for GPUs of this job that other dlruns use (12.1): none is free on n1\n");
}

TEST_F(Admit, who_finds_no_even_share_has_all_that_are_free) {
  input_.request.gpus.reset();
  input_.request.learners = LearnerRange{3, 3};
  plan::PlanInput first = input_, second = input_;
  second.request.gpus = GpuRequest{"", 1};
  second.request.learners = LearnerRange{1, 1};
  auto one = admit_one(applicant(::getpid()), &first);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->plan.nodes.at(0).own_gpus, (std::vector<int>{0, 1, 2, 3}));
  Waiting two([&] { return admit_one(applicant(::getppid()), &second); });
  EXPECT_TRUE(has_said(1));
  EXPECT_FALSE(two.done);
  leave(applicant(::getpid()), &*one);
}

TEST_F(Admit, who_wants_no_gpus_has_none_and_leaves_all_to_others) {
  plan::PlanInput first = input_, second = input_, third = input_;
  first.request.gpus = GpuRequest{"", 0};
  second.request.gpus = GpuRequest{"", 3};
  third.request.gpus = GpuRequest{"", 0};
  const auto one = admit_one(applicant(::getpid()), &first);
  const auto two = admit_one(applicant(::getppid()), &second);
  const auto three = admit_one(applicant(1), &third);
  ASSERT_TRUE(one && two && three);
  EXPECT_TRUE(one->plan.nodes.at(0).own_gpus.empty());
  EXPECT_TRUE(one->plan.nodes.at(0).narrowed) << "its learners see none";
  EXPECT_EQ(two->plan.nodes.at(0).own_gpus, (std::vector<int>{0, 1, 2}));
  EXPECT_TRUE(three->plan.nodes.at(0).own_gpus.empty());
  EXPECT_TRUE(three->plan.nodes.at(0).narrowed);
}

TEST_F(Admit, who_is_told_to_end_while_it_waits_does_not_start) {
  input_.request.gpus = GpuRequest{"", 4};
  plan::PlanInput first = input_, second = input_;
  auto one = admit_one(applicant(::getpid()), &first);
  ASSERT_TRUE(one);
  Waiting two([&] { return admit_one(applicant(::getppid()), &second); });
  EXPECT_TRUE(has_said(1));
  ::kill(::getpid(), SIGTERM);
  EXPECT_TRUE(has_said(2));
  EXPECT_FALSE(two.done) << "its end might be the batch script's, and so the other one's";
  leave(applicant(::getpid()), &*one);
  two.join();
  ASSERT_FALSE(two.admitted);
  EXPECT_EQ(two.admitted.error().code, Errc::kConflict);
}

TEST_F(Admit, a_plan_without_lost_nodes_leaves_alone_what_others_have_taken_since) {
  input_.allocation.nodes = {{"n1", 4, 16, 4}, {"n2", 4, 16, 4}};
  plan::PlanInput first = input_, second = input_;
  first.request.learners = LearnerRange{2, 2};
  first.request.gpus = GpuRequest{"", 2};
  first.request.rank_placement = "cyclic";
  auto one = admit_one(applicant(::getpid()), &first);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->plan.nodes.at(0).own_gpus, (std::vector<int>{0, 1}));
  const auto two = admit_one(applicant(::getppid()), &second);
  ASSERT_TRUE(two);
  EXPECT_EQ(two->plan.nodes.at(0).own_gpus, (std::vector<int>{2}));
  const auto full = plan_without({"n2"}, one->plan, applicant(::getpid()), &*one, &first);
  EXPECT_FALSE(full) << "n1 has one GPU too few";
  EXPECT_EQ(one->whole.allocation.nodes.size(), 1U);
}

TEST_F(Admit, a_plan_without_lost_nodes_is_booked) {
  input_.allocation.nodes = {{"n1", 4, 16, 4}, {"n2", 4, 16, 4}};
  plan::PlanInput first = input_, second = input_, third = input_;
  first.request.learners = LearnerRange{2, 2};
  first.request.rank_placement = "cyclic";
  auto one = admit_one(applicant(::getpid()), &first);
  const auto two = admit_one(applicant(::getppid()), &second);
  ASSERT_TRUE(one && two);
  const auto rest = plan_without({"n2"}, one->plan, applicant(::getpid()), &*one, &first);
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->nodes.at(0).own_gpus, (std::vector<int>{0, 2}));
  settle(*rest, applicant(::getpid()), &*one);
  const auto three = admit_one(applicant(1), &third);
  ASSERT_TRUE(three);
  EXPECT_EQ(three->plan.nodes.at(0).own_gpus, (std::vector<int>{3}));
}

TEST_F(Admit, what_another_job_has_completed_in_the_same_directory_is_run) {
  plan::PlanInput first = input_;
  const auto one = plan::make_plan(first);
  ASSERT_TRUE(one);
  plan::PlanInput second = input_;
  second.allocation.job_id = "13";
  const auto two = plan::make_plan(second);
  ASSERT_TRUE(two);
  EXPECT_NE(identify(*one, {}).what, identify(*two, {}).what);
}

TEST_F(Admit, events_are_read_before_the_lock_and_again_where_they_have_changed_since) {
  const std::string dir = folder_ + "/dl-12";
  std::filesystem::create_directories(dir);
  PastRuns past(dir, false);
  past.read();
  const JobBook nobody;
  EXPECT_TRUE(past.is_current(nobody, {}));
  const auto add = [&] {
    auto log = record::EventLog::open(dir + "/events.jsonl");
    ASSERT_TRUE(log);
    record::Event event;
    event.run = "aaaaaaaaaaaaaaaa-0000000000000001";
    ASSERT_TRUE(log->append(event));
  };
  add();
  EXPECT_FALSE(past.is_current(nobody, {}));
  past.read();
  EXPECT_TRUE(past.is_current(nobody, {}));
  EXPECT_EQ(past.with(nobody, {}).at(0).events.size(), 1U);
  // One at work writes all the time, and none of that counts.
  JobBook book;
  BookedRun run;
  run.guard = applicant(::getpid()).guard;
  run.dir = dir;
  book.runs.push_back(run);
  add();
  EXPECT_TRUE(past.is_current(book, {}));
  EXPECT_TRUE(past.with(book, {}).at(0).in_use);
  std::filesystem::create_directories(dir + ".2");
  EXPECT_FALSE(past.is_current(book, {}));
}

}  // namespace
}  // namespace dl::runs
