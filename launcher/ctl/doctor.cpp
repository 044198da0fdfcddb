// SPDX-License-Identifier: Apache-2.0
// dlctl doctor: what of this host, its Slurm and dl.toml is not as slurm-dl needs it, and the line to change.
#include <fmt/core.h>

#include <cstdio>
#include <memory>

#include "common/base/count.h"
#include "launcher/ctl/doctor_checks.h"
#include "launcher/ctl/doctor_look.h"
#include "launcher/ctl/subcommand.h"

namespace dl::ctl {
namespace {

struct DoctorOptions {
  bool json = false;
  bool user = false;
  std::string slurm;
  std::vector<std::string> only;
};

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const doctor::Check& check : doctor::checks()) all.emplace_back(check.name);
  return all;
}

Status examine_all(const DoctorOptions& options) {
  std::optional<slurm_cli::Version> planned;
  if (!options.slurm.empty()) {
    DL_TRY_ASSIGN(planned, slurm_cli::parse_version(options.slurm));
  }
  doctor::Facts facts = doctor::look(options.user);
  facts.planned = planned;
  const auto answers = doctor::examine(facts, options.only);
  std::fputs(options.json ? (doctor::answers_json(answers) + "\n").c_str() : doctor::answers_text(answers).c_str(),
             stdout);
  const int wrong = doctor::count_wrong(answers);
  if (wrong == 0) return {};
  return Error{Errc::kIo, count_text(wrong, "finding") + (wrong == 1 ? " is wrong" : " are wrong") +
                              "; each names what to change"};
}

}  // namespace

Run add_doctor(CommandLine* line) {
  auto options = std::make_shared<DoctorOptions>();
  line->option("--only", &options->only, "only this check; may be repeated").form("NAME").among(names());
  line->flag("--user", &options->user, "for root and SlurmUser: what a user is told");
  line->option("--slurm", &options->slurm,
               "before an upgrade: judge the plugins as the Slurm of this version would find them")
      .form("VERSION");
  line->flag("--json", &options->json, "for programs");
  std::string footer = "Checks:";
  for (const doctor::Check& check : doctor::checks())
    footer +=
        fmt::format("\n  {:<11} {}{}", check.name, check.summary, check.who == doctor::Who::kAdmin ? " (admins)" : "");
  line->footer(footer);
  return [options] { return examine_all(*options); };
}

}  // namespace dl::ctl
