// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/use_keeper.h"

#include <algorithm>
#include <utility>

#include "common/base/parse.h"
#include "common/base/this_process.h"
#include "common/contract/progress_page.h"
#include "launcher/metrics/found.h"

namespace dl::supervise {
namespace {

constexpr size_t kMostBytes = 4 << 20;  // of a series: two days of points with GPUs, then half of them are dropped

std::optional<double> bytes_of_mib(const std::string& text) {
  const auto number = parse_int(text, 1, int64_t{1} << 40);
  return number ? std::optional(static_cast<double>(*number) * (1 << 20)) : std::nullopt;
}

}  // namespace

std::optional<double> memory_asked(const plan::LaunchPlan& plan, const std::function<std::string(const char*)>& value) {
  if (!plan.under_slurm) return std::nullopt;
  const auto learners = static_cast<double>(plan.world_size());
  if (const auto each = bytes_of_mib(value("SLURM_MEM_PER_NODE")))
    return *each * static_cast<double>(plan.nodes.size());
  if (const auto each = bytes_of_mib(value("SLURM_MEM_PER_GPU")); each && plan.gpus_per_learner > 0)
    return *each * plan.gpus_per_learner * learners;
  if (const auto each = bytes_of_mib(value("SLURM_MEM_PER_CPU")); each && plan.cpus_per_learner > 0)
    return *each * plan.cpus_per_learner * learners;
  return std::nullopt;
}

void UseKeeper::begin_attempt(const plan::LaunchPlan& plan, std::string path, int64_t now_ms) {
  const auto variable = [](const char* name) { return environment_value(name); };
  use::Given given;
  given.learners = static_cast<size_t>(plan.world_size());
  given.gpus_each = plan.gpus_per_learner;
  given.cpus_each = plan.cpus_per_learner;
  given.asked = plan.under_slurm;
  given.memory_asked = memory_asked(plan, variable);
  use_.begin_attempt(given, now_ms);
  written_ms_ = now_ms;
  step_ = metrics::kNoStep;
  writer_ = std::make_shared<metrics::SeriesWriter>();
  calls_.post(
      [writer = writer_, path = std::move(path)] {
        ignore(writer->open(path, kMostBytes), "what cannot be opened is made anew with the first points");
      },
      [] {});
}

void UseKeeper::progressed(int rank, const protocol::Progress& progress, int64_t now_ms) {
  step_ = std::max(step_, progress.step);
  use_.progressed(rank, progress.step >= 0, progress.state == ProgressPage::kSaving, now_ms);
}

void UseKeeper::look(int64_t now_ms, int64_t now_unix_ms) {
  if (now_ms - written_ms_ < kEachMs) return;
  auto points = use_.now(now_ms);
  if (points.empty()) return;
  written_ms_ = now_ms;
  calls_.post(
      [writer = writer_, points = std::move(points), now_unix_ms, step = step_] {
        for (const auto& [name, value] : points) writer->add(metrics::kUse, name, {now_unix_ms, step, value});
        ignore(writer->flush(), "the next points are tried again, with these");
      },
      [] {});
}

std::optional<record::UsedInAll> UseKeeper::so_far(int64_t now_ms, bool* told) const {
  const use::Facts facts = use_.facts(now_ms);
  const auto of = [&](use::Phase phase) { return facts.seconds[static_cast<size_t>(phase)]; };
  const double ran_s = of(use::Phase::kStarting) + of(use::Phase::kTraining) + of(use::Phase::kSaving);
  if (!(ran_s > 0)) return std::nullopt;
  if (told != nullptr) *told = ran_s >= kToldFromS;
  return record::UsedInAll{use::sentence(facts), use::numbers(facts)};
}

std::string UseKeeper::record(Journal* journal, int64_t now_ms) const {
  bool told = false;
  auto use = so_far(now_ms, &told);
  if (!use) return {};
  std::string line = told ? use->text : std::string();
  journal->used(*std::move(use));
  return line;
}

}  // namespace dl::supervise
