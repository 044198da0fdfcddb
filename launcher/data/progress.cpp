// SPDX-License-Identifier: Apache-2.0
#include "launcher/data/progress.h"

#include <fmt/core.h>

#include <chrono>
#include <system_error>
#include <utility>

#include "common/base/atomic_file.h"
#include "common/base/clock.h"
#include "common/base/parse.h"
#include "common/cli/progress_bar.h"

namespace dl::data {
namespace {

constexpr std::chrono::milliseconds kLook{200};
constexpr int64_t kWriteMs = 1000;
constexpr double kKeep = 0.7;  // of the rate so far, in each second

const char* state_text(Progress::State state) {
  switch (state) {
    case Progress::State::kListing:
      return "listing";
    case Progress::State::kFetching:
      return "fetching";
    case Progress::State::kStoring:
      return "storing";
    case Progress::State::kDone:
      break;
  }
  return "done";
}

}  // namespace

Progress::Progress(std::string file) : file_(std::move(file)) {
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
    // The system starts no more threads: the data matter more than how far they are.
  }
}

Progress::~Progress() {
  done();
}

void Progress::state(State state) {
  state_ = state;
}

void Progress::done() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (ended_) return;
    ended_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  write();
}

Json Progress::json() const {
  return {{"state", state_text(state_)},      {"bytes", counts.bytes.load()},         {"total", counts.total.load()},
          {"files", counts.files.load()},     {"all_files", counts.all_files.load()}, {"rate", rate_.load()},
          {"resumed", counts.resumed.load()}, {"fetched", counts.fetched.load()}};
}

void Progress::write() const {
  // A job is not failed for a number that nobody can read.
  if (!file_.empty()) ignore(replace_file(file_, json().dump() + "\n", 0644), "only people look at it");
}

void Progress::run() {
  ProgressBar bar("data");
  int64_t written = monotonic_ms();
  uint64_t before = 0;
  double rate = 0;
  write();
  std::unique_lock<std::mutex> lock(mutex_);
  while (!wake_.wait_for(lock, kLook, [this] { return ended_; })) {
    const uint64_t moved = counts.bytes > counts.resumed ? counts.bytes - counts.resumed : 0, total = counts.total;
    const int64_t now = monotonic_ms();
    if (total > 0)
      bar.show(static_cast<double>(counts.bytes) / static_cast<double>(total), [&](double) {
        return fmt::format("{} of {}, {}/s", format_bytes(counts.bytes), format_bytes(total), format_bytes(rate_));
      });
    if (now - written < kWriteMs) continue;
    const double fresh =
        static_cast<double>(moved > before ? moved - before : 0) * 1000 / static_cast<double>(now - written);
    rate = before == 0 ? fresh : kKeep * rate + (1 - kKeep) * fresh;
    rate_ = static_cast<uint64_t>(rate);
    before = moved;
    written = now;
    write();
  }
}

}  // namespace dl::data
