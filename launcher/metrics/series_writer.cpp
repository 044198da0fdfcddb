// SPDX-License-Identifier: Apache-2.0
#include "launcher/metrics/series_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>

#include "common/base/atomic_file.h"

namespace dl::metrics {
namespace {

constexpr size_t kMostRead = 1 << 30;  // a file that somebody else made longer is replaced
constexpr size_t kMostFailed = 4 << 20;

bool same_value(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

}  // namespace

Status SeriesWriter::open(const std::string& path, size_t most_bytes) {
  path_ = path;
  most_bytes_ = most_bytes;
  auto text = read_small_file(path, kMostRead);
  if (!text && text.error().code == Errc::kNotFound) return {};
  auto file = text ? parse_series(*text) : Result<SeriesFile>(std::move(text).error());
  if (!file && file.error().code == Errc::kInvalid) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) return errno_error("remove " + path, errno);
    return {};
  }
  if (!file) return std::move(file).error();
  fd_.reset(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!fd_) return errno_error("open " + path, errno);
  if (file->whole == 0) {
    fd_.reset();
    return {};
  }
  if (file->damaged && ::ftruncate(fd_.get(), static_cast<off_t>(file->whole)) != 0)
    return errno_error("cut " + path, errno);
  size_ = file->whole;
  for (uint32_t id = 0; id < file->series.size(); ++id) {
    const Series& series = file->series[id];
    Known& known = known_[{series.group, series.name}];
    known.id = id;
    known.any = !series.points.empty();
    if (known.any) known.step = series.points.back().step;
    if (known.any) known.value = series.points.back().value;
  }
  positions_ = file->positions;
  has_begin_ = file->begin.has_value();
  for (const std::string& note : file->notes) notes_[note] = true;
  return {};
}

Status SeriesWriter::create() {
  fd_.reset(::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!fd_) return errno_error("create " + path_, errno);
  const ssize_t n = ::pwrite(fd_.get(), kSeriesMagic.data(), kSeriesMagic.size(), 0);
  if (n != static_cast<ssize_t>(kSeriesMagic.size())) {
    const int failure = n < 0 ? errno : ENOSPC;
    fd_.reset();
    return errno_error("write " + path_, failure);
  }
  size_ = kSeriesMagic.size();
  return {};
}

void SeriesWriter::add(std::string_view group, std::string_view name, const Point& point) {
  add(series(group, name), point);
}

SeriesWriter::Known* SeriesWriter::series(std::string_view group, std::string_view name) {
  if (name.empty()) return nullptr;
  const std::pair<std::string, std::string> key(group.substr(0, kMostName), name.substr(0, kMostName));
  auto found = known_.find(key);
  if (found == known_.end()) {
    if (full()) return nullptr;
    if (known_.size() >= kMostSeries) {
      note("there are more than " + std::to_string(kMostSeries) + " names; further ones are left out");
      return nullptr;
    }
    const auto id = static_cast<uint32_t>(known_.size());
    frame_.add_name(id, key.first, key.second);
    found = known_.emplace(key, Known{id, false, 0, 0}).first;
  }
  return &found->second;
}

void SeriesWriter::add(Known* series, const Point& point) {
  if (series == nullptr || full()) return;
  Known& known = *series;
  if (known.any && point.step != kNoStep && known.step == point.step && same_value(known.value, point.value)) return;
  known.any = true;
  known.step = point.step;
  known.value = point.value;
  frame_.add_point(known.id, point);
}

// Whether too much waits already.
bool SeriesWriter::full() {
  if (failed_.size() <= kMostFailed) return false;
  note("values are missing, because the file could not be written for long");
  return true;
}

void SeriesWriter::begin(const Begin& begin) {
  has_begin_ = true;
  frame_.add_begin(begin);
}

void SeriesWriter::position(const std::string& source, uint64_t position) {
  uint64_t& known = positions_[source];
  // Points that are left out are not read again later, but where to go on is told again with each look.
  if (known == position || failed_.size() > kMostFailed) return;
  known = position;
  frame_.add_position(source, position);
}

void SeriesWriter::note(const std::string& text) {
  if (notes_.size() < kMostNotes && notes_.emplace(text, true).second) frame_.add_note(text);
}

Status SeriesWriter::flush() {
  if (failed_.empty() && frame_.empty()) return {};
  // Before anything can fail: what waits is bounded by what has failed.
  if (!frame_.empty()) failed_ += frame_.take();
  if (!fd_) DL_TRY(create());
  size_t done = 0;
  while (done < failed_.size()) {
    const ssize_t n =
        ::pwrite(fd_.get(), failed_.data() + done, failed_.size() - done, static_cast<off_t>(size_ + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      Error error = errno_error("write " + path_, errno);
      // What a reader finds behind the last whole frame it ignores; the next call writes over it.
      if (::ftruncate(fd_.get(), static_cast<off_t>(size_)) != 0) error.text += ", and its end could not be cut";
      return error;
    }
    done += static_cast<size_t>(n);
  }
  size_ += done;
  failed_.clear();
  return size_ > most_bytes_ ? thin() : Status{};
}

Status SeriesWriter::thin() {
  DL_TRY_ASSIGN(const std::string text, read_small_file(path_, kMostRead));
  DL_TRY_ASSIGN(const SeriesFile file, parse_series(text));
  const std::string anew = thin_series(file);
  DL_TRY(replace_file(path_, anew));
  UniqueFd fd(::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return errno_error("open " + path_, errno);
  fd_ = std::move(fd);
  size_ = anew.size();
  // Many series of few points do not become smaller: they are not thinned at each flush.
  if (size_ > most_bytes_ / 4 * 3) most_bytes_ = size_ * 2;
  return {};
}

}  // namespace dl::metrics
