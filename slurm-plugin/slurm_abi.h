// SPDX-License-Identifier: Apache-2.0
// Slurm, as the plugins see it: the only file that includes <slurm/...> or tests Slurm's version. Public headers alone;
// what libslurmfull exports without a public prototype is declared here by hand.
//
// The plugins link no libslurm: these symbols are left undefined and come from the program that loads the plugin
// (sbatch, slurmstepd, slurmctld). A SPANK plugin must match Slurm's major.minor, a job_submit plugin its exact
// version.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

// spank.h declares its hooks outside its own extern "C": without this they would come out mangled.
extern "C" {
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/slurm_version.h>
#include <slurm/slurmdb.h>
#include <slurm/spank.h>

// slurmctld's job record changes with every release, so it is never more than a pointer here.
struct job_record;

// src/common/xmalloc.h and xstring.h, the same from 22.05 to 26.05. Whatever Slurm frees must come from these.
char* slurm_xstrdup(const char* text);
void slurm_xfree(void** pointer);
void* slurm_xcalloc(size_t count, size_t size, bool clear, bool try_only, const char* file, int line, const char* func);

// src/common/assoc_mgr.h: fills what slurmctld knows of user->uid. Weak: where a program has no such function, it is a
// null pointer.
int assoc_mgr_fill_in_user(void* connection, slurmdb_user_rec_t* user, int enforce, slurmdb_user_rec_t** found,
                           bool locked) __attribute__((weak));

// src/slurmctld/fed_mgr.h: the federation that this cluster is in, and this cluster; null where it is in none. Weak,
// too.
extern slurmdb_federation_rec_t* fed_mgr_fed_rec __attribute__((weak));
extern slurmdb_cluster_rec_t* fed_mgr_cluster_rec __attribute__((weak));

// src/common/read_config.h: slurm.conf as this daemon has read it. Weak, too.
extern slurm_conf_t slurm_conf __attribute__((weak));

// What Slurm looks up in a plugin. C++ gives a const object internal linkage unless it was declared extern before.
extern const char plugin_name[];
extern const char plugin_type[];
extern const unsigned int plugin_version;

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
using DlPluginFini = void;
#else
using DlPluginFini = int;
#endif
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0)
#define DL_JOB_MODIFY_HAS_MESSAGE 1
#endif
}

namespace dl::abi {

constexpr uint32_t kStepPending = 0xfffffffd;
constexpr uint32_t kStepExtern = 0xfffffffc;
constexpr uint32_t kStepBatch = 0xfffffffb;
constexpr uint32_t kStepInteractive = 0xfffffffa;

// GRES as slurmctld reads them: "gres:gpu:a100:2" up to 23.02, "gres/gpu:a100:2" from 23.11 on; in tres_per_task the
// count follows a '=' from 24.05 on.
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

// Of a job with --ntasks and --ntasks-per-node, the tasks that get CPUs, and with --gpus-per-task GPUs: from 24.11.1 up
// to 25.05 as many as --ntasks says, before and after --ntasks-per-node on each node. Slurm's source:
// src/plugins/select/cons_tres/dist_tasks.c, where _get_task_count() came with 24.11.1 ("Use task count in dist_tasks
// instead of cpu count") and looks at --ntasks-per-node first from 25.11.0 on ("Fix srun ntasks calculation when using
// -N min-max range"). Tried on 22.05.8, 24.11.5 and 26.05.5.
constexpr bool kNtasksIsTheNumber =
    SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(24, 11, 1) && SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(25, 11, 0);

// True if a remote failure of init or init_post_opt can be told to fail the job instead of draining the node.
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 5, 0)
#define DL_SPANK_HAS_FAILURE_MODE 1
#endif

// Replaces a string that Slurm owns.
void set_string(char** field, const std::string& value);
// The text, or an empty one for NULL.
inline std::string text_of(const char* value) {
  return value == nullptr ? std::string() : std::string(value);
}
// Adds NAME=VALUE to an environment that Slurm owns (job_desc_msg_t), if NAME is not in it yet.
void add_environment(char*** environment, uint32_t* size, const std::string& name, const std::string& value);

}  // namespace dl::abi
