// SPDX-License-Identifier: Apache-2.0
// Several dlruns of one job come to their plans: which run each is, and what it gets of the job's nodes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "launcher/runs/admit.h"

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
    return admit(who, *whole, input, [this](const std::string& line) { said_ += line + "\n"; });
  }

  std::string folder_, number_, said_;
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

}  // namespace
}  // namespace dl::runs
