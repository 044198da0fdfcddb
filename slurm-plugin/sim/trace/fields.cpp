// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <charconv>

#include "common/base/parse.h"
#include "slurm-plugin/sim/trace/trace.h"

namespace dl::sim {
namespace {

constexpr int64_t kMostId = int64_t{1} << 53;  // JSON numbers are exact up to this
constexpr int64_t kLongest = int64_t{10} * 365 * 86400;

// Reads seconds, or a duration such as "10m".
Status set_time(std::string_view text, int64_t least, int64_t* out) {
  const auto value = parse_duration(text);
  if (!value || value->count() < least || value->count() > kLongest)
    return Error{
        Errc::kInvalid,
        fmt::format("'{}' is not accepted; allowed: a time from {}s to 10 years: seconds, 10m, 1h30m, 1-12:00:00",
                    printable(text), least)};
  *out = value->count();
  return {};
}

Status set_tenant(std::string_view text, TraceJob* job) {
  if (!is_plain_name(text))
    return Error{Errc::kInvalid,
                 fmt::format("'{}' is not a name; allowed: letters, digits and . _ + -, at most 64", printable(text))};
  job->tenant = text;
  return {};
}

Status set_gpus(std::string_view text, TraceJob* job) {
  DL_TRY_ASSIGN(const GpuRequest request, parse_gpus(text));
  if (request.count < 1)
    return Error{Errc::kInvalid, fmt::format("'{}' asks for no GPU; allowed: [TYPE:]N with N from 1 to {}",
                                             printable(text), kMaxGpusPerLearner)};
  job->type = request.type;
  job->gpus = request.count;
  return {};
}

Status set_learners(std::string_view text, TraceJob* job) {
  DL_TRY_ASSIGN(const LearnerRange range, parse_learners(text));
  job->min_learners = range.min;
  job->max_learners = range.max;
  return {};
}

}  // namespace

const std::vector<TraceField>& trace_fields() {
  using Text = std::string_view;
  using Job = TraceJob;
  static const std::vector<TraceField> kFields = {
      {"id", true, true,
       [](Text text, Job* job) -> Status {
         DL_TRY_ASSIGN(job->id, parse_int(text, 1, kMostId));
         return {};
       },
       [](const Job& job) { return std::to_string(job.id); }},
      {"submit", true, true, [](Text text, Job* job) { return set_time(text, 0, &job->submit_s); },
       [](const Job& job) { return std::to_string(job.submit_s); }},
      {"tenant", true, false, set_tenant, [](const Job& job) { return job.tenant; }},
      {"gpus", true, false, set_gpus,
       [](const Job& job) {
         return job.type.empty() ? std::to_string(job.gpus) : fmt::format("{}:{}", job.type, job.gpus);
       }},
      {"learners", false, false, set_learners,
       [](const Job& job) {
         return job.min_learners == job.max_learners ? std::to_string(job.max_learners)
                                                     : fmt::format("{}:{}", job.min_learners, job.max_learners);
       }},
      {"run", true, true, [](Text text, Job* job) { return set_time(text, 1, &job->run_s); },
       [](const Job& job) { return std::to_string(job.run_s); }},
      {"serial", false, true,
       [](Text text, Job* job) -> Status {
         const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), job->serial);
         if (bad == std::errc() && end == text.data() + text.size() && job->serial >= 0 && job->serial <= 1) return {};
         return Error{Errc::kInvalid,
                      fmt::format("'{}' is not accepted; allowed: a part of the work from 0 to 1", printable(text))};
       },
       [](const Job& job) { return job.serial > 0 ? fmt::format("{}", job.serial) : std::string(); }},
      {"limit", false, true, [](Text text, Job* job) { return set_time(text, 0, &job->limit_s); },
       [](const Job& job) { return std::to_string(job.limit_s); }},
      {"tier", false, false,
       [](Text text, Job* job) -> Status {
         DL_TRY_ASSIGN(job->tier, parse_tier(text));
         return {};
       },
       [](const Job& job) { return std::string(tier_name(job.tier)); }},
      {"placement", false, false,
       [](Text text, Job* job) -> Status {
         DL_TRY_ASSIGN(job->placement, parse_placement(text));
         return {};
       },
       [](const Job& job) { return std::string(placement_name(job.placement)); }},
      {"checkpoint", false, true, [](Text text, Job* job) { return set_time(text, 0, &job->checkpoint_s); },
       [](const Job& job) { return std::to_string(job.checkpoint_s); }},
      {"restart", false, true, [](Text text, Job* job) { return set_time(text, 0, &job->restart_s); },
       [](const Job& job) { return std::to_string(job.restart_s); }},
      {"waited", false, true, [](Text text, Job* job) { return set_time(text, 0, &job->waited_s); },
       [](const Job& job) { return job.waited_s < 0 ? std::string() : std::to_string(job.waited_s); }},
  };
  return kFields;
}

}  // namespace dl::sim
