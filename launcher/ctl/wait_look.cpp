// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/wait_look.h"

#include <algorithm>

#include "common/base/parse.h"
#include "launcher/ctl/text.h"
#include "launcher/ctl/wait_texts.h"
#include "launcher/record/job_comment.h"
#include "launcher/slurm_cli/slurm_cli.h"

namespace dl::ctl {
namespace {

// The output of a command, or an empty text if it fails.
std::string answer(const std::vector<std::string>& argv) {
  auto text = slurm_cli::answer_of(argv);
  return text ? *std::move(text) : std::string();
}

}  // namespace

Result<WaitTexts> look_at_wait(const std::string& job_id) {
  WaitTexts texts;
  const Result<std::string> answered = slurm_cli::answer_of({"scontrol", "show", "job", job_id});
  if (!answered && answered.error().code == Errc::kNotFound)
    return Error{Errc::kNotFound, "job " + job_id +
                                      " is not known to Slurm (any more), so it does not wait; dlctl status " + job_id +
                                      " tells how it ended, where its job directory is found"};
  if (!answered) return answered.error();
  const std::string& shown = *answered;
  if (slurm_cli::array_of(job_id).empty()) {
    DL_TRY_ASSIGN(std::vector<slurm_cli::JobText> jobs, slurm_cli::parse_job_texts(shown));
    const auto waits =
        std::find_if(jobs.begin(), jobs.end(), [](const auto& job) { return job.value("JobState") == "PENDING"; });
    texts.job = std::move(waits == jobs.end() ? jobs.front() : *waits);
  } else {
    DL_TRY_ASSIGN(texts.job, slurm_cli::parse_job_text(shown, job_id));
  }
  texts.now_s = now_ms() / 1000;
  const slurm_cli::JobText& job = texts.job;
  if (job.value("JobState") != "PENDING") return texts;
  const auto comment = record::parse_comment(job.value("Comment"));
  texts.paused = comment && comment->state == record::JobState::kHalted;
  if (comment && comment->state == record::JobState::kPending) texts.put_back = comment->reason;
  const std::string partition = job.value("Partition"), number = job.value("JobId");
  texts.nodes = answer({"scontrol", "--oneliner", "--details", "show", "nodes"});
  texts.partition = answer({"scontrol", "--oneliner", "show", "partition", partition});
  texts.queue = answer(
      {"squeue", "--noheader", "--partition=" + partition, "--sort=-p,i", "--states=PD,R,S,CG", "-o", kQueueFormat});
  texts.queue_gpus =
      answer({"squeue", "--noheader", "--partition=" + partition, "--states=PD,R,S,CG", "-O", kQueueGpusFormat});
  if (const auto ids = dependency_ids(job.value("Dependency")); !ids.empty())
    texts.queue += answer({"squeue", "--noheader", "--jobs=" + join(ids, ","), "--states=all", "-o", kQueueFormat});
  texts.priority = answer({"sprio", "--noheader", "--jobs=" + number, "-o", kPriorityFormat});
  if (needs_limits(job)) {
    texts.qos_limits = answer({"scontrol", "show", "assoc_mgr", "flags=qos"});
    texts.assoc_limits = answer({"scontrol", "show", "assoc_mgr", "flags=assoc", "accounts=" + job.value("Account")});
  }
  if (!slurm_cli::given(job.value("Licenses")).empty())
    texts.licences = answer({"scontrol", "--oneliner", "show", "licenses"});
  if (const std::string name = slurm_cli::given(job.value("Reservation")); !name.empty())
    texts.reservation = answer({"scontrol", "--oneliner", "show", "reservation", name});
  return texts;
}

}  // namespace dl::ctl
