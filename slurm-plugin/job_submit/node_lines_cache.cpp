// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/job_submit/node_lines_cache.h"

#include <algorithm>
#include <utility>

#include "common/base/atomic_file.h"
#include "slurm-plugin/job_submit/file_mark.h"

namespace dl {
namespace {

constexpr std::chrono::seconds kLookInterval{1};
constexpr size_t kMostBytes = 4U << 20;  // of one file; the slurm.conf of 10,000 nodes, a line each, has 1 MiB

}  // namespace

std::shared_ptr<const NodeLines> NodeLinesCache::get(int64_t read_s, Clock::time_point now) {
  if (std::unique_lock<std::mutex> looking(look_mutex_, std::try_to_lock); looking) look(now);
  const std::lock_guard<std::mutex> lock(mutex_);
  return changed_s_ > read_s ? std::make_shared<NodeLines>() : current_;
}

// The caller holds look_mutex_. The mark of a file is taken before the file is read, so that a change in between is
// noticed at the next look.
void NodeLinesCache::look(Clock::time_point now) {
  if (path_.empty() || (looked_ && now - looked_at_ < kLookInterval)) return;
  looked_at_ = now;
  const auto is_as_before = [this] {
    for (size_t i = 0; i < files_.size(); ++i)
      if (file_mark(files_[i]) != marks_[i]) return false;
    return true;
  };
  if (looked_ && is_as_before()) return;
  looked_ = true;
  files_.clear();
  marks_.clear();
  int64_t newest_s = 0;
  auto lines =
      std::make_shared<NodeLines>(read_node_lines(path_, [&](const std::string& path) -> std::optional<std::string> {
        int64_t changed_s = 0;
        files_.push_back(path);
        marks_.push_back(file_mark(path, &changed_s));
        newest_s = std::max(newest_s, changed_s);
        auto text = read_small_file(path, kMostBytes);
        if (!text) return std::nullopt;
        return std::move(*text);
      }));
  const std::lock_guard<std::mutex> lock(mutex_);
  current_ = std::move(lines);
  changed_s_ = newest_s;
}

}  // namespace dl
