// SPDX-License-Identifier: Apache-2.0
// A whole pool without sockets or threads: the very code of directory, members and clients, and between them queues of
// messages from which a seed chooses the next. Connections break, members join, leave, are killed, and are given up
// although they live.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "launcher/pool/client_core.h"
#include "launcher/pool/directory_core.h"
#include "launcher/pool/member_core.h"

namespace dl::pool {

// Remembers of each key the updates in their order. An update is answered by its place.
class LogObject : public Object {
 public:
  explicit LogObject(int slots) : logs(static_cast<size_t>(slots)) {}
  Result<Answer> apply(int slot, std::string_view key, std::string_view bytes) override;
  Result<Answer> read(int slot, std::string_view key, std::string_view bytes) override;
  Result<std::string> save(int slot) override;
  Status load(int slot, std::string_view bytes) override;
  void drop(int slot) override { logs[static_cast<size_t>(slot)].clear(); }
  Result<int> wanted(const Load& /*load*/) override { return 1; }

  std::vector<std::map<std::string, std::vector<uint32_t>, std::less<>>> logs;
  bool cannot_save = false;
};

class World {
 public:
  struct Settings {
    int slots = 6, first = 1, clients = 2, calls = 8;  // calls: of each client
    bool with_copies = true;
    int joins = 3, leaves = 2, kills = 0, resets = 3;
    bool wild = false;     // kill at any time; otherwise only when each slot has its copy
    bool zombies = false;  // instead of being killed, a member is given up and lives on for a while
    bool hangs = false;    // it reads nothing any more either, so that nothing breaks
    int save_faults = 0;   // so often a member cannot save slots for a while
  };
  World(const Settings& settings, uint64_t seed);

  // Runs the schedule until nothing is left to do. Returns what is wrong; empty: nothing.
  std::string run();

  const DirectoryCore& directory() const { return directory_; }
  int faults() const { return faults_; }
  int kills() const { return killed_; }

 private:
  enum class Way { kToMember, kToDirectory, kStream, kAck, kCall, kAnswer, kTableAsked, kTable };
  struct WayId {
    Way way;
    uint32_t from, to;
    bool operator<(const WayId& other) const {
      return way != other.way ? way < other.way : from != other.from ? from < other.from : to < other.to;
    }
  };
  // Something can be read from it: it has messages or is ended.
  struct Queue {
    std::deque<Message> messages;
    bool ended = false;  // the other end is gone: known when the rest has been read
  };
  struct Member {
    explicit Member(int slots) : object(slots), core(&object, slots) {}
    LogObject object;
    MemberCore core;
    bool given_up = false;  // the directory has declared it lost
    bool hangs = false;
  };
  struct Client {
    Client(uint64_t id, int slots) : core(id, slots) {}
    ClientCore core;
    std::vector<Call> call;  // the one under way
    int made = 0;
  };

  uint32_t random(uint32_t below) { return static_cast<uint32_t>(random_() % below); }
  void act();
  void join();
  void leave();
  void kill(bool zombie);
  void end(uint32_t member);
  void reset();
  void fault();
  void call(uint32_t client);
  void flush();
  bool deliver();
  bool reads(const WayId& id) const;
  void arrive(const WayId& id, const Message& message);
  void closed(const WayId& id);
  bool busy() const;
  std::string wrong_now() const;
  std::string wrong_at_end() const;
  void finished(Client* client);

  Settings settings_;
  std::mt19937_64 random_;
  DirectoryCore directory_;
  std::map<uint32_t, std::unique_ptr<Member>> members_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::map<WayId, Queue> queues_;
  std::vector<std::map<WayId, Queue>::iterator> ready_;          // what deliver() may choose from
  std::vector<std::pair<std::string, uint32_t>> updates_;        // answered: key and id
  std::map<std::pair<std::string, uint32_t>, uint32_t> places_;  // what the answer said
  std::set<std::string> lost_keys_;
  std::string wrong_;
  int64_t now_ms_ = 1;
  uint32_t next_update_ = 1;
  int joined_ = 0, left_ = 0, killed_ = 0, were_reset_ = 0, faults_ = 0;
  uint64_t steps_ = 0;
};

}  // namespace dl::pool
