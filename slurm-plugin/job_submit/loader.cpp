// SPDX-License-Identifier: Apache-2.0
// job_submit_dl.so: the plugin that slurmctld of any version loads (any_slurm.h). What it does is in a part for each
// release of Slurm, since job_desc_msg_t has another layout in each: slurm-dl/22.05/job_submit.so beside this file.
//
// slurmctld starts and goes on without a part for its release, and so do all jobs that it has; it refuses new ones with
// a sentence, since a job that nothing has shaped or charged would run with the wrong nodes, or beyond a quota. As soon
// as the part is there it is used, without a restart. Changes of jobs are let pass meanwhile: programs of jobs that run
// change their own, to put them back into the queue.
//
// There is no guard() here because nothing can throw: no C++ library is used, and the file is compiled without
// exceptions.
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "config.h"
#include "slurm-plugin/any_slurm.h"

extern "C" {

const char plugin_name[] = "slurm-dl: shapes jobs from --dl-* flags";
const char plugin_type[] = "job_submit/dl";
const char dl_release[] = PACKAGE_VERSION;

int init() noexcept;
DlPluginFini fini() noexcept;
int job_submit(job_desc_msg_t* job, uint32_t uid, char** message) noexcept;
int job_modify(job_desc_msg_t* job, job_record* record, uint32_t uid, char** message) noexcept;
}

namespace dl {
namespace {

constexpr unsigned int kReleaseOnly = 0xffff00;  // without the number of the micro release
constexpr time_t kLookAgain_s = 1;

using Hook = int();
using Submit = int(job_desc_msg_t*, uint32_t, char**);
using Modify = int(job_desc_msg_t*, job_record*, uint32_t, char**);

struct Part {
  void* handle;
  Hook* init;
  Hook* fini;
  Submit* submit;
  // Slurm 22.05 calls it without the message, and its part takes none; then that argument is whatever the register
  // holds, and nobody looks at it.
  Modify* modify;
};

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // of `found`, `looked_at` and of the change of `part`
Part found{};
time_t looked_at = 0;
std::atomic<const Part*> part{nullptr};

// PATH of the part, in the folder from which this file was loaded. False if that is not known, or too long.
bool path_of_part(char (&path)[PATH_MAX]) {
  Dl_info own{};
  if (::dladdr(&lock, &own) == 0 || own.dli_fname == nullptr) return false;
  const char* end = std::strrchr(own.dli_fname, '/');
  const int folder = end == nullptr ? 0 : static_cast<int>(end - own.dli_fname) + 1;
  const unsigned int slurm = plugin_version;
  const int size = std::snprintf(path, sizeof path, "%.*sslurm-dl/%u.%02u/job_submit.so", folder, own.dli_fname,
                                 slurm >> 16 & 0xff, slurm >> 8 & 0xff);
  return size > 0 && static_cast<size_t>(size) < sizeof path;
}

void close_part() {
  if (found.handle != nullptr) (void)::dlclose(found.handle);
  found = {};
}

template <class Function>
bool look_up(const char* name, Function** function) {
  *function = reinterpret_cast<Function*>(::dlsym(found.handle, name));
  return *function != nullptr;
}

// Opens the part, but does not start it. `why` is set if it cannot be used.
bool open_part(const char* path, char (&why)[512]) {
  if (::access(path, F_OK) != 0) {
    (void)std::snprintf(why, sizeof why, "is not there");
    return false;
  }
  found.handle = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (found.handle == nullptr) {
    const char* fault = ::dlerror();
    (void)std::snprintf(why, sizeof why, "cannot be loaded (%s)", fault == nullptr ? "no reason given" : fault);
    return false;
  }
  const auto* built = static_cast<const unsigned int*>(::dlsym(found.handle, "plugin_version"));
  const unsigned int slurm = plugin_version;
  if (built != nullptr && ((*built ^ slurm) & kReleaseOnly) == 0 && look_up("init", &found.init) &&
      look_up("fini", &found.fini) && look_up("job_submit", &found.submit) && look_up("job_modify", &found.modify))
    return true;
  (void)std::snprintf(why, sizeof why, "is no part for Slurm %u.%02u", slurm >> 16 & 0xff, slurm >> 8 & 0xff);
  close_part();
  return false;
}

// Has the part ready, if it is there. SLURM_ERROR only if the part itself wants slurmctld not to go on. A fault is
// logged once, and again if it is another one, as of a file that was put there and cannot be used.
int take_part() {
  static char told[512];
  char path[PATH_MAX] = "slurm-dl/VERSION/job_submit.so";
  char why[512] = "is nowhere, since its folder is not known";
  looked_at = std::time(nullptr);
  if (!path_of_part(path) || !open_part(path, why)) {
    const unsigned int slurm = plugin_version;
    if (std::strcmp(why, told) != 0)
      slurm_error(
          "dl: %s %s: slurmctld and the jobs that it has go on, but it refuses new jobs until the file is there; "
          "install slurm-dl-plugins for Slurm %u.%02u, or take dl out of JobSubmitPlugins and restart slurmctld",
          path, why, slurm >> 16 & 0xff, slurm >> 8 & 0xff);
    std::memcpy(told, why, sizeof told);
    return SLURM_SUCCESS;
  }
  if (const int status = found.init(); status != SLURM_SUCCESS) {
    close_part();
    return status;
  }
  if (told[0] != '\0') slurm_info("dl: %s is there: new jobs are accepted again", path);
  told[0] = '\0';
  part.store(&found);
  return SLURM_SUCCESS;
}

const Part* part_now() {
  if (const Part* ready = part.load()) return ready;
  (void)::pthread_mutex_lock(&lock);
  if (part.load() == nullptr && std::time(nullptr) >= looked_at + kLookAgain_s) (void)take_part();
  (void)::pthread_mutex_unlock(&lock);
  return part.load();
}

int refuse(char** message) {
  const unsigned int slurm = plugin_version;
  char text[256];
  (void)std::snprintf(text, sizeof text,
                      "dl: no job can be accepted at the moment: the controller has no part of slurm-dl for Slurm "
                      "%u.%02u, as slurmctld's log says; try again when an administrator has installed it",
                      slurm >> 16 & 0xff, slurm >> 8 & 0xff);
  if (message != nullptr && *message == nullptr) *message = slurm_xstrdup(text);
  return ESLURM_NOT_SUPPORTED;
}

}  // namespace
}  // namespace dl

extern "C" {

int init() noexcept {
  (void)::pthread_mutex_lock(&dl::lock);
  const int status = dl::part.load() == nullptr ? dl::take_part() : SLURM_SUCCESS;
  (void)::pthread_mutex_unlock(&dl::lock);
  return status;
}

DlPluginFini fini() noexcept {
  (void)::pthread_mutex_lock(&dl::lock);
  if (dl::part.exchange(nullptr) != nullptr) (void)dl::found.fini();
  dl::close_part();
  (void)::pthread_mutex_unlock(&dl::lock);
  return DlPluginFini(SLURM_SUCCESS);
}

int job_submit(job_desc_msg_t* job, uint32_t uid, char** message) noexcept {
  const dl::Part* ready = dl::part_now();
  return ready != nullptr ? ready->submit(job, uid, message) : dl::refuse(message);
}

int job_modify(job_desc_msg_t* job, job_record* record, uint32_t uid, char** message) noexcept {
  const dl::Part* ready = dl::part_now();
  return ready != nullptr ? ready->modify(job, record, uid, message) : SLURM_SUCCESS;
}

}  // extern "C"
