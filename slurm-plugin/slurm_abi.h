// SPDX-License-Identifier: Apache-2.0
// Slurm's interface for the plugins. Only this file includes <slurm/...> or tests Slurm's version. It uses public
// headers alone; functions that libslurmfull exports without a public prototype are declared here by hand.
//
// The plugins link no libslurm: these symbols are left undefined and come from the program that loads the plugin
// (sbatch, slurmstepd, slurmctld). One spank_dl.so serves every version, job_submit has a part for each release
// (any_slurm.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

// spank.h declares its hooks outside its own extern "C": without this line they would get C++ names.
extern "C" {
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/slurm_version.h>
#include <slurm/slurmdb.h>
#include <slurm/spank.h>

// The layout of slurmctld's job record changes with every release, so it is only used as a pointer here.
struct job_record;

// From src/common/xmalloc.h and xstring.h, the same from 22.05 to 26.05. Memory that Slurm frees must come from these
// functions.
char* slurm_xstrdup(const char* text);
void slurm_xfree(void** pointer);
void* slurm_xcalloc(size_t count, size_t size, bool clear, bool try_only, const char* file, int line, const char* func);

// From slurm.h, weak here.
long slurm_api_version(void) __attribute__((weak));

// From src/common/assoc_mgr.h: fills in what slurmctld knows of user->uid. The symbol is weak: in a program that lacks
// the function it is a null pointer.
int assoc_mgr_fill_in_user(void* connection, slurmdb_user_rec_t* user, int enforce, slurmdb_user_rec_t** found,
                           bool locked) __attribute__((weak));

// From src/slurmctld/fed_mgr.h: the federation that this cluster belongs to, and this cluster; null without a
// federation. Weak, too.
extern slurmdb_federation_rec_t* fed_mgr_fed_rec __attribute__((weak));
extern slurmdb_cluster_rec_t* fed_mgr_cluster_rec __attribute__((weak));

// From src/common/read_config.h: slurm.conf as this daemon has read it. Weak, too.
extern slurm_conf_t slurm_conf __attribute__((weak));

// The symbols that Slurm looks up in a plugin. They are declared extern first, because C++ would give a const object
// internal linkage.
extern const char plugin_name[];
extern const char plugin_type[];
extern unsigned int plugin_version;
// Not of Slurm: the version of slurm-dl, which `dlctl doctor` reads from the file.
extern const char dl_release[];

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
using DlPluginFini = void;
#else
using DlPluginFini = int;
#endif
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0)
#define DL_JOB_MODIFY_HAS_MESSAGE 1
#endif
// From 25.05 on Slurm looks up what a failure of slurm_spank_init on a node is: of the node, which is drained, or of
// the job. Older headers have neither this name nor the number.
extern int slurm_spank_init_failure_mode;
}

namespace dl::abi {

constexpr uint32_t kStepPending = 0xfffffffd;
constexpr uint32_t kStepExtern = 0xfffffffc;
constexpr uint32_t kStepBatch = 0xfffffffb;
constexpr uint32_t kStepInteractive = 0xfffffffa;

// The form in which slurmctld reads GRES: "gres:gpu:a100:2" up to 23.02, "gres/gpu:a100:2" from 23.11 on; in
// tres_per_task a '=' precedes the count from 24.05 on.
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 11, 0)
constexpr const char* kGpuGres = "gres/gpu";
#else
constexpr const char* kGpuGres = "gres:gpu";
#endif
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(24, 5, 0)
constexpr char kTaskCountSeparator = '=';
#else
constexpr char kTaskCountSeparator = ':';
#endif

// The bit of slurm_conf.conf_flags for AllowSpecResourcesUsage.
#ifdef CONF_FLAG_ASRU
constexpr uint32_t kAllowsCoreSpec = CONF_FLAG_ASRU;
#else
constexpr uint32_t kAllowsCoreSpec = CTL_CONF_ASRU;
#endif

// ESPANK_JOB_FAILURE of slurm_errno.h.
constexpr int kSpankJobFailure = 3012;
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 5, 0)
static_assert(kSpankJobFailure == ESPANK_JOB_FAILURE, "Slurm has renumbered its errors");
#endif

// True if, in a job with --ntasks, --ntasks-per-node and --gpus-per-task, --ntasks is the number of tasks that get CPUs
// and GPUs: from 24.11.1 up to 25.05. Before and after, --ntasks-per-node on each node decides. Slurm's source:
// src/plugins/select/cons_tres/dist_tasks.c, where _get_task_count() came with 24.11.1 ("Use task count in dist_tasks
// instead of cpu count") and looks at --ntasks-per-node first from 25.11.0 on ("Fix srun ntasks calculation when using
// -N min-max range"). Tried on 22.05.8, 24.11.5 and 26.05.5.
constexpr bool ntasks_is_the_number(unsigned int slurm) {
  return slurm >= SLURM_VERSION_NUM(24, 11, 1) && slurm < SLURM_VERSION_NUM(25, 11, 0);
}

// Replaces a string that Slurm owns.
void set_string(char** field, const std::string& value);
// The text, or an empty one for NULL.
inline std::string text_of(const char* value) {
  return value == nullptr ? std::string() : std::string(value);
}
// Adds NAME=VALUE to an environment that Slurm owns (job_desc_msg_t), if NAME is not in it yet.
void add_environment(char*** environment, uint32_t* size, const std::string& name, const std::string& value);

}  // namespace dl::abi
