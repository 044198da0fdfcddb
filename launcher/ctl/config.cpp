// SPDX-License-Identifier: Apache-2.0
// dlctl config check [FILE]: tells whether the plugins and dlrun would accept the site's configuration, before they
// read it, and where it differs from what Slurm has.
#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>

#include "common/base/count.h"
#include "common/base/parse.h"
#include "common/site/site_config.h"
#include "frameworks/catalogue.h"
#include "launcher/ctl/site_and_slurm.h"
#include "launcher/ctl/slurm_output.h"
#include "launcher/ctl/subcommand.h"
#include "launcher/ctl/text.h"
#include "slurm-plugin/policy/site_state.h"

namespace dl::ctl {
namespace {

struct ConfigOptions {
  std::string file;
  bool quiet = false;
};

std::string target_text(const TierTarget& target) {
  if (!target.qos.empty()) return "QOS " + target.qos;
  if (!target.partition.empty()) return "partition " + target.partition;
  return "nothing";
}

std::string number_or(int value, const char* otherwise) {
  return value > 0 ? std::to_string(value) : otherwise;
}

std::string failure_names(const SiteConfig& site) {
  std::string names = "built in";
  for (const FailureRow& row : site.failures) names += ", " + row.name;
  return names;
}

std::string gpus_text(const SiteGpus& gpus) {
  std::string text;
  for (const auto& [type, count] : gpus.by_type) text += fmt::format("{}{} {}", text.empty() ? "" : " + ", count, type);
  if (gpus.any > 0 || text.empty()) text += fmt::format("{}{}", text.empty() ? "" : " + ", gpus.any);
  return text;
}

// Prints the tenants, and warns of quotas that cannot all be kept.
void print_tenants(const SiteConfig& site) {
  if (site.tenants.empty()) return;
  std::vector<std::vector<std::string>> rows = {
      {"TENANT", "QUOTA", "LENDS", "BORROWS", "WEIGHT", "GROUP", "MOST PER JOB"}};
  for (const SiteTenant& tenant : site.tenants)
    rows.push_back({tenant.name, gpus_text(tenant.quota), tenant.lend ? gpus_text(*tenant.lend) : "all",
                    tenant.borrow_limit ? std::to_string(*tenant.borrow_limit) : "any",
                    fmt::format("{}", tenant.weight), tenant.group.empty() ? "-" : tenant.group,
                    tenant.max_job_gpus ? std::to_string(*tenant.max_job_gpus) : "any"});
  std::printf("\n%s", table(rows).c_str());
  for (const SiteGroup& group : site.groups)
    std::printf("group %s%s%s: %s GPUs of its own\n", group.name.c_str(), group.parent.empty() ? "" : " in ",
                group.parent.c_str(), gpus_text(group.quota).c_str());
  const policy::ClusterState state = policy::state_of(site);
  if (!state.nodes_known) {
    std::puts("warning: [nodes] counts does not tell the nodes of every type: whether a job fits is not judged");
    return;
  }
  for (const std::string& sentence : policy::oversubscribed(state)) std::printf("warning: %s\n", sentence.c_str());
}

void print_values(const SiteConfig& site, const Catalogue& catalogue) {
  std::string nodes = number_or(site.gpus_per_node, "unknown");
  for (const auto& [type, count] : site.gpus_per_node_by_type) nodes += ", " + type + ": " + std::to_string(count);
  std::string folders;
  for (const std::string& folder : site.catalogue) folders += (folders.empty() ? "" : ", ") + folder;
  std::string names;
  for (const auto& [name, entry] : catalogue.entries()) names += (names.empty() ? "" : ", ") + name;
  const std::vector<std::vector<std::string>> rows = {
      {"default framework", site.framework},
      {"default tier", tier_name(site.tier)},
      {"CPUs per GPU", number_or(site.cpus_per_gpu, "left to Slurm")},
      {"CPUs per learner", number_or(site.cpus_per_learner, "left to Slurm")},
      {"restarts", std::to_string(site.restarts)},
      {"signal before the limit", site.signal_lead.count() > 0 ? format_duration(site.signal_lead) : "none"},
      {"GPUs per node", nodes},
      {"guaranteed tier", target_text(site.guaranteed)},
      {"borrow tier", target_text(site.borrow)},
      {"catalogue", folders},
      {"frameworks", names.empty() ? "none" : names},
      {"job directory", site.job_dir},
      {"grace", format_duration(site.grace)},
      {"agents connect within", format_duration(site.agent_timeout)},
      {"loop guard", count_text(site.loop_guard, "attempt") + " without progress"},
      {"PMIx", site.pmix == "slurm" ? "Slurm's plugin" : "dlrun's own servers"},
      {"classes of failure", failure_names(site)}};
  std::fputs(table(rows).c_str(), stdout);
  print_tenants(site);
}

Result<std::string> asked(const std::vector<std::string>& command) {
  return slurm_output(command, std::chrono::seconds(20));
}

Result<SlurmCluster> look_at_slurm() {
  SlurmCluster slurm;
  std::string conf;
  DL_TRY_ASSIGN(const std::string config, asked({"scontrol", "show", "config"}));
  read_config(config, &slurm.has, &conf);
  DL_TRY_ASSIGN(const std::string partitions, asked({"scontrol", "--oneliner", "show", "partition"}));
  read_partitions(partitions, &slurm);
  DL_TRY_ASSIGN(const std::string nodes, asked({"scontrol", "--oneliner", "show", "node"}));
  read_nodes(nodes, &slurm);
  DL_TRY_ASSIGN(const std::string licences, asked({"scontrol", "--oneliner", "show", "licenses"}));
  read_licences(licences, &slurm.has);
  if (!slurm.has.accounting) return slurm;
  DL_TRY_ASSIGN(const std::string names,
                asked({"sacctmgr", "--immediate", "--noheader", "--parsable2", "show", "qos", "format=name"}));
  for (std::string& name : split(names, '\n'))
    if (!name.empty()) slurm.has.qos.push_back(std::move(name));
  return slurm;
}

void print_differences(const SiteConfig& site) {
  const auto slurm = look_at_slurm();
  if (!slurm) {
    std::puts("\nSlurm does not answer here, so its partitions, QOS, GPUs and licences were not compared");
    return;
  }
  for (const std::string& sentence : differences(site, *slurm)) std::printf("warning: %s\n", sentence.c_str());
}

Status check(const ConfigOptions& options) {
  const std::string path = options.file.empty() ? default_site_config_path(true) : options.file;
  const bool exists = ::access(path.c_str(), F_OK) == 0;
  // A missing file counts as empty, as it does for the plugins; but a file that is named has to exist.
  if (!exists && !options.file.empty())
    return Error{Errc::kInvalid, path + ": there is no such file; allowed: the path of a dl.toml"};
  DL_TRY_ASSIGN(const SiteConfig site, load_site_config(path));
  DL_TRY_ASSIGN(const Catalogue catalogue, Catalogue::load(site.catalogue));
  const auto choice = catalogue.choose(FrameworkRef{site.framework, ""});
  if (!choice)
    return choice.error().code == Errc::kNotFound
               ? Error{Errc::kInvalid, path + ": defaults.framework: " + choice.error().text}
               : choice.error();
  if (options.quiet) return {};
  std::printf("%s: %s\n", path.c_str(), exists ? "good" : "not there, so the defaults apply");
  print_values(site, catalogue);
  print_differences(site);
  return {};
}

}  // namespace

Run add_config(CommandLine* line) {
  auto options = std::make_shared<ConfigOptions>();
  line->require_subcommand();
  CommandLine* sub = line->subcommand("check", "check dl.toml and the catalogue, and show what they say");
  sub->argument("FILE", &options->file, "default: dl.toml beside slurm.conf, or $DL_CONFIG");
  sub->flag("-q,--quiet", &options->quiet, "print nothing if there is no fault");
  return [options] { return check(*options); };
}

}  // namespace dl::ctl
