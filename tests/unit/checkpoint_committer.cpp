// SPDX-License-Identifier: Apache-2.0
// The background half of a save: the Committer alone, without a Context and without its thread. The test does what the
// training thread does: it lays the state out, copies it, and hands over a SaveRequest.
#include "checkpoint/client/committer.h"

#include <atomic>
#include <cerrno>
#include <chrono>

#include "checkpoint/store/lease.h"
#include "tests/unit/checkpoint_faulty_io.h"
#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {
namespace {

class CheckpointCommitter : public testing::Test {
 protected:
  CheckpointCommitter() : settings_(settings_for(dir_.path())) {
    settings_.recycle = settings_.reuse = false;
    page_.saved_step = -1;
    auto lease = Lease::acquire(posix_io(), dir_.path(), "test", "", 60);
    EXPECT_TRUE(lease) << lease.error().text;
    if (lease) lease_.emplace(*std::move(lease));
    EXPECT_TRUE(state_.enroll_weights(registry_));
    EXPECT_TRUE(state_.enroll_all_but_weights(registry_));
  }
  std::unique_ptr<Committer> committer(Io& io = posix_io()) {
    Committer::Parts parts;
    parts.lease_token = lease_->token();
    parts.page = std::make_shared<ProgressLink>(&page_);
    parts.group = make_single_group();
    return std::make_unique<Committer>(settings_, io, std::move(parts));
  }
  // The state of this train step, laid out and copied.
  SaveRequest request(Committer* committer, int64_t step) {
    state_.fill(step);
    SaveRequest made;
    made.step = step;
    made.begin = std::chrono::steady_clock::now();
    made.blocked_s = std::make_shared<std::atomic<double>>(0.25);
    made.metrics = {{"loss", 0.5}};
    made.plan.tensors = std::make_shared<WorkList>(plan_tensors(registry_, 0, 1));
    made.plan.blobs = plan_blobs(registry_, 0);
    std::vector<WriteItem> items = made.plan.items();
    for (const WriteItem& item : items) made.state_bytes += item.bytes();
    auto job = committer->engine().prepare(std::move(items));
    EXPECT_TRUE(job) << job.error().text;
    if (!job) return made;
    made.job = *std::move(job);
    made.job->copy(committer->engine().pool());
    return made;
  }
  SaveOutcome save(Committer* committer, int64_t step) {
    committer->peers().group().start();
    SaveRequest made = request(committer, step);
    return committer->run(&made, &retired_);
  }
  std::vector<int64_t> steps() const {
    std::vector<int64_t> found;
    const auto names = scan_checkpoints(posix_io(), dir_.path());
    if (names)
      for (const CheckpointName& name : *names) found.push_back(name.step);
    return found;
  }
  // Whether no save has left anything behind. What saves leave has names that begin with a dot.
  bool clean() const { return leftovers(dir_.path()).empty(); }

  TempDir dir_;
  Settings settings_;
  ProgressPage page_{};
  std::optional<Lease> lease_;
  PatternState state_{5000};
  Registry registry_;
  std::vector<std::string> retired_;
};

TEST_F(CheckpointCommitter, WritesPublishesAndTellsWhatASaveTook) {
  auto own = committer();
  const SavePrediction before = own->predict();
  EXPECT_EQ(before.durable_s, 0);
  const SaveOutcome outcome = save(own.get(), 7);
  ASSERT_TRUE(outcome.status) << outcome.status.error().text;
  EXPECT_GT(outcome.durable_s, 0);
  EXPECT_GE(outcome.durable_s, outcome.commit_s);
  EXPECT_EQ(outcome.prediction.durable_s, outcome.durable_s) << "of the only save there was";
  EXPECT_DOUBLE_EQ(outcome.prediction.cost_s, 0.25) << "for so long the program's call took";
  EXPECT_EQ(steps(), std::vector<int64_t>{7});
  EXPECT_TRUE(retired_.empty());
  EXPECT_TRUE(clean());
  // dlrun reads it on the page.
  EXPECT_EQ(page_.saved_step, 7);
  EXPECT_GE(page_.save_ms, 1U);
  EXPECT_EQ(page_.cost_ms, 250U);
  const auto manifest = read_file(newest_path(dir_.path()) + "/MANIFEST.json");
  EXPECT_NE(manifest.find("\"loss\""), std::string::npos);
  // A program restores it.
  own.reset();
  lease_.reset();
  auto context = open_context(settings_for(dir_.path()));
  ASSERT_TRUE(context) << context.error().text;
  PatternState restored(5000), expected(5000);
  ASSERT_TRUE(restored.enroll(**context));
  std::string note;
  const auto step = (*context)->restore(DLCKPT_LATEST, &note);
  ASSERT_TRUE(step) << step.error().text;
  expected.fill(7);
  EXPECT_EQ(*step, 7);
  EXPECT_TRUE(restored == expected);
}

TEST_F(CheckpointCommitter, TheNextRunPredictsFromWhatThisOneMeasured) {
  double durable_s = 0;
  {
    auto own = committer();
    durable_s = save(own.get(), 1).durable_s;
    own->note_slowdown(1, 0.5);
    EXPECT_DOUBLE_EQ(own->predict().cost_s, 0.75);
    ASSERT_TRUE(save(own.get(), 2).status) << "the slowdown is stored with the next";
  }
  page_.save_ms = 0;
  auto next = committer();
  const SavePrediction prediction = next->predict();
  EXPECT_GE(prediction.durable_s, durable_s / 2);
  EXPECT_GE(prediction.cost_s, 0.25);
  EXPECT_GE(page_.save_ms, 1U) << "before it has saved";
}

TEST_F(CheckpointCommitter, WithoutTheLeaseNothingIsPublished) {
  auto own = committer();
  ASSERT_TRUE(save(own.get(), 1).status);
  lease_->release();
  auto other = Lease::acquire(posix_io(), dir_.path(), "another job", "", 60);
  ASSERT_TRUE(other);
  const SaveOutcome outcome = save(own.get(), 2);
  ASSERT_FALSE(outcome.status);
  EXPECT_EQ(outcome.status.error().code, Errc::kBusy);
  EXPECT_EQ(outcome.durable_s, 0);
  EXPECT_EQ(steps(), std::vector<int64_t>{1});
  EXPECT_TRUE(clean());
  EXPECT_EQ(page_.saved_step, 1) << "dlrun is not told of a save that was not made";
}

TEST_F(CheckpointCommitter, ARankThatCannotTakePartEndsTheSaveAndNotTheNextOne) {
  auto own = committer();
  SaveRequest broken;
  broken.step = 3;
  broken.begin = std::chrono::steady_clock::now();
  broken.blocked_s = std::make_shared<std::atomic<double>>(0.0);
  broken.prepared = Error{Errc::kInvalid, "a tensor of no shape"};
  own->peers().group().start();
  const SaveOutcome outcome = own->run(&broken, &retired_);
  ASSERT_FALSE(outcome.status);
  EXPECT_NE(outcome.status.error().text.find("a tensor of no shape"), std::string::npos);
  EXPECT_TRUE(steps().empty());
  EXPECT_TRUE(clean());
  EXPECT_EQ(own->predict().durable_s, 0) << "a save that failed is no measurement";
  EXPECT_TRUE(save(own.get(), 3).status);
}

TEST_F(CheckpointCommitter, EachFailedOperationLeavesTheFormerCheckpointAndNoAttempt) {
  FaultyIo io(FaultyIo::kErrno, INT32_MAX, ENOSPC);
  auto own = committer(io);
  ASSERT_TRUE(save(own.get(), 1).status);
  io.arm(INT32_MAX);
  ASSERT_TRUE(save(own.get(), 2).status);
  const int operations = io.count();
  ASSERT_GT(operations, 10);
  int64_t good = 2, failed = 0;
  for (int at = 1; at <= operations; ++at) {
    io.arm(at);
    const SaveOutcome outcome = save(own.get(), 100 + at);
    io.heal();
    if (outcome.status) good = 100 + at;
    failed += outcome.status ? 0 : 1;
    ASSERT_EQ(steps().front(), good) << io.what();
    ASSERT_EQ(page_.saved_step, good) << io.what();
  }
  EXPECT_GT(failed, 5);
  ASSERT_TRUE(save(own.get(), 999).status) << "it goes on when the disk is well again";
  EXPECT_EQ(steps().front(), 999);
  EXPECT_EQ(steps().size(), 3U);
}

TEST_F(CheckpointCommitter, OldOnesAreSetAsideForItsCallerToRemove) {
  settings_.keep = 2;
  auto own = committer();
  for (int64_t step = 1; step <= 2; ++step) ASSERT_TRUE(save(own.get(), step).status);
  EXPECT_TRUE(retired_.empty());
  ASSERT_TRUE(save(own.get(), 3).status);
  EXPECT_EQ(steps(), (std::vector<int64_t>{3, 2}));
  ASSERT_EQ(retired_.size(), 1U);
  EXPECT_TRUE(std::filesystem::exists(retired_[0])) << "removing takes time, in which ranks would wait";
}

TEST_F(CheckpointCommitter, TheFilesThatARunKeepsForItselfGoWithItUnlessTheLeaseIsLost) {
  settings_.recycle = true;
  settings_.keep = 1;
  auto own = committer();
  for (int64_t step = 1; step <= 3; ++step) ASSERT_TRUE(save(own.get(), step).status);
  ASSERT_FALSE(clean()) << "the former checkpoint is kept to be overwritten";
  lease_->release();
  auto other = Lease::acquire(posix_io(), dir_.path(), "another job", "", 60);
  ASSERT_TRUE(other);
  own->leave();
  EXPECT_FALSE(clean()) << "it may be the other job's";
  other->release();
  lease_.emplace(*Lease::acquire(posix_io(), dir_.path(), "test", "", 60));
  own = committer();
  own->leave();
  EXPECT_TRUE(clean());
}

}  // namespace
}  // namespace dl::ckpt::test
