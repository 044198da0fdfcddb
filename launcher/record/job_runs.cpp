// SPDX-License-Identifier: Apache-2.0
#include "launcher/record/job_runs.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "common/base/parse.h"
#include "launcher/record/event_log.h"
#include "launcher/record/job_dir.h"

namespace dl::record {
namespace {

constexpr int kMostRuns = 1000000;
// So many folders in a row may be missing, because somebody has removed them, before the search ends.
constexpr int kMissing = 16;
// So often is a comment written again. A run that still finds changes then has its comment sent later again (journal).
constexpr int kMostWrites = 20;

bool is_folder(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

// The order of states in a summary: what users have to know first comes first.
int rank_of(JobState state) {
  constexpr JobState kOrder[] = {JobState::kProcessing, JobState::kStoring, JobState::kDownloading,
                                 JobState::kDeploy,     JobState::kHalted,  JobState::kPending,
                                 JobState::kQueued,     JobState::kFailed,  JobState::kCompleted};
  return static_cast<int>(std::find(std::begin(kOrder), std::end(kOrder), state) - std::begin(kOrder));
}

}  // namespace

std::string run_dir(const std::string& first, int number) {
  return number <= 1 ? first : fmt::format("{}.{}", first, number);
}

RunName split_run_dir(const std::string& path) {
  const size_t dot = path.rfind('.');
  if (dot == std::string::npos || dot == 0 || path[dot - 1] == '/') return {path, 1};
  const std::string digits = path.substr(dot + 1);
  const auto number = parse_int(digits, 2, kMostRuns);
  if (!number || digits[0] == '0') return {path, 1};
  return {path.substr(0, dot), static_cast<int>(*number)};
}

std::vector<RunDir> run_dirs(const std::string& first, size_t most) {
  std::vector<RunDir> found;
  for (int number = 1, missing = 0; missing < kMissing && found.size() < most; ++number) {
    std::string path = run_dir(first, number);
    missing = is_folder(path) ? 0 : missing + 1;
    if (missing == 0) found.push_back({number, std::move(path)});
  }
  return found;
}

std::vector<RunState> other_runs(const std::string& first, const std::string& own) {
  std::vector<RunState> others;
  for (const RunDir& run : run_dirs(first)) {
    if (run.path == own) continue;
    const auto history = read_events(JobDir(run.path).events());
    if (!history) continue;
    if (const auto state = summarise(history->events).state) others.push_back({run.number, *state});
  }
  return others;
}

void tell_of_all(const std::vector<RunState>& others, int own, const std::string& first, JobComment* comment) {
  if (others.empty()) return;
  comment->dir = first;
  comment->idle = {};  // it belongs to a single run, and so does the pace
  comment->pace = {};
  comment->step = -1;
  std::string counts;
  JobState worst = comment->state;
  for (int order = 0; order <= rank_of(JobState::kCompleted); ++order) {
    int count = rank_of(comment->state) == order ? 1 : 0;
    JobState state = comment->state;
    for (const RunState& other : others) {
      if (rank_of(other.state) != order) continue;
      ++count;
      state = other.state;
    }
    if (count == 0) continue;
    if (counts.empty()) worst = state;
    counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count, state_name(state));
  }
  comment->reason = fmt::format("{} runs: {}; run {}: {}", others.size() + 1, counts, own, comment->reason);
  comment->state = worst;
}

bool write_while_changed(const std::function<std::vector<RunState>()>& read,
                         const std::function<bool(const std::vector<RunState>&)>& write) {
  std::vector<RunState> states = read();
  for (int writes = 0; writes < kMostWrites; ++writes) {
    if (!write(states)) return false;
    std::vector<RunState> now = read();
    if (now == states) return true;
    states = std::move(now);
  }
  return false;
}

}  // namespace dl::record
