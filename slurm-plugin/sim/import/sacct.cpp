// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/sim/import/sacct.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "common/base/parse.h"

namespace dl::sim {
namespace {

constexpr size_t kLongestLine = 64 * 1024;
constexpr size_t kMostRows = 20'000'000;
constexpr int64_t kMostId = int64_t{1} << 40;
constexpr int kMostNodes = 1'000'000;

enum Column { kId, kAccount, kSubmit, kEligible, kStart, kElapsed, kLimit, kState, kAllocated, kRequested, kNodes };

struct ColumnName {
  const char* name;
  Column column;
  int64_t unit_s;  // the unit of a plain number, in seconds
  bool asked;      // sacct_command() asks for it
  bool needed;
};
// To read another column of sacct, add a row here and a case in row().
constexpr std::array kColumns{
    ColumnName{"JobIDRaw", kId, 1, true, true},          ColumnName{"Account", kAccount, 1, true, true},
    ColumnName{"Submit", kSubmit, 1, true, true},        ColumnName{"Eligible", kEligible, 1, true, false},
    ColumnName{"Start", kStart, 1, true, true},          ColumnName{"ElapsedRaw", kElapsed, 1, true, true},
    ColumnName{"TimelimitRaw", kLimit, 60, true, false}, ColumnName{"State", kState, 1, true, true},
    ColumnName{"AllocTRES", kAllocated, 1, true, true},  ColumnName{"ReqTRES", kRequested, 1, true, false},
    ColumnName{"NNodes", kNodes, 1, true, false},        ColumnName{"Elapsed", kElapsed, 1, false, true},
    ColumnName{"Timelimit", kLimit, 60, false, false},   ColumnName{"AllocNodes", kNodes, 1, false, false},
};

Error invalid(std::string text) {
  return Error{Errc::kInvalid, std::move(text)};
}

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  for (size_t from = 0;;) {
    const size_t end = line.find('|', from);
    fields.push_back(trim(line.substr(from, end == std::string_view::npos ? end : end - from)));
    if (end == std::string_view::npos) return fields;
    from = end + 1;
  }
}

bool same_word(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

std::string names_needed() {
  std::vector<std::string> names;
  for (const ColumnName& row : kColumns)
    if (row.asked && row.needed) names.emplace_back(row.name);
  return join(names, ", ");
}

// Makes a tenant's name from a Slurm account.
std::string tenant_of(std::string_view account) {
  std::string name;
  for (const char c : account.substr(0, 64)) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    const bool other = !name.empty() && (c == '.' || c == '_' || c == '+' || c == '-');
    name += letter || other ? c : name.empty() ? 'x' : '_';
  }
  return name.empty() ? "none" : name;
}

}  // namespace

std::string sacct_command() {
  std::string format;
  for (const ColumnName& row : kColumns)
    if (row.asked) format += (format.empty() ? "" : ",") + std::string(row.name);
  return "env LC_ALL=C SLURM_TIME_FORMAT=%s sacct --allusers --allocations --duplicates --parsable2"
         " --starttime now-30days --endtime now --format " +
         format;
}

Status SacctReader::heading(std::string_view line) {
  if (line.find('|') == std::string_view::npos)
    return invalid(fmt::format("'{}' has no '|'; allowed: what this command prints, with its heading: {}",
                               printable(line, 60), sacct_command()));
  std::vector<std::string_view> names = fields_of(line);
  trailing_ = names.back().empty();
  if (trailing_) names.pop_back();
  std::array<int, kNodes + 1> seen{};
  for (const std::string_view name : names) {
    const auto row =
        std::find_if(kColumns.begin(), kColumns.end(), [&](const ColumnName& c) { return same_word(c.name, name); });
    // If the heading names the same column twice, the first one counts.
    const bool taken = row != kColumns.end() && seen[row->column]++ == 0;
    columns_.push_back(taken ? static_cast<int>(row - kColumns.begin()) : -1);
  }
  for (const ColumnName& row : kColumns)
    if (row.needed && row.asked && seen[row.column] == 0)
      return invalid(
          fmt::format("heading: column {} is missing; needed: {}; 'dlsim import sacct --command' prints the "
                      "whole command",
                      row.name, names_needed()));
  return {};
}

Result<std::optional<SacctRow>> SacctReader::row(const std::vector<std::string_view>& fields) {
  using Nothing = std::optional<SacctRow>;
  const auto leave_out = [&](const char* why) {
    ++left_out_[why];
    return Nothing();
  };
  SacctRow row;
  TresGpus allocated;
  TresGpus requested;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (columns_[i] < 0) continue;
    const ColumnName& column = kColumns[static_cast<size_t>(columns_[i])];
    const std::string_view text = fields[i];
    const auto at = [&](Error error) { return std::move(error).with_context(column.name); };
    const auto time = [&](std::optional<int64_t>* out) -> Status {
      auto value = parse_sacct_time(text);
      if (!value) return at(std::move(value).error());
      *out = *value;
      return {};
    };
    const auto span = [&](int64_t* out) -> Status {
      auto value = parse_sacct_span(text, column.unit_s);
      if (!value) return at(std::move(value).error());
      *out = value->value_or(0);
      return {};
    };
    const auto tres = [&](TresGpus* out) -> Status {
      auto value = parse_tres_gpus(text);
      if (!value) return at(std::move(value).error());
      *out = std::move(*value);
      return {};
    };
    switch (column.column) {
      case kId: {
        // "12.batch" and "12.0" are job steps. "12_[3-9]" has not begun, and "12+1" is not the raw form; both are
        // refused.
        if (text.find('.') != std::string_view::npos) return leave_out("lines of job steps");
        const auto id = parse_int(text, 1, kMostId);
        if (!id) return at(invalid(fmt::format("'{}' is not a job id; allowed: a number", printable(text))));
        row.id = *id;
        break;
      }
      case kAccount:
        row.account = text;
        break;
      case kSubmit:
        DL_TRY(time(&row.submit_s));
        break;
      case kEligible:
        DL_TRY(time(&row.eligible_s));
        break;
      case kStart:
        DL_TRY(time(&row.start_s));
        break;
      case kElapsed:
        DL_TRY(span(&row.elapsed_s));
        break;
      case kLimit:
        DL_TRY(span(&row.limit_s));
        break;
      case kState:
        row.state = text.substr(0, text.find(' '));
        break;
      case kAllocated:
        DL_TRY(tres(&allocated));
        break;
      case kRequested:
        DL_TRY(tres(&requested));
        break;
      case kNodes: {
        const auto nodes = parse_int(text, 0, kMostNodes);
        row.nodes = nodes ? std::max(1, static_cast<int>(*nodes)) : 1;
        break;
      }
    }
  }
  if (!row.submit_s) return leave_out("lines without a time of submission");
  // Every attempt of a job has a line of its own. A line of an attempt that has not begun shows no allocation.
  const bool started = row.start_s && row.elapsed_s > 0;
  const TresGpus& gpus = allocated.gpus > 0 ? allocated : requested;
  if (gpus.gpus == 0) return leave_out("lines of jobs without GPUs");
  if (!started) return leave_out("lines of jobs that did not run: they wait, or were cancelled before");
  row.gpus = gpus.gpus;
  row.type = gpus.type;
  if (gpus.types > 1) ++changed_["lines with GPUs of several types, read as GPUs of any"];
  return Nothing(std::move(row));
}

Status SacctReader::line(std::string_view line) {
  ++number_;
  const auto at = [&](Error error) {
    return std::move(error).with_context(fmt::format("{}:{}", printable(name_, 200), number_));
  };
  if (line.size() > kLongestLine) return at(invalid(fmt::format("the line is longer than {} bytes", kLongestLine)));
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (trim(line).empty()) return {};
  if (columns_.empty()) {
    if (Status read = heading(line); !read) return at(std::move(read).error());
    return {};
  }
  const std::vector<std::string_view> fields = fields_of(line);
  const size_t wanted = columns_.size() + (trailing_ ? 1 : 0);
  if (fields.size() != wanted)
    return at(invalid(fmt::format("{} fields between '|'; the heading has {}", fields.size(), wanted)));
  auto read = row({fields.begin(), fields.begin() + static_cast<std::ptrdiff_t>(columns_.size())});
  if (!read) return at(std::move(read).error());
  if (!*read) return {};
  if (rows_.size() >= kMostRows)
    return at(
        invalid(fmt::format("there are more than {} attempts of jobs; allowed: a shorter time between --starttime "
                            "and --endtime",
                            kMostRows)));
  rows_.push_back(std::move(**read));
  return {};
}

TraceJob SacctReader::job_of(std::vector<SacctRow> attempts, const ImportOptions& options) {
  std::sort(attempts.begin(), attempts.end(),
            [](const SacctRow& a, const SacctRow& b) { return a.start_s < b.start_s; });
  const SacctRow& first = attempts.front();
  const SacctRow& last = attempts.back();
  TraceJob job;
  job.id = last.id;
  // Before the job was eligible (--begin, a dependency) it did not wait for GPUs.
  const int64_t eligible_s = std::max(*first.submit_s, first.eligible_s.value_or(0));
  job.submit_s = std::min(eligible_s, *first.start_s);
  constexpr int64_t kLongest = int64_t{10} * 365 * 86400;  // parse_duration() accepts no longer times
  job.waited_s = std::min(*first.start_s - job.submit_s, kLongest);
  job.tenant = tenant_of(first.account);
  if (job.tenant != first.account) ++changed_["jobs whose account is no name of a tenant, renamed"];
  job.type = is_plain_name(last.type) ? last.type : "";
  // The learners: one for each node with that node's GPUs; if the GPUs do not divide evenly over the nodes, learners of
  // one GPU.
  const bool even =
      last.gpus % last.nodes == 0 && last.gpus / last.nodes <= kMaxGpusPerLearner && last.nodes <= kMaxLearners;
  job.gpus = even ? last.gpus / last.nodes : 1;
  job.min_learners = job.max_learners = std::min(kMaxLearners, last.gpus / job.gpus);
  int64_t run_s = 0;
  for (const SacctRow& attempt : attempts) run_s += attempt.elapsed_s;
  job.run_s = std::clamp<int64_t>(options.last_attempt ? last.elapsed_s : run_s, 1, kLongest);
  job.limit_s = last.limit_s == 0 ? 0 : std::clamp(last.limit_s, job.run_s, kLongest);
  job.checkpoint_s = options.checkpoint_s;
  job.restart_s = options.restart_s;
  if (attempts.size() > 1) ++changed_["jobs that were requeued: their attempts are one job"];
  if (last.state == "RUNNING" || last.state == "SUSPENDED")
    ++changed_["jobs that still run: they end in the trace when they were read"];
  return job;
}

Result<Trace> SacctReader::end(const ImportOptions& options) {
  if (columns_.empty())
    return invalid(
        fmt::format("{}: is empty; allowed: what this command prints: {}", printable(name_, 200), sacct_command()));
  std::unordered_map<int64_t, std::vector<SacctRow>> attempts;
  for (SacctRow& row : rows_) attempts[row.id].push_back(std::move(row));
  rows_.clear();
  Trace trace;
  for (auto& [id, rows] : attempts) trace.jobs.push_back(job_of(std::move(rows), options));
  if (trace.jobs.empty())
    return invalid(
        fmt::format("{}: has no job with GPUs that ran; {} lines were read", printable(name_, 200), number_));
  std::sort(trace.jobs.begin(), trace.jobs.end(), [](const TraceJob& a, const TraceJob& b) {
    return a.submit_s != b.submit_s ? a.submit_s < b.submit_s : a.id < b.id;
  });
  // For a period sacct also prints jobs that were submitted long before. The trace begins with its first job.
  const int64_t begin_s = trace.jobs.front().submit_s;
  for (TraceJob& job : trace.jobs) job.submit_s -= begin_s;
  return trace;
}

}  // namespace dl::sim
