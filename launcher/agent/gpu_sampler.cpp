// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/gpu_sampler.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <ctime>

#include "common/base/parse.h"
#include "common/process/child_process.h"
#include "common/process/nvml.h"

namespace dl::agent {
namespace {

constexpr int kReports = 3;  // the child's descriptor of the pipe to the agent
constexpr int kMaxDescriptors = 1024;

struct Rates {  // nvmlUtilization_t: percent of the time since the driver's last sample
  unsigned gpu = 0, memory = 0;
};

void wait_ms(int64_t ms) {
  const timespec time = {static_cast<time_t>(ms / 1000), static_cast<long>(ms % 1000) * 1'000'000};
  ::nanosleep(&time, nullptr);
}

// The devices of all the GPUs, or none if one of them is not found.
std::vector<Nvml::Device> devices_of(const Nvml& nvml, const LearnerGpus& gpus) {
  if (!nvml.ready()) return {};
  if (gpus.seen > 0) {
    unsigned count = 0;
    const auto count_of = nvml.function<int(unsigned*)>("nvmlDeviceGetCount_v2");
    if (count_of == nullptr || count_of(&count) != Nvml::kSuccess || count != gpus.seen) return {};
  }
  std::vector<Nvml::Device> devices;
  for (const std::string& name : gpus.names) {
    Nvml::Device device = nvml.device(name);
    if (device == nullptr) return {};
    devices.push_back(device);
  }
  return devices;
}

// The child process. It closes all descriptors of the agent's, because it may outlive the agent in a call of the
// driver.
[[noreturn]] void sample(const LearnerGpus& gpus, int64_t look_ms, int reports) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (reports != kReports) ::dup2(reports, kReports);
  for (int fd = kReports + 1; fd < kMaxDescriptors; ++fd) ::close(fd);
  const int null = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd < kReports; ++fd) ::dup2(null, fd);
  const Nvml nvml;
  const std::vector<Nvml::Device> devices = devices_of(nvml, gpus);
  const auto rates_of = nvml.function<int(Nvml::Device, Rates*)>("nvmlDeviceGetUtilizationRates");
  while (rates_of != nullptr && !devices.empty()) {
    unsigned highest = 0;
    for (int look = 0; look < GpuSampler::kLooks; ++look) {
      wait_ms(look_ms);
      for (Nvml::Device device : devices) {
        Rates rates;
        if (rates_of(device, &rates) != Nvml::kSuccess) ::_exit(0);  // a GPU that is cut into instances, or lost
        highest = std::max(highest, std::min(rates.gpu, 100U));
      }
    }
    const auto percent = static_cast<unsigned char>(highest);
    if (::write(kReports, &percent, 1) != 1) break;
  }
  ::_exit(0);
}

}  // namespace

LearnerGpus gpus_of_learner(const char* visible, int local_rank, int local_learners, int gpus_per_learner) {
  LearnerGpus gpus;
  if (gpus_per_learner <= 0 || local_rank < 0 || local_rank >= local_learners) return gpus;
  const int first = local_rank * gpus_per_learner;
  if (visible == nullptr) {
    for (int i = 0; i < gpus_per_learner; ++i) gpus.names.push_back(std::to_string(first + i));
    gpus.seen = static_cast<unsigned>(local_learners * gpus_per_learner);
    return gpus;
  }
  for (const std::string& name : split(visible, ',')) gpus.names.emplace_back(trim(name));
  // The list has either all of the job's GPUs on this node, which srun shows to each task, or those of this task alone.
  const auto count = static_cast<int>(gpus.names.size());
  if (count >= local_learners * gpus_per_learner)
    gpus.names = {gpus.names.begin() + first, gpus.names.begin() + first + gpus_per_learner};
  else if (count != gpus_per_learner)
    gpus.names.clear();
  return gpus;
}

std::string chosen_gpus(const std::string& visible, const std::vector<int>& positions) {
  const std::vector<std::string> all = split(visible, ',');
  std::vector<std::string> chosen;
  for (const int position : positions)
    if (position >= 0 && static_cast<size_t>(position) < all.size())
      chosen.emplace_back(trim(all[static_cast<size_t>(position)]));
  return join(chosen, ",");
}

VisibleGpus visible_gpus(const std::vector<int>& positions, bool narrowed) {
  const char* all = std::getenv("CUDA_VISIBLE_DEVICES");
  if (all == nullptr) return {};
  return {narrowed ? chosen_gpus(all, positions) : all, true};
}

void GpuSampler::start(const LearnerGpus& gpus, int64_t look_ms) {
  if (gpus.names.empty() || look_ms <= 0 || child_ > 0) return;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return;
  reports_.reset(ends[0]);
  const UniqueFd write_end(ends[1]);
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  child_ = ::fork();
  if (child_ == 0) sample(gpus, look_ms, write_end.get());
  if (child_ < 0) {
    child_ = 0;
    reports_.reset();
  }
}

std::optional<int> GpuSampler::read() {
  std::optional<int> newest;
  unsigned char reports[64];
  while (reports_) {
    const ssize_t n = ::read(reports_.get(), reports, sizeof reports);
    if (n > 0) newest = reports[n - 1];
    if (n == 0) reports_.reset();
    if (n < static_cast<ssize_t>(sizeof reports)) break;
  }
  return newest;
}

void GpuSampler::stop() {
  reports_.reset();
  if (child_ <= 0) return;
  end_child(child_, std::chrono::milliseconds(0));
  child_ = 0;
}

}  // namespace dl::agent
