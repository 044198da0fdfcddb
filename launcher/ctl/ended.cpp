// SPDX-License-Identifier: Apache-2.0
// dlctl status --ended: prints a line for each job that has ended, from the job directories.
#include <cstdio>

#include "common/base/parse.h"
#include "common/json/json.h"
#include "launcher/ctl/old_jobs.h"
#include "launcher/ctl/subcommand.h"
#include "launcher/ctl/text.h"

namespace dl::ctl {

Status print_ended(const std::vector<std::string>& folders, bool as_json) {
  DL_TRY_ASSIGN(const std::vector<OldJob> all,
                find_old_jobs(folders.empty() ? std::vector<std::string>{"."} : folders));
  const int64_t now = now_ms();
  Json json = Json::array();
  std::vector<std::vector<std::string>> rows{
      {"JOB", "STATE", "BEGAN", "ENDED", "LASTED", "ATTEMPTS", "STEP", "LEARNERS", "WHY"}};
  for (const OldJob& job : all) {
    if (!job.ended) continue;
    JobView view = job.view;
    view.job = numbered(view.job);
    if (as_json) {
      Json item = view_json(view);
      item["began_ms"] = job.began_ms;
      item["ended_ms"] = job.ended_ms;
      json.push_back(std::move(item));
      continue;
    }
    rows.push_back(
        {printable(view.job.name(), 40), shown_name(view.shown), job.began_ms > 0 ? clock_text(job.began_ms, now) : "-",
         job.ended_ms > 0 ? clock_text(job.ended_ms, now) : "-",
         job.ended_ms > 0 ? age_text(job.ended_ms - job.began_ms) : "-", std::to_string(view.attempt),
         view.step < 0 ? "-" : std::to_string(view.step),
         view.plan.learners > 0 ? std::to_string(view.plan.learners) : "-", printable(view.shown.reason, 80)});
  }
  if (as_json)
    std::puts(json.dump(2).c_str());
  else if (rows.size() == 1)
    std::puts(
        "this folder has no job directory of a job that has ended; allowed: dlctl status --ended FOLDER..., the "
        "folders that have some");
  else
    std::fputs(table(rows).c_str(), stdout);
  return {};
}

}  // namespace dl::ctl
