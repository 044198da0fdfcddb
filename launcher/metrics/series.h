// SPDX-License-Identifier: Apache-2.0
// The file format of a learner's metrics in one attempt, metrics/attempt-A/learner-R.series: every value with its time
// and its train step. One process writes it (collector.h); readers read it up to the last whole frame. Pure.
//
// Little-endian. The file begins with "DLSERIE1". Then frames: uint32 length of the payload, uint32 CRC-32C of it, the
// payload. A frame is written by one write(): the file has it as a whole or not at all. Beside its points it says how
// far the sources were read, so that a collector that begins anew doubles nothing. A payload consists of records: uint8
// kind, uint16 length, and as many bytes; readers skip kinds that they do not know.
//
//   N  uint32 id, uint8 length and text of the group, then the name. Ids count from 0 in the order of these records.
//   P  uint32 id, int64 time in ms since 1970, int64 train step (-1: unknown), float64 value
//   B  int64 train step, int64 time: what the learner began with, as its checkpoint library has announced it
//   O  uint64 position, then the name of the source that was read up to it
//   T  a sentence for people: what is missing, and why
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace dl::metrics {

constexpr std::string_view kSeriesMagic = "DLSERIE1";
constexpr size_t kFrameHead = 8;
constexpr size_t kMostFrame = 16 << 20;        // bytes of a payload; a longer one is damage
constexpr size_t kMostSeriesBytes = 16 << 20;  // at this size the writer thins the file
constexpr size_t kMostSeries = 1000;           // of one learner; further names are left out
constexpr size_t kMostName = 200;              // bytes; longer ones are cut
constexpr size_t kMostNotes = 20;

constexpr int64_t kNoStep = -1;

// Two positions that are no places in a source: train steps as the lines of the log count them, plus 1; and how many
// they count to (usual_lines.h).
constexpr const char* kCountedPosition = "#counted";
constexpr const char* kTotalPosition = "#total";

struct Point {
  int64_t time_ms = 0;
  int64_t step = kNoStep;
  double value = 0;
};

struct Begin {  // what a learner began with
  int64_t step = 0;
  int64_t time_ms = 0;
};

struct Series {
  std::string group, name;
  std::vector<Point> points;  // in the order in which they were written
};

struct SeriesFile {
  std::vector<Series> series;  // index = id
  std::optional<Begin> begin;
  std::map<std::string, uint64_t> positions;  // of sources
  std::vector<std::string> notes;
  size_t whole = 0;      // bytes up to the end of the last whole frame
  bool damaged = false;  // what follows is not a whole frame: an unfinished one, or damage
};

// kInvalid if `bytes` is not such a file. An empty text counts as a file without frames.
Result<SeriesFile> parse_series(std::string_view bytes);

// Builds the payload of one frame.
class Frame {
 public:
  bool empty() const { return payload_.empty(); }
  size_t size() const { return payload_.size(); }
  void add_name(uint32_t id, std::string_view group, std::string_view name);
  void add_point(uint32_t id, const Point& point);
  void add_begin(const Begin& begin);
  void add_position(std::string_view source, uint64_t position);
  void add_note(std::string_view text);
  // Returns the frame with its head, and empties this object. Precondition: size() <= kMostFrame.
  std::string take();

 private:
  void open(char kind, size_t bytes);
  std::string payload_;
};

// Keeps half of the points: of each four that follow one another the lowest and the highest, and always the first and
// the last of all. A NaN is neither lowest nor highest. So no extreme of the curve is lost.
std::vector<Point> thinned(const std::vector<Point>& points);

// The content of a new file with thinned series.
std::string thin_series(const SeriesFile& file);

}  // namespace dl::metrics
