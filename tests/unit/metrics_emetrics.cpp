// SPDX-License-Identifier: Apache-2.0
// Records of metrics as programs write them: dl.metric(), dl_metric(), and FfDL's.
#include "launcher/metrics/emetrics.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <limits>
#include <random>
#include <thread>

#include "common/base/awake_clock.h"
#include "launcher/metrics/collector.h"
#include "tests/unit/metrics_support.h"

namespace dl::metrics {
namespace {

std::string record(const std::string& name, const std::string& value, const std::string& step) {
  return R"({"meta":{"time":1789000000000},"grouplabel":"train","etimes":{"iteration":{"type":"INT","value":")" + step +
         R"("}},"values":{")" + name + R"(":{"type":"FLOAT","value":")" + value + "\"}}}";
}

std::string found_in(const std::string& line) {
  std::vector<Found> found;
  return read_emetrics(line, &found) ? shown(found) : "none";
}

TEST(EmetricsTest, RecordsOfOursAndOfFfdl) {
  EXPECT_EQ(found_in(record("loss", "0.33", "10")), "train/loss=0.33@10,1789000000000");
  // As FfDL's emetrics.py writes them, with types by number and texts among the values.
  EXPECT_EQ(found_in(R"({"meta": {"training_id": "t-1", "time": 1538000000000, "rindex": 1, "subid": "1"},)"
                     R"( "grouplabel": "test", "etimes": {"iteration": {"type": 2, "value": "3"},)"
                     R"( "time_stamp": {"value": "2018-09-26T00:00:00"}},)"
                     R"( "values": {"accuracy": {"type": 3, "value": "0.9"}, "note": {"value": "good"}}})"),
            "test/accuracy=0.9@3,1538000000000");
  EXPECT_EQ(found_in(R"({"grouplabel": "val", "etimes": {"global_step": 7}, "values": {"f1": 0.5, "n": "3"}})"),
            "validate/f1=0.5@7 validate/n=3@7");
  EXPECT_EQ(found_in(R"({"values": {"loss": {"type": "FLOAT", "value": "nan"}, "lr": {"value": "-inf"}}})"),
            "train/loss=nan train/lr=-inf");
  EXPECT_EQ(found_in(R"({"grouplabel": "Distilled", "values": {"loss": 1e-3}})"), "distilled/loss=0.001");
}

TEST(EmetricsTest, WhatIsNoRecordOrNoNumberIsPassedOver) {
  for (const char* line : {"", "{}", "[]", "5", "{\"values\": 3}", "{\"values\": [1]}", "loss: 0.5", "{\"values\": {",
                           "{\"loss\": 0.5}", "{\"values\": {\"loss\": NaN}}", "\xff\xfe"})
    EXPECT_EQ(found_in(line), "none") << line;
  EXPECT_EQ(found_in(R"({"values": {"": 1, "a": null, "b": [], "c": {}, "d": "x", "e": "1 2", "f": {"value": {}}}})"),
            "");
  for (const char* step : {"-1", "1.5", "x", "nan", "1e300", "9999999999999"})
    EXPECT_EQ(found_in(R"({"etimes": {"iteration": {"value": ")" + std::string(step) + R"("}}, "values": {"a": 1}})"),
              "train/a=1")
        << step;
  for (const char* time : {"-1", "0", "1e300", "\"x\"", "null"})
    EXPECT_EQ(found_in(R"({"meta": {"time": )" + std::string(time) + R"(}, "values": {"a": 1}})"), "train/a=1") << time;
  // What the launcher measures is its own.
  EXPECT_EQ(found_in(R"({"grouplabel": "launcher", "values": {"save_s": 1}})"), "train/save_s=1");
}

TEST(EmetricsTest, RecordsThatWereLeftOutAreCountedHoweverManyTheyAre) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const std::vector<std::pair<std::string, int64_t>> kCases = {{"3", 3},
                                                               {"0", 0},
                                                               {"-1", 0},
                                                               {"0.5", 0},
                                                               {"\"3\"", 0},
                                                               {"9223372036854775807", kMost},
                                                               {"9223372036854775808", kMost},
                                                               {"18446744073709551615", kMost}};
  for (const auto& [said, count] : kCases) {
    std::vector<Found> found;
    const auto left_out = read_emetrics(R"({"values":{"a":1},"left_out":)" + said + "}", &found);
    ASSERT_TRUE(left_out) << said;
    EXPECT_EQ(*left_out, count) << said;
  }
}

TEST(EmetricsTest, AnyBytesAreBorne) {
  std::mt19937 random(7);
  const std::string whole = record("loss", "0.33", "10");
  for (int i = 0; i < 20'000; ++i) {
    std::string line = whole;
    for (size_t n = random() % 4; n > 0; --n) line[random() % line.size()] = static_cast<char>(random());
    line.resize(random() % (line.size() + 1));
    std::vector<Found> found;
    const auto left_out = read_emetrics(line, &found);
    for (const Found& one : found) ASSERT_TRUE(left_out && one.step >= kNoStep && one.time_ms >= 0);
  }
}

class ReportedTest : public MetricsFolder {
 protected:
  void collect(bool finish = true) {
    Collector collector({path(), path("log"), path("values"), path("evaluation-metrics.txt"), "", 0});
    ASSERT_TRUE(collector.open());
    while (collector.look(1000)) continue;
    if (finish) collector.finish(1000, awake_ms() + 1000);
  }
};

TEST_F(ReportedTest, RecordsAreReadOnceAlsoByOneCollectorAfterAnother) {
  collect();  // there is no such file yet
  append("values", record("loss", "0.5", "1") + "\n" + record("loss", "0.25", "2").substr(0, 50));
  collect(false);
  append("values", record("loss", "0.25", "2").substr(50) + "\n\n");
  collect(false);
  collect(false);
  append("values", record("loss", "0.125", "3"));
  collect();
  EXPECT_EQ(shown(file()), "train/loss: 1=0.5 2=0.25 3=0.125");
  EXPECT_EQ(file().series[0].points[0].time_ms, 1789000000000);
}

TEST_F(ReportedTest, AValueThatIsPrintedTooIsThereOnce) {
  append("values", record("Loss", "0.5123", "1") + "\n");
  append("log", "step 1: loss=0.51 acc=0.5\n");
  collect(false);
  append("values", record("Loss", "0.25", "2") + "\n");
  append("log", "step 2: loss=0.25 acc=0.75\n");
  collect();
  EXPECT_EQ(shown(file()), "train/Loss: 1=0.5123 2=0.25; train/acc: 1=0.5 2=0.75");
}

// The program's thread stands for a learner that reports each value, and prints it, rounded, at once.
TEST_F(ReportedTest, AValueThatIsPrintedRightAfterItsReportIsThereOnce) {
  constexpr int kNames = 900;
  append("values", "");
  append("log", "");
  std::atomic<bool> ended{false};
  std::thread program([&] {
    for (int i = 0; i < kNames; ++i) {
      append("values", record("loss_" + std::to_string(i), "0.7512", "1") + "\n");
      append("log", "step 1: loss_" + std::to_string(i) + "=0.75\n");
    }
    ended = true;
  });
  Collector collector({path(), path("log"), path("values"), "", "", 0});
  EXPECT_TRUE(collector.open());
  while (!ended) collector.look(1000);
  program.join();
  collector.finish(1000, awake_ms() + 60'000);
  const SeriesFile all = file();
  EXPECT_EQ(all.series.size(), static_cast<size_t>(kNames));
  for (const Series& one : all.series) EXPECT_EQ(one.points.size(), 1U) << one.name;
}

TEST_F(ReportedTest, NamesThatAreTooLongAreCutEverywhere) {
  const std::string longest(kMostName, 'a'), group(70'000, 'g');
  append("values", record(longest + std::string(70'000, 'b'), "0.5", "1") + "\n");
  append("values", R"({"grouplabel": ")" + group + R"(", "values": {"loss": 1}})" + "\n");
  collect(false);
  append("values", record("loss", "0.25", "2") + "\n");
  collect();
  EXPECT_FALSE(file().damaged);
  EXPECT_EQ(shown(file()),
            "train/" + longest + ": 1=0.5; " + group.substr(0, kMostName) + "/loss: -=1; train/loss: 2=0.25");
  for (const auto& [name, position] : file().positions) EXPECT_LE(name.size(), 2 * kMostName + 10);
}

TEST_F(ReportedTest, AFileThatIsFullIsSaid) {
  const std::string last = record("loss", "0.5", "1") + "\n";
  SeriesWriter writer;
  ASSERT_TRUE(writer.open(path()));
  writer.position("#values", kMostReported - last.size());
  ASSERT_TRUE(writer.flush());
  append("values", "");
  ASSERT_EQ(::truncate(path("values").c_str(), static_cast<off_t>(kMostReported - last.size())), 0);
  collect();
  EXPECT_EQ(file().notes.size(), 0U);
  append("values", last);
  collect();
  collect();
  ASSERT_EQ(file().notes.size(), 1U);
  EXPECT_NE(file().notes[0].find("256 MiB"), std::string::npos);
}

TEST_F(ReportedTest, WhatIsWrongWithTheFileIsSaidOnce) {
  append("values", "rubbish\n" + std::string(3 << 20, 'x') + "\nmore\n" + record("loss", "0.5", "1") + "\n" +
                       R"({"left_out": 3, "values": {"loss": 0.25}})" + "\n");
  collect();
  EXPECT_EQ(shown(file()), "train/loss: 1=0.5 -=0.25");
  ASSERT_EQ(file().notes.size(), 2U);
  EXPECT_NE(file().notes[0].find("no records of metrics"), std::string::npos);
  EXPECT_NE(file().notes[1].find("are missing"), std::string::npos);
}

TEST_F(ReportedTest, FfdlsFileIsReadBesideOurs) {
  append("values", record("loss", "0.5", "1") + "\n");
  append("evaluation-metrics.txt", R"({"grouplabel": "test", "etimes": {"iteration": {"type": 2, "value": "3"}},)"
                                   R"( "values": {"accuracy": {"type": 3, "value": "0.9"}}})"
                                   "\n");
  collect(false);
  append("evaluation-metrics.txt", R"({"grouplabel": "test", "etimes": {"iteration": 4}, "values": {"accuracy": 1}})");
  collect();
  collect();
  EXPECT_EQ(shown(file()), "train/loss: 1=0.5; test/accuracy: 3=0.9 4=1");
}

TEST_F(ReportedTest, AFileThatIsAPipeIsNotWaitedFor) {
  ASSERT_EQ(::mkfifo(path("values").c_str(), 0600), 0);
  append("log", "step 1: loss=0.5\n");
  collect();
  EXPECT_EQ(shown(file()), "train/loss: 1=0.5");
  ASSERT_EQ(file().notes.size(), 1U);
  EXPECT_NE(file().notes[0].find("is no regular file"), std::string::npos);
}

}  // namespace
}  // namespace dl::metrics
