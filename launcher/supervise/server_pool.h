// SPDX-License-Identifier: Apache-2.0
// The elastic pool of an attempt: its directory (launcher/pool), which dlrun hosts, and the places of its servers. A
// new pool for each attempt. The directory has a thread of its own; this class is used from the loop's thread. After
// close() the loop must run until nothing is left to do before this is destroyed.
#pragma once

#include <memory>
#include <string>

#include "common/base/result.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/pool/directory.h"
#include "launcher/protocol/control_protocol.h"
#include "launcher/supervise/blocking_calls.h"
#include "launcher/supervise/server_places.h"

namespace dl::supervise {

class ServerPool {
 public:
  explicit ServerPool(uv_loop_t* loop) : calls_(loop) {}
  virtual ~ServerPool() = default;
  ServerPool(const ServerPool&) = delete;
  ServerPool& operator=(const ServerPool&) = delete;

  // The plan has a pool: opens it, writes its secret, and puts its address into *facts. endpoint: where dlrun listens.
  // Errors: kIo, kNoSpace (the file of the secret), and those of parse_endpoint().
  Status open(const plan::LaunchPlan& plan, const std::string& endpoint, plan::RunFacts* facts);
  bool is_open() const { return directory_ != nullptr; }
  // Its servers end by themselves, with status 0. Does not wait for that.
  void close();

  // What the directory knows now; none: nothing. Tests say it themselves.
  virtual pool::DirectoryFacts facts() const { return directory_ ? directory_->facts() : pool::DirectoryFacts(); }
  ServerPlaces::Pool now() const;
  ServerPlaces& places() { return places_; }
  LostState& lost_state() { return lost_state_; }

  protocol::PoolStatus status() const;

 private:
  std::unique_ptr<pool::Directory> directory_;
  ServerPlaces places_;
  LostState lost_state_;
  ServerRange asked_;
  std::string secret_file_;
  BlockingCalls calls_;  // closes directories
};

}  // namespace dl::supervise
