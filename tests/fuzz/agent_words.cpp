// SPDX-License-Identifier: Apache-2.0
// Any bytes as what comes to dlrun's ports: datagrams, the first lines of connections, and acknowledgements, for a
// session whose token the sender does not know. Nobody is heard, nothing is taken over, and what is kept can be said
// again.
#include <algorithm>
#include <deque>

#include "launcher/protocol/control_protocol.h"
#include "launcher/protocol/heartbeat.h"
#include "launcher/protocol/session_buffer.h"
#include "tests/fuzz/target.h"

namespace dl::ckpt::fuzz {
namespace {

using namespace protocol;

void datagram(const std::string& bytes) {
  const auto heard = decode_beat(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  if (!heard) return;
  const BeatBytes again = encode_beat(heard->beat, heard->token);
  must(bytes.size() == again.size() &&
           std::equal(again.begin(), again.end(), reinterpret_cast<const uint8_t*>(bytes.data())),
       "what was heard is what was said");
}

void line(const std::string& bytes) {
  auto message = decode(bytes);
  if (!message) return must(!message.error().text.empty(), "an error has a sentence");
  const std::string again = encode(*message);
  must(again.find('\n') == again.size() - 1, "a message is one line");
  auto reread = decode(again);
  must(reread && reread->index() == message->index() && encode(*reread) == again, "a message can be said again");
}

// Each byte says a line or acknowledges; beside it a model of what must be kept.
void buffer(Bytes* input) {
  constexpr size_t kLimit = 64;
  SessionBuffer kept(kLimit);
  std::deque<std::string> model;
  size_t bytes = 0;
  uint64_t said = 0;
  while (!input->empty()) {
    const uint8_t what = input->u8();
    if (what < 128) {
      model.emplace_back(1 + what % 16, static_cast<char>('a' + said % 26));
      bytes += model.back().size();
      ++said;
      kept.add(model.back());
      if (bytes > kLimit) {
        model.clear();
        bytes = 0;
      }
    } else {
      const uint64_t received = input->number(1 + what % 8);
      const bool can = received <= said && said - received <= model.size();
      must(kept.can_repeat(received) == can, "all after what was acknowledged can be said again, and no more");
      must(kept.acknowledge(received) == (received <= said), "nobody has got more than was said");
      for (; can && said - received < model.size(); model.pop_front()) bytes -= model.front().size();
    }
    std::string rest;
    for (const std::string& text : model) rest += text;
    must(kept.rest() == rest && kept.empty() == rest.empty(), "what is not acknowledged is kept, in order");
  }
}

}  // namespace

void agent_words(const uint8_t* data, size_t size) {
  Bytes input(data, size);
  switch (input.u8() % 4) {
    case 0:
      return datagram(input.rest());
    case 1:
      return line(input.rest());
    case 2: {
      const auto token = parse_token(input.rest());
      must(!token || same_token(*token, *token), "a token is itself");
      return;
    }
    default:
      return buffer(&input);
  }
}

}  // namespace dl::ckpt::fuzz
