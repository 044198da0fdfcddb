// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/quota_plan.h"

#include <fmt/core.h>
#include <strings.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "common/base/parse.h"
#include "launcher/slurm_cli/records.h"
#include "launcher/slurm_cli/slurm_cli.h"
#include "slurm-plugin/policy/site_state.h"

namespace dl::ctl {
namespace {

constexpr double kSharesOfWeightOne = 100;  // Slurm's shares are whole numbers
constexpr double kMaxShares = 1e9;

bool same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::strncasecmp(a.data(), b.data(), a.size()) == 0;
}

int total_of(const std::vector<policy::Licence>& licences, const std::string& name) {
  for (const policy::Licence& licence : licences)
    if (licence.name == name) return licence.count;
  return 0;
}

std::string gpus_text(int count) {
  return count == 0 ? "" : std::to_string(count);
}

// The value of NAME in "a=1,b=2", or an empty text.
std::string value_in(const std::string& list, const std::string& name) {
  for (const std::string& field : split(list, ','))
    if (field.size() > name.size() && field.compare(0, name.size() + 1, name + "=") == 0)
      return field.substr(name.size() + 1);
  return "";
}

class Planner {
 public:
  Planner(const SiteConfig& site, const SlurmHas& has) : site_(site), has_(has) {}

  QuotaPlan plan() {
    const policy::ClusterState state = policy::state_of(site_);
    if (state.nodes_known) plan_.warnings = policy::oversubscribed(state);
    plan_licences(policy::token_totals(state));
    if (has_.accounting) {
      for (const SiteTenant& tenant : site_.tenants) plan_account(tenant);
      plan_tiers();
    } else {
      for (const SiteTenant& tenant : site_.tenants)
        if (tenant.max_user_gpus)
          warn(fmt::format(
              "tenant '{}': max_user_gpus is kept by dlpolicyd alone, while it runs, since there is no slurmdbd",
              tenant.name));
    }
    return std::move(plan_);
  }

 private:
  void warn(std::string sentence) { plan_.warnings.push_back(std::move(sentence)); }

  void plan_licences(const std::vector<policy::Licence>& wanted) {
    std::set<std::string> names;
    for (const policy::Licence& licence : wanted) names.insert(licence.name);
    for (const policy::Licence& licence : has_.licences)
      if (policy::parse_token(licence.name)) names.insert(licence.name);
    for (const std::string& name : names) {
      const int has = total_of(has_.licences, name);
      const int wants = total_of(wanted, name);
      if (has == wants) continue;
      plan_.steps.push_back({"licence", name, gpus_text(has), gpus_text(wants), {}});
      const auto used = has_.used.find(name);
      if (used != has_.used.end() && used->second > wants)
        warn(fmt::format("licence '{}': jobs hold {}, more than the {} that there will be; they run on", name,
                         used->second, wants));
    }
    if (plan_.steps.empty()) return;
    std::vector<policy::Licence> all;
    for (const policy::Licence& licence : has_.licences)
      if (!policy::parse_token(licence.name)) all.push_back(licence);
    all.insert(all.end(), wanted.begin(), wanted.end());
    plan_.licence_file = fmt::format(
        "# Written by dlctl quota sync: licences that stand for GPUs of tenants, and the site's others as they were.\n"
        "Licenses={}\n",
        policy::format_licences(all));
    if (all.empty()) plan_.licence_file = "# Written by dlctl quota sync: there is no tenant, and no other licence.\n";
  }

  const Association* account_row(const std::string& account) const {
    for (const Association& row : has_.associations)
      if (row.user.empty() && same(row.account, account)) return &row;
    return nullptr;
  }

  void plan_account(const SiteTenant& tenant) {
    const auto shares =
        std::to_string(std::lround(std::min(kMaxShares, std::max(0.0, tenant.weight * kSharesOfWeightOne))));
    const Association* row = account_row(tenant.name);
    if (row == nullptr) {
      plan_.steps.push_back({"account",
                             tenant.name,
                             "",
                             "fairshare " + shares,
                             {"add", "account", tenant.name, "cluster=" + has_.cluster, "description=tenant",
                              "organization=slurm-dl", "fairshare=" + shares}});
      warn(fmt::format("account '{}' will have no users: sacctmgr add user NAME account={}", tenant.name, tenant.name));
    } else if (row->fair_share != shares) {
      plan_.steps.push_back({"account",
                             tenant.name,
                             "fairshare " + row->fair_share,
                             "fairshare " + shares,
                             {"modify", "account", "where", "name=" + tenant.name, "cluster=" + has_.cluster, "set",
                              "fairshare=" + shares}});
    }
    plan_qos_of(tenant, row);
    if (tenant.max_user_gpus) plan_users(tenant);
  }

  std::set<std::string> tier_qos() const {
    std::set<std::string> names;
    for (const TierTarget* tier : {&site_.guaranteed, &site_.borrow})
      if (!tier->qos.empty()) names.insert(tier->qos);
    return names;
  }

  void plan_qos_of(const SiteTenant& tenant, const Association* row) {
    for (const std::string& qos : tier_qos()) {
      if (row != nullptr && std::find(row->qos.begin(), row->qos.end(), qos) != row->qos.end()) continue;
      plan_.steps.push_back(
          {"account",
           tenant.name,
           "",
           "QOS " + qos,
           {"modify", "account", "where", "name=" + tenant.name, "cluster=" + has_.cluster, "set", "qos+=" + qos}});
    }
  }

  void plan_users(const SiteTenant& tenant) {
    const std::string limit = std::to_string(*tenant.max_user_gpus);
    if (!has_.enforces_limits)
      warn(fmt::format("tenant '{}': max_user_gpus needs AccountingStorageEnforce=limits in slurm.conf", tenant.name));
    for (const Association& row : has_.associations) {
      if (row.user.empty() || !same(row.account, tenant.name)) continue;
      const std::string had = value_in(row.group_tres, "gres/gpu");
      if (had == limit) continue;
      plan_.steps.push_back({"user",
                             fmt::format("{} in {}", row.user, tenant.name),
                             had,
                             limit + " GPUs",
                             {"modify", "user", "where", "name=" + row.user, "account=" + tenant.name,
                              "cluster=" + has_.cluster, "set", "grptres=gres/gpu=" + limit}});
    }
  }

  // Creates the QOS of a tier that slurmdbd lacks, before an account may use it.
  void plan_tiers() {
    std::vector<Step> made;
    const auto missing = [&](const std::string& qos) {
      return !qos.empty() && std::find(has_.qos.begin(), has_.qos.end(), qos) == has_.qos.end();
    };
    if (missing(site_.borrow.qos))
      made.push_back({"QOS",
                      site_.borrow.qos,
                      "",
                      "preemptable, grace " + format_duration(site_.quota.grace),
                      {"add", "qos", site_.borrow.qos, "priority=0", "preemptmode=requeue",
                       fmt::format("gracetime={}", site_.quota.grace.count()), "flags=NoReserve"}});
    if (missing(site_.guaranteed.qos)) {
      std::vector<std::string> command = {"add", "qos", site_.guaranteed.qos, "priority=1000"};
      if (!site_.borrow.qos.empty()) command.push_back("preempt=" + site_.borrow.qos);
      made.push_back({"QOS", site_.guaranteed.qos, "",
                      site_.borrow.qos.empty() ? "priority 1000" : "preempts " + site_.borrow.qos, std::move(command)});
    }
    const auto first =
        std::find_if(plan_.steps.begin(), plan_.steps.end(), [](const Step& s) { return s.what != "licence"; });
    plan_.steps.insert(first, made.begin(), made.end());
  }

  const SiteConfig& site_;
  const SlurmHas& has_;
  QuotaPlan plan_;
};

}  // namespace

QuotaPlan plan_quotas(const SiteConfig& site, const SlurmHas& has) {
  return Planner(site, has).plan();
}

void read_licences(const std::string& text, SlurmHas* has) {
  for (const slurm_cli::Licence& licence : slurm_cli::parse_licences(text)) {
    if (licence.remote) continue;
    has->licences.push_back({licence.name, static_cast<int>(licence.total)});
    has->used[licence.name] = static_cast<int>(licence.used);
  }
}

void read_config(const std::string& text, SlurmHas* has, std::string* slurm_conf) {
  has->accounting = slurm_cli::has_slurmdbd(text);
  has->enforces_limits = slurm_cli::setting_of(text, "AccountingStorageEnforce").find("limits") != std::string::npos;
  has->cluster = slurm_cli::cluster_name_of(text);
  *slurm_conf = slurm_cli::setting_of(text, "SLURM_CONF");
}

void read_associations(const std::string& text, SlurmHas* has) {
  for (const std::string& line : split(text, '\n')) {
    const std::vector<std::string> field = split(line, '|');
    if (field.size() != 5 || field[0].empty()) continue;
    has->associations.push_back({field[0], field[1], field[2], field[3], split(field[4], ',')});
  }
}

Result<bool> includes_licences(const std::string& slurm_conf) {
  bool included = false;
  for (const std::string& whole : split(slurm_conf, '\n')) {
    const std::string_view line = trim(std::string_view(whole).substr(0, whole.find('#')));
    if (same(line.substr(0, 9), "Licenses="))
      return Error{
          Errc::kConflict,
          fmt::format("slurm.conf has a Licenses of its own, which {} would replace; allowed: move that line to "
                      "{}, and put 'Include {}' in its place",
                      kLicenceFile, kLicenceFile, kLicenceFile)};
    if (same(line.substr(0, 7), "include") && line.size() > 8) {
      const std::string_view file = trim(line.substr(8));
      included = included || file.substr(file.rfind('/') + 1) == kLicenceFile;
    }
  }
  return included;
}

}  // namespace dl::ctl
