// SPDX-License-Identifier: Apache-2.0
// dl.toml, the site's configuration, parsed and checked: see dl.toml(5). Read by job_submit_dl.so inside slurmctld, by
// spank_dl.so, dlrun and dlctl. It starts no thread, and its only side effect is that it reads the file.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/contract/failure_row.h"
#include "common/contract/request_values.h"
#include "common/site/site_data.h"
#include "common/site/site_tenants.h"

namespace dl {

// [tiers.NAME] with NAME guaranteed or borrow: the QOS or partition that stands for the tier; at most one of the two.
struct TierTarget {
  std::string qos;
  std::string partition;
};

// [network], for the jobs of tenants with network = "job"
struct SiteNetwork {
  bool enforced = false;           // enforce = "nftables": nodes can restrict a job's connections
  std::vector<std::string> allow;  // addresses and prefixes that such jobs may connect to besides their own nodes
  std::vector<std::string> names;  // "%n-ib": further names of a node
};

// [idle]
struct SiteIdle {
  std::chrono::seconds after{1800};  // GPUs of a learner that were unused for this long are idle; 0: never idle
  int below = 5;                     // utilisation in percent below which a GPU counts as unused
  bool lend = false;                 // GPUs of a wholly idle job count as borrowed: a claim may take them
};

// [metrics], of dlpolicyd
struct SiteMetrics {
  int max_jobs = 0;  // jobs that have series of their own; 0: none
};

// [elastic]
struct SiteElastic {
  bool optimise = false;               // sizes = "optimiser": dlpolicyd resizes running elastic jobs by measured speeds
  std::chrono::seconds interval{300};  // a job is resized at most once in this time
  bool drop = false;                   // admission = "drop": a new elastic job without room is ended instead of waiting
  std::chrono::seconds drop_after{60};  // once it has waited for so long
  bool in_place = false;                // grow = "in-place": onto whole free nodes without leaving those that it has
};

struct SiteConfig {
  // [defaults]
  std::string framework = "generic";  // used when --dl-framework is not given but another --dl-* flag is
  Tier tier = Tier::kAuto;            // kAuto: guaranteed, unless the job has to borrow
  Placement placement = Placement::kPack;
  int cpus_per_gpu = 0;      // 0 = leave to Slurm
  int cpus_per_learner = 1;  // for CPU jobs
  int restarts = 0;
  PreflightMode preflight = PreflightMode::kOff;
  std::chrono::seconds hang_timeout{0};   // 0: no time-out
  std::chrono::seconds signal_lead{120};  // how long before the time limit the warning is sent; 0: no warning
  // [nodes]: GPUs of a node, from which job_submit_dl.so computes the number of nodes of a job. 0: unknown.
  int gpus_per_node = 0;
  std::map<std::string, int> gpus_per_node_by_type;  // [nodes.types] a100 = 8
  std::map<std::string, int> node_counts;            // [nodes.counts] a100 = 4: number of nodes by type
  // [tiers] locked: users must not move a job to a tier's QOS or partition after its submission
  bool tiers_locked = true;
  // [tiers.guaranteed], [tiers.borrow]
  TierTarget guaranteed;
  TierTarget borrow;
  // [frameworks]
  std::vector<std::string> catalogue;  // folders of *.toml; default: {PKGDATADIR/frameworks.d, CONFDIR/frameworks.d}
  // [launcher]
  std::string job_dir = "dl-%j";   // relative to the submit directory; %j = job id
  unsigned job_dir_mode = 0700;    // of job directories that dlrun makes
  uint64_t log_limit = 1 << 30;    // bytes of each learner's log in each attempt; 0: no limit
  std::chrono::seconds grace{30};  // time from SIGTERM to SIGKILL for learners
  std::chrono::seconds agent_timeout{
      300};  // the agents of an attempt must connect within this time; an agent that is silent for longer is lost
  std::string pmix = "dlrun";  // which PMIx server MPI learners get: "dlrun" (dlrun's own) or "slurm"
  int loop_guard = 2;          // the job is held after this number of attempts without progress
  // [image]
  std::string image_runtime = "auto";    // a runtime of launcher/image, or "auto": the first that can run the image
  std::vector<std::string> image_binds;  // folders of the nodes that every container can see
  // [data]
  SiteData data;
  // [idle]: GPUs that a job holds and does not use
  SiteIdle idle;
  // [metrics]
  SiteMetrics metrics;
  // [elastic]: who chooses the sizes of elastic jobs
  SiteElastic elastic;
  // [network]
  SiteNetwork network;
  // [[failure]], in the file's order; dlrun tries them before the built-in classes
  std::vector<FailureRow> failures;
  // [quota], and [tenants.NAME] sorted by name. Without tenants there are no quotas, and jobs without --dl-* flags are
  // left alone.
  SiteQuota quota;
  std::vector<SiteTenant> tenants;
  std::vector<SiteGroup> groups;  // [tenant_groups.NAME] sorted by name
};

// The path of dl.toml: $DL_CONFIG if set and `trust_environment`; else beside $SLURM_CONF if that is set and is not a
// copy that slurmctld hands out; else in the compiled-in Slurm configuration directory.
std::string default_site_config_path(bool trust_environment);
// Whether $SLURM_CONF is a copy that slurmctld hands out to hosts without a file of their own ("configless"). slurmctld
// hands out only Slurm's files, so there is no dl.toml beside it.
bool slurm_conf_is_handed_out();

// A missing file gives the defaults. An unknown key, a wrong type or a value out of range gives kInvalid
// "PATH:LINE: KEY: ...; allowed: ...". At most 1 MiB is read; only a regular file.
Result<SiteConfig> load_site_config(const std::string& path);
// Parses a text; `name` stands for the path in messages.
Result<SiteConfig> parse_site_config(const std::string& text, const std::string& name);

}  // namespace dl
