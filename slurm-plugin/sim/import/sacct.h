// SPDX-License-Identifier: Apache-2.0
// Makes a trace from sacct's output about past jobs, line by line, so that memory holds only the jobs and not the text.
// The text comes from another machine and has names that its users chose: every field is checked. Pure, except for the
// time zone by which "2026-11-20T12:00:00" is read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "slurm-plugin/sim/trace/trace.h"

namespace dl::sim {

// Values that sacct does not know, the same for all jobs, and how the attempts of a requeued job are counted.
struct ImportOptions {
  int64_t checkpoint_s = 0;   // see TraceJob::checkpoint_s
  int64_t restart_s = 60;     // see TraceJob::restart_s
  bool last_attempt = false;  // true: a job's run time is that of its last attempt; false: the sum of all attempts
};

// The command whose output is read: with a heading, without job steps, and with times as seconds since 1970.
std::string sacct_command();

// One line of sacct: an attempt of a job.
struct SacctRow {
  int64_t id = 0;
  std::string account;
  std::optional<int64_t> submit_s, eligible_s, start_s;  // seconds since 1970; absent: "Unknown" or "None"
  int64_t elapsed_s = 0;
  int64_t limit_s = 0;  // 0: not known
  std::string state;    // the first word of the state
  std::string type;     // type of the GPUs, if it is given
  int gpus = 0;
  int nodes = 1;
};

// For each thing that was left out or changed: a phrase for people, and the number of lines or jobs.
using ImportCounts = std::map<std::string, int64_t>;

class SacctReader {
 public:
  // `name` is the name of the input, for messages.
  explicit SacctReader(std::string name) : name_(std::move(name)) {}

  // Reads the next line, without its newline. kInvalid "NAME:LINE: ..." for a line that sacct cannot have printed.
  Status line(std::string_view line);
  // The trace of all lines that were read. kInvalid if it would have no job.
  Result<Trace> end(const ImportOptions& options);

  const ImportCounts& left_out() const { return left_out_; }
  const ImportCounts& changed() const { return changed_; }
  int64_t lines() const { return number_; }

 private:
  Status heading(std::string_view line);
  Result<std::optional<SacctRow>> row(const std::vector<std::string_view>& fields);
  TraceJob job_of(std::vector<SacctRow> attempts, const ImportOptions& options);

  std::string name_;
  int64_t number_ = 0;
  std::vector<int> columns_;  // by field of the line: the index of the column in our table; -1: it is not needed
  bool trailing_ = false;     // lines end with the delimiter, as those of --parsable do
  std::vector<SacctRow> rows_;
  ImportCounts left_out_;
  ImportCounts changed_;
};

// The GPUs of "billing=8,gres/gpu:a100=2,gres/gpu=2,node=1", and their type if there is only one. kInvalid if the text
// is no TRES string. Implemented in sacct_fields.cpp, like all functions below.
struct TresGpus {
  int gpus = 0;
  std::string type;
  int types = 0;
};
Result<TresGpus> parse_tres_gpus(std::string_view text);
// Reads seconds since 1970, or "2026-11-20T12:00:00" in this machine's time zone. None for 0, Unknown, None, N/A and an
// empty text. kInvalid for anything else.
Result<std::optional<int64_t>> parse_sacct_time(std::string_view text);
// Reads a number of units of `unit_s` seconds, "1-02:03:04", "02:03:04", "03:04", or UNLIMITED (kUnlimitedS); the
// result is in seconds. None for Partition_Limit, Unknown and an empty text. kInvalid for anything else.
Result<std::optional<int64_t>> parse_sacct_span(std::string_view text, int64_t unit_s);
constexpr int64_t kUnlimitedS = int64_t{365} * 86400;

}  // namespace dl::sim
