// SPDX-License-Identifier: Apache-2.0
// The datagrams between dlrun and an agent, beside their TCP connection: 48 bytes each, big endian. Pure: no socket
// here.
//
// Each direction has a token of its own, which was sent over TCP. So a process that gets the port of a dead one learns
// only the token of datagrams to it, and cannot send in its name; nobody who cannot read the network can forge any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace dl::protocol {

struct Beat {
  enum class Kind : uint8_t {
    kBeat = 1,  // agent: asks for kAnswer
    kAlive,     // agent: answer to kProbe
    kAnswer,    // dlrun: answer to kBeat
    kProbe,     // dlrun: asks for kAlive
  };
  Kind kind = Kind::kBeat;
  bool connected = true;  // set by dlrun: it holds the session's TCP connection
  uint16_t link = 0;      // set by dlrun: how often the session was taken up again, modulo 2^16
  uint64_t session = 0;
  uint64_t sequence = 0;  // counts the sender's datagrams in this session, from 1 on
  uint64_t echo = 0;      // highest sequence heard from the other side; 0: none yet
};

using Token = std::array<uint8_t, 16>;
constexpr size_t kBeatBytes = 48;
using BeatBytes = std::array<uint8_t, kBeatBytes>;

BeatBytes encode_beat(const Beat& beat, const Token& token);

struct HeardBeat {
  Beat beat;
  Token token{};  // not yet compared with anything
};
// None for anything else than one whole datagram of this version.
std::optional<HeardBeat> decode_beat(const uint8_t* data, size_t size);

// 32 hex digits, as make_secret() gives them.
std::optional<Token> parse_token(const std::string& text);
// Takes the same time wherever the two differ.
bool same_token(const Token& a, const Token& b);

}  // namespace dl::protocol
