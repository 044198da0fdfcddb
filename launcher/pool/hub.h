// SPDX-License-Identifier: Apache-2.0
// The connections of one member, client or directory: messages over TCP, with both ends proved (proof.h). Nothing
// blocks but wait(). One thread; wake() may be called by any, also by a signal handler.
//
// A connection that says anything that is no message, or too much, is closed. Before it has proved itself it costs a
// few hundred bytes, for kProofMs at most; the oldest such one is closed when there are too many.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/awake_clock.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "launcher/pool/address.h"
#include "launcher/pool/message.h"
#include "launcher/pool/proof.h"

namespace dl::pool {

using Link = uint64_t;  // from 1, never used again in a hub

struct Event {
  enum class What { kOpened, kMessage, kClosed };
  What what = What::kMessage;
  Link link = 0;
  Message message;
};

constexpr int64_t kProofMs = 5000;
constexpr size_t kMostUnproved = 256;

class Hub {
 public:
  explicit Hub(std::string secret) : secret_(std::move(secret)) {}
  Status open();
  // A numeric address; port 0: any.
  Status listen(const std::string& host, int port);
  int port() const { return port_; }  // 0: not listening

  // HOST:PORT with a number (address.h). Whether it succeeds is told by an event; messages may be sent at once.
  Result<Link> connect(const std::string& address, Who who, MemberId member = 0);
  void send(Link link, const Message& message);  // nothing happens if the link is closed
  void close(Link link);                         // no event tells of it

  // Sends what is to be sent and returns what has come; waits for that, for `limit_ms` at most. -1: for ever.
  std::vector<Event> wait(int64_t limit_ms);
  void wake();
  // Sends the rest, for `limit_ms` at most.
  void drain(int64_t limit_ms);
  // Closes all connections, and listens no more.
  void shut();

  bool is_open(Link link) const { return connections_.count(link) != 0; }
  Who who(Link link) const;          // of an accepted link that is open
  MemberId member(Link link) const;  // of kMember
  std::string local_host(Link link) const;

 private:
  enum class State { kConnecting, kAwaitsChallenge, kAwaitsConfirmation, kAwaitsIntroduction, kOpen };
  struct Connection {
    UniqueFd fd;
    State state = State::kConnecting;
    bool accepted = false;
    Introduction introduction;
    Nonce acceptor{};
    std::string in, out;
    size_t taken = 0;        // of `in`
    size_t sent = 0;         // of `out`, which is empty when all is sent
    std::string until_open;  // messages that wait for the proof
    int64_t deadline_ms = 0;
    uint32_t interest = 0;
  };

  void accept_all();
  void pause_listening();
  void listen_again();
  void watch(Link link, Connection* connection);
  bool flush(Link link, Connection* connection);
  void lose(Link link);
  void ready(Link link, uint32_t what);
  bool receive(Link link, Connection* connection);
  bool take(Link link, Connection* connection);
  bool step(Link link, Connection* connection, std::string_view bytes);
  bool take_message(Link link, Connection* connection);
  void opened(Link link, Connection* connection);
  void close_late();
  size_t unproved() const;
  int64_t now_ms() { return clock_.at(monotonic_ms()); }

  std::string secret_;
  AwakeClock clock_;  // so that nobody is late with the proof because all were suspended
  UniqueFd epoll_, wake_, listener_;
  int port_ = 0;
  int64_t listen_ms_ = -1;  // when to listen again; -1: it listens
  std::map<Link, Connection> connections_;
  std::vector<Link> dirty_;
  std::vector<Event> events_;
  Link next_ = 1;
};

}  // namespace dl::pool
