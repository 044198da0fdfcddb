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
#include "launcher/metrics/event_message.h"
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

size_t EventFiles::read(const std::string& path, File* file, bool last, EventLook* look) const {
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
  const size_t longest = kTfRecordHead + kMostEventBytes + kTfRecordTail;
  std::string data(std::min<uint64_t>(longest, size - file->position), '\0');
  ssize_t n = 0;
  do n = ::pread(fd.get(), data.data(), data.size(), static_cast<off_t>(file->position));
  while (n < 0 && errno == EINTR);
  if (n <= 0) return 0;
  data.resize(static_cast<size_t>(n));
  file->size = size;
  int64_t no_events = 0;
  const std::string folder = path.substr(0, path.rfind('/'));
  const size_t before = look->found.size();
  const RecordScan scan = scan_records(data, [&](std::string_view record) {
    if (!read_event(record, folder, &look->found)) ++no_events;
  });
  look->found.erase(std::remove_if(look->found.begin() + static_cast<std::ptrdiff_t>(before), look->found.end(),
                                   [&](const Found& one) { return one.time_ms > 0 && one.time_ms < since_ms_; }),
                    look->found.end());
  if (scan.wrong + no_events > 0)
    look->notes.push_back("event file " + printable(path, 200) + ": damaged records were passed over");
  const uint64_t begin = file->position;
  file->position += scan.used;
  if (file->position != begin || !scan.damaged) file->damaged_ms = -1;
  if (scan.damaged && file->damaged_ms < 0) file->damaged_ms = now_ms_;
  if (scan.damaged && (last || now_ms_ - file->damaged_ms >= kDamageMs)) {
    give_up("the record at byte " + std::to_string(file->position) + " is damaged; what follows is not read");
  } else if (scan.needed > longest && size - file->position >= scan.needed) {
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

EventLook EventFiles::look(int64_t awake_ms, bool last) {
  EventLook look;
  now_ms_ = awake_ms;
  if (last || listed_ms_ < 0 || awake_ms - listed_ms_ >= kScanMs) {
    list(&look);
    listed_ms_ = awake_ms;
  }
  // All files have their turn: the next look begins where this one stops.
  auto at = files_.lower_bound(next_);
  size_t taken = 0;
  for (size_t i = 0; i < files_.size(); ++i, ++at) {
    if (at == files_.end()) at = files_.begin();
    if (taken >= kMostLook) {
      look.more = true;
      break;
    }
    if (at->second.listed && !at->second.given_up) taken += read(at->first, &at->second, last, &look);
  }
  next_ = at == files_.end() ? std::string() : at->first;
  return look;
}

}  // namespace dl::metrics
