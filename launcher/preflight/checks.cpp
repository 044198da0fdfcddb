// SPDX-License-Identifier: Apache-2.0
#include "launcher/preflight/checks.h"
#include "common/base/clock.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <netdb.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "common/base/count.h"
#include "common/base/parse.h"
#include "common/base/unique_fd.h"

namespace dl::preflight {
namespace {

constexpr uint64_t kLeastSpace = uint64_t{64} << 20;
constexpr double kLeastMemoryShare = 0.1;
constexpr double kMostLoad = 1.5;  // per CPU

std::string message(const std::string& what, int error) {
  return what + ": " + std::strerror(error);
}

CheckResult check_space(const std::string& path, Grade grade) {
  struct statvfs info {};
  if (::statvfs(path.c_str(), &info) != 0) return not_good(grade, message(path, errno));
  const uint64_t free = uint64_t{info.f_bavail} * info.f_frsize;
  if (free >= kLeastSpace) return good(static_cast<double>(free));
  CheckResult result = not_good(grade, fmt::format("{} has {} free; at least {} are needed", path, format_bytes(free),
                                                   format_bytes(kLeastSpace)));
  result.value = static_cast<double>(free);
  return result;
}

CheckResult check_job_dir(const CheckInput& input) {
  // The name is unique: other nodes do the same in this folder, perhaps with the same process id.
  std::string path = input.job_dir + "/.preflight-XXXXXX";
  const auto begin = std::chrono::steady_clock::now();
  UniqueFd file(::mkostemp(path.data(), O_CLOEXEC));
  if (!file) return not_good(Grade::kBad, message("cannot write into " + input.job_dir, errno));
  const char text[] = "preflight";
  char back[sizeof text] = "";
  const bool written = ::write(file.get(), text, sizeof text) == sizeof text && ::fsync(file.get()) == 0 &&
                       ::pread(file.get(), back, sizeof back, 0) == sizeof back && std::strcmp(text, back) == 0;
  const int error = errno;
  ::unlink(path.c_str());
  if (!written) return not_good(Grade::kBad, message("cannot write into " + input.job_dir, error));
  CheckResult space = check_space(input.job_dir, Grade::kWarning);
  if (space.grade != Grade::kGood) return space;
  return good(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
}

CheckResult check_tmp(const CheckInput& /*input*/) {
  const char* folder = std::getenv("TMPDIR");
  return check_space(folder != nullptr && *folder != '\0' ? folder : "/tmp", Grade::kWarning);
}

// Data loaders with several processes pass batches through /dev/shm.
CheckResult check_shm(const CheckInput& /*input*/) {
  return check_space("/dev/shm", Grade::kWarning);
}

CheckResult check_names(const CheckInput& input) {
  const auto begin = std::chrono::steady_clock::now();
  for (const std::string& peer : input.peers) {
    addrinfo* found = nullptr;
    const int rc = ::getaddrinfo(peer.c_str(), nullptr, nullptr, &found);
    if (rc != 0) return not_good(Grade::kBad, fmt::format("the name {} is not resolved: {}", peer, ::gai_strerror(rc)));
    ::freeaddrinfo(found);
  }
  return good(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
}

CheckResult check_memory(const CheckInput& /*input*/) {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  double value = 0, total = 0, available = -1;
  while (file >> name >> value && std::getline(file, unit)) {
    if (name == "MemTotal:") total = value * 1024;
    if (name == "MemAvailable:") available = value * 1024;
  }
  if (total <= 0 || available < 0)
    return not_good(Grade::kSkipped, "/proc/meminfo does not tell how much memory is available");
  if (available >= kLeastMemoryShare * total) return good(available);
  CheckResult result = not_good(Grade::kWarning, fmt::format("only {} of {} of memory are available",
                                                             format_bytes(static_cast<uint64_t>(available)),
                                                             format_bytes(static_cast<uint64_t>(total))));
  result.value = available;
  return result;
}

CheckResult check_load(const CheckInput& /*input*/) {
  double load = 0;
  const auto cpus = static_cast<double>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  if (::getloadavg(&load, 1) != 1) return not_good(Grade::kSkipped, "the system does not tell its load");
  if (load <= kMostLoad * cpus) return good(load);
  CheckResult result = not_good(Grade::kWarning, fmt::format("other programs run here: load {:.1f} on {}", load,
                                                             count_text(static_cast<int64_t>(cpus), "CPU")));
  result.value = load;
  return result;
}

}  // namespace

CheckResult good(double value) {
  CheckResult result;
  result.value = value;
  return result;
}

CheckResult not_good(Grade grade, std::string text) {
  CheckResult result;
  result.grade = grade;
  result.text = std::move(text);
  return result;
}

// ---- THE table.
const Check kChecks[] = {
    {"job_dir", Depth::kQuick, "s", check_job_dir},
    {"tmp", Depth::kQuick, "B", check_tmp},
    {"shm", Depth::kQuick, "B", check_shm},
    {"names", Depth::kQuick, "s", check_names},
    {"memory", Depth::kQuick, "B", check_memory},
    {"load", Depth::kQuick, "", check_load},
    {"gpus", Depth::kQuick, "", check_gpus},
    {"gpu_from_host", Depth::kFullEachTime, "B/s", check_gpu_from_host},
    {"gpu_to_host", Depth::kFullEachTime, "B/s", check_gpu_to_host},
    {"gpu_memory", Depth::kFullEachTime, "B/s", check_gpu_memory},
    {"gpu_to_gpu", Depth::kFullEachTime, "B/s", check_gpu_to_gpu},
    {"memory_bandwidth", Depth::kFull, "B/s", check_memory_bandwidth},
    {"compute", Depth::kFull, "FLOP/s", check_compute},
    {"disk_write", Depth::kFull, "B/s", check_disk_write},
};
const size_t kCheckCount = std::size(kChecks);

NodeReport run_checks(const std::vector<Depth>& depths, const std::string& node, const CheckInput& input) {
  NodeReport report;
  report.node = node;
  report.time_ms = unix_ms();
  for (const Check& check : kChecks) {
    if (std::find(depths.begin(), depths.end(), check.depth) == depths.end()) continue;
    CheckResult result = check.run(input);
    result.name = check.name;
    result.unit = check.unit;
    report.checks.push_back(std::move(result));
  }
  return report;
}

}  // namespace dl::preflight
