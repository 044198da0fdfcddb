// SPDX-License-Identifier: Apache-2.0
#include "launcher/pool/once.h"

#include <algorithm>
#include <utility>

#include "common/base/little_endian.h"

namespace dl::pool {
namespace {

constexpr size_t kHead = 8 + 8 + 1 + 4;  // client, number, failed, bytes of the answer

}  // namespace

Once::Verdict Once::judge(uint64_t client, uint64_t number) const {
  const auto found = last_.find(client);
  const uint64_t last = found == last_.end() ? 0 : found->second.number;
  if (number == 0 || number > last + 1) return Verdict::kGap;
  if (number < last) return Verdict::kOld;
  if (number == last) return Verdict::kRepeat;
  return found == last_.end() && last_.size() >= kMostClients ? Verdict::kFull : Verdict::kApply;
}

void Once::note(uint64_t client, uint64_t number, Answer answer) {
  last_[client] = {number, std::move(answer)};
}

const Answer& Once::last(uint64_t client) const {
  return last_.at(client).answer;
}

void Once::write(std::string* to) const {
  put_little(to, last_.size(), 4);
  for (const auto& [client, last] : last_) {
    put_little(to, client, 8);
    put_little(to, last.number, 8);
    put_little(to, last.answer.failed ? 1 : 0, 1);
    put_little(to, last.answer.bytes.size(), 4);
    *to += last.answer.bytes;
  }
}

Result<Once> Once::read(std::string_view bytes) {
  const Error corrupt{Errc::kCorrupt, "the table of applied updates is no such table"};
  if (bytes.size() < 4) return corrupt;
  const uint64_t count = get_little(bytes, 0, 4);
  bytes.remove_prefix(4);
  if (count > kMostClients) return corrupt;
  Once once;
  for (uint64_t i = 0; i < count; ++i) {
    if (bytes.size() < kHead) return corrupt;
    const uint64_t client = get_little(bytes, 0, 8);
    Last last;
    last.number = get_little(bytes, 8, 8);
    last.answer.failed = bytes[16] != 0;
    const auto size = static_cast<size_t>(get_little(bytes, 17, 4));
    bytes.remove_prefix(kHead);
    if (bytes.size() < size || last.number == 0) return corrupt;
    last.answer.bytes = bytes.substr(0, size);
    bytes.remove_prefix(size);
    if (!once.last_.emplace(client, std::move(last)).second) return corrupt;
  }
  if (!bytes.empty()) return corrupt;
  return once;
}

bool Once::operator==(const Once& other) const {
  return last_.size() == other.last_.size() &&
         std::equal(last_.begin(), last_.end(), other.last_.begin(), [](const auto& a, const auto& b) {
           return a.first == b.first && a.second.number == b.second.number &&
                  a.second.answer.failed == b.second.answer.failed && a.second.answer.bytes == b.second.answer.bytes;
         });
}

}  // namespace dl::pool
