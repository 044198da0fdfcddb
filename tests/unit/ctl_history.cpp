// SPDX-License-Identifier: Apache-2.0
// The history of tenants: kept, read back, drawn.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "launcher/ctl/history_plot.h"
#include "tests/unit/policy_support.h"

namespace dl::ctl {
namespace {

using observe::format_history;
using observe::History;
using observe::parse_history;
using observe::TenantSpan;

constexpr int64_t kNow = 1'789'000'200;  // a whole quarter of an hour and two minutes

policy::QuotaRow row(const std::string& tenant, int own, int pending = 0) {
  policy::QuotaRow row;
  row.tenant = tenant;
  row.quota = 8;
  row.own = own;
  row.pending = pending;
  return row;
}

TenantSpan span(int64_t time_s, const std::string& tenant, double own) {
  TenantSpan span{time_s, 60, tenant};
  span.quota = 8;
  span.own = own;
  return span;
}

TEST(HistoryTest, WhatIsSeenWithinAMinuteIsAveragedAndComesBackFromTheFile) {
  History history;
  const int64_t minute = kNow / 60 * 60;
  for (int second = 0; second < 60; ++second)
    history.add(minute + second, {row("vision", second < 15 ? 4 : 8), row("nlp", 1)});
  history.add(minute + 60, {row("vision", 2, 300)});
  const std::string text = format_history(history.spans(minute + 60));
  EXPECT_EQ(text, "time_s,span_s,tenant,quota,own,lent,borrowed,unused,pending\n" + std::to_string(minute) +
                      ",60,nlp,8,1,0,0,0,0\n" + std::to_string(minute) + ",60,vision,8,7,0,0,0,0\n" +
                      std::to_string(minute + 60) + ",60,vision,8,2,0,0,0,300\n");
  const auto read = parse_history(text, minute + 60);
  EXPECT_EQ(read.skipped, 0);
  EXPECT_EQ(format_history(read.spans), text);
  TenantSpan part = span(minute, "a", 0.05);
  part.lent = 2.999;
  EXPECT_NE(format_history({part}).find(",a,8,0.05,3,0,"), std::string::npos) << format_history({part});
  EXPECT_DOUBLE_EQ(parse_history(format_history({part}), kNow).spans[0].own, 0.05);
}

TEST(HistoryTest, OldMinutesBecomeQuartersAndAtLastGo) {
  std::vector<TenantSpan> spans;
  for (int64_t at = (kNow - 70 * 86400) / 60 * 60; at < kNow; at += 60)
    spans.push_back(span(at, "a", (at / 60) % 2 == 0 ? 2 : 6));
  const auto kept = History(spans).spans(kNow);
  EXPECT_GE(kept.front().time_s, kNow - History::kKeptS - History::kCoarseS);
  EXPECT_LE(kept.size(), static_cast<size_t>(History::kKeptS / History::kCoarseS + History::kFineS / 60 + 30));
  EXPECT_EQ(kept.front().span_s, History::kCoarseS);
  EXPECT_NEAR(kept[10].own, 4, 0.3);
  EXPECT_EQ(kept.back().span_s, 60);
  EXPECT_EQ(kept.back().time_s, spans.back().time_s);
  // Kept again it stays as it is.
  EXPECT_EQ(format_history(History(kept).spans(kNow)), format_history(kept));
}

TEST(HistoryTest, LinesThatAreNoneArePassedOver) {
  const std::string good = "1789000000,60,vision,8,4.25,0,2,0,4\n";
  for (const char* bad :
       {"x", "1789000000,60,vision,8,4,0,2,0", "1789000000,60,vision,8,4,0,2,0,4,5", "1789000000,0,vision,8,4,0,2,0,4",
        "1789000000,901,vision,8,4,0,2,0,4", "-1,60,vision,8,4,0,2,0,4", "1789000000,60,a b,8,4,0,2,0,4",
        "1789000000,60,<script>,8,4,0,2,0,4", "1789000000,60,vision,nan,4,0,2,0,4", "1789000000,60,vision,8,-4,0,2,0,4",
        "1789000000,60,vision,8,4.,0,2,0,4", "1789000000,60,vision,8,4.125,0,2,0,4",
        "1789000000,60,vision,8,1e9,0,2,0,4", "1789000000,60,vision,99999999,4,0,2,0,4",
        "1989000000,60,vision,8,4,0,2,0,4", "1789000000,60,vision,8,4,0,2,0,4\r",
        "99999999999999999999,60,vision,8,4,0,2,0,4", "1789000000,60,vision,8,4,0,2,"}) {
    const auto read = parse_history(good + bad + "\n" + good + "1789000060,60,vision,8,4", kNow);
    ASSERT_EQ(read.spans.size(), 1U) << bad;
    EXPECT_EQ(read.skipped, 2) << bad;
    EXPECT_DOUBLE_EQ(read.spans[0].own, 4.25);
  }
  const std::string zeros(100'000, '\0');
  EXPECT_TRUE(parse_history(zeros, kNow).spans.empty());
  EXPECT_TRUE(parse_history("", kNow).spans.empty());
}

TEST(HistoryTest, AFileCutOrChangedAnywhereIsRead) {
  std::vector<TenantSpan> spans;
  for (int i = 0; i < 40; ++i) spans.push_back(span(kNow - 6000 + i * 60, i % 2 == 0 ? "a" : "b", i));
  const std::string text = format_history(spans);
  policy::testing::Dice dice(7);
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = text.substr(0, static_cast<size_t>(dice.from(0, static_cast<int>(text.size()))));
    for (int i = dice.from(0, 3); i > 0 && !damaged.empty(); --i)
      damaged[static_cast<size_t>(dice.from(0, static_cast<int>(damaged.size()) - 1))] =
          static_cast<char>(dice.from(0, 255));
    const auto read = parse_history(damaged, kNow);
    EXPECT_LE(read.spans.size(), 42U);
    const Period period{kNow - 7200, kNow};
    EXPECT_FALSE(history_text(read.spans, period, 60).empty());
    const std::string svg = history_svg(read.spans, period);
    for (const char* number : {",nan", "Vnan", ",inf", "Vinf", "V-"}) ASSERT_EQ(svg.find(number), std::string::npos);
  }
}

TEST(HistoryTest, AFileThatIsNotThereOrNoneIsAnError) {
  EXPECT_EQ(observe::read_history("/nonexistent/h", kNow).error().code, Errc::kNotFound);
  EXPECT_FALSE(observe::read_history("/", kNow));
}

TEST(HistoryPlotTest, ColumnsAreAveragesByTimeAndKnowNothingOfGaps) {
  const std::vector<TenantSpan> spans = {span(0, "a", 4), span(60, "a", 8), span(240, "a", 2), span(0, "b", 100)};
  const Columns columns = columns_of(spans, "a", {0, 360}, 3);
  ASSERT_EQ(columns.size(), 3U);
  EXPECT_DOUBLE_EQ(columns[0]->own, 6);
  EXPECT_FALSE(columns[1]);
  EXPECT_DOUBLE_EQ(columns[2]->own, 2);
  const Columns half = columns_of(spans, "a", {30, 90}, 2);
  EXPECT_DOUBLE_EQ(half[0]->own, 4);
  EXPECT_DOUBLE_EQ(half[1]->own, 8);
}

TEST(HistoryPlotTest, TheChartShowsWhatIsOwnLentAndBorrowed) {
  TenantSpan lent = span(0, "a", 4);
  lent.lent = 2;
  TenantSpan borrowed = span(300, "a", 8);
  borrowed.borrowed = 4;
  const std::string text = history_text({lent, borrowed}, {0, 600}, 28);
  EXPECT_NE(text.find("    12 |          >>"), std::string::npos) << text;
  EXPECT_NE(text.find("       |##        ##\n     0 +--------------------\n"), std::string::npos) << text;
  EXPECT_NE(text.find("     6 |++        ##\n"), std::string::npos) << text;
  EXPECT_NE(text.find("a: on average 6.0 own, 1.0 lent, 2.0 borrowed"), std::string::npos) << text;
}

TEST(HistoryPlotTest, TimeMarksAreRoundAndFew) {
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  const int64_t midnight = kNow / 86400 * 86400;
  const auto hours = time_marks({midnight - 3 * 3600, midnight + 3 * 3600}, 6);
  ASSERT_EQ(hours.size(), 6U);
  EXPECT_EQ(hours[0].text, "21:00");
  EXPECT_EQ(hours[3].time_s, midnight);
  EXPECT_EQ(hours[3].text.substr(0, 4), "Sep ");
  for (const int64_t length : {600, 3600, 86400, 7 * 86400, 60 * 86400, 3650 * 86400})
    EXPECT_LE(time_marks({kNow - length, kNow}, 10).size(), length > 300 * 86400 ? 140U : 12U) << length;
}

TEST(HistoryPlotTest, ThePictureIsOneFileWithAPanelForEachTenant) {
  std::vector<TenantSpan> spans = {span(kNow - 600, "a", 4), span(kNow - 600, "b", 2)};
  spans[0].pending = 500;
  const std::string svg = history_svg(spans, {kNow - 3600, kNow});
  EXPECT_EQ(svg.rfind("<svg ", 0), 0U);
  EXPECT_NE(svg.find(">a</text>"), std::string::npos);
  EXPECT_NE(svg.find(">b</text>"), std::string::npos);
  EXPECT_NE(svg.find("waiting jobs asked for up to 500"), std::string::npos);
  const auto json = nlohmann::json::parse(history_json(spans));
  EXPECT_EQ(json[1]["tenant"], "b");
  EXPECT_EQ(json[0]["pending"], 500);
}

}  // namespace
}  // namespace dl::ctl
