// SPDX-License-Identifier: Apache-2.0
#include "launcher/record/job_lock.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "common/base/atomic_file.h"
#include "common/base/parse.h"
#include "common/base/this_process.h"
#include "common/json/json.h"
#include "launcher/record/job_dir.h"

namespace dl::record {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxFile = 4096;
constexpr std::chrono::milliseconds kLook{50};

// Writes who holds the lock. Only messages use it, so errors are ignored.
void write_holder(int fd, const DirHolder& self) {
  const std::string text = format_holder(self);
  if (::ftruncate(fd, 0) != 0) return;
  if (::pwrite(fd, text.data(), text.size(), 0) < 0) return;
}

Error busy(const std::string& root, const Result<DirHolder>& holder) {
  const std::string who =
      holder ? fmt::format("dlrun of job {} on {} (process {})", holder->job_id, holder->node, holder->pid)
             : std::string("another dlrun");
  return Error{Errc::kBusy,
               fmt::format("{} is in use by {}: wait until that one has ended, or give this one a directory of its own "
                           "(--job-dir)",
                           root, who)};
}

}  // namespace

DirHolder this_process(const std::string& job_id, int slurm_restarts) {
  return {job_id, slurm_restarts, node_name(), ::getpid()};
}

std::string format_holder(const DirHolder& holder) {
  const Json object = {
      {"job_id", holder.job_id}, {"slurm_restarts", holder.slurm_restarts}, {"node", holder.node}, {"pid", holder.pid}};
  return object.dump_sorted(1) + "\n";
}

Result<DirHolder> parse_holder(const std::string& text) {
  const Json object = Json::parse(text);
  const Error bad{Errc::kInvalid, "the lock of a job directory is malformed"};
  if (!object.is_object()) return bad;
  const Json *job = object.find("job_id"), *node = object.find("node");
  const Json *pid = object.find("pid"), *restarts = object.find("slurm_restarts");
  if (job == nullptr || !job->is_string() || node == nullptr || !node->is_string() || pid == nullptr ||
      !pid->is_number_integer() || restarts == nullptr || !restarts->is_number_integer())
    return bad;
  DirHolder holder;
  holder.job_id = printable(job->get<std::string>(), 100);
  holder.node = printable(node->get<std::string>(), 100);
  holder.pid = static_cast<pid_t>(pid->get<int64_t>());
  holder.slurm_restarts = restarts->get<int>();
  return holder;
}

bool is_superseded(const DirHolder& holder, const DirHolder& self) {
  return self.slurm_restarts >= 0 && holder.slurm_restarts >= 0 && holder.job_id == self.job_id &&
         holder.slurm_restarts < self.slurm_restarts;
}

Result<JobLock> JobLock::take(const std::string& root, const DirHolder& self, std::chrono::milliseconds patience) {
  JobLock lock;
  if (!make_directories(root)) return lock;
  const std::string path = JobDir(root).lock();
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!fd) return lock;
  const Clock::time_point limit = Clock::now() + patience;
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return lock;  // this file system has no locks
    if (Clock::now() < limit) {
      std::this_thread::sleep_for(kLook);
      continue;
    }
    const auto text = read_small_file(path, kMaxFile);
    const auto holder = text ? parse_holder(*text) : Result<DirHolder>(text.error());
    if (holder && is_superseded(*holder, self)) return lock;
    return busy(root, holder);
  }
  write_holder(fd.get(), self);
  lock.fd_ = std::move(fd);
  return lock;
}

}  // namespace dl::record
