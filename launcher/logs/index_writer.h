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
  // The file is made with the first call of append(), and replaced if it exists. `most_bytes`: thinned beyond that.
  IndexWriter(std::string path, int64_t base_ms, uint64_t most_bytes = kMostIndexBytes);

  // Times that fall behind the newest one that was written are raised to it: a clock that was set back does not
  // disorder the index. On an error nothing of these marks is in the file, and the next call goes on.
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
