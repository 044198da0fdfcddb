// SPDX-License-Identifier: Apache-2.0
// TensorBoard's event files in a folder and the folders below it, which a learner writes on. All of it is hostile: what
// is read of files, how many there are, and what they are is bounded; links are not followed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "launcher/metrics/event_message.h"
#include "launcher/metrics/series.h"

namespace dl::metrics {

// What one look has found.
struct EventLook {
  struct Name {
    std::string group, name;
  };
  struct Value {
    size_t name = 0;  // in names
    Point point;      // time_ms is 0 where the event tells none
  };
  std::vector<Name> names;  // of the values; may have one twice
  std::vector<Value> values;
  std::vector<std::pair<std::string, uint64_t>> positions;  // up to which files were read, by their paths
  std::vector<std::string> notes;                           // what is missing, and why
  bool more = false;                                        // there is more to be read at once
  void clear();
};

class EventFiles {
 public:
  static constexpr size_t kMostFiles = 256;
  static constexpr size_t kMostEntries = 20'000;      // of all folders, that are looked at
  static constexpr int kDeepest = 6;                  // folders within one another
  static constexpr size_t kMostEventBytes = 1 << 20;  // of a record; longer ones (pictures) are passed over
  static constexpr size_t kMostLook = 2 << 20;        // bytes of all files in one look, or one record more
  static constexpr int64_t kScanMs = 5'000;           // between looks for new files
  static constexpr int64_t kDamageMs = 10'000;        // a record that is damaged for so long stays so

  // since_ms: events of before that time are of an earlier attempt, and left out; 0: none are.
  EventFiles(std::string folder, int64_t since_ms) : folder_(std::move(folder)), since_ms_(since_ms) {}
  // The place from which a file is to be read, as an earlier object's look has told it.
  void set_position(const std::string& path, uint64_t position) { files_[path].position = position; }
  const std::string& folder() const { return folder_; }

  // awake_ms: awake_ms(). last: the learner has ended; it looks for new files at once, and damage is final.
  // The result lasts until the next call: memory that is made anew for each look takes a quarter of the time.
  const EventLook& look(int64_t awake_ms, bool last);

 private:
  struct File {
    uint64_t position = 0;
    bool given_up = false;
    bool listed = false;      // the folder still had it when it was last looked at
    uint64_t size = 0;        // when it was last read; until it has another, there is nothing new
    int64_t damaged_ms = -1;  // since when the next record is damaged: on a file system of the network, its bytes may
                              // come later than the size tells
  };
  void list(EventLook* look);
  bool add(const std::string& path, int64_t changed_ms);
  void list_folder(int fd, const std::string& path, int depth, size_t* entries, EventLook* look);
  // Reads what is new in a file; returns how many bytes it has taken.
  size_t read(const std::string& path, File* file, bool last, EventLook* look);

  std::string folder_;
  int64_t since_ms_;
  int64_t now_ms_ = 0, listed_ms_ = -1;
  std::map<std::string, File> files_;
  std::string next_;  // the file to begin with in the next look
  // Memory that is used again and again.
  EventLook look_;
  std::unique_ptr<char[]> buffer_;
  EventScalars event_;
};

}  // namespace dl::metrics
