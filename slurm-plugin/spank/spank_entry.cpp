// SPDX-License-Identifier: Apache-2.0
// The functions of spank_dl.so that Slurm calls: every hook is one guard() and chooses by the context what to do. No
// exception reaches Slurm, and hooks return only 0 or -1 (before 25.05 only negative numbers were errors, since then
// all numbers but 0 are).
//
// Which hooks may fail: in sbatch, salloc and srun, init, the option callback and init_post_opt. On a node only
// task_init and task_init_privileged: they fail the task and do not drain the node. In prolog and epilog, which are
// processes of their own, the functions of seal.h run; in all other contexts (slurmd, the extern step) the hooks do
// nothing.
//
// One file serves every Slurm (any_slurm.h), so that an upgrade of Slurm finds a plugin that it loads.
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "common/base/guard.h"
#include "common/base/parse.h"
#include "config.h"
#include "slurm-plugin/options.h"
#include "slurm-plugin/slurm_abi.h"
#include "slurm-plugin/spank/node_side.h"
#include "slurm-plugin/spank/seal.h"
#include "slurm-plugin/spank/submit_side.h"

extern "C" {
extern const unsigned int spank_plugin_version;
const char plugin_name[] = "dl";
const char plugin_type[] = "spank";
const char dl_release[] = PACKAGE_VERSION;
const unsigned int spank_plugin_version = 1;
int slurm_spank_init_failure_mode = dl::abi::kSpankJobFailure;
}

namespace dl {
namespace {

// At most one of the two is set, for the life of the process. slurm_spank_exit() frees it.
SubmitSide* submit_side = nullptr;
NodeSide* node_side = nullptr;

void report(const char* what) {
  slurm_error("dl: %s", what);
}

int fail(const Error& error) {
  slurm_error("dl: %s", error.text.c_str());
  return -1;
}

// The whole request is refused. Slurm would end its client as well, but with two lines on its plugins below the one
// that tells the reason; nothing has been asked of Slurm yet, so the client can end here, with the exit status that it
// has for its own errors.
int refuse(const Error& error) {
  const int failed = fail(error);
  const std::string_view client = program_invocation_short_name;
  if (client != "sbatch" && client != "salloc" && client != "srun") return failed;
  const char* wanted = std::getenv("SLURM_EXIT_ERROR");
  const auto status = parse_int(wanted != nullptr ? wanted : "", 1, 255);
  std::exit(status ? static_cast<int>(*status) : 1);
}

extern "C" int dl_option_callback(int index, const char* value, int /*remote*/) noexcept {
  return guard(-1, report, [&] {
    const auto i = static_cast<size_t>(index);
    if (submit_side != nullptr)
      if (Status read = submit_side->option(i, value); !read) return fail(read.error());
    if (node_side != nullptr) node_side->option(i, value);
    return 0;
  });
}

// Slurm copies the structure and its strings.
int register_options(spank_t spank) {
  for (size_t i = 0; i < kOptionCount; ++i) {
    spank_option option{};
    option.name = const_cast<char*>(kOptions[i].name);
    option.arginfo = const_cast<char*>(kOptions[i].form);
    option.usage = const_cast<char*>(kOptions[i].help);
    option.has_arg = 1;
    option.val = static_cast<int>(i);
    option.cb = dl_option_callback;
    if (const spank_err_t rc = spank_option_register(spank, &option); rc != ESPANK_SUCCESS)
      return fail(Error{Errc::kInternal,
                        std::string("--") + option.name + " could not be registered: " + spank_strerror(rc), 0});
  }
  return 0;
}

int init_submit_side(spank_t spank, bool allocator, int count, char** arguments) {
  auto args = parse_plugin_args(count, arguments);
  if (!args) return fail(args.error());
  submit_side = std::make_unique<SubmitSide>(allocator, std::move(*args)).release();
  submit_side->prepare_environment();
  return register_options(spank);
}

int init_node_side(spank_t spank, int count, char** arguments) {
  uint32_t step = abi::kStepPending;
  if (spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS || step == abi::kStepExtern) return 0;
  node_side = std::make_unique<NodeSide>(step, parse_plugin_args(count, arguments)).release();
  (void)register_options(spank);  // the failure is logged; jobs without --dl-* flags go on
  return 0;
}

}  // namespace
}  // namespace dl

// spank.h declares the hooks without noexcept; guard() has it instead.
extern "C" {

int slurm_spank_init(spank_t spank, int count, char* arguments[]) {
  const spank_context_t where = spank_context();
  const bool on_node = where == S_CTX_REMOTE;
  return dl::guard(on_node ? 0 : -1, dl::report, [&] {
    switch (where) {
      case S_CTX_ALLOCATOR:
        return dl::init_submit_side(spank, true, count, arguments);
      case S_CTX_LOCAL:
        return dl::init_submit_side(spank, false, count, arguments);
      case S_CTX_REMOTE:
        return dl::init_node_side(spank, count, arguments);
      default:
        return 0;
    }
  });
}

int slurm_spank_init_post_opt(spank_t spank, int /*count*/, char* /*arguments*/[]) {
  return dl::guard(dl::node_side != nullptr ? 0 : -1, dl::report, [&] {
    if (dl::submit_side != nullptr)
      if (dl::Status done = dl::submit_side->finish(spank); !done) return dl::refuse(done.error());
    if (dl::node_side == nullptr) return 0;
    dl::node_side->prepare(spank);
    uint32_t job = 0;
    if (spank_get_item(spank, S_JOB_ID, &job) == ESPANK_SUCCESS) dl::seal_children(job);
    return 0;
  });
}

int slurm_spank_job_prolog(spank_t spank, int count, char* arguments[]) {
  return dl::guard(-1, dl::report, [&] {
    uint32_t job = 0;
    if (spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS) return 0;
    const auto args = dl::parse_plugin_args(count, arguments);
    dl::Status sealed = dl::seal_job(job, args ? args->config : std::string());
    return sealed ? 0 : dl::fail(sealed.error());
  });
}

int slurm_spank_job_epilog(spank_t spank, int /*count*/, char* /*arguments*/[]) {
  return dl::guard(0, dl::report, [&] {
    uint32_t job = 0;
    if (spank_get_item(spank, S_JOB_ID, &job) == ESPANK_SUCCESS) dl::unseal_job(job);
    return 0;
  });
}

int slurm_spank_task_init_privileged(spank_t spank, int /*count*/, char* /*arguments*/[]) {
  return dl::guard(-1, dl::report, [&] {
    uint32_t job = 0;
    if (spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS) return 0;
    dl::Status entered = dl::enter_seal(job);
    return entered ? 0 : dl::fail(entered.error());
  });
}

int slurm_spank_task_init(spank_t spank, int /*count*/, char* /*arguments*/[]) {
  return dl::guard(-1, dl::report, [&] {
    if (dl::node_side == nullptr) return 0;
    dl::Status started = dl::node_side->start_task(spank);
    if (started) return 0;
    // Only the first task of a node logs the error, because all tasks of the step fail with the same one.
    uint32_t local = 0;
    if (spank_get_item(spank, S_TASK_ID, &local) != ESPANK_SUCCESS || local == 0) (void)dl::fail(started.error());
    return -1;
  });
}

int slurm_spank_exit(spank_t /*spank*/, int /*count*/, char* /*arguments*/[]) {
  delete dl::submit_side;
  delete dl::node_side;
  dl::submit_side = nullptr;
  dl::node_side = nullptr;
  return 0;
}

}  // extern "C"
