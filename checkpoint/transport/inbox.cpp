// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/transport/inbox.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "common/base/awake_clock.h"

namespace dl::ckpt {
namespace {

constexpr uint64_t kMaxWaitingBytes = uint64_t{64} << 20;  // bytes of one sender

uint16_t kind_of(uint64_t channel) {
  return static_cast<uint16_t>(channel >> 48);
}

}  // namespace

bool Inbox::closed(uint64_t channel) const {
  const auto at = closed_.find(kind_of(channel));
  return at != closed_.end() && channel <= at->second;
}

void Inbox::put(uint64_t channel, RankMessage message, const Hash128& hash) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (closed(channel)) return;
  waiting_[static_cast<size_t>(message.from)] += message.bytes.size();
  channels_[channel].push_back(Item{std::move(message), hash});
  changed_.notify_all();
}

void Inbox::set_gone(int rank, bool gone) {
  const std::lock_guard<std::mutex> lock(mutex_);
  gone_[static_cast<size_t>(rank)] = gone;
  changed_.notify_all();
}

bool Inbox::has_room(int rank) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return waiting_[static_cast<size_t>(rank)] < kMaxWaitingBytes;
}

Result<RankMessage> Inbox::take(uint64_t channel, const std::vector<bool>& awaited, double timeout_s, bool* made_room) {
  *made_room = false;
  AwakeClock clock;
  const int64_t until_ms = clock.at(monotonic_ms()) + static_cast<int64_t>(1000 * std::clamp(timeout_s, 0.0, 1e8));
  Item item;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      if (shut_ || closed(channel)) return Error{Errc::kIo, "receive: the channel was closed"};
      auto at = channels_.find(channel);
      if (at != channels_.end() && !at->second.empty()) {
        item = std::move(at->second.front());
        at->second.pop_front();
        break;
      }
      for (size_t rank = 0; rank < awaited.size() && rank < gone_.size(); ++rank)
        if (awaited[rank] && gone_[rank])
          return Error{Errc::kIo, "rank " + std::to_string(rank) + " has closed its connection"};
      const int64_t left_ms = until_ms - clock.at(monotonic_ms());
      const auto wait = std::chrono::milliseconds(std::clamp<int64_t>(left_ms, 0, AwakeClock::kMostMs / 2));
      if (changed_.wait_for(lock, wait) == std::cv_status::timeout && left_ms <= 0)
        return Error{Errc::kTimeout, fmt::format("nothing came from the other ranks within {:g} s", timeout_s)};
    }
    uint64_t& waiting = waiting_[static_cast<size_t>(item.message.from)];
    *made_room = waiting >= kMaxWaitingBytes;
    waiting -= item.message.bytes.size();
  }
  if (hash_bytes(item.message.bytes.data(), item.message.bytes.size()) != item.hash)
    return Error{Errc::kIo, "a message of rank " + std::to_string(item.message.from) + " was damaged on the way"};
  return std::move(item.message);
}

void Inbox::close_channel(uint64_t channel) {
  const std::lock_guard<std::mutex> lock(mutex_);
  uint64_t& highest = closed_[kind_of(channel)];
  highest = std::max(highest, channel);
  for (auto at = channels_.begin(); at != channels_.end();) {
    if (!closed(at->first)) {
      ++at;
      continue;
    }
    for (const Item& item : at->second) waiting_[static_cast<size_t>(item.message.from)] -= item.message.bytes.size();
    at = channels_.erase(at);
  }
  changed_.notify_all();
}

void Inbox::shut() {
  const std::lock_guard<std::mutex> lock(mutex_);
  shut_ = true;
  changed_.notify_all();
}

}  // namespace dl::ckpt
