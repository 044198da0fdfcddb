// SPDX-License-Identifier: Apache-2.0
// What sacct tells of jobs that were, made into a trace: line by line, so that a year of jobs needs no more memory than
// they do. The text is what users of the cluster called their accounts and what a machine of another kind printed: it
// is believed in nothing. Pure, but for the time zone by which "2026-11-20T12:00:00" is read.
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

// What sacct does not know of a job, said for all of them; and how attempts of a job that was requeued are taken.
struct ImportOptions {
  int64_t checkpoint_s = 0;
  int64_t restart_s = 60;
  bool last_attempt = false;  // its run time is that of the last attempt, not of all together
};

// The command whose output is read; it has no step and no heading left out, and times that no time zone changes.
std::string sacct_command();

// One line of sacct: an attempt of a job.
struct SacctRow {
  int64_t id = 0;
  std::string account;
  std::optional<int64_t> submit_s, eligible_s, start_s;  // since the epoch; absent: Unknown, None
  int64_t elapsed_s = 0;
  int64_t limit_s = 0;  // 0: not known
  std::string state;    // its first word
  std::string type;     // of the GPUs, if they have one
  int gpus = 0;
  int nodes = 1;
};

// What was left out or changed, by what is said of it, each with its number of lines or jobs.
using ImportCounts = std::map<std::string, int64_t>;

class SacctReader {
 public:
  // `name`: of the input, for messages.
  explicit SacctReader(std::string name) : name_(std::move(name)) {}

  // The next line, without its newline. kInvalid "NAME:LINE: ..." for one that sacct cannot have printed.
  Status line(std::string_view line);
  // All that were read. kInvalid if there is no job to be replayed.
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
  std::vector<int> columns_;  // by field of the line: which of ours it is; -1: one that we do not need
  bool trailing_ = false;     // lines end with the delimiter, as with --parsable
  std::vector<SacctRow> rows_;
  ImportCounts left_out_;
  ImportCounts changed_;
};

// Of "billing=8,gres/gpu:a100=2,gres/gpu=2,node=1": the GPUs, and their type where there is one alone. kInvalid for
// what is no TRES string. In sacct_fields.cpp, as all below.
struct TresGpus {
  int gpus = 0;
  std::string type;
  int types = 0;
};
Result<TresGpus> parse_tres_gpus(std::string_view text);
// Seconds since the epoch, or "2026-11-20T12:00:00" in this machine's time zone. Nothing: Unknown, None, N/A, empty.
Result<std::optional<int64_t>> parse_sacct_time(std::string_view text);
// "90" in units of so many seconds, "1-02:03:04", "02:03:04", "03:04"; UNLIMITED; nothing: Partition_Limit, empty.
Result<std::optional<int64_t>> parse_sacct_span(std::string_view text, int64_t unit_s);
constexpr int64_t kUnlimitedS = int64_t{365} * 86400;

}  // namespace dl::sim
