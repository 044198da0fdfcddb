// SPDX-License-Identifier: Apache-2.0
// What slurmctld calls. Every function is one guard(): nothing is thrown into Slurm. slurmctld may call job_submit and
// job_modify from several threads at once (23.02 and later), with its read locks held: nothing here waits, calls an RPC
// or keeps state but the site's configuration.
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "launcher/common/guard.h"
#include "slurm-plugin/job_submit/job_description.h"
#include "slurm-plugin/job_submit/modify_guard.h"
#include "slurm-plugin/job_submit/shape.h"
#include "slurm-plugin/job_submit/site_cache.h"
#include "slurm-plugin/slurm_abi.h"

namespace dl {
namespace {

SiteCache* site_cache = nullptr;  // made by init(), before any other call; never destroyed before fini()

int slurm_code(Errc code) {
  switch (code) {
    case Errc::kDenied:
      return ESLURM_ACCESS_DENIED;
    case Errc::kUnsupported:
      return ESLURM_NOT_SUPPORTED;
    case Errc::kInvalid:
    case Errc::kConflict:
    case Errc::kNotFound:
      return EINVAL;
    default:
      return SLURM_ERROR;
  }
}

// To the user. An earlier plugin may have left a message of its own.
void tell(char** message, const std::string& text) {
  if (message == nullptr) return;
  abi::set_string(message, *message == nullptr ? text : std::string(*message) + "\n" + text);
}

int refuse(const Error& error, char** message) {
  tell(message, "dl: " + error.text);
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

int submit(job_desc_msg_t* job, char** message) {
  auto request = read_request(*job);
  if (!request) return refuse(request.error(), message);
  if (request->empty()) return SLURM_SUCCESS;
  auto site = current_site();
  if (!site) return refuse(site.error(), message);
  auto shape = shape_job(*request, read_submission(*job), (*site)->config, (*site)->catalogue);
  if (!shape) return refuse(shape.error(), message);
  write_shape(*shape, job);
  tell(message, shape->message);
  return SLURM_SUCCESS;
}

int modify(const job_desc_msg_t* job, uint32_t uid, char** message) {
  if (uid == 0 || uid == ::geteuid()) return SLURM_SUCCESS;  // root and SlurmUser
  if (job->qos == nullptr && job->partition == nullptr) return SLURM_SUCCESS;
  auto site = current_site();
  if (!site) return SLURM_SUCCESS;  // nothing is known of tiers: Slurm's own rules remain
  Status allowed = check_change((*site)->config, abi::text_of(job->qos), abi::text_of(job->partition));
  return allowed ? SLURM_SUCCESS : refuse(allowed.error(), message);
}

void report(const char* what) {
  slurm_error("dl: job_submit_dl: %s", what);
}

}  // namespace
}  // namespace dl

extern "C" {

const char plugin_name[] = "slurm-dl: shapes jobs from --dl-* flags";
const char plugin_type[] = "job_submit/dl";
const unsigned int plugin_version = SLURM_VERSION_NUMBER;

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
    if (dl::site_cache == nullptr)
      dl::site_cache = std::make_unique<dl::SiteCache>(dl::default_site_config_path(false), log).release();
    // A broken file is logged, and mended without a restart: never a reason for slurmctld not to start.
    dl::ignore(dl::site_cache->get(), "logged by the cache");
    return SLURM_SUCCESS;
  });
}

DlPluginFini fini() noexcept {
  delete dl::site_cache;
  dl::site_cache = nullptr;
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
