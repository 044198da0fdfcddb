// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/transport/wire.h"

#include <cstring>

#include "checkpoint/store/directory.h"
#include "checkpoint/transport/exchange.h"

namespace dl::ckpt::wire {
namespace {

constexpr uint32_t kVersion = 1;
constexpr size_t kAnswerProofAt = 12 + kNonceBytes;
constexpr size_t kHeadHashAt = 32, kHeadCheckAt = 48;

Digest prove(const std::string& secret, const char* who, const Nonce& receiver, const Answer& answer) {
  unsigned char ranks[8];
  put_u32(ranks, answer.sender);
  put_u32(ranks + 4, answer.receiver);
  std::string text = who;
  text.append(reinterpret_cast<const char*>(receiver.data()), receiver.size());
  text.append(reinterpret_cast<const char*>(answer.nonce.data()), answer.nonce.size());
  text.append(reinterpret_cast<const char*>(ranks), sizeof ranks);
  return hmac_sha256(secret, text);
}

}  // namespace

Nonce make_nonce() {
  Nonce nonce{};
  put_u64(nonce.data(), random_u64());
  put_u64(nonce.data() + 8, random_u64());
  return nonce;
}

std::array<unsigned char, kChallengeBytes> challenge(const Nonce& receiver) {
  std::array<unsigned char, kChallengeBytes> bytes{};
  std::memcpy(bytes.data(), "DLXC", 4);
  put_u32(bytes.data() + 4, kVersion);
  std::memcpy(bytes.data() + 8, receiver.data(), kNonceBytes);
  return bytes;
}

std::optional<Nonce> read_challenge(const unsigned char* bytes) {
  if (std::memcmp(bytes, "DLXC", 4) != 0 || get_u32(bytes + 4) != kVersion) return std::nullopt;
  Nonce nonce{};
  std::memcpy(nonce.data(), bytes + 8, kNonceBytes);
  return nonce;
}

std::array<unsigned char, kAnswerBytes> answer(const std::string& secret, const Nonce& receiver, const Answer& answer) {
  std::array<unsigned char, kAnswerBytes> bytes{};
  std::memcpy(bytes.data(), "DLXA", 4);
  put_u32(bytes.data() + 4, answer.sender);
  put_u32(bytes.data() + 8, answer.receiver);
  std::memcpy(bytes.data() + 12, answer.nonce.data(), kNonceBytes);
  const Digest proof = prove(secret, "sender", receiver, answer);
  std::memcpy(bytes.data() + kAnswerProofAt, proof.data(), proof.size());
  return bytes;
}

std::optional<Answer> read_answer(const std::string& secret, const Nonce& receiver, const unsigned char* bytes) {
  if (std::memcmp(bytes, "DLXA", 4) != 0) return std::nullopt;
  Answer answer;
  answer.sender = get_u32(bytes + 4);
  answer.receiver = get_u32(bytes + 8);
  std::memcpy(answer.nonce.data(), bytes + 12, kNonceBytes);
  Digest proof{};
  std::memcpy(proof.data(), bytes + kAnswerProofAt, proof.size());
  if (!same_digest(proof, prove(secret, "sender", receiver, answer))) return std::nullopt;
  return answer;
}

Digest confirmation(const std::string& secret, const Nonce& receiver, const Answer& answer) {
  return prove(secret, "receiver", receiver, answer);
}

std::array<unsigned char, kHeadBytes> encode_head(const Head& head) {
  std::array<unsigned char, kHeadBytes> bytes{};
  std::memcpy(bytes.data(), "DLXM", 4);
  put_u64(bytes.data() + 8, head.channel);
  put_u64(bytes.data() + 16, head.tag);
  put_u64(bytes.data() + 24, head.length);
  put_hash(head.hash, bytes.data() + kHeadHashAt);
  put_u64(bytes.data() + kHeadCheckAt, hash_bytes(bytes.data(), kHeadCheckAt).low);
  return bytes;
}

std::optional<Head> decode_head(const unsigned char* bytes) {
  if (std::memcmp(bytes, "DLXM", 4) != 0) return std::nullopt;
  if (get_u64(bytes + kHeadCheckAt) != hash_bytes(bytes, kHeadCheckAt).low) return std::nullopt;
  Head head;
  head.channel = get_u64(bytes + 8);
  head.tag = get_u64(bytes + 16);
  head.length = get_u64(bytes + 24);
  head.hash = get_hash(bytes + kHeadHashAt);
  if (head.length > kMaxExchangeBytes) return std::nullopt;
  return head;
}

}  // namespace dl::ckpt::wire
