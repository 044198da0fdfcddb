// SPDX-License-Identifier: Apache-2.0
// Any bytes as what clients of TCPStore send: read whole and in pieces, and carried out on a store for three clients in
// turn. Nobody crashes, memory stays within its limits, and nothing is left when all is taken away.
#include <algorithm>
#include <vector>

#include "launcher/rendezvous/serve.h"
#include "tests/fuzz/target.h"

namespace dl::ckpt::fuzz {
namespace {

using rendezvous::Op;
using rendezvous::Parser;
using rendezvous::Request;

// The requests of the bytes, read in pieces of so many (0: whole), until they are refused.
std::vector<Request> read(const std::string& bytes, size_t piece) {
  std::vector<Request> requests;
  Parser parser;
  for (size_t at = 0; at < bytes.size();) {
    const size_t end = piece == 0 ? bytes.size() : std::min(bytes.size(), (at / piece + 1) * piece);
    Request request;
    bool complete = false;
    auto used = parser.feed(bytes.data() + at, end - at, &request, &complete);
    if (!used) return requests;
    must(*used >= 1 && *used <= end - at, "some of the bytes are used, and no more than there are");
    must(parser.held_bytes() <= 65 * bytes.size() + 64, "memory is held for what has arrived alone");
    at += *used;
    if (complete) requests.push_back(std::move(request));
  }
  return requests;
}

bool same(const Request& a, const Request& b) {
  return a.op == b.op && a.keys == b.keys && a.values == b.values && a.number == b.number;
}

}  // namespace

void tcp_store(const uint8_t* data, size_t size) {
  Bytes input(data, size);
  const uint8_t mode = input.u8();
  const size_t piece = 1 + input.u8() % 16;
  const bool validated = (mode & 1) != 0;
  const std::string bytes = (validated ? std::string("\0\xCE\xF7\x85\x3C", 5) : std::string()) + input.rest();
  std::vector<Request> requests = read(bytes, 0);
  if (validated) {  // of older clients one request depends on what comes in the same write
    const std::vector<Request> again = read(bytes, piece);
    must(again.size() == requests.size() && std::equal(again.begin(), again.end(), requests.begin(), same),
         "it does not matter how the bytes arrive");
  }
  rendezvous::TorchStore store;
  rendezvous::ServeLimits limits;
  limits.store_bytes = 20000;
  limits.reply_bytes = 10000;
  std::vector<std::string> queues;
  uint64_t turn = 0;
  bool waits[3] = {};
  for (Request& request : requests) {
    const uint64_t client = turn++ % 3;
    if (request.op == Op::kQueuePush) queues.push_back(request.keys[0]);
    const Op op = request.op;
    std::string reply;
    const size_t before = store.bytes();
    const Status served = serve(&store, client, std::move(request), limits, &reply);
    must(store.bytes() <= limits.store_bytes, "the store does not grow beyond its limit");
    if (!served) must(store.bytes() <= before, "what is refused adds nothing");
    must(reply.size() <= limits.reply_bytes + 64 || op == Op::kListKeys || op == Op::kCompareSet || op == Op::kQueuePop,
         "a reply is bounded");
    for (const uint64_t woken : store.take_woken()) {
      must(woken < 3 && waits[woken], "only who waits is woken, and once");
      waits[woken] = false;
    }
    if (served && (op == Op::kWait || op == Op::kBarrier)) waits[client] = reply.empty();
    if (op == Op::kCancelWait) waits[client] = false;
  }
  for (uint64_t client = 0; client < 3; ++client) store.cancel_wait(client);
  for (const std::string& key : store.keys()) must(store.remove(key), "a key that is listed is there");
  for (const std::string& key : queues)
    for (std::string value; store.pop(key, &value) > 0;) {
    }
  must(store.bytes() == 0 && store.size() == 0, "nothing is left");
}

}  // namespace dl::ckpt::fuzz
