// SPDX-License-Identifier: Apache-2.0
// Writes the series of one learner (series.h). One writer per file; flush() may block on the file system.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "launcher/metrics/series.h"

namespace dl::metrics {

class SeriesWriter {
 public:
  // Goes on with a file that an earlier writer has left: what it says of sources is in positions(), and what follows
  // its last whole frame is cut. A file that is no series is replaced. The file is made with the first flush that has
  // something to write. `most_bytes`: thinned beyond that.
  Status open(const std::string& path, size_t most_bytes = kMostSeriesBytes);
  const std::map<std::string, uint64_t>& positions() const { return positions_; }
  bool has_begin() const { return has_begin_; }

  // These are written by the next flush(). A name beyond kMostSeries is left out, which is noted once. A point is left
  // out that has the step and the value of the one before it in its series: a progress bar that was drawn again.
  void add(std::string_view group, std::string_view name, const Point& point);
  void begin(const Begin& begin);
  void position(const std::string& source, uint64_t position);
  void note(const std::string& text);                                // each text once
  size_t waiting() const { return failed_.size() + frame_.size(); }  // bytes that the next flush() would write

  // After an error nothing of it is in the file, and the next call tries it again; if that goes on for long, further
  // points are left out, which is noted.
  Status flush();

 private:
  struct Known {
    uint32_t id = 0;
    bool any = false;
    int64_t step = 0;
    double value = 0;
  };
  Status create();
  Status thin();

  std::string path_;
  size_t most_bytes_ = kMostSeriesBytes;
  UniqueFd fd_;
  uint64_t size_ = 0;
  std::string failed_;  // frames that could not be written
  Frame frame_;
  std::map<std::pair<std::string, std::string>, Known> known_;
  std::map<std::string, uint64_t> positions_;
  std::map<std::string, bool> notes_;
  bool has_begin_ = false;
};

}  // namespace dl::metrics
