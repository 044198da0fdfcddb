// SPDX-License-Identifier: Apache-2.0
// dlckpt_want and the learner's side of the progress page, driven as an agent drives it.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>

#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {
namespace {

// What the agent does: makes the page and asks.
class Agent {
 public:
  explicit Agent(const std::string& path) : path_(path) {
    write_file(path, std::string(kProgressPageBytes, '\0'));
    const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    page_ = static_cast<ProgressPage*>(mmap(nullptr, kProgressPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    ::close(fd);
    page_->magic = ProgressPage::kMagic;
    page_->version = ProgressPage::kVersion;
    page_->step = ProgressPage::kNoStep;
    page_->saved_step = -1;
  }
  ~Agent() { munmap(page_, kProgressPageBytes); }
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  ProgressPage* operator->() { return page_; }
  const std::string& path() const { return path_; }
  int64_t ask(ProgressPage::Request kind) {
    page_->kind = kind;
    page_->stop_step = ProgressPage::kUndecided;
    page_->seq.fetch_add(1);
    return page_->step.load();
  }
  void decide(int64_t step) { page_->stop_step = step; }
  void withdraw() {
    page_->kind = ProgressPage::kNone;
    page_->stop_step = 0;
  }

 private:
  std::string path_;
  ProgressPage* page_;
};

std::unique_ptr<Context> learner(const std::string& dir, const std::string& page, int64_t every_steps = 0,
                                 Settings::Mode mode = Settings::kSync) {
  Settings settings = settings_for(dir);
  settings.mode = mode;
  settings.progress_page = page;
  settings.every_steps = every_steps;
  auto context = open_context(settings);
  EXPECT_TRUE(context) << context.error().text;
  return context ? *std::move(context) : nullptr;
}

TEST(CheckpointWant, NothingAskedCostsNothing) {
  const TempDir dir;
  Agent agent(dir.path() + "/page");
  auto context = learner(dir.path() + "/c", agent.path());
  EXPECT_EQ(agent->state.load(), ProgressPage::kNotAttached);
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t step = 0; step < 100000; ++step) ASSERT_EQ(context->want(step), 0);
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(agent->step.load(), 99999);
  EXPECT_EQ(agent->state.load(), ProgressPage::kTraining);
  EXPECT_LT(took, std::chrono::seconds(2));  // a guard against a system call or a wait in each, not a measurement
}

TEST(CheckpointWant, SaveAtTheAgreedStep) {
  const TempDir dir;
  Agent agent(dir.path() + "/page");
  auto context = learner(dir.path() + "/c", agent.path());
  ASSERT_EQ(context->want(0), 0);
  EXPECT_EQ(agent.ask(ProgressPage::kSave), 0);
  agent.decide(3);
  EXPECT_EQ(context->want(1), 0);
  EXPECT_EQ(context->want(2), 0);
  EXPECT_EQ(agent->seen_seq.load(), 0U);
  EXPECT_EQ(context->want(3), DLCKPT_WANT_SAVE);
  EXPECT_EQ(agent->seen_seq.load(), 1U);
  ASSERT_TRUE(context->save(3));
  EXPECT_EQ(agent->saved_step.load(), 3);
  EXPECT_GE(agent->save_ms.load(), 1U);
  EXPECT_EQ(agent->state.load(), ProgressPage::kTraining);
  EXPECT_EQ(context->want(3), 0);
  EXPECT_EQ(context->want(4), 0);
}

TEST(CheckpointWant, WaitsUntilTheStepIsDecided) {
  const TempDir dir;
  Agent agent(dir.path() + "/page");
  auto context = learner(dir.path() + "/c", agent.path());
  context->want(6);
  EXPECT_EQ(agent.ask(ProgressPage::kSaveAndExit), 6);
  std::thread decider([&] {
    while (agent->step.load() != 7) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    agent.decide(7);
  });
  EXPECT_EQ(context->want(7), DLCKPT_WANT_SAVE | DLCKPT_WANT_EXIT);
  decider.join();
  EXPECT_EQ(context->exit_code(), 76);  // not saved yet
  ASSERT_TRUE(context->save(7));
  EXPECT_EQ(agent->state.load(), ProgressPage::kStopped);
  EXPECT_EQ(context->exit_code(), 75);
}

TEST(CheckpointWant, ExitWithoutSave) {
  const TempDir dir;
  Agent agent(dir.path() + "/page");
  auto context = learner(dir.path() + "/c", agent.path());
  context->want(1);
  agent.ask(ProgressPage::kExitWithoutSave);
  agent.decide(2);
  EXPECT_EQ(context->want(2), DLCKPT_WANT_EXIT);
  EXPECT_EQ(agent->state.load(), ProgressPage::kStopped);
  EXPECT_EQ(context->exit_code(), 76);
}

TEST(CheckpointWant, ExitAtAStepThatIsSavedAlready) {
  const TempDir dir;
  Agent agent(dir.path() + "/page");
  auto context = learner(dir.path() + "/c", agent.path());
  context->want(4);
  ASSERT_TRUE(context->save(5));
  agent.ask(ProgressPage::kSaveAndExit);
  agent.decide(5);
  EXPECT_EQ(context->want(5), DLCKPT_WANT_SAVE | DLCKPT_WANT_EXIT);
  ASSERT_TRUE(context->save(5));  // nothing to be done
  EXPECT_EQ(context->exit_code(), 75);
  EXPECT_EQ(agent->state.load(), ProgressPage::kStopped);
  EXPECT_EQ(scan_checkpoints(posix_io(), dir.path() + "/c")->size(), 1U);
}

TEST(CheckpointWant, TheSaveAtAStopIsDurableWhenItReturnsThoughOthersGoOnInTheBackground) {
  for (const Settings::Mode mode : {Settings::kAsync, Settings::kLazy}) {
    const TempDir dir;
    Agent agent(dir.path() + "/page");
    auto context = learner(dir.path() + "/c", agent.path(), 0, mode);
    PatternState state;
    ASSERT_TRUE(state.enroll(*context));
    context->want(1);
    ASSERT_TRUE(context->save(1));
    EXPECT_EQ(agent->state.load(), ProgressPage::kTraining);
    context->before_mutation();
    agent.ask(ProgressPage::kSaveAndExit);
    agent.decide(2);
    EXPECT_EQ(context->want(2), DLCKPT_WANT_SAVE | DLCKPT_WANT_EXIT);
    ASSERT_TRUE(context->save(2, DLCKPT_SKIP_IF_BUSY));
    EXPECT_EQ(scan_checkpoints(posix_io(), dir.path() + "/c")->size(), 2U);
    EXPECT_EQ(context->exit_code(), 75);
    EXPECT_EQ(agent->state.load(), ProgressPage::kStopped);
    EXPECT_EQ(agent->saved_step.load(), 2);
  }
}

TEST(CheckpointWant, AWithdrawnRequestIsNothing) {
  const TempDir dir;
  Agent agent(dir.path() + "/page");
  auto context = learner(dir.path() + "/c", agent.path());
  agent.ask(ProgressPage::kSave);
  agent.withdraw();
  EXPECT_EQ(context->want(1), 0);
  EXPECT_EQ(agent->seen_seq.load(), 1U);
  agent.ask(ProgressPage::kSave);
  agent.decide(1);
  EXPECT_EQ(context->want(2), DLCKPT_WANT_SAVE);  // later than agreed is better than never
}

TEST(CheckpointWant, AWaitIsBounded) {
  const TempDir dir;
  Agent agent(dir.path() + "/page");
  Settings settings = settings_for(dir.path() + "/c");
  settings.progress_page = agent.path();
  settings.timeout_s = 0.05;
  auto context = open_context(settings);
  agent.ask(ProgressPage::kSave);
  EXPECT_EQ((*context)->want(1), 0);
}

// All learners act at the same train step, whatever the interleaving: the agreement of progress_page.h, many times.
TEST(CheckpointWant, LearnersAgreeOnOneStep) {
  for (int round = 0; round < 40; ++round) {
    constexpr int kLearners = 4;
    ProgressPage pages[kLearners] = {};
    for (ProgressPage& page : pages) page.step = ProgressPage::kNoStep;
    std::vector<int64_t> acted(kLearners, -1);
    std::vector<std::thread> threads;
    for (int r = 0; r < kLearners; ++r) {
      threads.emplace_back([&, r] {
        ProgressLink link(&pages[r]);
        for (int64_t step = 0; acted[static_cast<size_t>(r)] < 0; ++step) {
          if (link.announce(step, 30) == ProgressPage::kSaveAndExit) acted[static_cast<size_t>(r)] = step;
          std::this_thread::yield();
        }
      });
    }
    for (const ProgressPage& page : pages)
      while (page.step.load() < 0) std::this_thread::yield();
    int64_t highest = -1;
    for (ProgressPage& page : pages) {
      page.kind = ProgressPage::kSaveAndExit;
      page.stop_step = ProgressPage::kUndecided;
      page.seq.fetch_add(1);
      highest = std::max(highest, page.step.load());
    }
    for (ProgressPage& page : pages) page.stop_step = highest + 1;
    for (std::thread& thread : threads) thread.join();
    for (const int64_t step : acted) ASSERT_EQ(step, highest + 1);
  }
}

TEST(CheckpointWant, EverySoManySteps) {
  const TempDir dir;
  Settings settings = settings_for(dir.path());
  settings.every_steps = 5;
  auto context = *open_context(settings);
  std::vector<int64_t> saved;
  for (int64_t step = 0; step < 17; ++step) {
    const int want = context->want(step);
    if (want == DLCKPT_WANT_SAVE) {
      saved.push_back(step);
      ASSERT_TRUE(context->save(step));
      EXPECT_EQ(context->want(step), 0);
    } else {
      EXPECT_EQ(want, 0);
    }
  }
  EXPECT_EQ(saved, (std::vector<int64_t>{5, 10, 15}));
  // Not again what was restored.
  context.reset();
  context = *open_context(settings);
  std::string note;
  ASSERT_TRUE(context->restore(DLCKPT_LATEST, &note));
  EXPECT_EQ(context->want(15), 0);
  EXPECT_EQ(context->want(20), DLCKPT_WANT_SAVE);
}

TEST(CheckpointWant, EverySoManyStepsAlsoUnderDlrun) {
  const TempDir dir;
  Agent agent(dir.path() + "/page");
  auto context = learner(dir.path() + "/c", agent.path(), 10);
  EXPECT_EQ(context->want(9), 0);
  EXPECT_EQ(context->want(10), DLCKPT_WANT_SAVE);
  ASSERT_TRUE(context->save(10));
  agent.ask(ProgressPage::kSaveAndExit);
  agent.decide(20);
  EXPECT_EQ(context->want(20), DLCKPT_WANT_SAVE | DLCKPT_WANT_EXIT);
}

TEST(CheckpointWant, EverySoManySeconds) {
  const TempDir dir;
  Settings settings = settings_for(dir.path());
  settings.every_s = 0.03;
  auto context = *open_context(settings);
  EXPECT_EQ(context->want(0), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(40));
  EXPECT_EQ(context->want(1), DLCKPT_WANT_SAVE);
  ASSERT_TRUE(context->save(1));
  EXPECT_EQ(context->want(2), 0);
}

TEST(CheckpointWant, APageThatIsNoneIsRefusedAndAMissingOneIsNot) {
  const TempDir dir;
  Settings settings = settings_for(dir.path() + "/c");
  settings.progress_page = dir.path() + "/nowhere";
  EXPECT_TRUE(open_context(settings));
  settings.progress_page = dir.path() + "/short";
  write_file(settings.progress_page, "x");
  EXPECT_FALSE(open_context(settings));
  write_file(settings.progress_page, std::string(kProgressPageBytes, 'x'));
  auto context = open_context(settings);
  ASSERT_FALSE(context);
  EXPECT_NE(context.error().text.find("another version"), std::string::npos);
}

TEST(CheckpointWant, FinishedIsTold) {
  const TempDir dir;
  Agent agent(dir.path() + "/page");
  auto context = learner(dir.path() + "/c", agent.path());
  context->want(1);
  context->finished();
  EXPECT_EQ(agent->state.load(), ProgressPage::kFinished);
}

}  // namespace
}  // namespace dl::ckpt::test
