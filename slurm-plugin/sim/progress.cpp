// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/sim/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "slurm-plugin/sim/report/report.h"

namespace dl::sim {
namespace {

using namespace std::chrono_literals;
constexpr int kWidth = 30;

}  // namespace

Progress::Progress(std::string label)
    : label_(std::move(label)),
      terminal_(::isatty(STDERR_FILENO) == 1),
      begin_(std::chrono::steady_clock::now()),
      last_(begin_) {}

Progress::~Progress() {
  if (drawn_) std::fputs("\r\033[K", stderr);
}

void Progress::show(double part) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - begin_ < 2s || now - last_ < 100ms) return;
  last_ = now;
  drawn_ = true;
  part = std::clamp(part, 0.0, 1.0);
  const int full = static_cast<int>(part * kWidth);
  const double passed = std::chrono::duration<double>(now - begin_).count();
  const std::string left = part > 0.01 ? short_time(passed / part - passed) + " left" : "";
  std::fputs(fmt::format("\r\033[K{} [{}{}] {:3.0f}% {}", label_, std::string(static_cast<size_t>(full), '#'),
                         std::string(static_cast<size_t>(kWidth - full), '.'), 100 * part, left)
                 .c_str(),
             stderr);
}

}  // namespace dl::sim
