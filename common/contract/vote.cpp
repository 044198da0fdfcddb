// SPDX-License-Identifier: Apache-2.0
#include "common/contract/vote.h"

#include <cstring>

#include "common/base/letters.h"
#include "common/base/parse.h"

namespace dl {
namespace {

constexpr size_t kSizeAt = 4, kNumberAt = 8, kChangeAt = 16, kReasonAt = 24;

template <typename Number>
Number number_at(std::string_view bytes, size_t at) {
  Number number;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

template <typename Number>
void put(Number number, size_t at, std::string* bytes) {
  std::memcpy(bytes->data() + at, &number, sizeof number);
}

bool is_plain_text(std::string_view text) {
  while (!text.empty()) {
    const auto first = static_cast<unsigned char>(text.front());
    uint32_t code = first;
    const size_t size = first < 0x80 ? 1 : utf8_at(text, &code);
    if (size == 0 || code < 0x20 || (code >= 0x7f && code <= 0x9f)) return false;
    text.remove_prefix(size);
  }
  return true;
}

}  // namespace

Status check_vote(int64_t change, std::string_view reason) {
  if (change < -kMostVote || change > kMostVote)
    return Error{Errc::kInvalid, "change: " + std::to_string(change) + " is out of range; allowed: " +
                                     std::to_string(-kMostVote) + " to " + std::to_string(kMostVote)};
  if (reason.size() > kMostVoteReason || !is_plain_text(reason))
    return Error{Errc::kInvalid, "reason: '" + printable(reason) + "' is no short text; allowed: at most " +
                                     std::to_string(kMostVoteReason) + " bytes of UTF-8 without control characters"};
  return {};
}

uint32_t check_sum(std::string_view bytes) {
  uint32_t sum = 2166136261U;
  for (const char byte : bytes) sum = (sum ^ static_cast<unsigned char>(byte)) * 16777619U;
  return sum;
}

std::string vote_bytes(const Vote& vote, uint64_t number) {
  std::string bytes(kVoteBytes, '\0');
  put(static_cast<uint32_t>(vote.reason.size()), kSizeAt, &bytes);
  put(number, kNumberAt, &bytes);
  put(static_cast<int64_t>(vote.change), kChangeAt, &bytes);
  std::memcpy(bytes.data() + kReasonAt, vote.reason.data(), vote.reason.size());
  put(check_sum(std::string_view(bytes).substr(kSizeAt)), 0, &bytes);
  return bytes;
}

std::optional<NumberedVote> read_vote(std::string_view bytes) {
  if (bytes.size() != kVoteBytes || number_at<uint32_t>(bytes, 0) != check_sum(bytes.substr(kSizeAt)))
    return std::nullopt;
  const auto number = number_at<uint64_t>(bytes, kNumberAt);
  const auto change = number_at<int64_t>(bytes, kChangeAt);
  const auto size = number_at<uint32_t>(bytes, kSizeAt);
  if (number == 0 || size > kMostVoteReason) return std::nullopt;
  const std::string_view reason = bytes.substr(kReasonAt, size);
  if (!check_vote(change, reason)) return std::nullopt;
  return NumberedVote{{static_cast<int>(change), std::string(reason)}, number};
}

}  // namespace dl
