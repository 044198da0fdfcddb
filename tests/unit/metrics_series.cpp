// SPDX-License-Identifier: Apache-2.0
// The series of metrics: their format, what is read of a file that ends anywhere, thinning, and one writer after
// another.
#include "launcher/metrics/series.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <random>
#include <set>

#include "launcher/metrics/crc32c.h"
#include "launcher/metrics/series_writer.h"
#include "tests/unit/metrics_support.h"

namespace dl::metrics {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Crc32cTest, HasTheKnownValues) {
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    std::string text(random() % 300, '\0');
    for (char& c : text) c = static_cast<char>(random());
    ASSERT_EQ(crc32c(text), crc32c_by_table(text));
  }
}

TEST(SeriesTest, AFrameIsWhatTheFormatSays) {
  Frame frame;
  frame.add_name(0, "train", "loss");
  const std::string text = frame.take();
  EXPECT_EQ(text.substr(8), std::string("N\x0e\0\0\0\0\0\x05trainloss", 17));
  EXPECT_EQ(text.substr(0, 4), std::string("\x11\0\0\0", 4));
  EXPECT_TRUE(frame.empty());
}

std::string sample(size_t frames) {
  std::string text(kSeriesMagic);
  for (size_t i = 0; i < frames; ++i) {
    Frame frame;
    if (i == 0) frame.add_name(0, "train", "loss");
    frame.add_point(0, {1000 + static_cast<int64_t>(i), static_cast<int64_t>(i), static_cast<double>(i)});
    frame.add_position("#log", i * 10);
    text += frame.take();
  }
  return text;
}

// A learner may write anything there, and readers compute with times.
TEST(SeriesTest, NoTimeIsBeforeThe1970sOrAfterAllOthers) {
  std::string text(kSeriesMagic);
  Frame frame;
  frame.add_name(0, "train", "loss");
  frame.add_point(0, {INT64_MIN, 1, 0.5});
  frame.add_point(0, {INT64_MAX, 2, 0.5});
  frame.add_begin({0, INT64_MIN});
  text += frame.take();
  const auto file = parse_series(text);
  ASSERT_TRUE(file);
  ASSERT_EQ(file->series.at(0).points.size(), 2U);
  EXPECT_EQ(file->series[0].points[0].time_ms, 0);
  EXPECT_EQ(file->series[0].points[1].time_ms, 1'000'000'000'000'000);
  EXPECT_EQ(file->begin->time_ms, 0);
}

TEST(SeriesTest, AnyPrefixGivesTheWholeFramesInIt) {
  const std::string text = sample(5);
  size_t points = 0;
  for (size_t size = 0; size <= text.size(); ++size) {
    const auto file = parse_series(text.substr(0, size));
    ASSERT_TRUE(file) << size;
    const size_t now = file->series.empty() ? 0 : file->series[0].points.size();
    ASSERT_GE(now, points);
    ASSERT_LE(file->whole, size);
    ASSERT_EQ(file->damaged, file->whole < size);
    points = now;
  }
  EXPECT_EQ(points, 5U);
}

TEST(SeriesTest, ADamagedFrameEndsTheFileBeforeIt) {
  const std::string text = sample(3);
  for (size_t at = kSeriesMagic.size(); at < text.size(); ++at) {
    std::string broken = text;
    broken[at] = static_cast<char>(broken[at] ^ 0x20);
    const auto file = parse_series(broken);
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->damaged);
    ASSERT_LT(file->series.empty() ? 0 : file->series[0].points.size(), 3U);
  }
  EXPECT_FALSE(parse_series("#!/bin/sh\n"));
  EXPECT_FALSE(parse_series("DLS!"));
}

TEST(SeriesTest, RecordsOfLaterVersionsArePassedOver) {
  std::string payload("Z\x02\0ab", 5);
  Frame frame;
  frame.add_name(0, "train", "loss");
  payload += frame.take().substr(kFrameHead);
  std::string text(kSeriesMagic);
  const auto put = [&](uint64_t value) {
    for (int i = 0; i < 4; ++i) text.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  };
  put(payload.size());
  put(crc32c(payload));
  text += payload;
  const auto file = parse_series(text);
  ASSERT_TRUE(file);
  ASSERT_EQ(file->series.size(), 1U);
  EXPECT_FALSE(file->damaged);
}

TEST(SeriesTest, ThinningHalvesAndKeepsTheExtremesAndTheEnds) {
  std::mt19937 random(7);
  for (int run = 0; run < 100; ++run) {
    std::vector<Point> points(5 + random() % 500);
    for (size_t i = 0; i < points.size(); ++i)
      points[i] = {static_cast<int64_t>(i), static_cast<int64_t>(i),
                   random() % 20 == 0 ? kNan : static_cast<double>(random() % 1000)};
    const std::vector<Point> kept = thinned(points);
    ASSERT_LE(kept.size(), points.size() / 2 + 4);
    const auto extremes = [](const std::vector<Point>& of) {
      double low = INFINITY, high = -INFINITY;
      for (const Point& point : of)
        if (std::isfinite(point.value)) low = std::min(low, point.value), high = std::max(high, point.value);
      return std::pair(low, high);
    };
    EXPECT_EQ(extremes(kept), extremes(points));
    EXPECT_EQ(kept.front().step, points.front().step);
    EXPECT_EQ(kept.back().step, points.back().step);
    for (size_t i = 1; i < kept.size(); ++i) ASSERT_LT(kept[i - 1].step, kept[i].step);
  }
}

class SeriesWriterTest : public MetricsFolder {};

TEST_F(SeriesWriterTest, AnotherWriterGoesOnWhereTheFirstWasKilled) {
  SeriesWriter first;
  ASSERT_TRUE(first.open(path()));
  first.add("train", "loss", {1, 1, 0.5});
  first.position("#log", 77);
  first.begin({0, 1});
  ASSERT_TRUE(first.flush());
  append("learner-0.series", "a torn frame");
  SeriesWriter second;
  ASSERT_TRUE(second.open(path()));
  EXPECT_EQ(second.positions().at("#log"), 77U);
  EXPECT_TRUE(second.has_begin());
  second.add("train", "loss", {2, 2, 0.25});
  second.add("train", "acc", {2, 2, 0.75});
  ASSERT_TRUE(second.flush());
  EXPECT_EQ(shown(file()), "train/loss: 1=0.5 2=0.25; train/acc: 2=0.75");
  EXPECT_FALSE(file().damaged);
}

TEST_F(SeriesWriterTest, AProgressBarThatIsDrawnAgainGivesOnePoint) {
  SeriesWriter writer;
  ASSERT_TRUE(writer.open(path()));
  for (int i = 0; i < 5; ++i) writer.add("train", "loss", {i, 1, 0.5});
  for (int i = 0; i < 3; ++i) writer.add("train", "acc", {i, kNoStep, 0.5});  // without a step it may be another value
  ASSERT_TRUE(writer.flush());
  EXPECT_EQ(shown(file()), "train/loss: 1=0.5; train/acc: -=0.5 -=0.5 -=0.5");
}

TEST_F(SeriesWriterTest, NamesByTheMillionAreBoundedAndThatIsSaidOnce) {
  SeriesWriter writer;
  ASSERT_TRUE(writer.open(path()));
  for (int i = 0; i < 100'000; ++i) writer.add("train", "loss" + std::to_string(i), {i, i, 1});
  writer.add("train", std::string(1'000'000, 'x'), {1, 1, 1});
  ASSERT_TRUE(writer.flush());
  EXPECT_EQ(file().series.size(), kMostSeries);
  ASSERT_EQ(file().notes.size(), 1U);
  EXPECT_EQ(file().notes[0], "there are more than 1000 names; further ones are left out");
  EXPECT_LT(content().size(), 100'000U);
}

TEST_F(SeriesWriterTest, AFileIsBoundedAndKeepsItsExtremes) {
  SeriesWriter writer;
  ASSERT_TRUE(writer.open(path(), 100'000));
  for (int i = 0; i < 50'000; ++i) {
    writer.add("train", "loss", {i, i, i == 777 ? 99.0 : i == 40'001 ? -5.0 : static_cast<double>(i % 7)});
    if (i % 100 == 0) {
      ASSERT_TRUE(writer.flush());
    }
  }
  writer.position("#log", 123);
  ASSERT_TRUE(writer.flush());
  EXPECT_LE(content().size(), 110'000U);
  double low = 0, high = 0;
  for (const Point& point : file().series[0].points)
    low = std::min(low, point.value), high = std::max(high, point.value);
  EXPECT_EQ(low, -5);
  EXPECT_EQ(high, 99);
  EXPECT_EQ(file().positions.at("#log"), 123U);
  EXPECT_EQ(file().series[0].points.front().step, 0);
}

TEST_F(SeriesWriterTest, WhatCannotBeWrittenIsBoundedAndComesLaterWithAWordOfWhatIsMissing) {
  SeriesWriter writer;
  ASSERT_TRUE(writer.open(path("folder/series")));
  for (int i = 0; i < 1'000'000; ++i) {
    writer.add("train", "loss", {i, i, static_cast<double>(i)});
    writer.position("#log", static_cast<uint64_t>(i));
    if (i % 1000 != 0) continue;
    EXPECT_FALSE(writer.flush());
    ASSERT_LT(writer.waiting(), 5U << 20) << i;
  }
  ASSERT_EQ(::mkdir(path("folder").c_str(), 0700), 0);
  writer.position("#log", 7);
  ASSERT_TRUE(writer.flush());
  writer.position("#log", 1'000'000);
  ASSERT_TRUE(writer.flush());
  const SeriesFile now = file("folder/series");
  EXPECT_FALSE(now.damaged);
  ASSERT_EQ(now.series.size(), 1U);
  EXPECT_GT(now.series[0].points.size(), 10'000U);
  EXPECT_LT(content("folder/series").size(), 8U << 20);
  EXPECT_EQ(now.positions.at("#log"), 1'000'000U);
  ASSERT_EQ(now.notes.size(), 1U);
  EXPECT_EQ(now.notes[0], "values are missing, because the file could not be written for long");
}

TEST_F(SeriesWriterTest, SomethingElseUnderTheNameIsReplacedAndALinkIsNotFollowed) {
  append("learner-0.series", "this is no series");
  SeriesWriter writer;
  ASSERT_TRUE(writer.open(path()));
  writer.add("train", "loss", {1, 1, 0.5});
  ASSERT_TRUE(writer.flush());
  EXPECT_EQ(shown(file()), "train/loss: 1=0.5");
  append("precious", "keep");
  ASSERT_EQ(::symlink(path("precious").c_str(), path("linked").c_str()), 0);
  SeriesWriter other;
  ignore(other.open(path("linked")), "refused or replaced");
  other.add("train", "loss", {1, 1, 0.5});
  ignore(other.flush(), "refused or replaced");
  EXPECT_EQ(content("precious"), "keep");
}

// Kill −9 at any moment: what was flushed is there, once, in order.
TEST_F(SeriesWriterTest, AWriterThatIsKilledLeavesAReadableFileAndNothingIsDoubled) {
  std::mt19937 random(3);
  int64_t written = 0;
  for (int kill = 0; kill < 60; ++kill) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      SeriesWriter writer;
      if (!writer.open(path(), 60'000)) ::_exit(1);
      const auto known = writer.positions().find("#log");
      for (int64_t i = known == writer.positions().end() ? 0 : static_cast<int64_t>(known->second);; ++i) {
        writer.add("train", "loss", {i, i, static_cast<double>(i)});
        writer.position("#log", static_cast<uint64_t>(i + 1));
        if (!writer.flush()) ::_exit(1);
      }
    }
    ::usleep(random() % 4000);
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
    if (content().empty()) continue;
    const SeriesFile now = file();
    if (now.series.empty()) continue;
    std::set<int64_t> steps;
    for (const Point& point : now.series[0].points) ASSERT_TRUE(steps.insert(point.step).second) << "doubled";
    ASSERT_EQ(static_cast<uint64_t>(*steps.rbegin()) + 1, now.positions.at("#log"));
    ASSERT_GE(*steps.rbegin(), written);
    written = *steps.rbegin();
  }
  EXPECT_GT(written, 0);
}

}  // namespace
}  // namespace dl::metrics
