// SPDX-License-Identifier: Apache-2.0
// The wire protocol of PyTorch's TCPStore: parses requests from pieces of a stream, and writes replies. Pure: no
// socket, no store.
//
// It has changed between releases of torch (numbers of requests, a validation in front), so the parser recognises the
// client's version from its first bytes:
//   00 CE F7 85 3C  VALIDATE: torch 2.2 and later; each request by its number in that enumeration. As the SET of an
//                   older client it would be a key of almost 1 GiB, which is beyond the limit, so nothing is ambiguous.
//   CE F7 85 3C     in front of every request: a short-lived form of 2023.
//   anything else   older clients, which validate nothing. Numbers 0 to 6 mean the same in all of them. Then:
//                   7  first request of its connection: WATCH_KEY, refused (torch 1.x keeps a second connection for it,
//                      which is silent unless the C++ function watchKey is called, and nothing in Python calls it);
//                      later: DELETE_KEY of 2023.
//                   8  DELETE_KEY of torch 1.x and 2.0, whose client waits for the answer, or APPEND of 2023, which
//                      sends its value in the same write: a value there at once makes it an APPEND.
//                   9, 10, 11  MULTI_GET, MULTI_SET and CANCEL_WAIT of 2023.
// Tried with torch 1.13 and 2.15; the forms of 2023 only against what this comment says.
//
// Numbers are in host byte order, as torch sends them: client and server are of one architecture. Texts are a uint64
// length and that many bytes. Input is not trusted: lengths and counts are checked before anything is stored, and
// memory grows only with bytes that have arrived.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace dl::rendezvous {

// The limits of torch's own server (its libuv backend), so that no program that works there fails here.
constexpr uint64_t kMaxTextBytes = 8 << 20;       // a key, a value
constexpr uint64_t kMaxKeyCount = 128 << 10;      // keys in one request
constexpr uint64_t kMaxRequestBytes = 256 << 20;  // all of one request

enum class Op : uint8_t {
  kValidate,
  kSet,
  kCompareSet,
  kGet,
  kAdd,
  kCheck,
  kWait,
  kNumKeys,
  kDelete,
  kAppend,
  kMultiGet,
  kMultiSet,
  kCancelWait,
  kPing,
  kQueuePush,
  kQueuePop,
  kQueueLen,
  kListKeys,
  kBarrier,
};

struct Request {
  Op op = Op::kValidate;
  std::vector<std::string> keys;    // in order; one for requests that name one key
  std::vector<std::string> values;  // SET, APPEND, QUEUE_PUSH: one; COMPARE_SET: expected, desired; MULTI_SET: as keys
  int64_t number = 0;               // ADD: what to add; BARRIER: the world size; VALIDATE, PING: 32 bits
};

class Parser {
 public:
  // Takes the next bytes. Returns how many of them were used, at least 1 if size > 0: all of them, or those up to the
  // end of a request, which is then in *request, with *complete true. kInvalid: this is no TCPStore client, or it
  // exceeds the limits; close the connection, and do not use the parser again.
  Result<size_t> feed(const char* data, size_t size, Request* request, bool* complete);

  // Bytes of memory that the incomplete request holds.
  size_t held_bytes() const { return held_; }

 private:
  enum class Dialect : uint8_t { kUnknown, kPlain, kPrefixed, kValidated };
  Status begin(uint8_t type);
  Status next_field();
  Status number_done(uint64_t value);
  Status text_done();
  Status end_of_fields();

  Dialect dialect_ = Dialect::kUnknown;
  bool first_ = true;              // no request of this connection was complete yet
  bool in_request_ = false;        // the type was read
  bool delete_or_append_ = false;  // type 8 of a plain client, undecided
  bool done_ = false;
  uint8_t magic_seen_ = 0;   // bytes of a prefix
  const char* fields_ = "";  // the fields still to come, see kFields
  uint64_t pairs_left_ = 0;  // items still to come of a counted list
  const char* pair_fields_ = "";
  char field_ = 0;        // being read; 0: none
  bool in_text_ = false;  // the length of a text was read
  uint64_t text_left_ = 0;
  unsigned char number_[8] = {};
  uint8_t number_have_ = 0, number_want_ = 0;
  std::string text_;
  Request request_;
  size_t held_ = 0;
};

// Replies.
void put_u8(std::string* out, uint8_t value);
void put_u32(std::string* out, uint32_t value);
void put_i64(std::string* out, int64_t value);
void put_text(std::string* out, const std::string& text);

constexpr uint32_t kMagic = 0x3C85F7CE;
constexpr uint8_t kReady = 0, kNotReady = 1;            // answers to CHECK
constexpr uint8_t kStopWaiting = 0, kWaitCanceled = 1;  // to WAIT and BARRIER, to CANCEL_WAIT

}  // namespace dl::rendezvous
