// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "slurm-plugin/sim/report/report.h"
#include "tests/unit/sim_support.h"

namespace dl::sim {
namespace {

std::vector<Outcome> outcomes() {
  const Trace trace = testing::trace_of("1,0,a,2,1,100,,,\n2,40,b,4,1,50,,,\n");
  const Scenario scenario = testing::scenario_of("g=1x4", 2, 2);
  return {testing::replayed(trace, "lend", scenario), testing::replayed(trace, "fifo", scenario)};
}

TEST(SimReport, the_table_has_a_line_per_policy_and_one_per_tenant_if_asked) {
  const std::string text = table_text(outcomes(), true);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3 + 1 + 1 + 4);
  EXPECT_EQ(text.substr(0, 6), "POLICY");
  EXPECT_NE(text.find("\nfifo "), std::string::npos);
  EXPECT_EQ(table_text(outcomes(), false).find("TENANT"), std::string::npos);
}

TEST(SimReport, json_has_the_same_figures) {
  const auto all = outcomes();
  const auto json = nlohmann::json::parse(json_text(all));
  ASSERT_EQ(json.size(), 2U);
  EXPECT_EQ(json[1]["policy"], "fifo");
  EXPECT_EQ(json[1]["queue_s"]["p99"], all[1].queue.p99);
  EXPECT_EQ(json[1]["utilisation"], all[1].utilisation);
  EXPECT_EQ(json[0]["tenants"].size(), 2U);
  EXPECT_EQ(json[0]["series"]["queued"].size(), all[0].series.queued.size());
}

TEST(SimReport, the_plot_is_one_whole_file_with_a_line_per_policy_and_panel) {
  const std::string svg = svg_text(outcomes(), PlotTitle{"a < b & c", "small"});
  EXPECT_EQ(svg.substr(0, 4), "<svg");
  EXPECT_EQ(svg.substr(svg.size() - 7), "</svg>\n");
  EXPECT_NE(svg.find("a &lt; b &amp; c"), std::string::npos);
  size_t lines = 0;
  for (size_t at = svg.find("<polyline"); at != std::string::npos; at = svg.find("<polyline", at + 1)) ++lines;
  EXPECT_EQ(lines, 4U);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(SimReport, times_and_percentiles) {
  EXPECT_EQ(short_time(0), "0s");
  EXPECT_EQ(short_time(59), "59s");
  EXPECT_EQ(short_time(90), "1.5m");
  EXPECT_EQ(short_time(36000), "10h");
  EXPECT_EQ(short_time(86400 * 2.5), "2.5d");
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) values.push_back(i);
  const Times times = times_of(values);
  EXPECT_EQ(times.median, 50);
  EXPECT_EQ(times.p95, 95);
  EXPECT_EQ(times.p99, 99);
  EXPECT_EQ(times.mean, 50.5);
  EXPECT_EQ(times_of({}).count, 0);
  EXPECT_EQ(times_of({7}).p99, 7);
}

}  // namespace
}  // namespace dl::sim
