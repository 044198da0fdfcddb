// SPDX-License-Identifier: Apache-2.0
#include "launcher/use/job_use.h"

#include <algorithm>
#include <utility>

namespace dl::use {
namespace {

constexpr int64_t kStaleMs = 120'000;  // reports come each 10 s, and seldom later
constexpr int64_t kLeastMs = 500;
constexpr int64_t kLongestMs = 3'600'000;  // a report about more is none
constexpr double kMostCpus = 100'000, kMostGpus = 1000, kMostBytes = 1e18;

void add_to(double value, std::optional<double>* sum) {
  *sum = sum->value_or(0) + value;
}

void keep_most(double value, std::optional<double>* most) {
  *most = std::max(most->value_or(value), value);
}

bool is_bytes(int64_t bytes) {
  return bytes >= 0 && static_cast<double>(bytes) < kMostBytes;
}

std::optional<double> rate_of(double sum, double over) {
  return over > 0 ? std::optional(sum / over) : std::nullopt;
}

// The same with all that cannot be taken for not measured.
protocol::Use possible(protocol::Use report) {
  const auto most_cpu_ms = kMostCpus * static_cast<double>(report.over_ms);
  if (static_cast<double>(report.cpu_ms) > most_cpu_ms) report.cpu_ms = -1;
  for (int64_t* bytes : {&report.memory, &report.own_memory, &report.read, &report.written})
    if (!is_bytes(*bytes)) *bytes = -1;
  return report;
}

double total(const PerPhase& each) {
  double sum = 0;
  for (const double one : each) sum += one;
  return sum;
}

}  // namespace

void JobUse::begin_attempt(const Given& given, int64_t now_ms) {
  given_ = given;
  learners_ = std::vector<Learner>(given.learners);
  announced_ = saving_ = 0;
  all_run_ = false;
  choose_phase(now_ms);
}

void JobUse::all_run(int64_t now_ms) {
  all_run_ = true;
  choose_phase(now_ms);
}

void JobUse::progressed(int rank, bool announced, bool saving, int64_t now_ms) {
  if (rank < 0 || static_cast<size_t>(rank) >= learners_.size()) return;
  Learner& learner = learners_[static_cast<size_t>(rank)];
  if (learner.ended) return;
  if (announced && !learner.announced) ++announced_;
  learner.announced = learner.announced || announced;
  ever_announced_ = ever_announced_ || announced;
  if (saving != learner.saving) saving_ = saving ? saving_ + 1 : saving_ - 1;
  learner.saving = saving;
  choose_phase(now_ms);
}

void JobUse::ended(int rank, int64_t now_ms) {
  if (rank < 0 || static_cast<size_t>(rank) >= learners_.size()) return;
  Learner& learner = learners_[static_cast<size_t>(rank)];
  if (learner.saving) --saving_;
  learner.saving = false;
  learner.ended = true;
  // It uses none any more. That of other learners, of which its agent has told as well, is not known any more.
  learner.memory = 0;
  if (learner.gpu.memory > 0) learner.gpu.memory = 0;
  if (learner.memory_of > 1) learner.memory_of = 0;
  choose_phase(now_ms);
}

void JobUse::end_attempt(int64_t now_ms) {
  all_run_ = false;
  choose_phase(now_ms);
}

void JobUse::choose_phase(int64_t now_ms) {
  if (!all_run_) return clock_.enter(Phase::kWaiting, now_ms);
  if (saving_ > 0) return clock_.enter(Phase::kSaving, now_ms);
  clock_.enter(announced_ > 0 ? Phase::kTraining : Phase::kStarting, now_ms);
}

void JobUse::add(int rank, const protocol::Use& report, int64_t now_ms) {
  if (rank < 0 || static_cast<size_t>(rank) >= learners_.size()) return;
  if (report.over_ms <= 0 || report.over_ms > kLongestMs) return;
  Learner& learner = learners_[static_cast<size_t>(rank)];
  learner.use = report;
  learner.use_ms = now_ms;
  learner.sums.add(possible(report));
  const auto over_s = static_cast<double>(report.over_ms) / 1000;
  const double cpu_s = static_cast<double>(report.cpu_ms) / 1000;
  if (report.cpu_ms >= 0 && cpu_s <= kMostCpus * over_s) {
    add_to(cpu_s, &cpu_s_);
    const PerPhase shares = clock_.shares(now_ms - report.over_ms, now_ms);
    for (size_t i = 0; i < kPhases; ++i) {
      cpu_time_[i] += cpu_s * shares[i];
      cpu_over_[i] += over_s * shares[i];
    }
    bool complete = false;
    const double cpus = cpus_now(now_ms, &complete);
    // A report of a short time, at a learner's end, says little of what is used at one time.
    if (complete && report.over_ms >= kLeastMs) keep_most(cpus, &most_cpus_);
  }
  if (is_bytes(report.read)) add_to(static_cast<double>(report.read), &read_);
  if (is_bytes(report.written)) add_to(static_cast<double>(report.written), &written_);
  if (is_bytes(report.memory) && report.memory_of > 0) {
    learner.memory = static_cast<double>(report.memory);
    learner.memory_of = report.memory_of;
    if (const auto memory = memory_now()) keep_most(*memory, &memory_);
  }
}

void JobUse::add(int rank, const protocol::GpuUse& report, int64_t now_ms) {
  if (rank < 0 || static_cast<size_t>(rank) >= learners_.size()) return;
  if (report.over_ms <= 0 || report.over_ms > kLongestMs || report.gpus <= 0 || report.gpus > kMostGpus) return;
  const double time_s = static_cast<double>(report.over_ms) / 1000 * report.gpus;
  const double busy_s = static_cast<double>(report.busy_ms) / 1000;
  if (report.busy_ms < 0 || busy_s > time_s * 1.01) return;
  Learner& learner = learners_[static_cast<size_t>(rank)];
  learner.gpu = report;
  learner.gpu_ms = now_ms;
  const double sm_s = static_cast<double>(report.sm_ms) / 1000;
  if (sm_s > time_s * 1.01) learner.gpu.sm_ms = -1;
  if (learner.gpu.sm_ms >= 0) {
    sm_busy_ += sm_s;
    sm_time_ += time_s;
  }
  learner.sums.add(learner.gpu);
  const PerPhase shares = clock_.shares(now_ms - report.over_ms, now_ms);
  for (size_t i = 0; i < kPhases; ++i) {
    gpu_busy_[i] += busy_s * shares[i];
    gpu_time_[i] += time_s * shares[i];
  }
  joules_lost_ = joules_lost_ || report.millijoules < 0;
  if (report.millijoules >= 0) add_to(static_cast<double>(report.millijoules) / 1000, &joules_);
  int measured = 0;
  double memory = 0;
  bool all_tell = true;
  for (const Learner& one : learners_) {
    if (one.gpu_ms < 0) continue;
    measured += one.gpu.gpus;
    memory += static_cast<double>(one.gpu.memory);
    all_tell = all_tell && one.gpu.memory >= 0;
  }
  gpus_measured_ = measured;
  if (all_tell) keep_most(memory, &gpu_memory_);
}

// None as long as the memory of a learner is not known.
std::optional<double> JobUse::memory_now() const {
  double memory = 0;
  size_t known = 0;
  for (const Learner& learner : learners_) {
    memory += learner.memory;
    known += static_cast<size_t>(learner.memory_of);
  }
  return known >= learners_.size() ? std::optional(memory) : std::nullopt;
}

double JobUse::cpus_now(int64_t now_ms, bool* complete) const {
  double cpus = 0;
  *complete = !learners_.empty();
  for (const Learner& learner : learners_) {
    if (learner.ended) continue;
    const bool fresh = learner.use_ms >= 0 && now_ms - learner.use_ms <= kStaleMs && learner.use.cpu_ms >= 0;
    *complete = *complete && fresh;
    if (fresh) cpus += static_cast<double>(learner.use.cpu_ms) / static_cast<double>(learner.use.over_ms);
  }
  return cpus;
}

Facts JobUse::facts(int64_t now_ms) const {
  Facts facts;
  const auto learners = static_cast<int>(given_.learners);
  facts.gpus = learners * given_.gpus_each;
  facts.gpus_measured = std::min(gpus_measured_, facts.gpus);
  facts.cpus = learners * given_.cpus_each;
  facts.asked = given_.asked;
  facts.memory_asked = given_.memory_asked;
  facts.gpu_share = rate_of(total(gpu_busy_), total(gpu_time_));
  facts.sm_share = rate_of(sm_busy_, sm_time_);
  if (!joules_lost_) facts.joules = joules_;
  facts.gpu_memory = gpu_memory_;
  facts.cpu_seconds = cpu_s_;
  facts.most_cpus_used = most_cpus_;
  facts.memory = memory_;
  facts.read = read_;
  facts.written = written_;
  PerPhase busy = gpu_busy_, gpu_time = gpu_time_, cpu = cpu_time_, cpu_over = cpu_over_;
  facts.seconds = clock_.milliseconds(now_ms);
  for (double& each : facts.seconds) each /= 1000;
  // Of a program that never announces a train step it is not known when it began to train.
  if (!ever_announced_)
    for (PerPhase* each : {&busy, &gpu_time, &cpu, &cpu_over, &facts.seconds})
      (*each)[static_cast<size_t>(Phase::kTraining)] +=
          std::exchange((*each)[static_cast<size_t>(Phase::kStarting)], 0.0);
  // The learners' own mean, times their number, so that it does not count less where one reports more seldom.
  const auto of_all = [learners](std::optional<double> each) {
    return each ? std::optional(*each * learners) : std::nullopt;
  };
  facts.cpus_used = of_all(rate_of(total(cpu), total(cpu_over)));
  for (size_t i = 0; i < kPhases; ++i) {
    facts.gpu_share_in[i] = rate_of(busy[i], gpu_time[i]);
    facts.cpus_used_in[i] = of_all(rate_of(cpu[i], cpu_over[i]));
  }
  return facts;
}

Facts JobUse::facts_of(int rank) const {
  if (rank < 0 || static_cast<size_t>(rank) >= learners_.size()) return {};
  return learners_[static_cast<size_t>(rank)].sums.facts(given_.gpus_each, given_.cpus_each);
}

std::vector<std::pair<const char*, double>> JobUse::now(int64_t now_ms) const {
  std::vector<std::pair<const char*, double>> found;
  // The sum of what each learner that runs tells; less than 0: not told.
  const auto sum = [&](const char* name, const auto& of, bool per_gpu = false) {
    double all = 0, gpus = 0;
    size_t told = 0;
    for (const Learner& learner : learners_) {
      if (learner.ended) continue;
      const double value = of(learner);
      if (value < 0) return;
      ++told;
      all += value;
      gpus += learner.gpu.gpus;
    }
    if (told > 0) found.emplace_back(name, per_gpu && gpus > 0 ? all / gpus : all);
  };
  const auto fresh = [now_ms](int64_t came_ms) { return came_ms >= 0 && now_ms - came_ms <= kStaleMs; };
  const auto rate = [&](const Learner& learner, int64_t value) {
    return fresh(learner.use_ms) && value >= 0
               ? static_cast<double>(value) * 1000 / static_cast<double>(learner.use.over_ms)
               : -1.0;
  };
  const auto gpu = [&](const Learner& learner, int64_t value) {
    return fresh(learner.gpu_ms) ? static_cast<double>(value) : -1.0;
  };
  if (given_.gpus_each > 0) {
    sum(
        "gpu_used_percent",
        [&](const Learner& each) {
          return fresh(each.gpu_ms)
                     ? 100 * static_cast<double>(each.gpu.busy_ms) / static_cast<double>(each.gpu.over_ms)
                     : -1.0;
        },
        true);
    sum(
        "gpu_sm_percent",
        [&](const Learner& each) {
          const double ms = gpu(each, each.gpu.sm_ms);
          return ms < 0 ? ms : 100 * ms / static_cast<double>(each.gpu.over_ms);
        },
        true);
    sum("gpu_memory_bytes", [&](const Learner& each) { return gpu(each, each.gpu.memory); });
    sum("gpu_watts", [&](const Learner& each) {
      const double mw = gpu(each, each.gpu.milliwatts);
      return mw < 0 ? mw : mw / 1000;
    });
  }
  sum("cpus_used", [&](const Learner& each) {
    const double ms = rate(each, each.use.cpu_ms);
    return ms < 0 ? ms : ms / 1000;
  });
  if (const auto memory = memory_now(); memory && !found.empty()) found.emplace_back("memory_bytes", *memory);
  sum("read_bytes_per_s", [&](const Learner& each) { return rate(each, each.use.read); });
  sum("written_bytes_per_s", [&](const Learner& each) { return rate(each, each.use.written); });
  return found;
}

}  // namespace dl::use
