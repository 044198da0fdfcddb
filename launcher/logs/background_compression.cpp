// SPDX-License-Identifier: Apache-2.0
#include "launcher/logs/background_compression.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "launcher/logs/compress.h"

namespace dl::logs {

void BackgroundCompression::begin(const std::string& logs, int last) {
  stop();
  stop_ = false;
  thread_ = std::thread([this, logs, last] {
    // On Linux a priority belongs to a thread, though POSIX gives it to the process.
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), 19);
    ignore(compress_attempts(logs, last, &stop_), "logs that cannot be compressed stay as they are");
  });
}

void BackgroundCompression::stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

}  // namespace dl::logs
