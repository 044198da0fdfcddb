// SPDX-License-Identifier: Apache-2.0
// Compresses the logs of attempts that are over, on a thread of the lowest priority.
#pragma once

#include <atomic>
#include <string>
#include <thread>

namespace dl::logs {

class BackgroundCompression {
 public:
  BackgroundCompression() = default;
  BackgroundCompression(const BackgroundCompression&) = delete;
  BackgroundCompression& operator=(const BackgroundCompression&) = delete;
  ~BackgroundCompression() { stop(); }

  // Starts compress_attempts(logs, last). An earlier call that has not ended is stopped first; what it left is
  // compressed by this one. A log that cannot be compressed stays as it is, so all logs remain complete.
  void begin(const std::string& logs, int last);
  // Ends the thread, within the time that one frame takes. A log that is half compressed stays as it was.
  void stop();

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace dl::logs
