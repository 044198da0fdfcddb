// SPDX-License-Identifier: Apache-2.0
#include "launcher/runs/choose_run.h"

#include <algorithm>
#include <functional>

namespace dl::runs {
namespace {

// What the events of one directory tell about runs.
struct Told {
  RunIdentity newest;                   // named by the newest event that names a run
  bool now = false;                     // whether this start of the job has used the directory
  int completed = 0;                    // of this identity, in earlier starts
  int come_by = 0;                      // of this identity, in this start: passed over, or completed again
  const record::Event* last = nullptr;  // the completion in earlier starts that is next to pass over
};

Told read(const PastRun& past, const RunIdentity& identity, int start) {
  Told told;
  std::vector<const record::Event*> completions;
  for (const record::Event& event : past.events) {
    if (event.run.empty()) continue;
    told.newest = parse_identity(event.run);
    const bool in_this = event.start == start;
    told.now = told.now || in_this;
    if (event.state != record::JobState::kCompleted || !(told.newest == identity)) continue;
    if (in_this)
      ++told.come_by;
    else if (!event.passed)
      completions.push_back(&event);
  }
  told.completed = static_cast<int>(completions.size());
  if (told.come_by < told.completed) told.last = completions[static_cast<size_t>(told.come_by)];
  return told;
}

}  // namespace

Choice choose_run(const std::vector<PastRun>& past, const RunIdentity& identity, int start) {
  std::vector<Told> told;
  int newest = 0;
  for (const PastRun& each : past) {
    told.push_back(read(each, identity, start));
    newest = std::max(newest, each.number);
  }
  const auto find = [&](const std::function<bool(const PastRun&, const Told&)>& fits) -> std::optional<size_t> {
    for (size_t i = 0; i < past.size(); ++i)
      if (!past[i].in_use && fits(past[i], told[i])) return i;
    return std::nullopt;
  };
  const auto completed = find([](const PastRun&, const Told& t) { return t.last != nullptr; });
  if (completed) return {past[*completed].number, *told[*completed].last};
  auto found = find([&](const PastRun&, const Told& t) { return t.newest == identity && !t.now; });
  if (!found) found = find([&](const PastRun&, const Told& t) { return t.newest.what == identity.what && !t.now; });
  if (!found) found = find([&](const PastRun&, const Told& t) { return t.newest == identity; });
  if (!found) found = find([](const PastRun& p, const Told& t) { return p.number == 1 && t.newest.what.empty(); });
  return {found ? past[*found].number : newest + 1, std::nullopt};
}

}  // namespace dl::runs
