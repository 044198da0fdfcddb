// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>

#include "slurm-plugin/sim/report/report.h"

namespace dl::sim {
namespace {

struct Column {
  const char* heading;
  std::string (*cell)(const Outcome& outcome);
};

std::string percent(double part) {
  return fmt::format("{:.1f}%", 100 * part);
}

// To add a column, add a row here and in dlsim(1).
const Column kColumns[] = {
    {"POLICY", [](const Outcome& o) { return o.policy; }},
    {"DONE", [](const Outcome& o) { return fmt::format("{}", o.completed); }},
    {"REFUSED", [](const Outcome& o) { return fmt::format("{}", o.refused); }},
    {"LEFT", [](const Outcome& o) { return fmt::format("{}", o.unfinished); }},
    {"WAIT", [](const Outcome& o) { return short_time(o.queue.mean); }},
    {"MEDIAN", [](const Outcome& o) { return short_time(o.queue.median); }},
    {"P95", [](const Outcome& o) { return short_time(o.queue.p95); }},
    {"P99", [](const Outcome& o) { return short_time(o.queue.p99); }},
    {">15M", [](const Outcome& o) { return fmt::format("{}", o.waited_15m); }},
    {"JCT", [](const Outcome& o) { return short_time(o.jct.mean); }},
    {"JCT-P99", [](const Outcome& o) { return short_time(o.jct.p99); }},
    {"USED", [](const Outcome& o) { return percent(o.utilisation); }},
    {"HELD", [](const Outcome& o) { return percent(o.held_idle); }},
    {"FRAG", [](const Outcome& o) { return percent(o.fragmentation); }},
    {"STOPS", [](const Outcome& o) { return fmt::format("{}", o.stops); }},
    {"FAILED", [](const Outcome& o) { return fmt::format("{}", o.failed); }},
    {"SHRINKS", [](const Outcome& o) { return fmt::format("{}", o.shrinks); }},
    {"LOST-GPUH", [](const Outcome& o) { return fmt::format("{:.0f}", o.lost_gpu_h); }},
    {"DEADLOCKS", [](const Outcome& o) { return fmt::format("{}", o.deadlocks); }},
    {"PINGPONG", [](const Outcome& o) { return fmt::format("{}", o.ping_pong); }},
    {"SOLVER-MS", [](const Outcome& o) { return fmt::format("{:.2f}/{:.1f}", o.solver_mean_ms, o.solver_max_ms); }},
};

using Cells = std::vector<std::vector<std::string>>;

}  // namespace

std::string aligned(const std::vector<std::vector<std::string>>& rows, size_t names) {
  std::vector<size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      if (i > 0) line += "  ";
      line += i < names ? fmt::format("{:<{}}", row[i], widths[i]) : fmt::format("{:>{}}", row[i], widths[i]);
    }
    text += line + "\n";
  }
  return text;
}

std::string short_time(double seconds) {
  if (seconds <= -0.5) return "-" + short_time(-seconds);
  if (seconds < 0) return "0s";
  struct Unit {
    double seconds;
    const char* name;
  };
  for (const Unit& unit : {Unit{86400, "d"}, Unit{3600, "h"}, Unit{60, "m"}}) {
    if (seconds >= unit.seconds) {
      const double value = seconds / unit.seconds;
      return fmt::format(value < 10 ? "{:.1f}{}" : "{:.0f}{}", value, unit.name);
    }
  }
  return fmt::format("{:.0f}s", seconds);
}

namespace {

std::string tenants_text(const std::vector<Outcome>& outcomes) {
  Cells rows{{"TENANT", "POLICY", "JOBS", "DONE", "WAIT", "MEDIAN", "P95", "P99", "GPU-HOURS"}};
  for (size_t i = 0; !outcomes.empty() && i < outcomes.front().tenants.size(); ++i) {
    for (const Outcome& outcome : outcomes) {
      const TenantOutcome& tenant = outcome.tenants[i];
      rows.push_back({tenant.name, outcome.policy, fmt::format("{}", tenant.jobs), fmt::format("{}", tenant.completed),
                      short_time(tenant.queue.mean), short_time(tenant.queue.median), short_time(tenant.queue.p95),
                      short_time(tenant.queue.p99), fmt::format("{:.0f}", tenant.gpu_hours)});
    }
  }
  return aligned(rows, 2);
}

// A size gets its row under every policy that has such jobs; a policy that refuses them has none.
std::string sizes_text(const std::vector<Outcome>& outcomes) {
  Cells rows{{"GPUS", "POLICY", "JOBS", "WAIT", "MEDIAN", "P95", "P99", ">15M"}};
  for (size_t size = 0; size < size_count(); ++size) {
    for (const Outcome& outcome : outcomes) {
      for (const SizeOutcome& of : outcome.sizes)
        if (of.name == size_name(size))
          rows.push_back({of.name, outcome.policy, fmt::format("{}", of.jobs), short_time(of.queue.mean),
                          short_time(of.queue.median), short_time(of.queue.p95), short_time(of.queue.p99),
                          percent(static_cast<double>(of.waited_15m) / static_cast<double>(of.jobs))});
    }
  }
  return aligned(rows, 2);
}

}  // namespace

std::string confidence_text(const std::vector<Judged>& policies, double level) {
  const auto times = [](const Interval& i) {
    return fmt::format("{} [{}, {}]", short_time(i.mean), short_time(i.low), short_time(i.high));
  };
  const auto parts = [](const Interval& i) {
    return fmt::format("{} [{}, {}]", percent(i.mean), percent(i.low), percent(i.high));
  };
  Cells rows{{fmt::format("MEAN AND {:g}%", 100 * level), "WAIT", ">15M", "JCT", "WAIT LESS THE FIRST'S"}};
  for (const Judged& judged : policies) {
    const Confidence& it = judged.confidence;
    if (it.known) {
      rows.push_back({judged.policy, times(it.wait_s), parts(it.long_waits), times(it.jct_s),
                      &judged == &policies.front() ? "" : times(it.wait_less_first)});
    } else {
      rows.push_back({judged.policy, "-", "-", "-", "-"});
    }
  }
  std::string text = aligned(rows, 1);
  if (!policies.empty() && !policies.front().confidence.known)
    text += "The jobs were submitted within too few pieces of time to tell how sure the means are.\n";
  return text;
}

std::string table_text(const std::vector<Outcome>& outcomes, bool tenants, bool sizes) {
  Cells rows(1);
  for (const Column& column : kColumns) rows.front().emplace_back(column.heading);
  for (const Outcome& outcome : outcomes) {
    rows.emplace_back();
    for (const Column& column : kColumns) rows.back().push_back(column.cell(outcome));
  }
  std::string text = aligned(rows, 1);
  if (tenants) text += "\n" + tenants_text(outcomes);
  if (sizes) text += "\n" + sizes_text(outcomes);
  return text;
}

}  // namespace dl::sim
