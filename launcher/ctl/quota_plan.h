// SPDX-License-Identifier: Apache-2.0
// Compares what Slurm has for the tenants with what dl.toml wants, and lists the steps that are needed. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/site/site_config.h"
#include "slurm-plugin/policy/tokens.h"

namespace dl::ctl {

// An association in slurmdbd: of an account (user empty) or of a user in an account.
struct Association {
  std::string account, user;
  std::string fair_share;  // as sacctmgr shows it: a number, or "parent"
  std::string group_tres;  // GrpTRES
  std::vector<std::string> qos;
};

struct SlurmHas {
  std::vector<policy::Licence> licences;  // all local licences of the cluster, with their totals
  std::map<std::string, int> used;        // licences held by jobs, by name
  bool accounting = false;                // slurmdbd is there
  bool enforces_limits = false;           // AccountingStorageEnforce includes limits
  std::string cluster;
  std::vector<Association> associations;
  std::vector<std::string> qos;  // names
};

// The file beside slurm.conf that holds the licences; the administrator adds an Include of it to slurm.conf, once.
constexpr const char* kLicenceFile = "dl-licenses.conf";

struct Step {
  std::string what;                  // "licence", "account", "QOS", "user"
  std::string name;                  // of the licence, account, QOS or user
  std::string has, wants;            // empty `has`: missing; empty `wants`: to be removed
  std::vector<std::string> command;  // of sacctmgr; empty: done by the licence file
};

struct QuotaPlan {
  std::vector<Step> steps;
  std::string licence_file;           // its new content if a step needs it, including the site's other licences
  std::vector<std::string> warnings;  // a sentence each
};

// Once all steps have been carried out, a second call returns none.
QuotaPlan plan_quotas(const SiteConfig& site, const SlurmHas& has);

// Parsers of what Slurm's commands print; lines that cannot be read are left out.
// `scontrol show license --oneliner`; remote licences (Remote=yes) are skipped, since slurm.conf does not define them.
void read_licences(const std::string& text, SlurmHas* has);
// `scontrol show config`
void read_config(const std::string& text, SlurmHas* has, std::string* slurm_conf);
// `sacctmgr --noheader --parsable2 show associations format=account,user,fairshare,grptres,qos`
void read_associations(const std::string& text, SlurmHas* has);
// True if the text of slurm.conf includes the licence file. kConflict if it sets Licenses= itself: the two would
// replace each other.
Result<bool> includes_licences(const std::string& slurm_conf);

}  // namespace dl::ctl
