// SPDX-License-Identifier: Apache-2.0
// The bytes on a connection of the exchange: the handshake, and the head of each message. Little-endian.
//
// receiver -> sender   challenge: magic "DLXC", version u32, nonce (16 bytes)
// sender -> receiver   answer: magic "DLXA", its rank u32, the receiver's rank u32, nonce (16), proof (32)
// receiver -> sender   confirmation: proof (32)
// sender -> receiver   messages: head (56), bytes
//
// A proof is HMAC-SHA256(secret, "sender" or "receiver", both nonces, both ranks).
#pragma once

#include <array>
#include <optional>
#include <string>

#include "checkpoint/format/hash.h"
#include "checkpoint/transport/hmac.h"

namespace dl::ckpt::wire {

constexpr size_t kNonceBytes = 16;
constexpr size_t kChallengeBytes = 8 + kNonceBytes;
constexpr size_t kAnswerBytes = 12 + kNonceBytes + 32;
constexpr size_t kConfirmationBytes = 32;
constexpr size_t kHeadBytes = 56;

using Nonce = std::array<unsigned char, kNonceBytes>;
Nonce make_nonce();

std::array<unsigned char, kChallengeBytes> challenge(const Nonce& receiver);
std::optional<Nonce> read_challenge(const unsigned char* bytes);

struct Answer {
  uint32_t sender = 0, receiver = 0;  // ranks
  Nonce nonce{};
};
std::array<unsigned char, kAnswerBytes> answer(const std::string& secret, const Nonce& receiver, const Answer& answer);
// nullopt unless the proof is right.
std::optional<Answer> read_answer(const std::string& secret, const Nonce& receiver, const unsigned char* bytes);
Digest confirmation(const std::string& secret, const Nonce& receiver, const Answer& answer);

struct Head {
  uint64_t channel = 0, tag = 0, length = 0;
  Hash128 hash;  // hash of the bytes
};
std::array<unsigned char, kHeadBytes> encode_head(const Head& head);
// nullopt if the head is damaged, or the length is more than kMaxExchangeBytes.
std::optional<Head> decode_head(const unsigned char* bytes);

}  // namespace dl::ckpt::wire
