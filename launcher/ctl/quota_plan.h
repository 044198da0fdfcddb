// SPDX-License-Identifier: Apache-2.0
// What Slurm has of the tenants, what dl.toml says it shall have, and the steps from the one to the other. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/site/site_config.h"
#include "slurm-plugin/policy/tokens.h"

namespace dl::ctl {

// An association of slurmdbd's: of an account (user empty) or of a user in it.
struct Association {
  std::string account, user;
  std::string fair_share;  // as sacctmgr shows it: a number, or "parent"
  std::string group_tres;  // GrpTRES
  std::vector<std::string> qos;
};

struct SlurmHas {
  std::vector<policy::Licence> licences;  // all of the cluster's own, with their totals
  std::map<std::string, int> used;        // of them, held by jobs
  bool accounting = false;                // slurmdbd is there
  bool enforces_limits = false;           // AccountingStorageEnforce has limits
  std::string cluster;
  std::vector<Association> associations;
  std::vector<std::string> qos;  // names
};

// Beside slurm.conf; the site includes it there, once.
constexpr const char* kLicenceFile = "dl-licenses.conf";

struct Step {
  std::string what;                  // "licence", "account", "QOS", "user"
  std::string name;                  // which
  std::string has, wants;            // empty `has`: missing; empty `wants`: to be removed
  std::vector<std::string> command;  // of sacctmgr; empty: the licence file has it
};

struct QuotaPlan {
  std::vector<Step> steps;
  std::string licence_file;           // its content, if a step needs it; it has other licences of the site, too
  std::vector<std::string> warnings;  // a sentence each
};

// The second run after the steps were carried out has none.
QuotaPlan plan_quotas(const SiteConfig& site, const SlurmHas& has);

// Parsers of what Slurm's commands print; lines that cannot be read are left out.
// `scontrol show license --oneliner`; licences of other servers (Remote=yes) are not ours to write.
void read_licences(const std::string& text, SlurmHas* has);
// `scontrol show config`
void read_config(const std::string& text, SlurmHas* has, std::string* slurm_conf);
// `sacctmgr --noheader --parsable2 show associations format=account,user,fairshare,grptres,qos`
void read_associations(const std::string& text, SlurmHas* has);
// Whether the text of a slurm.conf includes the licence file, and has no Licenses of its own, which would hide it.
Result<bool> includes_licences(const std::string& slurm_conf);

}  // namespace dl::ctl
