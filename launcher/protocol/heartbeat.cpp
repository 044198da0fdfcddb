// SPDX-License-Identifier: Apache-2.0
#include "launcher/protocol/heartbeat.h"

#include <algorithm>

namespace dl::protocol {
namespace {

// "dlb" and the version of the format.
constexpr uint8_t kMagic[4] = {'d', 'l', 'b', 1};
constexpr size_t kKindAt = 4, kConnectedAt = 5, kLinkAt = 6, kSessionAt = 8, kSequenceAt = 16, kEchoAt = 24,
                 kTokenAt = 32;
static_assert(kTokenAt + sizeof(Token) == kBeatBytes);

void put(uint8_t* at, uint64_t value, size_t bytes) {
  for (size_t i = bytes; i-- > 0; value >>= 8) at[i] = static_cast<uint8_t>(value & 0xFF);
}

uint64_t get(const uint8_t* at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value = (value << 8) | at[i];
  return value;
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

BeatBytes encode_beat(const Beat& beat, const Token& token) {
  BeatBytes bytes{};
  std::copy(std::begin(kMagic), std::end(kMagic), bytes.begin());
  bytes[kKindAt] = static_cast<uint8_t>(beat.kind);
  bytes[kConnectedAt] = beat.connected ? 1 : 0;
  put(&bytes[kLinkAt], beat.link, 2);
  put(&bytes[kSessionAt], beat.session, 8);
  put(&bytes[kSequenceAt], beat.sequence, 8);
  put(&bytes[kEchoAt], beat.echo, 8);
  std::copy(token.begin(), token.end(), bytes.begin() + kTokenAt);
  return bytes;
}

std::optional<HeardBeat> decode_beat(const uint8_t* data, size_t size) {
  if (size != kBeatBytes || !std::equal(std::begin(kMagic), std::end(kMagic), data)) return std::nullopt;
  const uint8_t kind = data[kKindAt];
  if (kind < static_cast<uint8_t>(Beat::Kind::kBeat) || kind > static_cast<uint8_t>(Beat::Kind::kProbe) ||
      data[kConnectedAt] > 1)
    return std::nullopt;
  HeardBeat heard;
  heard.beat.kind = static_cast<Beat::Kind>(kind);
  heard.beat.connected = data[kConnectedAt] == 1;
  heard.beat.link = static_cast<uint16_t>(get(data + kLinkAt, 2));
  heard.beat.session = get(data + kSessionAt, 8);
  heard.beat.sequence = get(data + kSequenceAt, 8);
  heard.beat.echo = get(data + kEchoAt, 8);
  if (heard.beat.sequence == 0) return std::nullopt;
  std::copy_n(data + kTokenAt, heard.token.size(), heard.token.begin());
  return heard;
}

std::optional<Token> parse_token(const std::string& text) {
  Token token{};
  if (text.size() != 2 * token.size()) return std::nullopt;
  for (size_t i = 0; i < token.size(); ++i) {
    const int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    token[i] = static_cast<uint8_t>(16 * high + low);
  }
  return token;
}

bool same_token(const Token& a, const Token& b) {
  volatile uint8_t difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference = static_cast<uint8_t>(difference | (a[i] ^ b[i]));
  return difference == 0;
}

}  // namespace dl::protocol
