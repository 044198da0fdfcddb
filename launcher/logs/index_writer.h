// SPDX-License-Identifier: Apache-2.0
// Writes the index of an attempt's logs (log_index.h). One writer per file; its calls may block on the file system.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "launcher/logs/log_index.h"

namespace dl::logs {

class IndexWriter {
 public:
  // The first call of append() makes the file, and replaces one that exists. A file of more than `most_bytes` is
  // thinned (thin_index()).
  IndexWriter(std::string path, int64_t base_ms, uint64_t most_bytes = kMostIndexBytes);

  // Times that fall behind the newest one that was written are raised to it: a clock that was set back does not
  // disorder the index. On an error the file has none of these marks, and the next call continues without them.
  Status append(const std::vector<Mark>& marks);

 private:
  Status open();
  Status thin();

  std::string path_;
  int64_t base_ms_ = 0, newest_ms_ = 0;
  uint64_t most_bytes_ = 0, size_ = 0;
  UniqueFd fd_;
};

}  // namespace dl::logs
