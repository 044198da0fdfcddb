// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/use_sampler.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "common/base/atomic_file.h"
#include "common/process/descendants.h"
#include "launcher/agent/use_texts.h"

namespace dl::agent {
namespace {

constexpr size_t kMostText = 64 << 10;

int64_t own_cpu_us() {
  timespec time = {};
  if (::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) != 0) return 0;
  return int64_t{time.tv_sec} * 1'000'000 + time.tv_nsec / 1000;
}

std::string text_of(pid_t pid, const char* name) {
  auto text = read_small_file("/proc/" + std::to_string(pid) + "/" + name, kMostText);
  return text ? *text : std::string();
}

// A process that has ended since the list was made is left out, and so is one whose file may not be read. Unmeasured
// only if there is no number at all.
void add(int64_t value, int64_t* sum) {
  if (value >= 0) *sum = std::max<int64_t>(0, *sum) + value;
}

// How much a sum has grown. It falls where a process has ended whose use no other process tells, since its parent
// ignores its end or is this process: what it had used was told before.
int64_t growth(int64_t sum, int64_t* last) {
  if (sum < 0) return kUnmeasured;
  const int64_t grown = std::max<int64_t>(0, sum - *last);
  *last = sum;
  return grown;
}

}  // namespace

void UseSampler::start(int64_t look_ms, int speaks_for, int64_t now_ms) {
  look_ms_ = look_ms;
  speaks_for_ = speaks_for;
  if (look_ms_ <= 0) return;
  looked_ms_ = now_ms;
  due_ms_ = now_ms + (waited_ms_ = next_wait_ms(0, look_ms_, 0));
  const auto cgroup = read_small_file("/proc/self/cgroup", 1 << 20);
  const auto mountinfo = read_small_file("/proc/self/mountinfo", 1 << 20);
  if (cgroup && mountinfo) group_ = step_memory_file(oom_file(*cgroup, *mountinfo));
  const auto text = group_.empty() ? Result<std::string>(std::string()) : read_small_file(group_, kMostText);
  if (!text || group_memory(*text) < 0) group_.clear();
}

std::optional<protocol::Use> UseSampler::look(const std::vector<pid_t>& helpers, int64_t now_ms) {
  if (look_ms_ <= 0 || now_ms < due_ms_) return std::nullopt;
  const int64_t began_us = own_cpu_us();
  // A zombie's use is told by itself until its parent has waited for it, and by its parent from then on.
  std::vector<pid_t> pids = descendants_of(::getpid(), /*ended=*/true);
  const auto is_helper = [&](pid_t pid) { return std::find(helpers.begin(), helpers.end(), pid) != helpers.end(); };
  pids.erase(std::remove_if(pids.begin(), pids.end(), is_helper), pids.end());
  int64_t ticks = kUnmeasured;
  StorageUse storage;
  for (const pid_t pid : pids) {
    add(cpu_ticks(text_of(pid, "stat")), &ticks);
    const StorageUse its = storage_use(text_of(pid, "io"));
    add(its.read, &storage.read);
    add(its.written, &storage.written);
  }
  protocol::Use use;
  use.over_ms = now_ms - looked_ms_;
  const long per_second = ::sysconf(_SC_CLK_TCK);
  use.cpu_ms = growth(ticks < 0 || per_second <= 0 ? kUnmeasured : ticks * 1000 / per_second, &cpu_ms_);
  told_ms_ += std::max<int64_t>(0, use.cpu_ms);
  use.read = growth(storage.read, &read_);
  use.written = growth(storage.written, &written_);
  add_memory(pids, &use);
  looked_ms_ = now_ms;
  const int64_t took_us = own_cpu_us() - began_us;
  due_ms_ = now_ms + (waited_ms_ = next_wait_ms(waited_ms_, look_ms_, took_us));
  return use;
}

void UseSampler::add_memory(const std::vector<pid_t>& pids, protocol::Use* use) const {
  for (const pid_t pid : pids) add(own_memory(text_of(pid, "status")), &use->own_memory);
  if (!group_.empty()) {
    if (speaks_for_ <= 0) return;
    const auto text = read_small_file(group_, kMostText);
    use->memory = text ? group_memory(*text) : kUnmeasured;
    use->memory_of = use->memory < 0 ? 0 : speaks_for_;
    return;
  }
  use->memory = use->own_memory;
  use->memory_of = use->memory < 0 ? 0 : 1;
}

std::optional<protocol::Use> UseSampler::last(int64_t cpu_ms, int64_t now_ms) {
  if (look_ms_ <= 0) return std::nullopt;
  look_ms_ = 0;
  protocol::Use use;
  use.over_ms = now_ms - looked_ms_;
  if (cpu_ms >= 0) use.cpu_ms = std::max<int64_t>(0, cpu_ms - told_ms_);
  return use;
}

}  // namespace dl::agent
