// SPDX-License-Identifier: Apache-2.0
#include "launcher/metrics/series.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/base/little_endian.h"
#include "launcher/metrics/crc32c.h"

namespace dl::metrics {
namespace {

constexpr size_t kRecordHead = 3, kPointBytes = 28;
constexpr size_t kFullFrame = 1 << 20;  // of a file that is written anew

uint64_t bits_of(double value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

double double_of(uint64_t bits) {
  double value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Learners may write anything there. Readers may add and subtract such times without an overflow.
int64_t time_of(uint64_t bits) {
  constexpr int64_t kLast = 1'000'000'000'000'000;  // about 30,000 years after 1970
  return std::clamp<int64_t>(static_cast<int64_t>(bits), 0, kLast);
}

void take_record(char kind, std::string_view body, SeriesFile* file) {
  if (kind == 'P' && body.size() == kPointBytes) {
    const uint64_t id = get_little(body, 0, 4);
    if (id < file->series.size())
      file->series[id].points.push_back({time_of(get_little(body, 4, 8)),
                                         std::max(kNoStep, static_cast<int64_t>(get_little(body, 12, 8))),
                                         double_of(get_little(body, 20, 8))});
  } else if (kind == 'N' && body.size() >= 5) {
    const size_t group = static_cast<unsigned char>(body[4]);
    if (get_little(body, 0, 4) != file->series.size() || file->series.size() >= kMostSeries || 5 + group > body.size())
      return;
    file->series.push_back({std::string(body.substr(5, group)), std::string(body.substr(5 + group)), {}});
  } else if (kind == 'B' && body.size() == 16) {
    file->begin = Begin{static_cast<int64_t>(get_little(body, 0, 8)), time_of(get_little(body, 8, 8))};
  } else if (kind == 'O' && body.size() > 8) {
    file->positions[std::string(body.substr(8))] = get_little(body, 0, 8);
  } else if (kind == 'T' && file->notes.size() < kMostNotes) {
    file->notes.emplace_back(body);
  }
}

void take_payload(std::string_view payload, SeriesFile* file) {
  while (payload.size() >= kRecordHead) {
    const size_t bytes = get_little(payload, 1, 2);
    if (kRecordHead + bytes > payload.size()) return;
    take_record(payload[0], payload.substr(kRecordHead, bytes), file);
    payload.remove_prefix(kRecordHead + bytes);
  }
}

}  // namespace

Result<SeriesFile> parse_series(std::string_view bytes) {
  SeriesFile file;
  if (bytes.size() < kSeriesMagic.size()) {
    // A crash may leave a part of the first words.
    if (kSeriesMagic.substr(0, bytes.size()) != bytes) return Error{Errc::kInvalid, "these are no series of metrics"};
    file.damaged = !bytes.empty();
    return file;
  }
  if (bytes.substr(0, kSeriesMagic.size()) != kSeriesMagic)
    return Error{Errc::kInvalid, "these are no series of metrics"};
  size_t at = file.whole = kSeriesMagic.size();
  while (at + kFrameHead <= bytes.size()) {
    const uint64_t length = get_little(bytes, at, 4);
    if (length == 0 || length > kMostFrame || length > bytes.size() - at - kFrameHead) break;
    const std::string_view payload = bytes.substr(at + kFrameHead, length);
    if (crc32c(payload) != get_little(bytes, at + 4, 4)) break;
    take_payload(payload, &file);
    at = file.whole = at + kFrameHead + length;
  }
  file.damaged = file.whole < bytes.size();
  return file;
}

void Frame::open(char kind, size_t bytes) {
  payload_.push_back(kind);
  put_little(&payload_, bytes, 2);
}

void Frame::add_name(uint32_t id, std::string_view group, std::string_view name) {
  group = group.substr(0, kMostName);
  name = name.substr(0, kMostName);
  open('N', 5 + group.size() + name.size());
  put_little(&payload_, id, 4);
  payload_.push_back(static_cast<char>(group.size()));
  payload_ += group;
  payload_ += name;
}

// In one piece, since there may be millions of them.
void Frame::add_point(uint32_t id, const Point& point) {
  char text[kRecordHead + kPointBytes] = {'P'};
  char* at = store_little(text + 1, kPointBytes, 2);
  at = store_little(at, id, 4);
  at = store_little(at, static_cast<uint64_t>(point.time_ms), 8);
  at = store_little(at, static_cast<uint64_t>(point.step), 8);
  store_little(at, bits_of(point.value), 8);
  payload_.append(text, sizeof text);
}

void Frame::add_begin(const Begin& begin) {
  open('B', 16);
  put_little(&payload_, static_cast<uint64_t>(begin.step), 8);
  put_little(&payload_, static_cast<uint64_t>(begin.time_ms), 8);
}

void Frame::add_position(std::string_view source, uint64_t position) {
  source = source.substr(0, 4096);
  open('O', 8 + source.size());
  put_little(&payload_, position, 8);
  payload_ += source;
}

void Frame::add_note(std::string_view text) {
  text = text.substr(0, 1000);
  open('T', text.size());
  payload_ += text;
}

std::string Frame::take() {
  std::string frame;
  put_little(&frame, payload_.size(), 4);
  put_little(&frame, crc32c(payload_), 4);
  frame += payload_;
  payload_.clear();
  return frame;
}

std::vector<Point> thinned(const std::vector<Point>& points) {
  if (points.size() <= 4) return points;
  std::vector<Point> kept;
  kept.reserve(points.size() / 2 + 2);
  kept.push_back(points.front());
  const size_t end = points.size() - 1;
  for (size_t from = 1; from < end; from += 4) {
    const size_t to = std::min(from + 4, end);
    size_t low = to, high = to;
    for (size_t i = from; i < to; ++i) {
      if (!std::isfinite(points[i].value)) continue;
      if (low == to || points[i].value < points[low].value) low = i;
      if (high == to || points[i].value > points[high].value) high = i;
    }
    if (low == to) {  // none of them is a number
      kept.push_back(points[from]);
      continue;
    }
    kept.push_back(points[std::min(low, high)]);
    if (low != high) kept.push_back(points[std::max(low, high)]);
  }
  kept.push_back(points.back());
  return kept;
}

std::string thin_series(const SeriesFile& file) {
  std::string text(kSeriesMagic);
  Frame frame;
  uint32_t id = 0;
  for (const Series& series : file.series) frame.add_name(id++, series.group, series.name);
  if (file.begin) frame.add_begin(*file.begin);
  for (const std::string& note : file.notes) frame.add_note(note);
  for (const auto& [source, position] : file.positions) frame.add_position(source, position);
  for (id = 0; id < file.series.size(); ++id) {
    for (const Point& point : thinned(file.series[id].points)) {
      frame.add_point(id, point);
      if (frame.size() >= kFullFrame) text += frame.take();
    }
  }
  if (!frame.empty()) text += frame.take();
  return text;
}

}  // namespace dl::metrics
