// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/node_side.h"

#include <fmt/core.h>

#include <chrono>
#include <cstdio>
#include <string_view>

#include "common/base/parse.h"
#include "common/base/this_process.h"
#include "common/contract/env_names.h"
#include "launcher/options/put_back.h"
#include "launcher/record/job_comment.h"
#include "launcher/slurm_cli/slurm_cli.h"

namespace dl {
namespace {

constexpr int kMostTimes = 3;
constexpr std::chrono::minutes kTryAgain{2};
constexpr std::string_view kTime = "(time ";  // "spank_dl.so does not run on n3 (time 1 of 3), ..."

std::string fault_of(const std::string& node) {
  return "spank_dl.so does not run on " + node;
}

}  // namespace

int times_without_node_side(const std::string& reason) {
  const size_t at = reason.find(kTime);
  if (reason.rfind(fault_of(""), 0) != 0 || at == std::string::npos) return 0;
  const std::string_view rest = std::string_view(reason).substr(at + kTime.size());
  const auto times = parse_int(rest.substr(0, rest.find(' ')), 0, kMostTimes);
  if (!times) return kMostTimes - 1;
  return *times < kMostTimes ? static_cast<int>(*times) : 0;  // it was held, and somebody has resumed it
}

std::string reason_without_node_side(const std::string& node, const std::string& job, int before, bool* hold) {
  *hold = before + 1 >= kMostTimes;
  const std::string why = fmt::format(
      "{} {}{} of {}), so that programs there would lack what --dl-* flags give them; an administrator finds out "
      "why by `dlctl doctor` there",
      fault_of(node), kTime, before + 1, kMostTimes);
  if (*hold) return fmt::format("{}; the job is held now: when it is mended, dlctl resume {}", why, job);
  return fmt::format("{}; the job waits, and is tried again in {} minutes", why, kTryAgain.count());
}

Status check_node_side() {
  const std::string id = environment_value("SLURM_JOB_ID");
  if (environment_value(env::kNodeSide).empty() || id.empty()) return {};
  const std::string node = environment_value("SLURMD_NODENAME");
  const auto job = slurm_cli::show_job(id);
  std::string why = "Slurm does not answer, so that the job cannot be put back into the queue";
  if (job && !job->batch) return {};
  if (job && !job->requeue) why = "the job may not be put back into the queue (--no-requeue)";
  if (job && job->requeue) {
    const auto comment = record::parse_comment(job->comment);
    PutBack how;
    how.reason =
        reason_without_node_side(node, job->job_id, times_without_node_side(comment ? comment->reason : ""), &how.hold);
    how.delay = kTryAgain;
    const Status done = put_back(*job, how);
    if (done) return Error{Errc::kUnsupported, how.reason};
    why = "the job could not be put back into the queue: " + done.error().text;
  }
  std::fprintf(stderr, "dlrun: %s, so that programs that srun starts there lack what --dl-* flags give them; %s\n",
               fault_of(node).c_str(), why.c_str());
  return {};
}

}  // namespace dl
