// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/spank/seal.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "common/base/atomic_file.h"
#include "common/base/parse.h"
#include "common/base/unique_fd.h"
#include "common/contract/env_names.h"
#include "slurm-plugin/network/rules.h"
#include "slurm-plugin/network/seal_place.h"

namespace dl {
namespace {

constexpr size_t kMaxNote = 4096;
constexpr size_t kMaxCgroups = 64 << 10;

const char* prolog_variable(const char* name) {
  return std::getenv(name);  // NOLINT(concurrency-mt-unsafe): a process of one thread
}

// Runs dl-seal and returns its exit status; its messages go where Slurm's go.
int run_dl_seal(std::vector<std::string> words) {
  words.insert(words.begin(), DL_PKGLIBEXECDIR "/dl-seal");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  // dl-seal runs as root. From the environment it only gets the place of slurm.conf, which slurmd's prolog names.
  std::string path = "PATH=/usr/sbin:/sbin:/usr/bin:/bin";
  const char* given = words[1] == "attach" ? nullptr : prolog_variable("SLURM_CONF");
  std::string conf = std::string("SLURM_CONF=") + (given == nullptr ? "" : given);
  char* environment[] = {path.data(), given == nullptr ? nullptr : conf.data(), nullptr};
  pid_t child = -1;
  if (const int failure = ::posix_spawn(&child, argv[0], nullptr, nullptr, argv.data(), environment); failure != 0)
    return failure;
  int status = 0;
  pid_t ended = -1;
  do ended = ::waitpid(child, &status, 0);
  while (ended < 0 && errno == EINTR);
  return ended == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

constexpr std::string_view kSealed = "sealed ", kRefused = "refused ";

// Path of the sealed cgroup's list of processes. Fixed memory, since a child of a process with threads may not allocate
// any.
char children_list[4096];

void join_after_fork() {
  // A task still has the user's rights here; enter_seal() moves it once it has root's again.
  if (::geteuid() != 0) return;
  const int fd = ::open(children_list, O_WRONLY | O_CLOEXEC);
  if (fd < 0 || ::write(fd, "0", 1) != 1) ::_exit(1);
  ::close(fd);
}

// True if Slurm itself keeps the calling process in a cgroup of version 2 of this job.
bool is_in_slurms_cgroup(int64_t job) {
  const auto own = read_small_file("/proc/self/cgroup", kMaxCgroups);
  return own && network::slurm_job_cgroup(*own, job).has_value();
}

}  // namespace

Status seal_job(int64_t job, const std::string& config) {
  const char* asked = prolog_variable(env::kNetworkInProlog);
  if (asked == nullptr || std::strcmp(asked, "job") != 0) return {};
  const char* nodes = prolog_variable("SLURM_JOB_NODELIST");
  if (nodes == nullptr) nodes = prolog_variable("SLURM_NODELIST");  // the name of the variable in prologs of 22.05
  const int status = run_dl_seal({"on", std::to_string(job), nodes == nullptr ? "" : nodes, config});
  if (status == 0) return {};
  const std::string why = fmt::format(DL_PKGLIBEXECDIR "/dl-seal failed with {}", status);
  // If the failure can be noted, it fails the tasks of this job; if the prolog failed instead, Slurm would drain the
  // node.
  if (make_directories(network::kNoteFolder, 0755) &&
      write_file_atomically(network::note_of(job), "refused " + why + "\n", 0600))
    return {};
  return Error{Errc::kUnsupported, why + ": this node cannot keep jobs of tenants with network = \"job\" to themselves",
               0};
}

void unseal_job(int64_t job) {
  if (::access(network::note_of(job).c_str(), F_OK) == 0) (void)run_dl_seal({"off", std::to_string(job)});
}

Status enter_seal(int64_t job) {
  auto note = read_small_file(network::note_of(job), kMaxNote);
  if (!note) {
    if (note.error().code == Errc::kNotFound) return {};
    return std::move(note).error();
  }
  const std::string text(trim(*note));
  if (text.rfind(kSealed, 0) != 0)
    return Error{Errc::kUnsupported,
                 fmt::format("this job's tenant requires network = \"job\", which this node cannot keep: {}",
                             printable(text.rfind(kRefused, 0) == 0 ? text.substr(kRefused.size()) : text, 500)),
                 0};
  if (is_in_slurms_cgroup(job)) {
    // Slurm recognises the job's processes by this cgroup, so they have to stay in it.
    if (run_dl_seal({"attach", std::to_string(job)}) == 0) return {};
    return Error{Errc::kUnsupported, "the rules of network = \"job\" could not be made here", 0};
  }
  const std::string list = text.substr(kSealed.size()) + "/cgroup.procs";
  const UniqueFd fd(::open(list.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd || ::write(fd.get(), "0", 1) != 1) return errno_error("network = \"job\": join " + list, errno);
  return {};
}

void seal_children(int64_t job) {
  const auto note = read_small_file(network::note_of(job), kMaxNote);
  const std::string text(note ? trim(*note) : "");
  // In Slurm's own cgroup they already are where the rules apply.
  if (text.rfind(kSealed, 0) != 0 || is_in_slurms_cgroup(job)) return;
  const std::string list = text.substr(kSealed.size()) + "/cgroup.procs";
  if (list.size() >= sizeof children_list || children_list[0] != '\0') return;
  std::memcpy(children_list, list.c_str(), list.size() + 1);
  (void)::pthread_atfork(nullptr, nullptr, join_after_fork);
}

}  // namespace dl
