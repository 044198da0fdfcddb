// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/server_places.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "launcher/pool/slots.h"

namespace dl::supervise {
namespace {

constexpr int64_t kPauseMs = 1000;  // after the first failure

}  // namespace

ServerPlaces::ServerPlaces(std::vector<int> node_of, int min) : places_(node_of.size()), min_(min) {
  for (size_t place = 0; place < node_of.size(); ++place) places_[place].node = node_of[place];
}

void ServerPlaces::free(int place) {
  Place& its = places_[static_cast<size_t>(place)];
  if (its.what == What::kAwaited) its.what = What::kFree;
}

int ServerPlaces::running() const {
  return static_cast<int>(
      std::count_if(places_.begin(), places_.end(), [](const Place& place) { return place.what == What::kRunning; }));
}

int ServerPlaces::left() const {
  return static_cast<int>(
      std::count_if(places_.begin(), places_.end(), [](const Place& place) { return place.what != What::kLost; }));
}

void ServerPlaces::note(const Pool& pool, int64_t now_ms) {
  begun_ = begun_ || pool.members >= min_;
  for (const Place& place : places_)
    if (place.what == What::kRunning && place.since_ms >= failed_ms_ && now_ms - place.since_ms >= kSoundMs)
      failures_ = 0;
}

int ServerPlaces::best_free() const {
  const auto on_its_node = [this](const Place& place) {
    return std::count_if(places_.begin(), places_.end(),
                         [&](const Place& each) { return each.what == What::kRunning && each.node == place.node; });
  };
  int best = -1;
  for (size_t at = 0; at < places_.size(); ++at) {
    if (places_[at].what != What::kFree) continue;
    if (best < 0 || on_its_node(places_[at]) < on_its_node(places_[static_cast<size_t>(best)]))
      best = static_cast<int>(at);
  }
  return best;
}

std::vector<int> ServerPlaces::start(const Pool& pool, int64_t now_ms) {
  note(pool, now_ms);
  std::vector<int> chosen;
  if (now_ms < not_before_ms_) return chosen;
  for (int missing = pool.wanted - (running() - pool.leaving); missing > 0; --missing) {
    const int place = best_free();
    if (place < 0) break;
    places_[static_cast<size_t>(place)].what = What::kRunning;
    places_[static_cast<size_t>(place)].since_ms = now_ms;
    chosen.push_back(place);
  }
  return chosen;
}

ServerPlaces::End ServerPlaces::judge(bool well, int64_t served_ms, int running_before, const Pool& pool,
                                      int64_t now_ms) {
  const bool was_to_leave = pool.leaving > 0 || running_before > pool.wanted;
  if (well && begun_ && (was_to_leave || served_ms >= kServedMs)) return End::kLeft;
  if (!begun_ || left() < min_) return End::kFailsRun;
  if (now_ms >= not_before_ms_) {
    failures_ = std::min(failures_ + 1, kMostFailures);
    failed_ms_ = now_ms;
    not_before_ms_ = now_ms + (failures_ < kMostFailures ? kPauseMs << (failures_ - 1) : kAgainMs);
  }
  if (failures_ < kMostFailures) return End::kFailed;
  return running() < min_ ? End::kFailsRun : End::kTooOften;
}

ServerPlaces::End ServerPlaces::ended(int place, bool well, const Pool& pool, int64_t now_ms) {
  note(pool, now_ms);
  Place& its = places_[static_cast<size_t>(place)];
  const int before = running();
  its.what = What::kAwaited;
  return judge(well, now_ms - its.since_ms, before, pool, now_ms);
}

ServerPlaces::Loss ServerPlaces::lost(int place, const Pool& pool, int64_t now_ms) {
  note(pool, now_ms);
  Place& its = places_[static_cast<size_t>(place)];
  const int before = running();
  const bool ran = its.what == What::kRunning;
  its.what = What::kLost;
  if (!ran) return {true, left() < min_ ? End::kFailsRun : End::kFailed};
  return {false, judge(/*well=*/false, now_ms - its.since_ms, before, pool, now_ms)};
}

void LostState::failed(Failure failure, int64_t now_ms) {
  last_ = std::move(failure);
  last_->at_ms = now_ms;
}

std::optional<Failure> LostState::cause(int lost, int64_t now_ms) {
  if (lost == 0) return std::nullopt;
  if (!since_ms_) since_ms_ = now_ms;
  if (last_ && last_->at_ms >= *since_ms_ - kEndMs) return last_;
  if (now_ms - *since_ms_ < kEndMs) return std::nullopt;
  Failure failure;
  failure.server = Failure::kSomeServer;
  failure.kind = Failure::Kind::kHang;
  failure.text = lost_text(lost);
  return failure;
}

std::string lost_text(int lost) {
  return fmt::format("the pool has lost the state of {} of its {} slots", lost, pool::kSlots);
}

}  // namespace dl::supervise
