// SPDX-License-Identifier: Apache-2.0
// The agreement on one train step: tables of answers, and real threads that play learners on real progress pages.
#include "launcher/supervise/stop_agreement.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <random>
#include <thread>
#include <vector>

#include "launcher/protocol/progress_file.h"

namespace dl::supervise {
namespace {

using namespace protocol;
using Page = ProgressPage;
using Kind = StopDecision::Kind;

StepAnswer training(int64_t step) {
  return {true, Page::kTraining, step};
}

struct Row {
  const char* what;
  uint32_t kind;
  std::vector<StepAnswer> answers;
  Kind expected;
  int64_t step;
};

TEST(StopAgreementTest, Decisions) {
  const Row rows[] = {
      {"the highest step and one", Page::kSaveAndExit, {training(4), training(7), training(6)}, Kind::kDecide, 8},
      {"one learner", Page::kSave, {training(0)}, Kind::kDecide, 1},
      {"attached, no step yet: all act at their first",
       Page::kSaveAndExit,
       {training(-1), training(-1)},
       Kind::kDecide,
       0},
      {"one has announced, one has not", Page::kSaveAndExit, {training(9), training(-1)}, Kind::kDecide, 10},
      {"a stop does not wait for who has not attached", Page::kSaveAndExit, {training(3), {}}, Kind::kDecide, 4},
      {"a save does", Page::kSave, {training(3), {}}, Kind::kWithdraw, -1},
      {"nobody attached", Page::kSaveAndExit, {{}, {}}, Kind::kWithdraw, -1},
      {"one has finished", Page::kSaveAndExit, {training(9), {true, Page::kFinished, 10}}, Kind::kWithdraw, -1},
      {"saving counts as training", Page::kSaveAndExit, {{true, Page::kSaving, 5}, training(4)}, Kind::kDecide, 6},
      {"exit without save", Page::kExitWithoutSave, {training(2)}, Kind::kDecide, 3},
  };
  for (const Row& row : rows) {
    StopAgreement agreement;
    agreement.begin(1, row.kind, static_cast<int>(row.answers.size()));
    for (size_t rank = 0; rank < row.answers.size(); ++rank) {
      EXPECT_EQ(agreement.decide().kind, Kind::kWait) << row.what;
      agreement.answer(static_cast<int>(rank), 1, row.answers[rank]);
    }
    StopDecision decision = agreement.decide();
    EXPECT_EQ(decision.kind, row.expected) << row.what;
    EXPECT_EQ(decision.step, row.step) << row.what;
    agreement.decided(decision);
    EXPECT_EQ(agreement.open(), row.expected == Kind::kDecide) << row.what;
  }
}

TEST(StopAgreementTest, ALearnerThatEndedMeansThatTheOthersFinish) {
  StopAgreement agreement;
  agreement.begin(1, Page::kSaveAndExit, 2);
  agreement.answer(0, 1, training(5));
  EXPECT_EQ(agreement.decide().kind, Kind::kWait);
  agreement.gone(1);
  StopDecision decision = agreement.decide();
  EXPECT_EQ(decision.kind, Kind::kWithdraw);
  EXPECT_TRUE(decision.finishing);
}

TEST(StopAgreementTest, AnswersToAnotherRequestAreIgnored) {
  StopAgreement agreement;
  agreement.begin(2, Page::kSave, 1);
  agreement.answer(0, 1, training(5));
  EXPECT_EQ(agreement.decide().kind, Kind::kWait);
}

TEST(StopAgreementTest, IsClosedWhenAllHaveActed) {
  StopAgreement agreement;
  agreement.begin(1, Page::kSave, 2);
  agreement.answer(0, 1, training(5));
  agreement.answer(1, 1, training(5));
  agreement.decided(agreement.decide());
  agreement.acted(0, 1);
  EXPECT_TRUE(agreement.open());
  EXPECT_FALSE(agreement.upgrade(Page::kSaveAndExit)) << "decided: a learner may be saving already";
  agreement.acted(1, 1);
  EXPECT_FALSE(agreement.open());
}

TEST(StopAgreementTest, AnUndecidedSaveBecomesAStop) {
  StopAgreement agreement;
  agreement.begin(1, Page::kSave, 1);
  EXPECT_TRUE(agreement.upgrade(Page::kSaveAndExit));
  EXPECT_EQ(agreement.kind(), Page::kSaveAndExit);
}

// A learner as libdlckpt plays it (progress_page.h), on the page an agent made.
class PlayedLearner {
 public:
  explicit PlayedLearner(const std::string& path) {
    int fd = ::open(path.c_str(), O_RDWR);
    page_ = static_cast<Page*>(::mmap(nullptr, kProgressPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    ::close(fd);
    page_->state = Page::kTraining;
  }
  ~PlayedLearner() { ::munmap(page_, kProgressPageBytes); }
  PlayedLearner(const PlayedLearner&) = delete;
  PlayedLearner& operator=(const PlayedLearner&) = delete;

  // What is to be done before train step s.
  uint32_t want(int64_t s) {
    page_->step = s;
    uint32_t seq = page_->seq;
    if (seq == page_->seen_seq) return Page::kNone;
    while (page_->stop_step == Page::kUndecided) std::this_thread::yield();
    if (s < page_->stop_step) return Page::kNone;
    page_->seen_seq = seq;
    return page_->kind;
  }

 private:
  Page* page_;
};

TEST(StopAgreementTest, AllLearnersActAtOneTrainStepWhateverTheTiming) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    constexpr int kWorld = 4;
    std::vector<std::unique_ptr<protocol::ProgressFile>> pages;
    std::vector<int64_t> stopped(kWorld, -1);
    for (int rank = 0; rank < kWorld; ++rank) {
      pages.push_back(std::make_unique<protocol::ProgressFile>());
      ASSERT_TRUE(pages.back()->create(rank));
    }
    std::vector<std::thread> learners;
    for (int rank = 0; rank < kWorld; ++rank) {
      unsigned lead = random() % 3000;  // learners of a job drift apart
      learners.emplace_back([&, rank, lead] {
        PlayedLearner learner(pages[static_cast<size_t>(rank)]->path());
        for (int64_t s = 0;; ++s) {
          if (learner.want(s) == Page::kSaveAndExit) {
            stopped[static_cast<size_t>(rank)] = s;
            return;
          }
          for (volatile unsigned i = 0; i < lead; i = i + 1) continue;
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
    StopAgreement agreement;
    agreement.begin(1, Page::kSaveAndExit, kWorld);
    for (int rank = 0; rank < kWorld; ++rank) {
      auto view = pages[static_cast<size_t>(rank)]->request(Page::kSaveAndExit);
      agreement.answer(rank, 1, {true, view.state, view.step});
    }
    StopDecision decision = agreement.decide();
    // A learner that had not attached yet counts by its state here.
    ASSERT_EQ(decision.kind, Kind::kDecide);
    for (auto& page : pages) page->decide(Page::kSaveAndExit, decision.step);
    for (std::thread& learner : learners) learner.join();
    for (int64_t step : stopped) EXPECT_EQ(step, decision.step);
  }
}

}  // namespace
}  // namespace dl::supervise
