// SPDX-License-Identifier: Apache-2.0
#include "launcher/data/threads.h"

#include <system_error>
#include <thread>
#include <vector>

namespace dl::data {

void on_threads(size_t count, const std::function<void()>& job) {
  std::vector<std::thread> others;
  others.reserve(count);
  try {
    while (others.size() + 1 < count) others.emplace_back(job);
  } catch (const std::system_error&) {
    // Those that were started do it all.
  }
  job();
  for (std::thread& other : others) other.join();
}

}  // namespace dl::data
