// SPDX-License-Identifier: Apache-2.0
#include "launcher/bind/gpu_cpus.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <csignal>

#include "common/base/unique_fd.h"
#include "common/process/nvml.h"

namespace dl::bind {
namespace {

constexpr int kLimitMs = 2000;
constexpr int kReapTries = 50;
constexpr useconds_t kReapPauseUs = 2000;
constexpr size_t kBits = sizeof(unsigned long) * CHAR_BIT;
constexpr size_t kWords = 16384 / kBits;  // enough for the CPUs of the largest machines
using Words = std::array<unsigned long, kWords>;

// Finds the CPUs near the GPUs. False if those near one of them are unknown.
bool ask(const std::vector<std::string>& gpus, Words* near) {
  const Nvml nvml;
  const auto affinity = nvml.function<int(Nvml::Device, unsigned, unsigned long*)>("nvmlDeviceGetCpuAffinity");
  if (!nvml.ready() || affinity == nullptr) return false;
  for (const std::string& name : gpus) {
    Words words{};
    const Nvml::Device device = nvml.device(name);
    if (device == nullptr || affinity(device, kWords, words.data()) != Nvml::kSuccess) return false;
    for (size_t i = 0; i < kWords; ++i) (*near)[i] |= words[i];
  }
  return true;
}

}  // namespace

Bitmap cpus_near(const std::vector<std::string>& gpus) {
  Bitmap cpus = make_bitmap();
  int ends[2];
  if (gpus.empty() || ::pipe(ends) != 0) return cpus;
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    Words near{};
    // So little is written into a pipe as a whole.
    static_assert(sizeof near <= PIPE_BUF);
    const bool known = ask(gpus, &near);
    ::_exit(known && ::write(write_end.get(), near.data(), sizeof near) == sizeof near ? 0 : 1);
  }
  if (child < 0) return cpus;
  write_end.reset();
  Words near{};
  pollfd answer = {read_end.get(), POLLIN, 0};
  if (::poll(&answer, 1, kLimitMs) == 1 && ::read(read_end.get(), near.data(), sizeof near) == sizeof near)
    for (size_t i = 0; i < kWords; ++i) hwloc_bitmap_set_ith_ulong(cpus.get(), static_cast<unsigned>(i), near[i]);
  // The learner that this process becomes should have no unexpected child. A child that hangs in its driver does not
  // die; it is left behind.
  ::kill(child, SIGKILL);
  for (int i = 0; i < kReapTries && ::waitpid(child, nullptr, WNOHANG) == 0; ++i) ::usleep(kReapPauseUs);
  return cpus;
}

}  // namespace dl::bind
