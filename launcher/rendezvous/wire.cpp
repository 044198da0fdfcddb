// SPDX-License-Identifier: Apache-2.0
#include "launcher/rendezvous/wire.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace dl::rendezvous {
namespace {

// The fields after each request's number: k a key, v a value, n an int64, m a uint32, K a count and that many keys, P a
// count and that many keys with their values. In the order of Op, which is that of the validated enumeration.
const char* const kFields[] = {
    "m",    // VALIDATE
    "kv",   // SET
    "kvv",  // COMPARE_SET
    "k",    // GET
    "kn",   // ADD
    "K",    // CHECK
    "K",    // WAIT
    "",     // GETNUMKEYS
    "k",    // DELETE_KEY
    "kv",   // APPEND
    "K",    // MULTI_GET
    "P",    // MULTI_SET
    "",     // CANCEL_WAIT
    "m",    // PING
    "kv",   // QUEUE_PUSH
    "k",    // QUEUE_POP
    "k",    // QUEUE_LEN
    "",     // LIST_KEYS
    "kn",   // BARRIER
};
static_assert(std::size(kFields) == static_cast<size_t>(Op::kBarrier) + 1);

// The requests of clients that do not validate, by their numbers.
constexpr Op kPlainOps[] = {Op::kSet,     Op::kCompareSet, Op::kGet,    Op::kAdd,      Op::kCheck,    Op::kWait,
                            Op::kNumKeys, Op::kDelete,     Op::kAppend, Op::kMultiGet, Op::kMultiSet, Op::kCancelWait};
constexpr uint8_t kPlainSeven = 7, kPlainEight = 8;

constexpr unsigned char kMagicBytes[] = {0xCE, 0xF7, 0x85, 0x3C};
constexpr size_t kTextOverhead = 64;  // memory that a text takes beyond its bytes

Error nonsense(const char* what) {
  return Error{Errc::kInvalid, std::string("not a client of TCPStore: ") + what};
}

}  // namespace

Status Parser::begin(uint8_t type) {
  if (dialect_ == Dialect::kUnknown) dialect_ = type == 0 ? Dialect::kUnknown : Dialect::kPlain;
  Op op;
  delete_or_append_ = false;
  if (dialect_ == Dialect::kUnknown) {
    // This is VALIDATE, or the SET of an older client; the next four bytes decide that (number_done).
    op = Op::kValidate;
  } else if (dialect_ == Dialect::kValidated) {
    if (type == 0 || type >= std::size(kFields)) return nonsense("a request of a type that is not known");
    op = static_cast<Op>(type);
  } else {
    if (type >= std::size(kPlainOps)) return nonsense("a request of a type that is not known");
    op = kPlainOps[type];
    if (dialect_ == Dialect::kPlain) {
      if (type == kPlainSeven && first_) return nonsense("a request WATCH_KEY, which is not served");
      if (type == kPlainEight) {
        delete_or_append_ = true;
        op = Op::kDelete;
      }
    }
  }
  request_ = Request{};
  request_.op = op;
  fields_ = kFields[static_cast<size_t>(op)];
  pairs_left_ = 0;
  in_request_ = true;
  return next_field();
}

// Goes on to the next field, or ends the request.
Status Parser::next_field() {
  for (;;) {
    if (pairs_left_ > 0 && *pair_fields_ == 0) {
      pair_fields_ = fields_[-1] == 'P' ? "kv" : "k";
      if (--pairs_left_ == 0) continue;
    }
    field_ = pairs_left_ > 0 ? *pair_fields_++ : *fields_ != 0 ? *fields_++ : '\0';
    break;
  }
  number_have_ = 0;
  in_text_ = false;
  number_want_ = field_ == 'm' ? 4 : 8;
  if (field_ == 0) return end_of_fields();
  return {};
}

Status Parser::end_of_fields() {
  in_request_ = false;
  first_ = false;
  done_ = true;
  held_ = 0;
  return {};
}

Status Parser::number_done(uint64_t value) {
  switch (field_) {
    case 'm':
      if (request_.op == Op::kValidate) {
        if (value != kMagic) {
          // It is the length of a SET's key; four more bytes of that length are still to come.
          dialect_ = Dialect::kPlain;
          request_.op = Op::kSet;
          fields_ = kFields[static_cast<size_t>(Op::kSet)] + 1;
          field_ = 'k';
          number_want_ = 8;
          return {};
        }
        dialect_ = Dialect::kValidated;
      }
      request_.number = static_cast<int64_t>(value);
      return next_field();
    case 'n':
      request_.number = static_cast<int64_t>(value);
      return next_field();
    case 'K':
    case 'P':
      if (value > kMaxKeyCount) return nonsense("a request with more keys than are allowed");
      pairs_left_ = value;
      pair_fields_ = field_ == 'P' ? "kv" : "k";
      return next_field();
    default:
      if (value > kMaxTextBytes || held_ + value > kMaxRequestBytes)
        return nonsense("a key or value that is longer than is allowed");
      in_text_ = true;
      text_left_ = value;
      text_.clear();
      held_ += kTextOverhead;
      return value == 0 ? text_done() : Status{};
  }
}

Status Parser::text_done() {
  (field_ == 'k' ? request_.keys : request_.values).push_back(std::move(text_));
  text_ = std::string();
  in_text_ = false;
  return next_field();
}

Result<size_t> Parser::feed(const char* data, size_t size, Request* request, bool* complete) {
  *complete = false;
  size_t at = 0;
  while (at < size) {
    if (!in_request_) {
      const auto byte = static_cast<unsigned char>(data[at]);
      const bool prefix = dialect_ == Dialect::kPrefixed || (dialect_ == Dialect::kUnknown && first_);
      if (prefix && magic_seen_ < sizeof kMagicBytes && (dialect_ == Dialect::kPrefixed || byte == kMagicBytes[0])) {
        if (byte != kMagicBytes[magic_seen_]) return nonsense("a connection that does not begin with its magic number");
        dialect_ = Dialect::kPrefixed;
        ++magic_seen_;
        ++at;
        continue;
      }
      magic_seen_ = 0;
      ++at;
      DL_TRY(begin(byte));
    } else if (in_text_) {
      const size_t take = static_cast<size_t>(std::min<uint64_t>(text_left_, size - at));
      text_.append(data + at, take);
      held_ += take;
      text_left_ -= take;
      at += take;
      if (text_left_ == 0) {
        const bool decide = delete_or_append_ && field_ == 'k';
        if (decide && at < size) {
          request_.op = Op::kAppend;
          fields_ = kFields[static_cast<size_t>(Op::kAppend)] + 1;
        }
        DL_TRY(text_done());
      }
    } else {
      const size_t take = std::min<size_t>(static_cast<size_t>(number_want_ - number_have_), size - at);
      std::memcpy(number_ + number_have_, data + at, take);
      number_have_ = static_cast<uint8_t>(number_have_ + take);
      at += take;
      if (number_have_ == number_want_) {
        uint64_t value = 0;
        std::memcpy(&value, number_, number_want_);  // torch sends numbers in the byte order of its memory
        DL_TRY(number_done(value));
      }
    }
    if (done_) {
      done_ = false;
      *request = std::move(request_);
      *complete = true;
      return at;
    }
  }
  return at;
}

void put_u8(std::string* out, uint8_t value) {
  out->push_back(static_cast<char>(value));
}

void put_u32(std::string* out, uint32_t value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_i64(std::string* out, int64_t value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_text(std::string* out, const std::string& text) {
  put_i64(out, static_cast<int64_t>(text.size()));
  out->append(text);
}

}  // namespace dl::rendezvous
