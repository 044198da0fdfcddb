// SPDX-License-Identifier: Apache-2.0
#include "launcher/runs/past_runs.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "launcher/record/job_dir.h"
#include "launcher/record/job_runs.h"

namespace dl::runs {

std::map<int, PastRuns::Mark> PastRuns::marks() const {
  std::map<int, Mark> found;
  for (const record::RunDir& dir : record::run_dirs(first_)) {
    if (first_alone_ && dir.number > 1) break;
    struct stat file {};
    const bool there = ::stat(record::JobDir(dir.path).events().c_str(), &file) == 0;
    found[dir.number] = there ? Mark{file.st_ino, file.st_size} : Mark{};
  }
  return found;
}

// The marks are taken before the events are read, so that events written in between are read the next time.
void PastRuns::read() {
  std::map<int, Known> now;
  for (const auto& [number, mark] : marks()) {
    const auto before = known_.find(number);
    if (before != known_.end() && before->second.mark == mark) {
      now[number] = std::move(before->second);
      continue;
    }
    now[number].mark = mark;
    const std::string dir = record::run_dir(first_, number);
    if (auto history = record::read_events(record::JobDir(dir).events()))
      now[number].events = std::move(history->events);
  }
  known_ = std::move(now);
}

bool PastRuns::at_work(int number, const JobBook& book, const ProcessId& own) const {
  const std::string dir = record::run_dir(first_, number);
  return std::any_of(book.runs.begin(), book.runs.end(),
                     [&](const BookedRun& run) { return run.dir == dir && !(run.guard == own); });
}

bool PastRuns::is_current(const JobBook& book, const ProcessId& own) const {
  const auto now = marks();
  const auto same = [&](int number, const Mark& mark) {
    const auto found = known_.find(number);
    return at_work(number, book, own) || (found != known_.end() && found->second.mark == mark);
  };
  return std::all_of(now.begin(), now.end(), [&](const auto& each) { return same(each.first, each.second); });
}

std::vector<PastRun> PastRuns::with(const JobBook& book, const ProcessId& own) const {
  std::vector<PastRun> past;
  for (const BookedRun& run : book.runs)
    if (!(run.guard == own) && run.dir == record::run_dir(first_, run.number)) past.push_back({run.number, true, {}});
  for (const auto& [number, known] : known_)
    if (!at_work(number, book, own)) past.push_back({number, false, known.events});
  std::sort(past.begin(), past.end(), [](const PastRun& a, const PastRun& b) { return a.number < b.number; });
  return past;
}

}  // namespace dl::runs
