// SPDX-License-Identifier: Apache-2.0
// Metrics in what training scripts print, without being told which.
#include <fcntl.h>
#include <sys/stat.h>

#include <random>

#include "common/base/awake_clock.h"
#include "launcher/metrics/collector.h"
#include "launcher/metrics/usual_lines.h"
#include "tests/unit/metrics_support.h"

namespace dl::metrics {
namespace {

std::string found_in(UsualLines* lines, const std::string& line) {
  std::vector<Found> found;
  lines->read(line, &found);
  return shown(found);
}
std::string found_in(const std::string& line) {
  UsualLines lines;
  return found_in(&lines, line);
}

TEST(UsualLinesTest, NumbersAreReadAsPeopleWriteThem) {
  const auto read = [](const std::string& text) {
    size_t bytes = 0;
    const double value = number_at(text, &bytes);
    return std::to_string(bytes) + ":" + (bytes == 0 ? "" : std::isnan(value) ? "nan" : std::to_string(value));
  };
  EXPECT_EQ(read("0.25,"), "4:0.250000");
  EXPECT_EQ(read("-1.5e-1 x"), "7:-0.150000");
  EXPECT_EQ(read("+3"), "2:3.000000");
  EXPECT_EQ(read(".5"), "2:0.500000");
  EXPECT_EQ(read("NaN)"), "3:nan");
  EXPECT_EQ(read("-inf"), "4:-inf");
  EXPECT_EQ(read("Infinity"), "8:inf");
  EXPECT_EQ(read("1e999"), "5:inf");
  EXPECT_EQ(read("1e-999"), "6:0.000000");
  EXPECT_EQ(read("-12.5E-400"), "10:-0.000000");
  EXPECT_EQ(read("1e+999"), "6:inf");
  EXPECT_EQ(read("nancy"), "0:");
  EXPECT_EQ(read("info"), "0:");
  EXPECT_EQ(read("x"), "0:");
  EXPECT_EQ(read("-"), "0:");
  EXPECT_EQ(read(""), "0:");
}

TEST(UsualLinesTest, PytorchExamples) {
  UsualLines lines;
  EXPECT_EQ(found_in(&lines,
                     "Epoch: [0][  10/5005]\tTime  0.336 ( 1.256)\tData  0.000 ( 0.690)\tLoss 7.0012e+00 (7.0321e+00)"
                     "\tAcc@1   0.00 (  0.07)\tAcc@5   0.39 (  0.36)"),
            "train/loss=7.0012@10 train/acc@1=0@10 train/acc@5=0.39@10");
  EXPECT_EQ(found_in(&lines, "Epoch: [2][   1/5005]\tTime  0.336 ( 1.256)\tLoss 6.5 (7.0)"), "train/loss=6.5@10011");
  EXPECT_EQ(found_in(&lines, "Test: [  0/196]\tTime  4.2 ( 4.2)\tLoss 6.6e+00 (6.6e+00)\tAcc@1   0.39 (  0.39)"), "");
  EXPECT_EQ(found_in(&lines, " *   Acc@1 69.758 Acc@5 89.078"),
            "validate/acc@1=69.758@10011 validate/acc@5=89.078@10011");
  UsualLines mnist;
  EXPECT_EQ(found_in(&mnist, "Train Epoch: 1 [640/60000 (1%)]\tLoss: 1.703123"), "train/loss=1.70312");
  EXPECT_EQ(found_in(&mnist, "Test set: Average loss: 0.0543, Accuracy: 9822/10000 (98%)"),
            "test/loss=0.0543 test/accuracy=0.9822");
}

TEST(UsualLinesTest, Lightning) {
  UsualLines lines;
  EXPECT_EQ(found_in(&lines,
                     "Epoch 3:  10%|\xe2\x96\x88         | 10/100 [00:01<00:09,  9.9it/s, v_num=3, train_loss=0.33, "
                     "val_loss=0.4]"),
            "train/loss=0.33@310 validate/loss=0.4@310");
  EXPECT_EQ(found_in(&lines, "Validation DataLoader 0:  50%|#####     | 5/10 [00:00<00:00, 9.9it/s]"), "");
}

TEST(UsualLinesTest, Transformers) {
  UsualLines lines;
  EXPECT_EQ(found_in(&lines, " 10%|#         | 50/500 [00:10<01:30,  5.00it/s]"), "");
  EXPECT_EQ(found_in(&lines, "{'loss': 0.3312, 'grad_norm': 1.25, 'learning_rate': 5e-05, 'epoch': 0.5}"),
            "train/loss=0.3312@50 train/grad_norm=1.25@50 train/learning_rate=5e-05@50");
  EXPECT_EQ(found_in(&lines, "{'eval_loss': 0.25, 'eval_accuracy': 0.91, 'eval_runtime': 3.1, 'epoch': 1.0}"),
            "validate/loss=0.25@50 validate/accuracy=0.91@50");
  EXPECT_EQ(found_in(&lines, "{'loss': '0.3312', 'epoch': '0.5'}"), "train/loss=0.3312@50");
}

TEST(UsualLinesTest, Keras) {
  UsualLines lines;
  EXPECT_EQ(found_in(&lines, "Epoch 1/5"), "");
  EXPECT_EQ(
      found_in(&lines, "1875/1875 [==============================] - 3s 1ms/step - loss: 0.2945 - accuracy: 0.9142"),
      "train/loss=0.2945@1875 train/accuracy=0.9142@1875");
  EXPECT_EQ(found_in(&lines, "Epoch 2/5"), "");
  EXPECT_EQ(
      found_in(&lines, "  10/1875 \xe2\x94\x81\xe2\x94\x81 3s 1ms/step - accuracy: 0.93 - loss: 0.25 - val_loss: 0.2"),
      "train/accuracy=0.93@1885 train/loss=0.25@1885 validate/loss=0.2@1885");
}

TEST(UsualLinesTest, LinesLikeThem) {
  EXPECT_EQ(found_in("step 120: loss=0.33, lr 0.001"), "train/loss=0.33@120 train/lr=0.001@120");
  EXPECT_EQ(found_in("loss: 0.33 at step 7"), "train/loss=0.33@7");
  EXPECT_EQ(found_in("[2026-11-27 00:01:02] INFO step: 100 | train/loss: 1e-3 | eval.f1: 0.5"),
            "train/loss=0.001@100 validate/f1=0.5@100");
  EXPECT_EQ(found_in("global_step=5 loss=nan"), "train/loss=nan@5");
  EXPECT_EQ(found_in("{\"step\": 3, \"loss\": 0.5}"), "train/loss=0.5@3");
  EXPECT_EQ(found_in("accuracy: 93.5%"), "train/accuracy=93.5");
}

TEST(UsualLinesTest, WhatOnlyLooksLikeItIsNone) {
  for (const char* line :
       {"using loss: cross_entropy", "error 404", "the loss of 3 workers", "loss", "loss:", "loss 3", "map /dev/x",
        "Traceback (most recent call last):", "lr scheduler: 10s", "downloaded 10/20 files", "error: 12:30",
        "closs: 0.5", "", "=", "loss=", "loss=x", "v_num=3"})
    EXPECT_EQ(found_in(line), "") << line;
}

TEST(UsualLinesTest, MoreTrainStepsThanThereCanBeAreNoneKnown) {
  UsualLines lines;
  EXPECT_EQ(found_in(&lines, "Epoch 999999999998:   0%|   | 1/999999999999 [ loss=0.5"), "train/loss=0.5");
  EXPECT_EQ(found_in(&lines, "Epoch 999999999999/999999999999 loss=0.5"), "train/loss=0.5");
  EXPECT_EQ(lines.counted, kNoStep);
}

TEST(UsualLinesTest, AnyBytesAreBorne) {
  std::mt19937 random(5);
  const std::string pieces[] = {"loss",
                                "=",
                                ":",
                                " ",
                                "0.5",
                                "step",
                                "Epoch",
                                "[",
                                "10/20",
                                "|",
                                "\xff",
                                std::string(1, '\0'),
                                "nan",
                                "'",
                                "1e9999",
                                "/",
                                "999999999999999999999",
                                "\x1b[31m",
                                "{",
                                "}",
                                "@",
                                "%",
                                "Test: ["};
  UsualLines lines;
  for (int i = 0; i < 50'000; ++i) {
    std::string line;
    for (size_t n = random() % 12; n > 0; --n) line += pieces[random() % std::size(pieces)];
    std::vector<Found> found;
    lines.read(line, &found);
    for (const Found& one : found) ASSERT_GE(one.step, kNoStep);
  }
}

class CollectorTest : public MetricsFolder {
 protected:
  void collect(bool finish = true) {
    Collector collector({path(), path("log"), "", "", "", 0});
    ASSERT_TRUE(collector.open());
    while (collector.look(1000)) continue;
    if (finish) collector.finish(1000, awake_ms() + 1000);
  }
};

TEST_F(CollectorTest, ALogIsReadOnceAlsoByOneCollectorAfterAnother) {
  collect();  // there is no log yet
  append("log", "step 1: loss=0.5\nstep 2: lo");
  collect(false);
  append("log", "ss=0.25\rstep 3: loss=0.125\r\n");
  collect(false);
  collect(false);
  append("log", "step 4: loss=0.0625");
  collect();
  EXPECT_EQ(shown(file()), "train/loss: 1=0.5 2=0.25 3=0.125 4=0.0625");
}

TEST_F(CollectorTest, AHundredMegabytesWithoutANewlineHarmNothing) {
  const std::string block(1 << 20, 'x');
  for (int i = 0; i < 100; ++i) append("log", block);
  append("log", "\nloss: 0.5 at step 1\n");
  collect();
  EXPECT_EQ(shown(file()), "train/loss: 1=0.5");
}

TEST_F(CollectorTest, ALogThatIsAPipeIsNotWaitedFor) {
  ASSERT_EQ(::mkfifo(path("log").c_str(), 0600), 0);
  collect();
  ASSERT_EQ(file().notes.size(), 1U);
  EXPECT_NE(file().notes[0].find("is no regular file"), std::string::npos);
}

TEST(RatesTest, TrainStepsAndSamplesASecond) {
  Rates rates(32);
  std::vector<Found> found;
  PageView page;
  rates.look(page, 0, false, &found);
  page.attached = true;
  page.step = 100;
  rates.look(page, 1000, false, &found);
  page.step = 150;
  rates.look(page, 6000, false, &found);
  EXPECT_TRUE(found.empty());
  page.step = 200;
  rates.look(page, 11'000, false, &found);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, "train_steps_per_s");
  EXPECT_EQ(found[0].value, 10);
  EXPECT_EQ(found[1].name, "samples_per_s");
  EXPECT_EQ(found[1].value, 320);
  found.clear();
  page.saved_step = 200;
  page.save_ms = 1500;
  page.cost_ms = 20;
  rates.look(page, 11'500, false, &found);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, "save_s");
  EXPECT_EQ(found[0].value, 1.5);
  EXPECT_EQ(found[1].value, 0.02);
  found.clear();
  page.step = 220;
  rates.look(page, 13'000, true, &found);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].value, 10);
}

TEST(RatesTest, AClockThatIsSetBackBeginsTheCountAnew) {
  Rates rates;
  std::vector<Found> found;
  PageView page;
  page.attached = true;
  page.step = 0;
  rates.look(page, 1'000'000, false, &found);
  page.step = 90;
  rates.look(page, 500'000, false, &found);
  page.step = 190;
  rates.look(page, 510'000, false, &found);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].value, 10);
}

}  // namespace
}  // namespace dl::metrics
