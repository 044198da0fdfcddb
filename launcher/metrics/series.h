// SPDX-License-Identifier: Apache-2.0
// THE format of a learner's metrics in one attempt, metrics/attempt-A/learner-R.series: every value with its time and
// its train step. One process writes it (collector.h); readers take it up to the last whole frame. Pure.
//
// Little-endian. The file begins with "DLSERIE1". Then frames: uint32 length of the payload, uint32 CRC-32C of it, the
// payload. A frame is written by one write(): it is there as a whole or not at all, and with its points it says how far
// the sources were read, so that nothing is doubled when a collector begins anew. A payload is records: uint8 kind,
// uint16 length, and so many bytes; kinds that a reader does not know are passed over.
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
  std::vector<Series> series;  // the place is the id
  std::optional<Begin> begin;
  std::map<std::string, uint64_t> positions;  // of sources
  std::vector<std::string> notes;
  size_t whole = 0;      // bytes up to the end of the last whole frame
  bool damaged = false;  // more follows that is no whole frame: a torn tail, or damage
};

// kInvalid: it is no such file. An empty text is one without frames.
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
  // With its head; this frame is empty then. Precondition: size() <= kMostFrame.
  std::string take();

 private:
  void open(char kind, size_t bytes);
  std::string payload_;
};

// Half of the points: of each four that follow one another the lowest and the highest, and always the first and the
// last of all. What is no number counts as neither. No extreme of the curve is lost.
std::vector<Point> thinned(const std::vector<Point>& points);

// The whole file anew, thinned.
std::string thin_series(const SeriesFile& file);

}  // namespace dl::metrics
