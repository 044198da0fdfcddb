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

  // compress_attempts(logs, last), once what was begun before is done. What fails stays as it is: the logs are complete
  // either way.
  void begin(const std::string& logs, int last);
  // Returns within the time that a frame takes; a log that is half done stays as it was.
  void stop();

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace dl::logs
