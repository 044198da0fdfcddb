// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/gpu_sampler.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

#include "common/base/clock.h"
#include "common/base/parse.h"
#include "common/process/child_process.h"
#include "common/process/nvml.h"
#include "launcher/agent/sm_activity.h"

namespace dl::agent {
namespace {

constexpr int kReports = 3;  // the child's descriptor of the pipe to the agent
constexpr int kMaxDescriptors = 1024;
constexpr int64_t kLateMs = 2000;  // a wait that ends so late was a suspension

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

// Functions of NVML; those that this version lacks are nullptr.
struct Asked {
  explicit Asked(const Nvml& nvml)
      : rates(nvml.function<int(Nvml::Device, Rates*)>("nvmlDeviceGetUtilizationRates")),
        samples(nvml.function<int(Nvml::Device, int, unsigned long long, int*, unsigned*, Sample*)>(
            "nvmlDeviceGetSamples")),
        memory(nvml.function<int(Nvml::Device, Memory*)>("nvmlDeviceGetMemoryInfo")),
        power(nvml.function<int(Nvml::Device, unsigned*)>("nvmlDeviceGetPowerUsage")),
        energy(nvml.function<int(Nvml::Device, unsigned long long*)>("nvmlDeviceGetTotalEnergyConsumption")) {}
  struct Sample {  // nvmlSample_t
    unsigned long long at_us;
    unsigned long long value;
  };
  struct Memory {  // nvmlMemory_t
    unsigned long long total, free, used;
  };
  int (*rates)(Nvml::Device, Rates*);
  int (*samples)(Nvml::Device, int type, unsigned long long since, int* value_type, unsigned* count, Sample* samples);
  int (*memory)(Nvml::Device, Memory*);
  int (*power)(Nvml::Device, unsigned* milliwatts);
  int (*energy)(Nvml::Device, unsigned long long* millijoules);
};

// A GPU, and what has to be known of it until the next look.
struct Watched {
  Nvml::Device device = nullptr;
  uint64_t sampled_us = 0;
  std::optional<unsigned long long> millijoules;
};

// The use since the last look by the driver's own samples, of which it keeps some seconds; less than 0: unknown.
double sampled_use(const Asked& nvml, Watched* gpu) {
  constexpr int kGpuUtilization = 1, kUnsignedInt = 1;  // nvmlSamplingType_t, nvmlValueType_t
  constexpr unsigned kMost = 256;
  if (nvml.samples == nullptr) return -1;
  Asked::Sample found[kMost];
  unsigned count = kMost;
  int type = -1;
  if (nvml.samples(gpu->device, kGpuUtilization, gpu->sampled_us, &type, &count, found) != Nvml::kSuccess) return -1;
  if (type != kUnsignedInt || count > kMost) return -1;
  std::vector<UseSample> samples;
  for (unsigned i = 0; i < count; ++i) {
    unsigned value = 0;  // the first member of a union
    std::memcpy(&value, &found[i].value, sizeof value);
    samples.push_back({found[i].at_us, static_cast<double>(value)});
  }
  const uint64_t since = gpu->sampled_us;
  for (const UseSample& sample : samples) gpu->sampled_us = std::max(gpu->sampled_us, sample.at_us);
  // The first time the samples are of the time before the learner.
  return since == 0 ? -1 : weighted_use(std::move(samples), since);
}

// What one GPU gives is unknown: then the sum of all is, too.
void add_or_lose(bool known, unsigned long long value, int64_t* sum) {
  *sum = known && *sum >= 0 && value < INT64_MAX / 2 ? *sum + static_cast<int64_t>(value) : -1;
}

// One look at all GPUs. False: a GPU does not tell its use, since it is cut into instances, or lost.
bool look_at(const Asked& nvml, SmActivity* sms, std::vector<Watched>* gpus, int64_t over_ms, protocol::GpuUse* look) {
  look->percent = 0;
  look->over_ms = over_ms;
  look->gpus = static_cast<int>(gpus->size());
  look->busy_ms = look->memory = look->milliwatts = look->millijoules = look->sm_ms = 0;
  for (Watched& gpu : *gpus) {
    Rates rates;
    if (nvml.rates(gpu.device, &rates) != Nvml::kSuccess) return false;
    const unsigned percent = std::min(rates.gpu, 100U);
    look->percent = std::max(look->percent, static_cast<int>(percent));
    const double weighted = sampled_use(nvml, &gpu);
    look->busy_ms += std::llround(static_cast<double>(over_ms) * (weighted < 0 ? percent : weighted) / 100);
    Asked::Memory memory = {};
    const bool tells_memory = nvml.memory != nullptr && nvml.memory(gpu.device, &memory) == Nvml::kSuccess;
    add_or_lose(tells_memory, memory.used, &look->memory);
    unsigned milliwatts = 0;
    const bool tells_power = nvml.power != nullptr && nvml.power(gpu.device, &milliwatts) == Nvml::kSuccess;
    add_or_lose(tells_power, milliwatts, &look->milliwatts);
    unsigned long long now = 0;
    const bool counts = nvml.energy != nullptr && nvml.energy(gpu.device, &now) == Nvml::kSuccess;
    const unsigned long long before = gpu.millijoules.value_or(now);  // the counter begins anew with the driver
    add_or_lose(counts && gpu.millijoules, now > before ? now - before : 0, &look->millijoules);
    gpu.millijoules = counts ? std::optional(now) : std::nullopt;
    const double sm_percent = sms->percent(gpu.device);
    add_or_lose(sm_percent >= 0, std::llround(static_cast<double>(over_ms) * std::max(sm_percent, 0.0) / 100),
                &look->sm_ms);
  }
  return true;
}

// The child process. It closes all descriptors of the agent's, because it may outlive the agent in a call of the
// driver. It writes one GpuUse for each look, as it lies in memory: the reader is the same program.
[[noreturn]] void sample(const LearnerGpus& gpus, int64_t look_ms, int reports) {
  static_assert(std::is_trivially_copyable_v<protocol::GpuUse>);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (reports != kReports) ::dup2(reports, kReports);
  for (int fd = kReports + 1; fd < kMaxDescriptors; ++fd) ::close(fd);
  const int null = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd < kReports; ++fd) ::dup2(null, fd);
  const Nvml nvml;
  const Asked asked(nvml);
  SmActivity sms(nvml);
  std::vector<Watched> watched;
  for (Nvml::Device device : devices_of(nvml, gpus)) watched.push_back({device, 0, {}});
  protocol::GpuUse first;
  if (asked.rates == nullptr || watched.empty() || !look_at(asked, &sms, &watched, 0, &first)) ::_exit(0);
  int64_t looked_ms = monotonic_ms();
  int highest = 0;
  for (int looks = 1;; ++looks) {
    const int64_t waits_ms = monotonic_ms();
    wait_ms(look_ms);
    const int64_t now_ms = monotonic_ms();
    protocol::GpuUse look;
    if (!look_at(asked, &sms, &watched, now_ms - looked_ms, &look)) ::_exit(0);
    looked_ms = now_ms;
    // While a job is suspended, other jobs may use its GPUs: what the driver tells of that time is not this learner's.
    if (now_ms - waits_ms > look_ms + kLateMs) continue;
    highest = std::max(highest, look.percent);
    look.percent = looks % GpuSampler::kLooks == 0 ? std::exchange(highest, 0) : -1;
    if (::write(kReports, &look, sizeof look) != static_cast<ssize_t>(sizeof look)) break;
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

std::optional<protocol::GpuUse> GpuSampler::read(bool rest) {
  protocol::GpuUse looks[8];  // the child writes each whole, so that a pipe has no part of one
  while (reports_) {
    const ssize_t n = ::read(reports_.get(), looks, sizeof looks);
    if (n == 0) reports_.reset();
    const size_t count = n > 0 ? static_cast<size_t>(n) / sizeof looks[0] : 0;
    for (size_t i = 0; i < count; ++i) add_look(looks[i], &waiting_);
    if (n < static_cast<ssize_t>(sizeof looks)) break;
  }
  if (waiting_.percent < 0 && (!rest || waiting_.over_ms <= 0)) return std::nullopt;
  return std::exchange(waiting_, protocol::GpuUse{-1});
}

double weighted_use(std::vector<UseSample> samples, uint64_t since_us) {
  std::sort(samples.begin(), samples.end(), [](const auto& a, const auto& b) { return a.at_us < b.at_us; });
  double used = 0;
  const uint64_t begin_us = since_us;
  for (const UseSample& sample : samples) {
    if (sample.at_us <= since_us) continue;
    if (!(sample.percent >= 0 && sample.percent <= 100)) return -1;
    used += sample.percent * static_cast<double>(sample.at_us - since_us);
    since_us = sample.at_us;
  }
  return since_us == begin_us ? -1 : used / static_cast<double>(since_us - begin_us);
}

void add_look(const protocol::GpuUse& look, protocol::GpuUse* use) {
  const bool first = use->over_ms <= 0;
  if (look.percent >= 0) use->percent = look.percent;
  use->over_ms = (first ? 0 : use->over_ms) + look.over_ms;
  use->gpus = look.gpus;
  use->busy_ms = (first ? 0 : use->busy_ms) + look.busy_ms;
  use->memory = std::max(use->memory, look.memory);
  use->milliwatts = look.milliwatts;
  // A sum of which a part is not known is not known.
  const auto sum = [first](int64_t more, int64_t so_far) {
    return first ? more : so_far < 0 || more < 0 ? -1 : so_far + more;
  };
  use->millijoules = sum(look.millijoules, use->millijoules);
  use->sm_ms = sum(look.sm_ms, use->sm_ms);
}

void GpuSampler::stop() {
  reports_.reset();
  if (child_ <= 0) return;
  end_child(child_, std::chrono::milliseconds(0));
  child_ = 0;
}

}  // namespace dl::agent
