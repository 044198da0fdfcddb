// SPDX-License-Identifier: Apache-2.0
// What comes over a connection between ranks: challenge, answer, head of a message. First byte: which, and whether the
// check of a head is put right before.
#include <cstring>

#include "checkpoint/transport/exchange.h"
#include "checkpoint/transport/wire.h"
#include "tests/fuzz/target.h"

namespace dl::ckpt::fuzz {

void frames(const uint8_t* data, size_t size) {
  Bytes input(data, size);
  const uint8_t mode = input.u8();
  std::string bytes = input.rest();
  bytes.resize(wire::kHeadBytes + wire::kAnswerBytes);
  auto* p = reinterpret_cast<unsigned char*>(bytes.data());
  if (mode % 4 == 0) {
    std::memcpy(p, "DLXM", 4);
    put_u64(p + wire::kHeadBytes - 8, hash_bytes(p, wire::kHeadBytes - 8).low);
  }
  if (mode % 4 < 2) {
    const auto head = wire::decode_head(p);
    if (!head) return;
    must(head->length <= kMaxExchangeBytes, "nobody makes us reserve more than a message may have");
    const auto again = wire::decode_head(wire::encode_head(*head).data());
    must(again && again->channel == head->channel && again->tag == head->tag && again->length == head->length &&
             again->hash == head->hash,
         "what was written can be read");
  } else if (mode % 4 == 2) {
    const auto nonce = wire::read_challenge(p);
    if (nonce)
      must(std::memcmp(wire::challenge(*nonce).data(), p, wire::kChallengeBytes) == 0, "a challenge is itself");
  } else {
    wire::Nonce nonce{};
    std::memcpy(nonce.data(), p + wire::kAnswerBytes, nonce.size());
    must(!wire::read_answer("the secret", nonce, p), "nobody guesses a proof");
    wire::Answer mine;
    mine.sender = get_u32(p);
    mine.receiver = get_u32(p + 4);
    auto proved = wire::answer("the secret", nonce, mine);
    must(wire::read_answer("the secret", nonce, proved.data()).has_value(), "a right proof is taken");
    proved[p[8] % proved.size()] = static_cast<unsigned char>(proved[p[8] % proved.size()] ^ (1U << p[9] % 8));
    must(!wire::read_answer("the secret", nonce, proved.data()), "a changed one is not");
  }
}

}  // namespace dl::ckpt::fuzz
