// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/client/agreed_pace.h"

#include <algorithm>
#include <cmath>

#include "checkpoint/format/names.h"
#include "checkpoint/group/messages.h"
#include "common/base/parse.h"

namespace dl::ckpt {

Hop choose_hop(double left_s, double interval_s, double step_s, int64_t former_steps) {
  constexpr double kLongest_s = 60, kWorthHalving_s = 2;
  constexpr double kMostSteps = 1e9;
  Hop hop;
  hop.save = left_s <= step_s / 2;  // the due time is nearer than the end of the next train step
  const double wait_s = hop.save ? interval_s : left_s;
  const double to_meeting_s = std::clamp(wait_s / 2, std::min(wait_s, kWorthHalving_s), kLongest_s);
  const double steps = step_s > 0 ? std::min(to_meeting_s / step_s, kMostSteps) : kMostSteps;
  hop.steps = std::clamp<int64_t>(std::llround(steps), 1, 4 * std::clamp<int64_t>(former_steps, 1, 1000000000));
  return hop;
}

AgreedPace::AgreedPace(std::unique_ptr<Group> group, std::function<Clock()> clock)
    : announcer_(std::move(group)), clock_(std::move(clock)) {}

void AgreedPace::restart() {
  next_ = -1;
  hop_ = 1;
  decided_.reset();
}

bool AgreedPace::due(int64_t step) {
  if (next_ < 0) {
    // The first meeting is one train step later, so that rank 0 has measured a train step by then.
    next_ = step + 1;
    met_step_ = step;
    if (announcer_.speaks()) met_s_ = clock_().now_s;
  }
  return step >= next_ && meet(step);
}

bool AgreedPace::meet(int64_t step) {
  if (!decided_) {
    auto said = announcer_.tell(announcer_.speaks() ? decide(step) : std::string(), failed_);
    failed_ = !said;
    if (failed_) {
      next_ = step + 1;  // tries again at once; the announcement says for which train step it is
      return false;
    }
    decided_ = parse(*said);
    if (!decided_) {  // rank 0 had no space for its announcement: all ranks know this, and try again later
      next_ = step + hop_;
      return false;
    }
  }
  if (decided_->at > step) {
    next_ = decided_->at;
    return false;
  }
  const Decision decision = *decided_;
  decided_.reset();
  next_ = std::max(decision.next, step + 1);
  hop_ = next_ - step;
  return decision.save && decision.at == step;
}

// The announcement "STEP SAVE NEXT".
std::string AgreedPace::decide(int64_t step) {
  const Clock clock = clock_();
  const double step_s = (clock.now_s - met_s_) / static_cast<double>(std::max<int64_t>(step - met_step_, 1));
  const Hop hop = choose_hop(clock.left_s, clock.interval_s, step_s, hop_);
  met_step_ = step;
  met_s_ = clock.now_s;
  return say_ok(std::to_string(step) + (hop.save ? " 1 " : " 0 ") + std::to_string(step + hop.steps));
}

std::optional<AgreedPace::Decision> AgreedPace::parse(const std::string& message) {
  const auto text = hear(message);
  if (!text) return std::nullopt;
  const auto words = split(*text, ' ');
  if (words.size() != 3) return std::nullopt;
  const auto at = parse_int(words[0], 0, INT64_MAX), save = parse_int(words[1], 0, 1);
  const auto next = parse_int(words[2], 0, INT64_MAX);
  if (!at || !save || !next) return std::nullopt;
  return Decision{*at, *save == 1, *next};
}

}  // namespace dl::ckpt
