// SPDX-License-Identifier: Apache-2.0
#include "launcher/rendezvous/torch_store.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace dl::rendezvous {

void TorchStore::put(const std::string& key, std::string value) {
  auto [at, is_new] = values_.try_emplace(key);
  if (is_new) bytes_ += key.size() + kEntryBytes;
  bytes_ += value.size();
  bytes_ -= at->second.size();
  at->second = std::move(value);
}

void TorchStore::set(const std::string& key, std::string value) {
  put(key, std::move(value));
  arrived(key);
}

std::string TorchStore::compare_set(const std::string& key, const std::string& expected, const std::string& desired) {
  auto at = values_.find(key);
  if (at == values_.end()) {
    if (!expected.empty()) return expected;
    set(key, desired);
    return desired;
  }
  if (at->second == expected) put(key, desired);
  return at->second;
}

const std::string* TorchStore::get(const std::string& key) const {
  auto at = values_.find(key);
  return at == values_.end() ? nullptr : &at->second;
}

Result<int64_t> TorchStore::add(const std::string& key, int64_t amount) {
  int64_t before = 0;
  if (const std::string* text = get(key)) {
    const auto [end, failure] = std::from_chars(text->data(), text->data() + text->size(), before);
    if (failure != std::errc() || end == text->data())
      return Error{Errc::kInvalid, "ADD to a key whose value is not a number"};
  }
  // The sum wraps around; overflow of a signed number would be undefined.
  const auto sum = static_cast<int64_t>(static_cast<uint64_t>(before) + static_cast<uint64_t>(amount));
  set(key, std::to_string(sum));
  return sum;
}

bool TorchStore::remove(const std::string& key) {
  auto at = values_.find(key);
  if (at == values_.end()) return false;
  bytes_ -= key.size() + at->second.size() + kEntryBytes;
  values_.erase(at);
  return true;
}

void TorchStore::append(const std::string& key, const std::string& value) {
  auto at = values_.find(key);
  if (at == values_.end()) return set(key, value);
  at->second += value;
  bytes_ += value.size();
}

std::vector<std::string> TorchStore::keys() const {
  std::vector<std::string> names;
  names.reserve(values_.size());
  for (const auto& [key, unused] : values_) names.push_back(key);
  return names;
}

void TorchStore::push(const std::string& key, std::string value) {
  auto [at, is_new] = queues_.try_emplace(key);
  if (is_new) bytes_ += key.size() + kEntryBytes;
  bytes_ += value.size() + kEntryBytes;
  at->second.push_back(std::move(value));
  // One pushed value serves only the first waiter. Other keys that the waiter waits for remain.
  auto waiting = waiting_.find(key);
  if (waiting == waiting_.end()) return;
  const auto [number, client] = *waiting->second.begin();
  forget_waiter(&waiting_, key, number);
  Wait& wait = waits_.at(client).second;
  wait.keys.erase(std::find(wait.keys.begin(), wait.keys.end(), key));
  if (--wait.left == 0) end_wait(client);
}

int64_t TorchStore::pop(const std::string& key, std::string* value) {
  auto at = queues_.find(key);
  if (at == queues_.end()) return 0;
  const auto count = static_cast<int64_t>(at->second.size());
  *value = std::move(at->second.front());
  at->second.pop_front();
  bytes_ -= value->size() + kEntryBytes;
  if (at->second.empty()) {
    queues_.erase(at);
    bytes_ -= key.size() + kEntryBytes;
  }
  return count;
}

int64_t TorchStore::queue_size(const std::string& key) const {
  auto at = queues_.find(key);
  return at == queues_.end() ? 0 : static_cast<int64_t>(at->second.size());
}

bool TorchStore::there(const std::string& key) const {
  return values_.count(key) != 0 || queues_.count(key) != 0;
}

bool TorchStore::check(const std::vector<std::string>& keys) const {
  return std::all_of(keys.begin(), keys.end(), [this](const std::string& key) { return there(key); });
}

bool TorchStore::wait(ClientId client, const std::vector<std::string>& keys) {
  cancel_wait(client);
  Wait wait;
  for (const std::string& key : keys)
    if (!there(key)) wait.keys.push_back(key);
  // A key that is named twice is waited for once.
  std::sort(wait.keys.begin(), wait.keys.end());
  wait.keys.erase(std::unique(wait.keys.begin(), wait.keys.end()), wait.keys.end());
  if (wait.keys.empty()) return true;
  wait.left = wait.keys.size();
  const uint64_t number = next_number_++;
  for (const std::string& key : wait.keys) {
    waiting_[key][number] = client;
    bytes_ += key.size() + kEntryBytes;
  }
  waits_[client] = {number, std::move(wait)};
  return false;
}

Result<bool> TorchStore::barrier(ClientId client, const std::string& key, int64_t world_size) {
  DL_TRY_ASSIGN(const int64_t count, add(key, 1));
  cancel_wait(client);
  if (count < world_size) {
    const uint64_t number = next_number_++;
    Wait wait;
    wait.keys = {key};
    wait.left = 1;
    wait.in_barrier = true;
    in_barrier_[key][number] = client;
    bytes_ += key.size() + kEntryBytes;
    waits_[client] = {number, std::move(wait)};
    return false;
  }
  if (auto others = in_barrier_.find(key); others != in_barrier_.end()) {
    const Waiters all = std::move(others->second);
    in_barrier_.erase(others);
    for (const auto& [unused, other] : all) {
      bytes_ -= key.size() + kEntryBytes;
      end_wait(other);
    }
  }
  return true;
}

// A key has arrived: everybody who waits for it waits for one key less.
void TorchStore::arrived(const std::string& key) {
  auto at = waiting_.find(key);
  if (at == waiting_.end()) return;
  const Waiters all = std::move(at->second);
  waiting_.erase(at);
  for (const auto& [unused, client] : all) {
    bytes_ -= key.size() + kEntryBytes;
    Wait& wait = waits_.at(client).second;
    if (--wait.left == 0) end_wait(client);
  }
}

void TorchStore::end_wait(ClientId client) {
  waits_.erase(client);
  woken_.push_back(client);
}

void TorchStore::forget_waiter(std::unordered_map<std::string, Waiters>* waiting, const std::string& key,
                               uint64_t number) {
  auto at = waiting->find(key);
  if (at == waiting->end() || at->second.erase(number) == 0) return;
  bytes_ -= key.size() + kEntryBytes;
  if (at->second.empty()) waiting->erase(at);
}

void TorchStore::cancel_wait(ClientId client) {
  auto at = waits_.find(client);
  if (at == waits_.end()) return;
  const auto& [number, wait] = at->second;
  for (const std::string& key : wait.keys) forget_waiter(wait.in_barrier ? &in_barrier_ : &waiting_, key, number);
  waits_.erase(at);
}

}  // namespace dl::rendezvous
