// SPDX-License-Identifier: Apache-2.0
// A directory that serves: DirectoryCore and the rule of the size, with connections and a thread of their own.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "common/base/awake_clock.h"
#include "launcher/pool/directory_core.h"
#include "launcher/pool/hub.h"
#include "launcher/pool/size_rule.h"

namespace dl::pool {

constexpr int64_t kLookMs = 200;         // between two looks at what members want
constexpr int64_t kCopyAgainMs = 10000;  // between two tries to copy slots that could not be saved
// A member that says nothing for so long is given up. Longer than a broken connection takes to be noticed at its other
// end (hub.cpp), so that a member without a directory has ended before others take its slots over. The time for which
// the directory itself did not run, since its job was suspended or `size` was slow, does not count.
constexpr int64_t kSilentMs = 10000;

struct DirectorySettings {
  std::string listen = "127.0.0.1";
  int port = 0;
  std::string secret;
  SizeRule rule;  // min and max, too
  bool with_copies = true;
  bool fixed = false;
  int64_t silent_ms = kSilentMs;                      // shorter in tests
  std::function<void(int wanted, int present)> size;  // may be empty
};

struct DirectoryFacts {
  int members = 0, wanted = 0, unsettled = 0, lost = 0;
  int leaving = 0;  // members that are about to leave, or were told that they may end and have not closed yet
  uint64_t moved = 0, version = 0;
};

class Directory {
 public:
  static Result<std::unique_ptr<Directory>> open(DirectorySettings settings);
  ~Directory();
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  int port() const { return hub_.port(); }
  DirectoryFacts facts() const;

 private:
  explicit Directory(DirectorySettings settings);
  Status start();
  void run() noexcept;
  void serve();
  void take(const Event& event);
  void gone(Link link);
  void look();
  void give_up_silent();
  void send_posts();
  void close_pool();
  void note_facts();
  int64_t now_ms() { return clock_.at(monotonic_ms()); }

  DirectorySettings settings_;
  Hub hub_;
  DirectoryCore core_;
  struct Seen {
    Link link = 0;
    int wanted = 0;  // 0: nothing said yet
    int64_t heard_ms = 0;
  };
  std::map<MemberId, Seen> members_;
  std::map<Link, MemberId> links_;
  std::set<Link> leaving_;  // were told that they may end
  SizeMemory memory_;
  int told_wanted_ = -1, told_present_ = -1;
  AwakeClock clock_;  // of the thread alone
  int64_t next_look_ms_ = 0, next_copy_ms_ = 0;
  std::atomic<bool> ending_{false};
  mutable std::mutex mutex_;  // guards facts_
  DirectoryFacts facts_;
  std::thread thread_;
};

}  // namespace dl::pool
