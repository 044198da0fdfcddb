// SPDX-License-Identifier: Apache-2.0
// The messages between dlrun and the PMIx servers of a job (dl-pmix, one on each node), each in the body of a
// protocol::Pmix on the authenticated control channel: one JSON object, {"type":"fence",...}. A server numbers its
// questions (id > 0), and dlrun numbers its own; an answer has the number of its question. Statuses are PMIx's (0 =
// PMIX_SUCCESS). Bytes that PMIx packed are base64 and are passed on unread. Pure: no socket and no libpmix here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "common/base/result.h"

namespace dl::pmix {

constexpr size_t kMaxData = 2 << 20;  // bytes of one piece of data, before base64
constexpr size_t kMaxText = 512;      // of a key (PMIX_MAX_KEYLEN is 511), of a name, of a text for people
constexpr size_t kMaxEntries = 4096;  // keys of one question
constexpr int kMaxRank = 1 << 20;

// Those of PMIx's statuses that dlrun itself gives; server.cpp compares them with libpmix's header.
constexpr int kSuccess = 0;
constexpr int kBadParameter = -27;
constexpr int kOutOfResource = -29;
constexpr int kNotFound = -46;
constexpr int kDuplicateKey = -53;
constexpr int kLostConnection = -61;

struct Bytes {
  std::string bytes;
};

// ---- dlrun -> server
struct Job {          // the first message: the learners of this attempt
  std::string space;  // PMIx's namespace: new for each attempt, and random, so that nobody can guess it
  int node = 0;       // index of the server's own node in `nodes`
  std::vector<std::string> nodes;
  std::vector<std::vector<int>> ranks;  // by node, ascending
};
struct FencePart {  // the data of one server for a fence: one for each server that sent any, then Done
  int64_t id = 0;
  Bytes data;
};
struct Lost {  // this learner has failed, with this exit code
  int rank = 0;
  int exit = 0;
};

// ---- server -> dlrun
struct Ready {
  std::string version;                                       // of libpmix
  std::vector<std::map<std::string, std::string>> learners;  // environment of each of the node's, in their order
};
struct Failed {  // the server cannot go on; why
  std::string text;
};
struct Client {  // a learner has connected to its server, or has disconnected in order
  int rank = 0;
  bool connected = false;
};
struct Fence {  // all of `ranks` on this node have entered; empty: all learners. Answered by FencePart and Done
  int64_t id = 0;
  std::string kind;  // "fence", "connect", "disconnect"
  std::vector<int> ranks;
  Bytes data;
};
struct Abort {  // answered by Done
  int64_t id = 0;
  int rank = 0;
  int status = 0;
  std::string text;
};
struct Entry {
  std::string key;
  Bytes data;
  int rank = -1;  // who published it; filled in by dlrun
};
struct Publish {  // answered by Done
  int64_t id = 0;
  int rank = 0;
  std::vector<Entry> entries;
};
struct Lookup {  // answered by Found
  int64_t id = 0;
  std::vector<std::string> keys;
  bool wait = false;  // the answer waits until all are published
};
struct Unpublish {  // answered by Done; without keys: removes all that this rank has published
  int64_t id = 0;
  int rank = 0;
  std::vector<std::string> keys;
};
struct Refused {  // a learner asked for something that dlrun does not support
  int rank = 0;
  std::string what;
};

// ---- both ways
struct Get {  // asks for the data that a rank has put; dlrun passes it to the rank's server. Answered by Got
  int64_t id = 0;
  int rank = 0;
};
struct Got {
  int64_t id = 0;
  int status = 0;
  Bytes data;
};
struct Event {  // a learner's own event for others; dlrun passes it to all other servers
  int code = 0;
  int rank = 0;
  int range = 0;  // pmix_data_range_t
  Bytes data;     // packed array of pmix_info_t
  int count = 0;  // its length
};

// ---- dlrun -> server, answers
struct Done {
  int64_t id = 0;
  int status = 0;
};
struct Found {
  int64_t id = 0;
  int status = 0;
  std::vector<Entry> entries;
};

using PmixMessage = std::variant<Job, FencePart, Lost, Ready, Failed, Client, Fence, Abort, Publish, Lookup, Unpublish,
                                 Refused, Get, Got, Event, Done, Found>;

std::string encode(const PmixMessage& message);
// kInvalid for anything else than one known message within the bounds above.
Result<PmixMessage> decode(const std::string& text);

}  // namespace dl::pmix
