// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/start_delay.h"

#include <chrono>
#include <thread>

#include "common/base/clock.h"

namespace dl::ctl {

bool starts_next_second(std::optional<int64_t> eligible_s, int64_t now_s) {
  return eligible_s && *eligible_s > now_s;
}

void wait_for_next_second() {
  // time() is that of the kernel's last tick, up to 10 ms ago.
  constexpr int64_t kTickMs = 10;
  std::this_thread::sleep_for(std::chrono::milliseconds(1000 - unix_ms() % 1000 + kTickMs));
}

}  // namespace dl::ctl
