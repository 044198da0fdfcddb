// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/scaling_keeper.h"

#include <unistd.h>

#include <memory>
#include <utility>

#include "common/base/atomic_file.h"
#include "common/base/clock.h"
#include "common/scaling/scale_hint.h"
#include "launcher/supervise/scaling_watch.h"

namespace dl::supervise {
namespace {

constexpr int64_t kEachMs = 15'000;

std::string hint_of(const record::ScalingRecord& record, int64_t restart_s) {
  ScaleHint hint;
  hint.restart_s = restart_s;
  hint.noise = record.noise;
  for (const scaling::Measured& one : record.measured) {
    // A job that asks for a range of batches has one batch for each number of learners; what was measured with another
    // one is of another question.
    const auto size = record::size_of(record, one.size.learners);
    if (size && size->batch == one.size.batch && size->passes == one.size.passes)
      hint.sizes.push_back({one.size.learners, one.size.nodes, one.step_s});
  }
  return format_scale_hint(hint, record.now.learners);
}

}  // namespace

void ScalingKeeper::look(const record::JobDir& dir, record::ScalingRecord record, const std::vector<Learner>& learners,
                         int64_t now_ms, int64_t began_ms, bool last) {
  if (attempt_ms_ != began_ms && !learners.empty() && learners.front().times.steps() > 0) {
    attempt_ms_ = began_ms;
    restart_s_ = (now_ms - began_ms + 999) / 1000;
  }
  if (!asked_) {
    asked_ = true;
    auto found = std::make_shared<std::vector<scaling::Measured>>();
    calls_.post([found, record, dir] { *found = record::earlier_measurements(dir.root(), record, ::getuid()); },
                [this, found] {
                  for (const scaling::Measured& measured : *found) scaling::add(measured, &measured_);
                  known_ = true;
                });
  }
  if (!known_ || (!last && written_ms_ > 0 && now_ms - written_ms_ < kEachMs)) return;
  const auto measured = measure(learners, record.now.learners, record.now, unix_ms() / 1000);
  if (!measured) return;
  written_ms_ = now_ms;
  scaling::add(*measured, &measured_);
  record.measured = measured_;
  if (const uint64_t noise = learners.front().noise; noise > 0) record.noise = static_cast<double>(noise - 1);
  if (record.asked.elastic()) hint_ = hint_of(record, restart_s_);
  calls_.post([text = record::format_scaling(record),
               path = dir.scaling()] { ignore(replace_file(path, text), "the next look tries again"); },
              [] {}, "scaling");
}

}  // namespace dl::supervise
