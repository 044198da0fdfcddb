// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/doctor_checks.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/base/parse.h"
#include "common/json/json.h"
#include "launcher/ctl/doctor_judge.h"

namespace dl::ctl::doctor {
namespace {

constexpr size_t kLongest = 2000;

// The reason for which a check cannot be made; empty: it can.
std::string lacking(const Check& check, const Facts& facts) {
  if ((check.needs & kSlurm) != 0 && !facts.answers) return "slurmctld does not answer";
  if ((check.needs & kSite) != 0 && !facts.site) return "dl.toml cannot be used";
  return {};
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

}  // namespace

const std::vector<Check>& checks() {
  constexpr unsigned kBoth = kSlurm | kSite;
  static const std::vector<Check> table = {
      {"slurmctld", Who::kEverybody, kNothing, "slurmctld answers", judge_slurmctld},
      {"munge", Who::kEverybody, kNothing, "credentials are made and read here", judge_munge},
      {"clock", Who::kEverybody, kSlurm, "this host's time is slurmctld's", judge_clock},
      {"versions", Who::kAdmin, kSlurm, "one Slurm everywhere, and slurm-dl is built for it", judge_versions},
      {"plugins", Who::kAdmin, kNothing, "the files of the two plugins", judge_plugins},
      {"plugstack", Who::kAdmin, kNothing, "plugstack.conf loads spank_dl.so", judge_plugstack},
      {"job_submit", Who::kAdmin, kNothing, "slurmctld loads job_submit_dl.so", judge_job_submit},
      {"dl.toml", Who::kEverybody, kNothing, "the site's configuration can be used, and is safe", judge_site_file},
      {"tiers", Who::kAdmin, kBoth, "partitions, QOS and nodes that dl.toml names", judge_tiers},
      {"preemption", Who::kAdmin, kBoth, "jobs of the borrow tier give way", judge_preemption},
      {"grace", Who::kAdmin, kBoth, "time to save, against the saves of jobs that run", judge_grace},
      {"requeue", Who::kAdmin, kSlurm, "JobRequeue, KillWait and other times", judge_requeue},
      {"quotas", Who::kAdmin, kBoth, "quotas against the GPUs of the cluster", judge_quotas},
      {"licences", Who::kAdmin, kBoth, "licences that stand for tenants' GPUs", judge_licences},
      {"accounts", Who::kAdmin, kBoth, "tenants are accounts of Slurm's", judge_accounts},
      {"dlpolicyd", Who::kAdmin, kBoth, "it runs, and is up to date", judge_policyd},
      {"gpus", Who::kAdmin, kSlurm, "GresTypes and SelectType", judge_gpus},
      {"cgroups", Who::kAdmin, kSlurm, "jobs are tracked, and kept to their GPUs", judge_cgroups},
      {"network", Who::kAdmin, kBoth, "what [network] of dl.toml needs", judge_network},
      {"pmix", Who::kEverybody, kBoth, "the PMIx of MPI learners", judge_pmix},
      {"tmp", Who::kAdmin, kSlurm, "local directories of jobs", judge_tmp},
      {"programs", Who::kEverybody, kNothing, "dlrun and the programs that it starts are there", judge_programs},
      {"flags", Who::kEverybody, kNothing, "sbatch knows the --dl-* flags", judge_flags},
      {"python", Who::kEverybody, kNothing, "python3 imports dlckpt", judge_python},
      {"folders", Who::kEverybody, kNothing, "jobs can write where they have to", judge_folders},
      {"user", Who::kEverybody, kBoth, "the caller's account is a tenant", judge_user},
  };
  return table;
}

std::vector<Answer> examine(const Facts& facts, const std::vector<std::string>& only) {
  std::vector<Answer> answers;
  for (const Check& check : checks()) {
    const bool named = std::find(only.begin(), only.end(), check.name) != only.end();
    if (only.empty() ? check.who == Who::kAdmin && !facts.admin : !named) continue;
    if (check.who == Who::kAdmin && !facts.admin) {
      answers.push_back({check.name, note("is for administrators: root and SlurmUser are told")});
      continue;
    }
    const std::string lacks = lacking(check, facts);
    if (!lacks.empty()) {
      answers.push_back({check.name, note("not looked at, since " + lacks)});
      continue;
    }
    for (Finding& finding : check.judge(facts)) answers.push_back({check.name, std::move(finding)});
  }
  return answers;
}

int count_wrong(const std::vector<Answer>& answers) {
  return static_cast<int>(std::count_if(answers.begin(), answers.end(),
                                        [](const Answer& answer) { return answer.finding.grade == Grade::kWrong; }));
}

const char* grade_name(Grade grade) {
  switch (grade) {
    case Grade::kOk:
      return "ok";
    case Grade::kNote:
      return "note";
    case Grade::kWrong:
      break;
  }
  return "wrong";
}

std::string answers_text(const std::vector<Answer>& answers) {
  std::string text;
  for (const auto& [check, finding] : answers) {
    text += fmt::format("{:<5}  {}: {}\n", grade_name(finding.grade), check, printable(finding.text, kLongest));
    if (finding.place.empty() && finding.line.empty()) continue;
    text += fmt::format("{:<5}  {}{}{}\n", "", printable(finding.place, kLongest),
                        finding.place.empty() || finding.line.empty() ? "" : ": ", printable(finding.line, kLongest));
  }
  return text;
}

std::string answers_json(const std::vector<Answer>& answers) {
  Json all = Json::array();
  for (const auto& [check, finding] : answers)
    all.push_back({{"check", check},
                   {"grade", grade_name(finding.grade)},
                   {"text", finding.text},
                   {"file", text_or_null(finding.place)},
                   {"line", text_or_null(finding.line)}});
  return all.dump(2);
}

}  // namespace dl::ctl::doctor
