// SPDX-License-Identifier: Apache-2.0
#include "launcher/metrics/collector.h"

#include <algorithm>

#include "common/base/awake_clock.h"

namespace dl::metrics {
namespace {

constexpr size_t kMostRead = 256 << 10;  // in one go: what it tells fits into a frame
// Positions of sources in the series; names with a '#' are no files.
constexpr const char* kLog = "#log";
constexpr const char* kEpoch = "#epoch";
constexpr const char* kBatches = "#batches";
constexpr const char* kCounted = "#counted";

int64_t known(const SeriesWriter& writer, const char* name) {
  const auto found = writer.positions().find(name);
  return found == writer.positions().end() ? 0 : static_cast<int64_t>(found->second);
}

}  // namespace

Status Collector::open() {
  DL_TRY(writer_.open(options_.series));
  if (!options_.progress.empty()) progress_.open(options_.progress);
  log_ = LineFile(options_.log, static_cast<uint64_t>(known(writer_, kLog)), kLongestMetricLine, true);
  usual_.epoch = known(writer_, kEpoch);
  usual_.batches = known(writer_, kBatches);
  usual_.counted = known(writer_, kCounted) - 1;
  return {};
}

// The train step of a value: the one that its source names; else the one that the checkpoint library has announced;
// else the one that was counted from what the script prints.
void Collector::add(std::vector<Found>* found) {
  for (const Found& one : *found) {
    int64_t step = one.step;
    if ((step == kNoStep || !one.surely) && page_.attached && page_.step != kNoStep) step = page_.step;
    writer_.add(one.group, one.name, {one.time_ms > 0 ? one.time_ms : now_ms_, step, one.value});
  }
  found->clear();
}

bool Collector::read_log() {
  std::vector<Found> found;
  const auto take = [&](std::string_view line) {
    usual_.read(line, &found);
    add(&found);
  };
  const auto any = log_.read(kMostRead, take);
  if (!any) {
    writer_.note("the log could not be read: " + any.error().text);
    return false;
  }
  writer_.position(kLog, log_.position());
  writer_.position(kEpoch, static_cast<uint64_t>(usual_.epoch));
  writer_.position(kBatches, static_cast<uint64_t>(usual_.batches));
  writer_.position(kCounted, static_cast<uint64_t>(usual_.counted + 1));
  return *any;
}

void Collector::look_at_page(bool last) {
  page_ = progress_.read();
  if (page_.attached && page_.step != kNoStep && !writer_.has_begin()) {
    // By the first look it may have trained on; a restore has set what it began with.
    const int64_t step = page_.saved_step == kNoStep ? page_.step : std::min(page_.saved_step, page_.step);
    writer_.begin({step, now_ms_});
  }
  std::vector<Found> found;
  rates_.look(page_, now_ms_, last, &found);
  add(&found);
}

void Collector::flush() {
  // The disk may be full; the next look tries it again.
  ignore(writer_.flush(), "nobody listens here, and the learner goes on");
}

bool Collector::look(int64_t now_ms) {
  now_ms_ = now_ms;
  look_at_page(false);
  const bool more = read_log();
  flush();
  return more;
}

void Collector::finish(int64_t now_ms, int64_t deadline_ms) {
  while (look(now_ms) && awake_ms() < deadline_ms) continue;
  std::vector<Found> found;
  log_.finish([&](std::string_view line) {
    usual_.read(line, &found);
    add(&found);
  });
  writer_.position(kLog, log_.position());
  look_at_page(true);
  flush();
}

}  // namespace dl::metrics
