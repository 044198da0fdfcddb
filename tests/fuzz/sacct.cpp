// SPDX-License-Identifier: Apache-2.0
// Any bytes as what sacct printed: what is accepted is a trace that can be replayed, and written again it is the same.
// The first byte says what the jobs are told to be and how attempts are taken.
#include "slurm-plugin/sim/import/sacct.h"

#include <algorithm>

#include "tests/fuzz/target.h"

namespace dl::ckpt::fuzz {

void sacct(const uint8_t* data, size_t size) {
  Bytes input(data, size);
  const uint8_t mode = input.u8();
  const std::string text = input.rest();
  sim::SacctReader reader("fuzz");
  size_t lines = 0;
  for (size_t from = 0; from < text.size(); ++lines) {
    const size_t end = std::min(text.find('\n', from), text.size());
    if (!reader.line(std::string_view(text).substr(from, end - from))) return;
    from = end + 1;
  }
  must(reader.lines() == static_cast<int64_t>(lines), "every line is counted");
  const auto trace = reader.end(sim::ImportOptions{(mode & 1) != 0 ? 600 : 0, 60, (mode & 2) != 0});
  if (!trace) return;
  must(!trace->jobs.empty() && trace->jobs.size() <= lines, "each job has a line");
  must(trace->jobs.front().submit_s == 0, "a trace begins with its first job");
  std::string csv;
  const auto take = [&](std::string_view piece) -> Status {
    csv += piece;
    return {};
  };
  must(static_cast<bool>(sim::print_trace(*trace, sim::TraceFormat::kCsv, take)), "a trace can be written");
  if (trace->last_submit_s() > int64_t{10} * 365 * 86400) return;  // sacct may tell of more years than a trace has
  const auto again = sim::parse_trace(csv, "again");
  must(static_cast<bool>(again), "what was written can be read");
  std::string once = std::move(csv);
  csv.clear();
  must(static_cast<bool>(sim::print_trace(*again, sim::TraceFormat::kCsv, take)) && csv == once,
       "written again it is the same");
}

}  // namespace dl::ckpt::fuzz
