// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policyd/log.h"

#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "common/base/local_time.h"
#include "common/base/parse.h"

namespace dl::policyd {
namespace {

constexpr int64_t kAgainS = 600;
constexpr size_t kLongest = 2000;
bool verbose_now = false;

}  // namespace

void set_verbose(bool verbose) {
  verbose_now = verbose;
}

void log(Level level, const std::string& text) {
  if (level == Level::kDebug && !verbose_now) return;
  const std::string shown = printable(text, kLongest);
  static const bool journal = std::getenv("JOURNAL_STREAM") != nullptr;
  if (journal) {
    fmt::print(stderr, "<{}>{}\n", static_cast<int>(level), shown);
  } else {
    fmt::print(stderr, "{} dlpolicyd: {}\n", format_local_time(std::time(nullptr), "%Y-%m-%d %H:%M:%S"), shown);
  }
  std::fflush(stderr);
}

void Complaint::say(Level level, const std::string& text, int64_t now_s) {
  if (text == said_ && now_s - at_s_ < kAgainS) return;
  said_ = text;
  at_s_ = now_s;
  log(level, text);
}

void Complaint::over(const std::string& text) {
  if (said_.empty()) return;
  said_.clear();
  log(Level::kNotice, text);
}

}  // namespace dl::policyd
