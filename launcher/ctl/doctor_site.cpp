// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <strings.h>

#include <algorithm>
#include <map>

#include "common/base/parse.h"
#include "launcher/ctl/doctor_judge.h"
#include "launcher/ctl/quota_plan.h"
#include "launcher/slurm_cli/records.h"
#include "slurm-plugin/observe/gres.h"

namespace dl::ctl::doctor {
namespace {

constexpr size_t kMostLines = 8;  // findings of one kind; more would hide the others

// "PATH:LINE" at the start of a fault of dl.toml's parser.
std::string place_in(const std::string& fault, const std::string& path) {
  if (fault.rfind(path + ":", 0) != 0) return path;
  const size_t end = fault.find_first_not_of("0123456789", path.size() + 1);
  return end == path.size() + 1 ? path : fault.substr(0, end);
}

void add_up(const SiteGpus& quota, SiteGpus* sum) {
  sum->any += quota.any;
  for (const auto& [type, count] : quota.by_type) sum->by_type[type] += count;
}

// The GPUs of all nodes of Slurm's, by type; kPlainGpuType: without one.
std::map<std::string, int> gpus_of_cluster(const Facts& facts) {
  std::map<std::string, int> gpus;
  for (const slurm_cli::Record& node : slurm_cli::parse_records(facts.nodes, "NodeName"))
    for (const observe::GpuCount& some : observe::parse_gpus(node.value("Gres")))
      gpus[some.type.empty() ? std::string(kPlainGpuType) : some.type] += some.count;
  return gpus;
}

std::string tier_line(const Facts& facts, const std::string& sentence, const std::string& heading) {
  if (heading == "[nodes]")
    return facts.cluster.most_gpus > 0 ? fmt::format("gpus_per_node = {}", facts.cluster.most_gpus)
                                       : "(no GPUs per node)";
  if (heading == "[nodes.types]" || heading == "[nodes.counts]") {
    const size_t start = heading.size() + 1;
    return sentence.substr(start, sentence.find_first_of(" :", start) - start) + " = the number that Slurm has";
  }
  return sentence.find("QOS") == std::string::npos ? "partition = \"NAME\""
                                                   : "qos = \"NAME\"   (or partition = \"NAME\")";
}

bool is_account(const Association& row, const std::string& tenant) {
  return ::strcasecmp(row.account.c_str(), tenant.c_str()) == 0;
}

}  // namespace

Findings judge_site_file(const Facts& facts) {
  Findings found;
  const SeenFile& file = facts.site_file;
  if (facts.handed_out)
    found.push_back(
        note("this host has its slurm.conf from slurmctld, which hands out no dl.toml, so the defaults apply here", "",
             "DL_CONFIG=/path/dl.toml in the environment of users, config= in plugstack.conf"));
  if (!facts.site)
    found.push_back(
        wrong(facts.site_fault + (facts.admin ? "; until it is mended, slurmctld keeps what it had, and new jobs wait"
                                              : "; only an administrator can mend it"),
              place_in(facts.site_fault, file.path), facts.admin ? "dlctl config check" : ""));
  if (file.there && file.others_write)
    found.push_back(
        wrong(fmt::format("{} can be changed by others than root and SlurmUser: whoever does so changes quotas; "
                          "allowed: mode 0644 of root",
                          file.path),
              file.path, "chown root:root, chmod 0644"));
  if (!facts.same_site)
    found.push_back(wrong(fmt::format("the programs here read {}, slurmctld on this host {}: two files; allowed: one",
                                      file.path, facts.controller_site),
                          facts.controller_site, "a link to the other file, or unset DL_CONFIG"));
  if (!found.empty()) return found;
  const char* other =
      facts.on_controller || !facts.admin
          ? ""
          : "; whether slurmctld's copy is the same cannot be seen from here: run this on its host, too";
  return {ok(file.there ? fmt::format("{} is good{}", file.path, other)
                        : fmt::format("{} is not there, so the defaults apply{}", file.path, other))};
}

Findings judge_tiers(const Facts& facts) {
  Findings found;
  for (const std::string& sentence : differences(*facts.site, facts.cluster)) {
    const std::string heading = sentence.substr(0, sentence.find(']') + 1);
    if (heading == "[tenants]") continue;  // the licences have a check of their own
    found.push_back(wrong(sentence, site_place(facts, heading), tier_line(facts, sentence, heading)));
  }
  if (found.empty()) found.push_back(ok("Slurm has the partitions, QOS and GPUs that dl.toml names"));
  return found;
}

Findings judge_quotas(const Facts& facts) {
  if (facts.site->tenants.empty()) return {ok("dl.toml has no tenants")};
  SiteGpus promised;
  for (const SiteTenant& tenant : facts.site->tenants) add_up(tenant.quota, &promised);
  for (const SiteGroup& group : facts.site->groups) add_up(group.quota, &promised);
  const std::map<std::string, int> gpus = gpus_of_cluster(facts);
  int all = 0;
  for (const auto& [type, count] : gpus) all += count;
  Findings found;
  for (const auto& [type, count] : promised.by_type) {
    const auto has = gpus.find(type);
    const int there = has == gpus.end() ? 0 : has->second;
    if (count > there)
      found.push_back(
          wrong(fmt::format("the quotas of dl.toml promise {} GPUs of type {}, and Slurm's nodes have {}; allowed: "
                            "{} at most in all tenants and groups",
                            count, type, there, there),
                facts.site_file.path, fmt::format("quota = {{ {} = N }} of its tenants", type)));
  }
  if (promised.total() > all)
    found.push_back(
        wrong(fmt::format("the quotas of dl.toml promise {} GPUs, and Slurm's nodes have {}; allowed: {} at most in "
                          "all tenants and groups",
                          promised.total(), all, all),
              facts.site_file.path, "quota = N of its tenants"));
  if (found.empty()) found.push_back(ok(fmt::format("quotas promise {} of {} GPUs", promised.total(), all)));
  return found;
}

Findings judge_licences(const Facts& facts) {
  Findings found;
  const std::string folder = facts.slurm_conf.path.substr(0, facts.slurm_conf.path.rfind('/') + 1);
  for (const Step& step : plan_quotas(*facts.site, facts.cluster.has).steps) {
    if (step.what != "licence" || found.size() >= kMostLines) continue;
    const std::string has = step.has.empty() ? "none" : step.has;
    if (step.wants.empty())
      found.push_back(note(fmt::format("licence '{}': Slurm has {}, and no tenant of dl.toml needs it", step.name, has),
                           folder + kLicenceFile, "dlctl quota sync"));
    else
      found.push_back(
          wrong(fmt::format("licence '{}': Slurm has {}, the quotas of dl.toml need {}: jobs with GPUs are refused or "
                            "misjudged; allowed: {}",
                            step.name, has, step.wants, step.wants),
                folder + kLicenceFile, "dlctl quota sync writes it"));
  }
  if (facts.site->tenants.empty()) {
    if (found.empty()) found.push_back(ok("dl.toml has no tenants, so no licences are needed"));
    return found;
  }
  if (facts.slurm_conf.there && facts.slurm_conf.fault.empty()) {
    const auto included = includes_licences(facts.slurm_conf.text);
    if (!included)
      found.push_back(
          wrong(included.error().text, slurm_conf_place(facts, "Licenses"), fmt::format("Include {}", kLicenceFile)));
    else if (!*included)
      found.push_back(
          wrong(fmt::format("{} does not include {}, so the licences of tenants are not read; allowed: an empty file "
                            "of that name beside it, and then this line in it",
                            facts.slurm_conf.path, kLicenceFile),
                facts.slurm_conf.path, fmt::format("Include {}", kLicenceFile)));
  }
  if (found.empty()) found.push_back(ok("Slurm has the licences that the quotas of dl.toml need"));
  return found;
}

Findings judge_accounts(const Facts& facts) {
  if (facts.site->tenants.empty()) return {ok("dl.toml has no tenants")};
  if (!facts.cluster.has.accounting)
    return {
        ok("there is no slurmdbd: a job belongs to the tenant that its --account names, and Slurm does not check who "
           "may name "
           "it; users = [...] of a tenant does")};
  if (!facts.accounting_fault.empty()) return {note(fmt::format("slurmdbd was not asked: {}", facts.accounting_fault))};
  Findings found;
  for (const SiteTenant& tenant : facts.site->tenants) {
    bool account = false, users = false;
    for (const Association& row : facts.cluster.has.associations) {
      if (!is_account(row, tenant.name)) continue;
      account = account || row.user.empty();
      users = users || !row.user.empty();
    }
    if (found.size() >= kMostLines) break;
    if (!account)
      found.push_back(wrong(
          fmt::format("tenant '{}' of dl.toml is no account of slurmdbd's, so no job can belong to it", tenant.name),
          site_place(facts, "[tenants." + tenant.name + "]"),
          fmt::format("dlctl quota sync, or: sacctmgr add account {}", tenant.name)));
    else if (!users)
      found.push_back(note(fmt::format("account '{}' has no users", tenant.name), "",
                           fmt::format("sacctmgr add user NAME account={}", tenant.name)));
  }
  const std::string enforce = slurm_setting(facts, "AccountingStorageEnforce");
  if (enforce.find("associations") == std::string::npos && enforce.find("limits") == std::string::npos &&
      enforce.find("qos") == std::string::npos && !has_word(enforce, "all"))
    found.push_back(
        note(fmt::format("AccountingStorageEnforce is {}: every user may name every tenant's account; allowed: "
                         "associations,limits,qos",
                         enforce.empty() ? "none" : enforce),
             slurm_conf_place(facts, "AccountingStorageEnforce"), "AccountingStorageEnforce=associations,limits,qos"));
  if (found.empty()) found.push_back(ok("all tenants are accounts of slurmdbd's"));
  return found;
}

}  // namespace dl::ctl::doctor
