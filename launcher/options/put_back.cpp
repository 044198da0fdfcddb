// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/put_back.h"

#include <cstdio>
#include <thread>

#include "launcher/record/event_log.h"
#include "launcher/record/job_comment.h"
#include "launcher/record/job_dir.h"

namespace dl {

Status put_back(const slurm_cli::JobInfo& job, const PutBack& how) {
  std::fprintf(stderr, "dlrun: %s\n", how.reason.c_str());
  record::JobComment comment;
  if (auto before = record::parse_comment(job.comment)) comment = *std::move(before);
  comment.user_text = record::user_part(job.comment);
  comment.state = how.hold ? record::JobState::kHalted : record::JobState::kPending;
  comment.idle = {};
  comment.reason = how.reason;
  if (!comment.dir.empty())
    ignore(record::record_put_back(record::JobDir(comment.dir).events(), how.hold, how.reason, {}),
           "the comment says it as well");
  ignore(slurm_cli::set_comment(job.job_id, record::format_comment(comment)), "the job's output says it as well");
  // A held job that is released should not wait for the longer delay as well.
  DL_TRY(slurm_cli::requeue(job.job_id, how.hold, how.hold ? slurm_cli::requeue_delay() : how.delay));
  // Waits for Slurm's kill: if dlrun ended now, the batch script would go on and end as if the job had. Slurm's SIGTERM
  // reaches both.
  std::this_thread::sleep_for(slurm_cli::kill_wait() + std::chrono::seconds(15));
  return {};
}

}  // namespace dl
