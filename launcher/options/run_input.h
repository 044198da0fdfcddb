// SPDX-License-Identifier: Apache-2.0
// Collects what dlrun needs for a plan: its environment, the site's settings (site_settings.h), the allocation. All
// files are read and Slurm is asked here; making the plan is pure.
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
  std::optional<slurm_cli::JobInfo> job;  // from Slurm; none without Slurm, or if it did not answer
};
// again: this dlrun replaces another one, which may have released nodes of the allocation; they are left out. Blocks
// while Slurm answers, and for up to 30 minutes while the digest of an image is computed. Errors of find_agent(),
// find_pmix_server(), read_request(), choose_container() and allocation_from_slurm(); kDenied if the image has another
// digest than the one that was asked for.
Result<GatheredInput> gather_input(const RunCommand& run, const SiteSettings& settings, bool again = false);

// "local-20260401-101530-4711": the id of a job without Slurm.
std::string local_job_id();

// The environment of this process.
Environment own_environment();
// Removes from it what spank_dl.so has added for this srun task: learners are told other values.
void drop_given_variables();
Result<std::string> current_directory();  // $PWD if it leads there, so that links in it are kept

// The agent beside this program (../libexec/slurm-dl/dl-agent, or in a build tree ./agent/dl-agent), else the
// compiled-in place, else $DL_AGENT. kNotFound names the places.
Result<std::string> find_agent();

// The path of dl-pmix beside this agent if dlrun shall serve PMIx: $DL_PMIX decides, else `site` ("dlrun" or "slurm").
// Empty if Slurm shall, or if dl-pmix was not built. kNotFound if $DL_PMIX asks for dl-pmix but it was not built;
// kInvalid for another value.
Result<std::string> find_pmix_server(const std::string& agent_path, const std::string& site);

// kNotFound if the plan uses an MPI plugin that this Slurm does not have; srun's own error would come once for each
// node. site: as in find_pmix_server(). Calls srun --mpi=list if the plan names a plugin; if that fails, reports no
// error.
Status check_mpi_plugin(const plan::LaunchPlan& plan, const std::string& site);

// True if the program is an ELF file linked with an MPI library: without Slurm it has to be started by mpirun.
bool links_mpi(const std::string& program);

// The process id of the batch script's shell, from Slurm; 0 if there is none.
pid_t script_process();
// The signal that the user wants before the time limit (--signal), from job_submit_dl.so, else from the script's
// #SBATCH lines.
std::optional<OwnSignal> own_signal_of_job(pid_t script);
// The same signal, if agents have to pass it on to their learners: one for the job steps, of which Slurm signals only
// the tasks, which are the agents. Else 0. Asks Slurm for its configuration.
int passed_signal(const std::optional<OwnSignal>& own);

}  // namespace dl
