// SPDX-License-Identifier: Apache-2.0
// The writer of traces. Fields are only names and numbers, so CSV needs no quotes and JSON no escapes.
#include <fmt/core.h>

#include "slurm-plugin/sim/trace/trace.h"

namespace dl::sim {
namespace {

std::string csv_line(const TraceJob& job) {
  std::string line;
  for (const TraceField& field : trace_fields()) line += (line.empty() ? "" : ",") + field.print(job);
  return line + "\n";
}

std::string json_line(const TraceJob& job) {
  std::string line = "{";
  for (const TraceField& field : trace_fields()) {
    const std::string text = field.print(job);
    if (text.empty()) continue;
    line +=
        fmt::format(field.number ? "{}\"{}\": {}" : "{}\"{}\": \"{}\"", line.size() > 1 ? ", " : "", field.name, text);
  }
  return line + "}\n";
}

}  // namespace

Status print_trace(const Trace& trace, TraceFormat format, const std::function<Status(std::string_view)>& out) {
  if (format == TraceFormat::kCsv) {
    std::string heading;
    for (const TraceField& field : trace_fields()) heading += (heading.empty() ? "" : ",") + std::string(field.name);
    DL_TRY(out(heading + "\n"));
  }
  for (const TraceJob& job : trace.jobs) DL_TRY(out(format == TraceFormat::kCsv ? csv_line(job) : json_line(job)));
  return {};
}

}  // namespace dl::sim
