// SPDX-License-Identifier: Apache-2.0
// Measures what a node can do, some tenths of a second for each figure. The figures are meaningful only in comparison
// with those of other nodes.
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "common/base/unique_fd.h"
#include "launcher/preflight/checks.h"

namespace dl::preflight {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kCopyBytes = size_t{64} << 20;
constexpr size_t kFileBytes = size_t{32} << 20;
constexpr double kLong = 0.3;  // seconds
constexpr size_t kMostThreads = 256;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

size_t usable_cpus() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::clamp<size_t>(static_cast<size_t>(CPU_COUNT(&set)), 1, kMostThreads);
}

// Runs `work` in a thread for each CPU. The sum of the amounts that it returns, per second.
template <typename Work>
double rate_of_all(Work work) {
  const size_t count = usable_cpus();
  std::vector<double> done(count, 0);
  std::vector<std::thread> threads;
  const auto begin = Clock::now();
  for (size_t i = 0; i < count; ++i) threads.emplace_back([&, i] { done[i] = work(begin); });
  for (std::thread& thread : threads) thread.join();
  double total = 0;
  for (const double one : done) total += one;
  return total / seconds_since(begin);
}

// Fused multiply-adds on 64 floats that stay in registers: 128 operations in each round.
double multiply_and_add(Clock::time_point begin) {
  std::array<float, 64> x{};
  x.fill(1.0F);
  volatile float sink = 0;
  double rounds = 0;
  while (seconds_since(begin) < kLong) {
    for (int i = 0; i < 20000; ++i)
      for (float& value : x) value = value * 0.999F + 0.001F;
    rounds += 20000;
    sink = x[0];
  }
  (void)sink;
  return rounds * 128;
}

}  // namespace

CheckResult check_memory_bandwidth(const CheckInput& /*input*/) try {
  std::vector<char> from(kCopyBytes, 1), to(kCopyBytes, 2);
  double best = 0;
  const auto begin = Clock::now();
  for (int i = 0; i < 3 || seconds_since(begin) < kLong; ++i) {
    const auto one = Clock::now();
    std::memcpy(to.data(), from.data(), kCopyBytes);
    best = std::max(best, static_cast<double>(kCopyBytes) / seconds_since(one));
  }
  return good(best + (to[1] == 1 ? 0 : 1));  // the copied data is used, so that the compiler keeps the copy
} catch (const std::bad_alloc&) {
  return not_good(Grade::kWarning, "128 MiB of memory, which the measurement needs, could not be had");
}

CheckResult check_compute(const CheckInput& /*input*/) try {
  return good(rate_of_all(multiply_and_add));
} catch (const std::exception& e) {  // there is no thread or no memory
  return not_good(Grade::kWarning, e.what());
}

CheckResult check_disk_write(const CheckInput& /*input*/) {
  const char* folder = std::getenv("TMPDIR");
  std::string path = std::string(folder != nullptr && *folder != '\0' ? folder : "/tmp") + "/dl-preflight-XXXXXX";
  UniqueFd file(::mkostemp(path.data(), O_CLOEXEC));
  if (!file) return not_good(Grade::kWarning, path + ": " + std::strerror(errno));
  ::unlink(path.c_str());
  const std::vector<char> data(size_t{1} << 20, 7);
  const auto begin = Clock::now();
  for (size_t written = 0; written < kFileBytes; written += data.size())
    if (::write(file.get(), data.data(), data.size()) != static_cast<ssize_t>(data.size()))
      return not_good(Grade::kWarning, path + ": " + std::strerror(errno));
  if (::fsync(file.get()) != 0) return not_good(Grade::kWarning, path + ": " + std::strerror(errno));
  return good(static_cast<double>(kFileBytes) / seconds_since(begin));
}

}  // namespace dl::preflight
