// SPDX-License-Identifier: Apache-2.0
#include "launcher/metrics/event_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>

#include "common/base/parse.h"
#include "common/base/unique_fd.h"
#include "launcher/metrics/tf_record.h"

namespace dl::metrics {
namespace {

constexpr std::string_view kInName = "tfevents";  // TensorBoard, too, knows them by it
constexpr size_t kLongestPath = 4096;
// A file that was changed last so long before the attempt has nothing of it, however the clocks differ.
constexpr int64_t kOldMs = 3'600'000;

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

// Adds the values of a file to a look. What a tag means is found out once for each tag of a file: events have few of
// them, mostly in the same order, so that the next one is the one that followed last time.
class NamedValues {
 public:
  NamedValues(std::string_view folder, EventLook* look) : folder_(folder), look_(look), first_(look->names.size()) {}
  void add(const EventScalars& event) {
    for (const Scalar& scalar : event.scalars)
      look_->values.push_back({name_of(scalar.tag), {event.time_ms, event.step, scalar.value}});
  }

 private:
  size_t name_of(std::string_view tag) {
    next_ = next_ + 1 < tags_.size() ? next_ + 1 : 0;
    if (next_ < tags_.size() && *tags_[next_] == tag) return first_ + next_;
    auto known = known_.find(tag);
    if (known == known_.end()) {
      known = known_.emplace(tag, tags_.size()).first;
      tags_.push_back(&known->first);
      Found meant;
      name_of_tag(tag, folder_, &meant);
      look_->names.push_back({std::move(meant.group), std::move(meant.name)});
    }
    next_ = known->second;
    return first_ + next_;
  }

  std::string_view folder_;
  EventLook* look_;
  size_t first_;  // of the names of this file
  std::map<std::string, size_t, std::less<>> known_;
  std::vector<const std::string*> tags_;  // keys of known_, in the order of their numbers
  size_t next_ = 0;
};

}  // namespace

// False if there are too many files.
bool EventFiles::add(const std::string& path, int64_t changed_ms) {
  const auto known = files_.find(path);
  if (known != files_.end()) {
    known->second.listed = true;
    return true;
  }
  if (since_ms_ > 0 && changed_ms + kOldMs < since_ms_) return true;
  if (files_.size() >= kMostFiles) return false;
  files_[path].listed = true;
  return true;
}

void EventFiles::list_folder(int fd, const std::string& path, int depth, size_t* entries, EventLook* look) {
  const std::unique_ptr<DIR, CloseDir> dir(::fdopendir(fd));
  if (!dir) {
    ::close(fd);
    return;
  }
  while (const dirent* entry = ::readdir(dir.get())) {  // NOLINT(concurrency-mt-unsafe): a directory of our own
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (++*entries > kMostEntries) {
      look->notes.push_back("not all of " + printable(folder_, 200) +
                            " was searched for event files: it has more than " + std::to_string(kMostEntries) +
                            " entries");
      return;
    }
    const std::string its = path + "/" + std::string(name);
    if (its.size() > kLongestPath) continue;
    struct stat status = {};
    if (::fstatat(::dirfd(dir.get()), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISDIR(status.st_mode) && depth < kDeepest) {
      const int below =
          ::openat(::dirfd(dir.get()), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
      if (below >= 0) list_folder(below, its, depth + 1, entries, look);
      if (*entries > kMostEntries) return;
    }
    if (!S_ISREG(status.st_mode) || name.find(kInName) == std::string_view::npos) continue;
    if (!add(its, int64_t{status.st_mtim.tv_sec} * 1000)) {
      look->notes.push_back("there are more than " + std::to_string(kMostFiles) + " event files in " +
                            printable(folder_, 200) + "; further ones are not read");
      *entries = kMostEntries + 1;
      return;
    }
  }
}

void EventFiles::list(EventLook* look) {
  for (auto& [path, file] : files_) file.listed = false;
  const int fd = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return;  // it may come later
  size_t entries = 0;
  list_folder(fd, folder_, 1, &entries, look);
}

size_t EventFiles::read(const std::string& path, File* file, bool last, EventLook* look) {
  const auto give_up = [&](const std::string& why) {
    file->given_up = true;
    look->notes.push_back("event file " + printable(path, 200) + ": " + why);
  };
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return 0;
  auto size = static_cast<uint64_t>(status.st_size);
  const bool waits = file->damaged_ms >= 0;
  if (size == file->position || (size == file->size && !waits)) return 0;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  if (!fd || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return 0;
  size = static_cast<uint64_t>(status.st_size);
  if (size < file->position) {
    give_up("it was cut; what follows is not read");
    return 0;
  }
  constexpr size_t kLongest = kTfRecordHead + kMostEventBytes + kTfRecordTail;
  if (!buffer_) buffer_.reset(new char[kLongest]);
  ssize_t n = 0;
  do
    n = ::pread(fd.get(), buffer_.get(), std::min<uint64_t>(kLongest, size - file->position),
                static_cast<off_t>(file->position));
  while (n < 0 && errno == EINTR);
  if (n <= 0) return 0;
  const std::string_view data(buffer_.get(), static_cast<size_t>(n));
  file->size = size;
  int64_t no_events = 0;
  const std::string folder = path.substr(0, path.rfind('/'));
  NamedValues values(folder, look);
  const RecordScan scan = scan_records(data, [&](std::string_view record) {
    if (!read_event(record, &event_)) ++no_events;
    if (event_.time_ms <= 0 || event_.time_ms >= since_ms_) values.add(event_);
  });
  if (scan.wrong + no_events > 0)
    look->notes.push_back("event file " + printable(path, 200) + ": damaged records were passed over");
  const uint64_t begin = file->position;
  file->position += scan.used;
  if (file->position != begin || !scan.damaged) file->damaged_ms = -1;
  if (scan.damaged && file->damaged_ms < 0) file->damaged_ms = now_ms_;
  if (scan.damaged && (last || now_ms_ - file->damaged_ms >= kDamageMs)) {
    give_up("the record at byte " + std::to_string(file->position) + " is damaged; what follows is not read");
  } else if (scan.needed > kLongest && size - file->position >= scan.needed) {
    file->position += scan.needed;
  }
  if (file->position != begin) look->positions.emplace_back(path, file->position);
  // What did not fit is read at once.
  if (file->position != begin && file->position < size && !scan.damaged) {
    file->size = 0;
    look->more = true;
  }
  return data.size();
}

void EventLook::clear() {
  names.clear();
  values.clear();
  positions.clear();
  notes.clear();
  more = false;
}

const EventLook& EventFiles::look(int64_t awake_ms, bool last) {
  look_.clear();
  now_ms_ = awake_ms;
  if (last || listed_ms_ < 0 || awake_ms - listed_ms_ >= kScanMs) {
    list(&look_);
    listed_ms_ = awake_ms;
  }
  // All files have their turn: the next look begins where this one stops.
  auto at = files_.lower_bound(next_);
  size_t taken = 0;
  for (size_t i = 0; i < files_.size(); ++i, ++at) {
    if (at == files_.end()) at = files_.begin();
    if (taken >= kMostLook) {
      look_.more = true;
      break;
    }
    if (at->second.listed && !at->second.given_up) taken += read(at->first, &at->second, last, &look_);
  }
  next_ = at == files_.end() ? std::string() : at->first;
  return look_;
}

}  // namespace dl::metrics
