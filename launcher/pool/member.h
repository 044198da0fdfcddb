// SPDX-License-Identifier: Apache-2.0
// A member that serves: MemberCore with connections, in the caller's thread.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "launcher/pool/hub.h"
#include "launcher/pool/member_core.h"

namespace dl::pool {

// Passes on to the user's object, and measures.
class MeasuredObject : public Object {
 public:
  explicit MeasuredObject(Object* object) : object_(object) {}
  Result<Answer> apply(int slot, std::string_view key, std::string_view bytes) override;
  Result<Answer> read(int slot, std::string_view key, std::string_view bytes) override;
  Result<std::string> save(int slot) override { return object_->save(slot); }
  Status load(int slot, std::string_view bytes) override { return object_->load(slot, bytes); }
  void drop(int slot) override { object_->drop(slot); }
  Result<int> wanted(const Load& load) override { return object_->wanted(load); }
  // What was measured since the last call.
  Load take();

 private:
  template <typename Body>
  Result<Answer> measured(uint64_t* count, Body&& body);
  Object* object_;
  Load load_;
  int64_t since_ns_ = 0;
  double cpu_before_ = 0;
};

class Member {
 public:
  // kInvalid: the directory is no address. kIo.
  static Result<std::unique_ptr<Member>> create(std::string directory, std::string secret, Object* object);

  // Until it may end.
  Status serve();
  void leave();  // any thread, any signal handler

 private:
  Member(std::string directory, std::string address, std::string secret, Object* object);
  Status join();
  Status serve_on();
  Status take(const Event& event);
  Status take_in(const Event& event);
  void opened(Link link);
  Status closed(Link link);
  void closed_peer(Link link);
  void hang_up(Link link);
  void send_posts();
  void send_to(MemberId peer, const Message& message);
  void forget_gone();
  void connect_again();
  Status say_wanted();
  void say_leave();
  int64_t next_ms() const;

  std::string directory_, address_;  // as it was said, and numeric
  Hub hub_;
  MeasuredObject object_;
  MemberCore core_;
  Link directory_link_ = 0;
  std::map<MemberId, Link> peers_;        // that this member has opened
  std::map<Link, MemberId> peer_of_;      // the same
  std::map<MemberId, Link> accepted_;     // from other members
  std::map<MemberId, int64_t> again_ms_;  // when a broken connection is opened anew
  int64_t next_look_ms_ = 0;
  int waiting_ = 0;  // the most calls that came together
  std::atomic<bool> asked_to_leave_{false};
  bool said_so_ = false, joined_ = false;
};

}  // namespace dl::pool
