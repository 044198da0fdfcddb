// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/doctor_look.h"

#include <fmt/core.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "common/base/atomic_file.h"
#include "common/base/parse.h"
#include "common/json/json.h"
#include "common/process/child_process.h"
#include "config.h"
#include "launcher/ctl/act_as.h"
#include "launcher/ctl/doctor_judge.h"
#include "launcher/ctl/plan_facts.h"
#include "launcher/ctl/slurm_output.h"
#include "launcher/ctl/slurm_records.h"
#include "launcher/ctl/text.h"
#include "launcher/record/job_comment.h"

namespace dl::ctl::doctor {
namespace {

constexpr std::chrono::seconds kPatience(20);
constexpr size_t kMostJobs = 32;
constexpr size_t kMostSaves = 64 << 10;  // bytes of SAVES.jsonl

std::string text_of(const std::vector<std::string>& command) {
  auto text = slurm_output(command, kPatience);
  return text ? *std::move(text) : std::string();
}

std::vector<std::string> sacctmgr(std::vector<std::string> words) {
  words.insert(words.begin(), {"sacctmgr", "--immediate", "--noheader", "--parsable2"});
  return words;
}

std::string own_name() {
  const passwd* entry = ::getpwuid(::getuid());  // NOLINT(concurrency-mt-unsafe): dlctl has one thread
  return entry != nullptr ? entry->pw_name : std::to_string(::getuid());
}

// "Configuration data as of 2026-11-29T15:52:12" begins what `scontrol show config` prints: slurmctld's time.
int64_t time_of(const std::string& config) {
  const std::string start = "Configuration data as of ";
  if (config.rfind(start, 0) != 0) return 0;
  return slurm_cli::parse_slurm_time(config.substr(start.size(), config.find('\n') - start.size())).value_or(0);
}

void look_at_accounting(Facts* facts) {
  SlurmHas& has = facts->cluster.has;
  if (!has.accounting) return;
  auto qos = slurm_output(sacctmgr({"show", "qos", "format=name,preempt,preemptmode,gracetime"}), kPatience);
  if (!qos) {
    facts->accounting_fault = qos.error().text;
    return;
  }
  facts->qos = *std::move(qos);
  for (const std::string& line : split(facts->qos, '\n'))
    if (!line.empty()) has.qos.push_back(line.substr(0, line.find('|')));
  const std::string cluster = "cluster=" + has.cluster;
  if (facts->admin)
    read_associations(text_of(sacctmgr({"show", "associations", cluster, "format=account,user,fairshare,grptres,qos"})),
                      &has);
  for (const std::string& name :
       split(text_of(sacctmgr({"show", "associations", cluster, "user=" + facts->user, "format=account"})), '\n'))
    if (!name.empty()) facts->accounts.push_back(name);
}

void look_at_munge(Facts* facts) {
  if (find_program("munge").empty() || find_program("unmunge").empty()) return;
  auto made = run_command({"munge", "--no-input"});
  CommandOptions options;
  if (made && made->ok()) {
    options.input = made->out;
    made = run_command({"unmunge"}, options);
  }
  if (!made)
    facts->munge_fault = made.error().text;
  else
    facts->munge_fault = made->ok() ? "" : std::string(trim(made->err.substr(0, made->err.find('\n'))));
}

// Asks slurmctld whether it is there, and if so everything else.
void look_at_slurm(Facts* facts) {
  if (const auto version = slurm_cli::slurm_version()) facts->tools = *version;
  const int64_t before = now_ms() / 1000;
  auto config = slurm_output({"scontrol", "show", "config"}, kPatience);
  const int64_t after = now_ms() / 1000;
  facts->now_s = before;
  if (!config) {
    facts->slurm_fault = config.error().text;
    return;
  }
  facts->answers = true;
  facts->config = *std::move(config);
  facts->slurm_s = time_of(facts->config);
  // Slurm answered at some time in between: a difference is what remains outside of that.
  facts->now_s = std::clamp(facts->slurm_s, before, after);
  std::string conf;
  read_config(facts->config, &facts->cluster.has, &conf);
  facts->partitions = text_of({"scontrol", "--oneliner", "show", "partition"});
  read_partitions(facts->partitions, &facts->cluster);
  facts->nodes = text_of({"scontrol", "--oneliner", "show", "node"});
  read_nodes(facts->nodes, &facts->cluster);
  read_licences(text_of({"scontrol", "--oneliner", "show", "licenses"}), &facts->cluster.has);
}

// Whether the caller may change the cluster: root, or SlurmUser.
bool is_admin(const Facts& facts) {
  const std::string user = slurm_setting(facts, "SlurmUser");
  return ::getuid() == 0 || (!user.empty() && user.substr(0, user.find('(')) == facts.user);
}

// The longest of the last saves in the checkpoint directory of a job, in seconds, as text; empty: not known.
std::string longest_save(const Job& job) {
  const std::string checkpoint = read_plan(job.dir, true).checkpoint;
  const auto text = read_small_file(checkpoint.substr(0, checkpoint.find(',')) + "/SAVES.jsonl", kMostSaves);
  double longest = 0;
  if (text)
    for (const std::string& line : split(*text, '\n')) {
      const Json row = Json::parse(line);
      const Json* seconds = row.find("durable_s");
      if (seconds != nullptr && seconds->is_number()) longest = std::max(longest, seconds->get<double>());
    }
  return longest > 0 ? fmt::format("{}", longest) : "";
}

void look_at_saves(Facts* facts) {
  const auto jobs = slurm_cli::list_jobs(facts->admin ? "*" : "");
  if (!jobs) return;
  size_t looked = 0;
  for (const slurm_cli::JobInfo& info : *jobs) {
    if (info.state != "RUNNING" || !record::parse_comment(info.comment) || ++looked > kMostJobs) continue;
    const Job job = job_of(info);
    if (!job.has_dir()) continue;
    const auto seconds = made_as_owner(job, [&job] { return longest_save(job); });
    if (seconds && !seconds->empty()) facts->saves.push_back({job.id, std::strtod(seconds->c_str(), nullptr)});
  }
}

}  // namespace

Facts look(bool as_user) {
  Facts facts;
  facts.release = PACKAGE_VERSION;
  facts.user = own_name();
  look_at_slurm(&facts);
  facts.admin = !as_user && is_admin(facts);
  look_at_slurm_conf(&facts);
  look_at_site(&facts);
  if (!facts.answers)
    look_at_munge(&facts);
  else
    look_at_accounting(&facts);
  if (facts.site && facts.site->pmix == "slurm" && facts.answers)
    if (auto names = slurm_cli::mpi_plugins()) facts.mpi = *std::move(names);
  if (facts.admin) {
    look_at_cluster_files(&facts);
    look_at_policyd(&facts);
    if (facts.answers) {
      look_at_saves(&facts);
      if (const Status readable = can_read_slurm_records(); !readable) facts.module_fault = readable.error().text;
    }
  }
  look_at_user(&facts);
  return facts;
}

}  // namespace dl::ctl::doctor
