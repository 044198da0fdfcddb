// SPDX-License-Identifier: Apache-2.0
#include "launcher/preflight/report.h"

#include <iterator>

#include "common/base/parse.h"
#include "common/json/json.h"

namespace dl::preflight {
namespace {

constexpr const char* kGrades[] = {"good", "warning", "bad", "skipped"};

}  // namespace

const char* grade_name(Grade grade) {
  return kGrades[static_cast<size_t>(grade)];
}

std::string format_report(const NodeReport& report) {
  Json checks = Json::array();
  for (const CheckResult& check : report.checks) {
    Json one{{"name", check.name}, {"unit", check.unit}, {"grade", grade_name(check.grade)}};
    if (check.value) one["value"] = *check.value;
    if (check.age_s > 0) one["age_s"] = check.age_s;
    if (!check.text.empty()) one["text"] = check.text;
    checks.push_back(std::move(one));
  }
  const Json all{{"node", report.node}, {"time_ms", report.time_ms}, {"checks", std::move(checks)}};
  return all.dump_sorted();
}

std::string format_report_lines(const NodeReport& report) {
  constexpr size_t kLongestText = 300;
  std::string lines;
  NodeReport one = report;
  for (const CheckResult& check : report.checks) {
    one.checks = {check};
    one.checks[0].text = printable(check.text, kLongestText);
    lines += format_report(one) + "\n";
  }
  return lines;
}

void add_report(NodeReport line, std::vector<NodeReport>* reports) {
  for (NodeReport& report : *reports) {
    if (report.node != line.node) continue;
    for (CheckResult& check : line.checks) report.checks.push_back(std::move(check));
    return;
  }
  reports->push_back(std::move(line));
}

Result<NodeReport> parse_report(const std::string& line) {
  const Json all = Json::parse(line);
  try {
    NodeReport report;
    report.node = all.at("node").get<std::string>();
    report.time_ms = all.at("time_ms").get<int64_t>();
    const Json& checks = all.at("checks");
    if (!checks.is_array()) return Error{Errc::kInvalid, "not a report of dl-preflight: 'checks' is no array"};
    for (const Json& one : checks) {
      CheckResult check;
      check.name = one.at("name").get<std::string>();
      check.unit = one.value("unit", std::string());
      check.text = one.value("text", std::string());
      check.age_s = one.value("age_s", 0.0);
      if (one.contains("value")) check.value = one.at("value").get<double>();
      const auto grade = one.at("grade").get<std::string>();
      size_t found = 0;
      while (found < std::size(kGrades) && grade != kGrades[found]) ++found;
      if (found == std::size(kGrades))
        return Error{Errc::kInvalid, "not a report of dl-preflight: a check has no grade that is known"};
      check.grade = static_cast<Grade>(found);
      report.checks.push_back(std::move(check));
    }
    return report;
  } catch (const JsonError& e) {
    return Error{Errc::kInvalid, std::string("not a report of dl-preflight: ") + e.what()};
  }
}

}  // namespace dl::preflight
