// SPDX-License-Identifier: Apache-2.0
// How a client connects, and what one of TCPStore would send, as bytes.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "common/base/unique_fd.h"
#include "launcher/rendezvous/wire.h"

namespace dl::rendezvous::test {

// A connection to a server of this process; empty if there is none.
inline UniqueFd connection_to(int port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return UniqueFd();
  return fd;
}

inline std::string i64(int64_t value) {
  std::string bytes;
  put_i64(&bytes, value);
  return bytes;
}
inline std::string text(const std::string& value) {
  std::string bytes;
  put_text(&bytes, value);
  return bytes;
}
inline std::string list(std::initializer_list<std::string> keys) {
  std::string bytes = i64(static_cast<int64_t>(keys.size()));
  for (const std::string& key : keys) bytes += text(key);
  return bytes;
}
inline std::string type(int number) {
  return std::string(1, static_cast<char>(number));
}
// Number in the validated enumeration.
inline std::string type(Op op) {
  return type(static_cast<int>(op));
}
inline std::string magic() {
  std::string bytes;
  put_u32(&bytes, kMagic);
  return bytes;
}
inline std::string validate() {
  return type(Op::kValidate) + magic();
}

// A request in words, to compare and to read: "SET a=1".
inline std::string words(const Request& request) {
  static const char* const names[] = {"VALIDATE",  "SET",       "COMPARE_SET", "GET",    "ADD",
                                      "CHECK",     "WAIT",      "NUM_KEYS",    "DELETE", "APPEND",
                                      "MULTI_GET", "MULTI_SET", "CANCEL_WAIT", "PING",   "QUEUE_PUSH",
                                      "QUEUE_POP", "QUEUE_LEN", "LIST_KEYS",   "BARRIER"};
  std::string said = names[static_cast<size_t>(request.op)];
  for (const std::string& key : request.keys) said += " " + key;
  for (const std::string& value : request.values) said += " =" + value;
  if (request.number != 0) said += " #" + std::to_string(request.number);
  return said;
}

struct Read {
  std::vector<std::string> requests;
  bool refused = false;
  size_t held = 0;
};
// Everything a parser makes of these pieces.
inline Read read_pieces(const std::vector<std::string>& pieces) {
  Read read;
  Parser parser;
  for (const std::string& piece : pieces) {
    for (size_t at = 0; at < piece.size();) {
      Request request;
      bool complete = false;
      const auto used = parser.feed(piece.data() + at, piece.size() - at, &request, &complete);
      if (!used) {
        read.refused = true;
        return read;
      }
      at += *used;
      if (complete) read.requests.push_back(words(request));
    }
  }
  read.held = parser.held_bytes();
  return read;
}

}  // namespace dl::rendezvous::test
