// SPDX-License-Identifier: Apache-2.0
// The functions that slurmctld calls, by way of loader.cpp, in the part that is built for its release. Each is one
// guard(): no exception reaches Slurm. slurmctld may call job_submit and job_modify from several threads at once (23.02
// and later), with its read locks held: nothing here waits, calls an RPC or keeps state other than the site's
// configuration.
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>

#include "common/base/guard.h"
#include "common/base/parse.h"
#include "config.h"
#include "slurm-plugin/job_submit/gpu_share.h"
#include "slurm-plugin/job_submit/job_description.h"
#include "slurm-plugin/job_submit/modify_guard.h"
#include "slurm-plugin/job_submit/node_lines_cache.h"
#include "slurm-plugin/job_submit/room.h"
#include "slurm-plugin/job_submit/shape.h"
#include "slurm-plugin/job_submit/site_cache.h"
#include "slurm-plugin/job_submit/tenant_rules.h"
#include "slurm-plugin/running_slurm.h"
#include "slurm-plugin/slurm_abi.h"

namespace dl {
namespace {

GpuRule gpu_rule;  // set by init()

// Created by init(), before any other call; fini() destroys them.
SiteCache* site_cache = nullptr;
NodeLinesCache* node_lines = nullptr;

int slurm_code(Errc code) {
  switch (code) {
    case Errc::kDenied:
      return ESLURM_ACCESS_DENIED;
    case Errc::kUnsupported:
      return ESLURM_NOT_SUPPORTED;
    case Errc::kNoSpace:
      return ESLURM_ACCOUNTING_POLICY;
    case Errc::kInvalid:
    case Errc::kConflict:
    case Errc::kNotFound:
      return EINVAL;
    default:
      return SLURM_ERROR;
  }
}

// Adds a message for the user. An earlier plugin may have left a message of its own, which stays.
void tell(char** message, const std::string& text) {
  if (message == nullptr) return;
  abi::set_string(message, *message == nullptr ? text : std::string(*message) + "\n" + text);
}

// The refusal is also logged, because slurmrestd of 22.05 does not pass the message on, and users then ask the admin.
int refuse(const Error& error, char** message) {
  tell(message, "dl: " + error.text);
  slurm_info("dl: refused: %s", error.text.c_str());
  return slurm_code(error.code);
}

Result<SitePtr> current_site() {
  if (site_cache == nullptr) return Error{Errc::kInternal, "job_submit_dl was not initialised", 0};
  auto site = site_cache->get();
  if (!site)
    return Error{Errc::kUnsupported,
                 "--dl-* flags cannot be used at the moment: this cluster's dl.toml is not usable, as "
                 "slurmctld's log says; allowed: the job without them",
                 0};
  return site;
}

// Shape and charge of a submission on a cluster with tenants.
struct Charged {
  std::optional<Shape> shape;
  std::optional<Ruling> ruling;  // none: the job has no GPUs
};

Result<Shape> shape_of(const JobRequest& request, const Submission& given, const Site& site) {
  DL_TRY_ASSIGN(Shape shape, shape_job(request, given, site.config, site.catalogue));
  DL_TRY(check_qos(shape.qos, knows_qos()));
  if (site.config.node_counts.empty() && node_lines != nullptr)
    DL_TRY(check_room(request, *node_lines->get(slurm_conf_read_at())));
  return shape;
}

Result<Charged> charge(const JobRequest& request, const Site& site, const job_desc_msg_t& job) {
  Submission given = read_submission(job);
  Charged charged;
  DL_TRY(check_licences(given.licences));
  given.of_tenant = true;
  int tenant = find_tenant(site.config.tenants, given.account);
  const auto shape_it = [&]() -> Status {
    if (tenant >= 0) given.default_tier = site.config.tenants[static_cast<size_t>(tenant)].default_tier;
    DL_TRY_ASSIGN(charged.shape, shape_of(request, given, site));
    return {};
  };
  if (!request.empty()) DL_TRY(shape_it());
  DL_TRY_ASSIGN(GpuCount gpus,
                count_gpus(charged.shape ? with_shape(given, *charged.shape) : given, site.config, gpu_rule));
  if (gpus.none()) return charged;
  DL_TRY(check_stays_here(job));
  if (given.heterogeneous)
    return Error{Errc::kUnsupported,
                 "GPUs are charged to tenants, which a heterogeneous job cannot be; allowed: a job of one component"};
  if (given.account.empty()) {
    given.account = default_account(job.user_id);
    tenant = find_tenant(site.config.tenants, given.account);
    if (!request.empty()) DL_TRY(shape_it());
  }
  const auto rule = [&]() -> Result<Ruling> {
    const Submission whole = charged.shape ? with_shape(given, *charged.shape) : given;
    DL_TRY(check_share(whole, gpus, site.config));
    const bool allowed = tenant < 0 || site.allows(static_cast<size_t>(tenant), job.user_id);
    // If slurmdbd knows the user, `dlctl quota sync` has given him his limits in Slurm.
    const bool limits = !default_account(job.user_id).empty();
    return rule_job({site.config, site.state, request, whole, gpus, allowed, limits, std::time(nullptr)});
  };
  DL_TRY_ASSIGN(charged.ruling, rule());
  if (const auto declared = declared_licences()) DL_TRY(check_declared(charged.ruling->licences, *declared));
  if (charged.ruling->charge == policy::Charge::kBorrowed && !request.empty()) {
    given.borrowed = true;  // a borrowed job has another tier, but the same size
    DL_TRY(shape_it());
  }
  return charged;
}

// Handles a submission on a cluster without tenants: only jobs with --dl-* flags are changed.
int shape_only(const JobRequest& request, const Site& site, job_desc_msg_t* job, char** message) {
  if (request.empty()) return SLURM_SUCCESS;
  auto shape = shape_of(request, read_submission(*job), site);
  if (!shape) return refuse(shape.error(), message);
  write_shape(*shape, job);
  tell(message, shape->message);
  return SLURM_SUCCESS;
}

// Marks the job if its tenant requires network = "job". It is called for every job, with or without GPUs.
Status keep_to_itself(const Site& site, job_desc_msg_t* job) {
  std::string account = abi::text_of(job->account);
  if (account.empty()) account = default_account(job->user_id);
  const int tenant = find_tenant(site.config.tenants, account);
  DL_TRY_ASSIGN(const bool alone, must_be_alone(site.config, tenant));
  // If the prolog did not run, a node would get its rules only from the first srun in the job, whose environment the
  // user controls.
  if (alone && !prolog_runs_at_allocation())
    return Error{
        Errc::kUnsupported,
        fmt::format("tenant '{}' requires network = \"job\", which Slurm can only keep if the prolog runs when "
                    "a job gets its nodes; allowed, by an administrator: PrologFlags=Alloc or Contain in "
                    "slurm.conf",
                    printable(account, 100))};
  write_network(alone, job);
  return {};
}

int shape_and_charge(const JobRequest& request, const Site& site, job_desc_msg_t* job, char** message) {
  if (Status kept = keep_to_itself(site, job); !kept) return refuse(kept.error(), message);
  auto charged = charge(request, site, *job);
  if (!charged) return refuse(charged.error(), message);
  if (charged->shape) {
    write_shape(*charged->shape, job);
    tell(message, charged->shape->message);
  }
  if (!charged->ruling) return SLURM_SUCCESS;
  write_ruling(*charged->ruling, job);
  if (!charged->shape && charged->ruling->charge == policy::Charge::kBorrowed) {
    if (Status known = check_qos(site.config.borrow.qos, knows_qos()); !known) return refuse(known.error(), message);
    move_to_tier(site.config.borrow, job);
  }
  if (!charged->ruling->message.empty()) tell(message, charged->ruling->message);
  return SLURM_SUCCESS;
}

int submit(job_desc_msg_t* job, char** message) {
  write_network(false, job);  // removes what the user may have written; a tenant's rule is applied later
  auto request = read_request(*job);
  if (!request) return refuse(request.error(), message);
  if (!request->empty())
    if (Status stays = check_stays_here(*job); !stays) return refuse(stays.error(), message);
  for (const std::string& note : align_environment(*request, job)) tell(message, "dl: " + note);
  auto site = current_site();
  if (site)
    return (*site)->config.tenants.empty() ? shape_only(*request, **site, job, message)
                                           : shape_and_charge(*request, **site, job, message);
  if (!request->empty()) return refuse(site.error(), message);
  if (site_cache != nullptr && site_cache->may_require_network())
    return refuse(Error{Errc::kUnsupported,
                        "no job can be accepted at the moment: this cluster's dl.toml, which says whose jobs must be "
                        "kept to themselves, is not usable, as slurmctld's log says; try again when it was mended"},
                  message);
  if (site_cache == nullptr || !site_cache->may_have_tenants()) return SLURM_SUCCESS;
  const auto gpus = count_gpus(read_submission(*job), SiteConfig(), gpu_rule);
  if (gpus && gpus->none()) return SLURM_SUCCESS;
  return refuse(
      Error{Errc::kUnsupported,
            "GPUs cannot be given out at the moment: this cluster's dl.toml, which says whose they are, is not "
            "usable, as slurmctld's log says; allowed: a job without GPUs"},
      message);
}

int modify(job_desc_msg_t* job, uint32_t uid, char** message) {
  if (uid == 0 || uid == ::geteuid()) return SLURM_SUCCESS;  // root and SlurmUser
  auto site = current_site();
  if (site && (*site)->operators.count(uid) > 0) return SLURM_SUCCESS;
  // The tiers are not known. If there may be tenants, no change may affect what a job is charged or takes beside GPUs.
  SiteConfig unread;
  if (!site && site_cache != nullptr && site_cache->may_have_tenants()) {
    unread.tenants.resize(1);
    unread.quota.max_cpus_per_gpu = 1;
    unread.quota.max_memory_per_gpu = 1;
  }
  const SiteConfig& config = site ? (*site)->config : unread;
  const Change change = read_change(*job);
  if (Status allowed = check_change(config, change); !allowed) return refuse(allowed.error(), message);
  if (const auto begin_s = least_begin(config, change, std::time(nullptr))) job->begin_time = *begin_s;
  return SLURM_SUCCESS;
}

void report(const char* what) {
  slurm_error("dl: job_submit_dl: %s", what);
}

// From 23.11 on `scontrol reconfigure` starts another slurmctld, which does not have the configuration that the running
// one keeps in memory. The running one waits on a pipe: if the new one fails to start serving, it goes on as before
// (_try_to_reconfig() in src/slurmctld/controller.c). A slurmctld in the foreground (-D) has no such pipe: it replaces
// itself by the new one, so if that one did not start, no slurmctld would run.
bool replaces_a_running_controller() {
  const auto is_set = [](const char* name) { return std::getenv(name) != nullptr; };  // NOLINT(concurrency-mt-unsafe)
  return is_set("SLURMCTLD_RECONF") && is_set("SLURMCTLD_RECONF_PARENT_FD");
}

}  // namespace
}  // namespace dl

extern "C" {

const char plugin_name[] = "slurm-dl: shapes jobs from --dl-* flags";
const char plugin_type[] = "job_submit/dl";
unsigned int plugin_version = SLURM_VERSION_NUMBER;
const char dl_release[] = PACKAGE_VERSION;

int init() noexcept;
DlPluginFini fini() noexcept;
int job_submit(job_desc_msg_t* job, uint32_t uid, char** message) noexcept;
#ifdef DL_JOB_MODIFY_HAS_MESSAGE
int job_modify(job_desc_msg_t* job, job_record* record, uint32_t uid, char** message) noexcept;
#else
int job_modify(job_desc_msg_t* job, job_record* record, uint32_t uid) noexcept;
#endif

int init() noexcept {
  return dl::guard(SLURM_SUCCESS, dl::report, [] {
    const auto log = [](dl::SiteCache::Level level, const std::string& line) {
      if (level == dl::SiteCache::Level::kError)
        slurm_error("%s", line.c_str());
      else
        slurm_info("%s", line.c_str());
    };
    dl::gpu_rule = {dl::abi::ntasks_is_the_number(dl::abi::running_slurm())};
    if (dl::site_cache == nullptr)
      dl::site_cache = std::make_unique<dl::SiteCache>(dl::default_site_config_path(false), log).release();
    if (dl::node_lines == nullptr)
      dl::node_lines = std::make_unique<dl::NodeLinesCache>(dl::slurm_conf_path()).release();
    // A broken dl.toml is logged, and can be mended without a restart: it must not keep slurmctld from starting.
    if (dl::site_cache->get() || !dl::replaces_a_running_controller()) return SLURM_SUCCESS;
    slurm_error(
        "dl: the reconfigure is refused: the slurmctld that runs goes on with the configuration it has; mend the file, "
        "then reconfigure again");
    return SLURM_ERROR;
  });
}

DlPluginFini fini() noexcept {
  delete dl::site_cache;
  dl::site_cache = nullptr;
  delete dl::node_lines;
  dl::node_lines = nullptr;
  return DlPluginFini(SLURM_SUCCESS);
}

int job_submit(job_desc_msg_t* job, uint32_t /*uid*/, char** message) noexcept {
  return dl::guard(SLURM_ERROR, dl::report, [&] { return dl::submit(job, message); });
}

#ifdef DL_JOB_MODIFY_HAS_MESSAGE
int job_modify(job_desc_msg_t* job, job_record* /*record*/, uint32_t uid, char** message) noexcept {
#else
int job_modify(job_desc_msg_t* job, job_record* /*record*/, uint32_t uid) noexcept {
  char** const message = nullptr;
#endif
  return dl::guard(SLURM_ERROR, dl::report, [&] { return dl::modify(job, uid, message); });
}

}  // extern "C"
