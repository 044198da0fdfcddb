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
  // Continues a file that an earlier writer has left: positions() then returns how far that writer had read its
  // sources, and what follows the last whole frame is cut off. A file of another format is replaced. The first flush()
  // that has something to write makes the file. A file of more than `most_bytes` is thinned.
  Status open(const std::string& path, size_t most_bytes = kMostSeriesBytes);
  const std::map<std::string, uint64_t>& positions() const { return positions_; }
  bool has_begin() const { return has_begin_; }

  // One of the series, as long as this object lives.
  struct Known {
    uint32_t id = 0;
    bool any = false;
    int64_t step = 0;
    double value = 0;
  };

  // The next flush() writes what these add. Names beyond kMostSeries are left out, and one note says so. A point with
  // the train step and the value of the one before it in its series is left out: a progress bar was drawn again.
  void add(std::string_view group, std::string_view name, const Point& point);
  // The same in two steps, for many points of one name. series() returns nullptr, whose points are left out, where
  // there are too many names.
  Known* series(std::string_view group, std::string_view name);
  void add(Known* series, const Point& point);
  void begin(const Begin& begin);
  void position(const std::string& source, uint64_t position);
  void note(const std::string& text);                                // repeated texts are ignored
  size_t waiting() const { return failed_.size() + frame_.size(); }  // bytes that the next flush() would write

  // After an error the file has nothing of it, and the next call tries again. If too much is waiting, further points
  // are left out, and a note says so.
  Status flush();

 private:
  bool full();
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
