// SPDX-License-Identifier: Apache-2.0
// Every operation goes wrong once, in every way, in saves that follow others of the same run: those that write retired
// files again, that copy files of the program, that link what has not changed; and in the retirement behind them.
// (checkpoint_faults.cpp has opening, the first save, and restoring.)
#include <cstdlib>

#include "tests/unit/checkpoint_crash_matrix.h"
#include "tests/unit/checkpoint_faulty_io.h"
#include "tests/unit/checkpoint_sick_io.h"

namespace dl::ckpt::test {
namespace {

struct Scenario {
  const char* name;
  CrashJob job;
};

std::vector<Scenario> scenarios() {
  CrashJob base;
  base.keep = 1;
  CrashJob recycling = base, members = base, frozen = base;
  recycling.sizes = true;
  members.members = true;
  frozen.frozen = true;
  frozen.weights = 70000;  // worth a file of their own
  frozen.weights_of = [](int64_t) { return 0; };
  return {{"RetiredFilesWrittenAgain", recycling}, {"FilesOfTheProgram", members}, {"FrozenWeights", frozen}};
}

// A run that has saved twice, so that there is something to retire, to recycle and to link.
class SavingRun {
 public:
  SavingRun(const Scenario& scenario, ModelIo& disk, Io& io) : scenario_(scenario), disk_(disk), io_(io) {
    setenv("SLURM_RESTART_COUNT", "0", 1);
    auto context = open_context(scenario.job.settings(), io);
    EXPECT_TRUE(context) << context.error().text;
    if (context) context_ = *std::move(context);
    for (int64_t step = 1; step <= 2; ++step) {
      begin(step);
      auto saved = save(step);
      EXPECT_TRUE(saved) << saved.error().text;
    }
  }
  // What the program does itself before the save, and no fault should meet.
  void begin(int64_t step) { write_members(disk_, scenario_.job, 0, step); }
  Status save(int64_t step) {
    const CrashJob& job = scenario_.job;
    PatternState state = job.state(step);
    DL_TRY(enroll(*context_, job, 0, &state));
    return context_->save(step);
  }

 private:
  const Scenario& scenario_;
  ModelIo& disk_;
  Io& io_;
  std::unique_ptr<Context> context_;
};

// True and of the right kind, whatever happened.
void expect_truth(const Status& saved, int error) {
  if (saved) return;
  EXPECT_FALSE(saved.error().text.empty());
  if (error == ENOSPC || error == EDQUOT) {
    EXPECT_EQ(saved.error().code, Errc::kNoSpace) << saved.error().text;
  }
}

class CheckpointLaterFaults : public testing::TestWithParam<Scenario> {};

// False when the fault came too late to hit anything.
bool third_save_with_fault(const Scenario& scenario, const Fault& fault, int at) {
  ModelIo disk;
  FaultyIo io(fault.mode, INT32_MAX, fault.error, disk);
  SavingRun run(scenario, disk, io);
  run.begin(3);
  io.arm(at);
  const Status saved = run.save(3);
  SCOPED_TRACE(std::string(fault.name) + " at " + std::to_string(at) + " (" + io.what() + ")");
  const bool fired = io.fired();
  const bool dead = fault.mode == FaultyIo::kDead;
  EXPECT_EQ(judge(disk.state(), scenario.job, saved ? 3 : 2, saved || dead ? 3 : 2), "");
  expect_truth(saved, fault.error);
  if (fault.mode == FaultyIo::kShort) {
    EXPECT_TRUE(saved) << saved.error().text;  // a short transfer is no error
  }
  if (dead) return fired;
  io.heal();
  run.begin(4);
  auto again = run.save(4);
  EXPECT_TRUE(again) << again.error().text;
  EXPECT_EQ(judge(disk.state(), scenario.job, 4, 4), "");
  return fired;
}

TEST_P(CheckpointLaterFaults, EveryOperationFailsOnce) {
  for (const Fault& fault : kFaults) {
    int at = 0;
    while (third_save_with_fault(GetParam(), fault, at)) {
      ++at;
      if (HasFailure()) return;
    }
    EXPECT_GT(at, 20) << fault.name;  // that many operations such a save has
  }
}

TEST_P(CheckpointLaterFaults, AFailedFsyncIsNeverTriedAgain) {
  for (const int error : {EIO, ENOSPC, EDQUOT, EINTR}) {
    int failed = 0;
    for (int at = 0;; ++at) {
      SickIo io(ModelState(), INT32_MAX, error);
      SavingRun run(GetParam(), io, io);
      run.begin(3);
      io.arm(at);
      const Status saved = run.save(3);
      if (!io.fired()) break;
      SCOPED_TRACE("fsync " + std::to_string(at) + " of " + io.failed() + ": " + std::to_string(error));
      EXPECT_FALSE(io.tried_again());
      EXPECT_EQ(judge(io.state(), GetParam().job, saved ? 3 : 2, saved ? 3 : 2), "");
      expect_truth(saved, error);
      failed += saved ? 0 : 1;
      run.begin(4);
      auto again = run.save(4);
      EXPECT_TRUE(again) << again.error().text;
      EXPECT_EQ(judge(io.state(), GetParam().job, 4, 4), "");
      if (HasFailure()) return;
    }
    EXPECT_GE(failed, 4);  // data file, manifest, the attempt's directory, the checkpoint directory
  }
}

INSTANTIATE_TEST_SUITE_P(Of, CheckpointLaterFaults, testing::ValuesIn(scenarios()),
                         [](const testing::TestParamInfo<Scenario>& scenario) { return scenario.param.name; });

// The third save does what its scenario says.
TEST(CheckpointLaterFaultScenarios, RecycleAndLink) {
  for (const Scenario& scenario : scenarios()) {
    ModelIo disk;
    SavingRun run(scenario, disk, disk);
    const size_t before = disk.ops().size();
    run.begin(3);
    ASSERT_TRUE(run.save(3));
    std::vector<ModelOp> ops = disk.ops();
    ops.erase(ops.begin(), ops.begin() + static_cast<ptrdiff_t>(before));
    EXPECT_EQ(recycled_files(ops) == 1, !scenario.job.frozen) << scenario.name;
    EXPECT_EQ(linked_files(ops) == 1, scenario.job.frozen) << scenario.name;
  }
}

}  // namespace
}  // namespace dl::ckpt::test
