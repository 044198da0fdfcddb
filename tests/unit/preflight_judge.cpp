// SPDX-License-Identifier: Apache-2.0
// From reports to findings.
#include <gtest/gtest.h>

#include "launcher/preflight/judge.h"

namespace dl::preflight {
namespace {

NodeReport report_of(const std::string& node, double rate) {
  NodeReport report;
  report.node = node;
  report.time_ms = 1000500;
  CheckResult check;
  check.name = "memory_bandwidth";
  check.unit = "B/s";
  check.value = rate;
  report.checks = {check};
  return report;
}
const AskedBetween kAsked{1000000, 1001000};

std::string text_of(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings)
    text += finding.node + " " + finding.check + " " + grade_name(finding.grade) + ": " + finding.text + "\n";
  return text;
}

TEST(PreflightJudge, AReportSurvivesItsJson) {
  NodeReport report = report_of("n1", 1e10);
  report.checks.push_back(CheckResult{});
  report.checks[1].name = "shm";
  report.checks[1].grade = Grade::kWarning;
  report.checks[1].age_s = 3;
  report.checks[1].text = "\xff no UTF-8";
  const auto back = parse_report(format_report(report));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->node, "n1");
  EXPECT_EQ(back->time_ms, 1000500);
  ASSERT_EQ(back->checks.size(), 2U);
  EXPECT_EQ(*back->checks[0].value, 1e10);
  EXPECT_EQ(back->checks[0].unit, "B/s");
  EXPECT_FALSE(back->checks[1].value);
  EXPECT_EQ(back->checks[1].grade, Grade::kWarning);
  EXPECT_EQ(back->checks[1].age_s, 3);
  for (const char* bad :
       {"", "{}", "[]", "n1: a line of MPI's", R"({"node":"a","time_ms":1,"checks":[{"name":"x","grade":"fine"}]})",
        R"({"node":"a","time_ms":"1","checks":[]})", R"({"node":"a","time_ms":1,"checks":{"a":1}})"})
    EXPECT_FALSE(parse_report(bad)) << bad;
}

TEST(PreflightJudge, AReportInLinesIsPutTogetherAgainHoweverTheLinesOfNodesAreMixed) {
  NodeReport one = report_of("n1", 1e10), other = report_of("n2", 2e10);
  for (NodeReport* report : {&one, &other}) {
    report->checks.push_back(report->checks[0]);
    report->checks[1].name = "compute";
    report->checks[1].text = std::string(5000, 'x');
  }
  const std::string first = format_report_lines(one), second = format_report_lines(other);
  std::vector<NodeReport> reports;
  const size_t cut = first.find('\n') + 1;
  for (const std::string& line : {first.substr(0, cut), second.substr(0, second.find('\n')), first.substr(cut),
                                  second.substr(second.find('\n') + 1)}) {
    EXPECT_LE(line.size(), 1024U);
    auto report = parse_report(line);
    ASSERT_TRUE(report) << line;
    add_report(*std::move(report), &reports);
  }
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_EQ(reports[0].node, "n1");
  EXPECT_EQ(reports[0].checks.size(), 2U);
  EXPECT_EQ(reports[1].checks[1].name, "compute");
  EXPECT_EQ(*reports[1].checks[1].value, 2e10);
}

TEST(PreflightJudge, WhatIsFarBelowTheMedianIsBad) {
  const std::vector<std::string> nodes = {"n1", "n2", "n3", "n4"};
  const auto judged = [&](double fourth) {
    return text_of(judge_nodes(
        nodes, {report_of("n1", 10e9), report_of("n2", 10.1e9), report_of("n3", 9.9e9), report_of("n4", fourth)},
        kAsked));
  };
  EXPECT_EQ(judged(10e9), "");
  EXPECT_EQ(judged(30e9), "") << "faster is no fault";
  EXPECT_EQ(judged(8.5e9), "") << "within 20 %";
  EXPECT_EQ(judged(7e9), "n4 memory_bandwidth warning: memory_bandwidth is 7 GB/s, the median of 4 nodes 9.95 GB/s\n");
  EXPECT_EQ(judged(2e9), "n4 memory_bandwidth bad: memory_bandwidth is 2 GB/s, the median of 4 nodes 9.95 GB/s\n");
}

TEST(PreflightJudge, WhereAllDifferNobodyIsAnOutlier) {
  const std::vector<std::string> nodes = {"n1", "n2", "n3"};
  const auto findings =
      judge_nodes(nodes, {report_of("n1", 4e9), report_of("n2", 10e9), report_of("n3", 16e9)}, kAsked);
  EXPECT_EQ(text_of(findings), "");
}

TEST(PreflightJudge, TwoNodesCannotBeCompared) {
  EXPECT_EQ(text_of(judge_nodes({"n1", "n2"}, {report_of("n1", 10e9), report_of("n2", 1e9)}, kAsked)), "");
}

TEST(PreflightJudge, SilenceClocksAndGradesCount) {
  NodeReport ahead = report_of("n2", 1e9), sick = report_of("n3", 1e9), behind = report_of("n4", 1e9);
  ahead.time_ms = kAsked.to_ms + 2500;
  behind.time_ms = kAsked.from_ms - 60000;
  sick.checks[0].grade = Grade::kBad;
  sick.checks[0].text = "GPU 1 does not answer";
  CheckResult skipped;
  skipped.grade = Grade::kSkipped;
  sick.checks.push_back(skipped);
  const auto findings = judge_nodes({"n1", "n2", "n3", "n4"}, {ahead, sick, behind}, kAsked);
  EXPECT_EQ(text_of(findings),
            "n1 answer bad: the node does not answer\n"
            "n3 memory_bandwidth bad: GPU 1 does not answer\n"
            "n4 clock bad: its clock is 60.0 s behind\n"
            "n2 clock warning: its clock is 2.5 s ahead\n");
  EXPECT_EQ(bad_nodes(findings), (std::vector<std::string>{"n1", "n3", "n4"}));
}

TEST(PreflightJudge, AnOutlierIsMeasuredAgainAndTheBetterRateCounts) {
  const std::vector<std::string> nodes = {"n1", "n2", "n3"};
  std::vector<NodeReport> reports = {report_of("n1", 10e9), report_of("n2", 2e9), report_of("n3", 10e9)};
  auto findings = judge_nodes(nodes, reports, kAsked);
  EXPECT_EQ(outliers_of(findings), (std::vector<std::string>{"n2"}));
  take_better_rates({report_of("n2", 1e9)}, &reports);
  EXPECT_EQ(judge_nodes(nodes, reports, kAsked).size(), 1U) << "it is one";
  take_better_rates({report_of("n2", 9.9e9), report_of("n1", 1e9)}, &reports);
  EXPECT_EQ(text_of(judge_nodes(nodes, reports, kAsked)), "") << "it was another program";
  // What is bad for another reason is not measured again.
  reports[2].checks[0].grade = Grade::kBad;
  take_better_rates({report_of("n3", 20e9)}, &reports);
  findings = judge_nodes(nodes, reports, kAsked);
  EXPECT_EQ(bad_nodes(findings), (std::vector<std::string>{"n3"}));
  EXPECT_TRUE(outliers_of(findings).empty());
  const auto links = better_links({{"n1", "n2", 5}, {"n1", "n3", 5}}, {{"n1", "n3", 7}, {"n1", "n2", 3}});
  ASSERT_EQ(links.size(), 2U);
  EXPECT_EQ(links[0].bytes_per_s, 5);
  EXPECT_EQ(links[1].bytes_per_s, 7);
}

TEST(PreflightJudge, ASlowLinkIsToldFromASlowNode) {
  std::vector<LinkRate> links;
  const std::vector<std::string> nodes = {"n1", "n2", "n3", "n4"};
  const auto fill = [&](auto rate) {
    links.clear();
    for (size_t a = 0; a < nodes.size(); ++a)
      for (size_t b = a + 1; b < nodes.size(); ++b) links.push_back({nodes[a], nodes[b], rate(a, b)});
  };
  fill([](size_t, size_t) { return 1e10; });
  EXPECT_TRUE(judge_links(links).empty());
  fill([](size_t a, size_t b) { return a == 2 || b == 2 ? 1e9 : 1e10; });
  EXPECT_EQ(text_of(judge_links(links)), "n3 links bad: all its 3 links are slow; usual is 10 GB/s\n");
  fill([](size_t a, size_t b) { return a == 0 && b == 1 ? 1e9 : 1e10; });
  EXPECT_EQ(text_of(judge_links(links)),
            "n1 links warning: its link to n2 carries 1 GB/s, usual is 10 GB/s\n"
            "n2 links warning: its link to n1 carries 1 GB/s, usual is 10 GB/s\n");
  EXPECT_TRUE(judge_links({{"n1", "n2", 1}}).empty());
  EXPECT_TRUE(judge_links({}).empty());
  // Of three nodes one is slow.
  EXPECT_EQ(text_of(judge_links({{"n1", "n2", 1e9}, {"n1", "n3", 1e9}, {"n2", "n3", 1e10}})),
            "n1 links bad: all its 2 links are slow; usual is 10 GB/s\n");
}

}  // namespace
}  // namespace dl::preflight
