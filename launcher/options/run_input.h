// SPDX-License-Identifier: Apache-2.0
// What dlrun has to know before it can plan: its environment, the site's settings (site_settings.h), the allocation.
// All reading of files and asking of Slurm for the plan happens here; the plan itself is pure.
#pragma once

#include <sys/types.h>

#include <optional>

#include "common/base/result.h"
#include "common/contract/own_signal.h"
#include "common/site/site_config.h"
#include "frameworks/catalogue.h"
#include "launcher/options/run_options.h"
#include "launcher/options/site_settings.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/slurm_cli/slurm_cli.h"

namespace dl {

struct GatheredInput {
  plan::PlanInput input;
  Catalogue catalogue;                    // input.catalogue points here after bind()
  std::vector<std::string> notes;         // one line each, for the user
  std::optional<slurm_cli::JobInfo> job;  // as Slurm knows it; none without Slurm, and where it did not answer
};
// again: another dlrun has run in this allocation, which may have given nodes back since Slurm made the environment.
Result<GatheredInput> gather_input(const RunCommand& run, const SiteSettings& settings, bool again = false);

// "local-20260401-101530-4711": the id of a job without Slurm.
std::string local_job_id();

// Of this process.
Environment own_environment();
Result<std::string> current_directory();  // by the name that the user knows it by ($PWD), if that leads there

// The agent beside this program (../libexec/slurm-dl/dl-agent, or in a build tree ./agent/dl-agent), else the
// compiled-in place, else $DL_AGENT. kNotFound names the places.
Result<std::string> find_agent();

// dl-pmix beside this agent, where $DL_PMIX, or else the site ("dlrun" or "slurm"), wants PMIx served by dlrun; empty
// where not, and where it was built without libpmix. kNotFound if $DL_PMIX asks for what was not built; kInvalid.
Result<std::string> find_pmix_server(const std::string& agent_path, const std::string& site);

// kNotFound, in one sentence, if the plan leaves PMIx to a plugin that this Slurm does not have: srun would say so once
// for each node, in words of its own. site: as in find_pmix_server(). Asks srun, and only then; where srun gives no
// list, the plan is taken as it is.
Status check_mpi_plugin(const plan::LaunchPlan& plan, const std::string& site);

// True if the program is an ELF file that names an MPI library: without Slurm it has to be started by mpirun.
bool links_mpi(const std::string& program);

// The shell of the batch script, as Slurm says; 0 where there is none.
pid_t script_process();
// The signal that the user wants before the time limit: as job_submit_dl.so says, else as the script's #SBATCH lines
// do.
std::optional<OwnSignal> own_signal_of_job(pid_t script);

}  // namespace dl
