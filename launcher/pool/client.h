// SPDX-License-Identifier: Apache-2.0
// A client: ClientCore with connections. Calls block.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/awake_clock.h"
#include "launcher/pool/client_core.h"
#include "launcher/pool/hub.h"

namespace dl::pool {

class Client {
 public:
  // kInvalid: the directory is no address. kIo.
  static Result<std::unique_ptr<Client>> open(std::string directory, std::string secret, double timeout_s);

  // Errors: kTimeout, after which nothing can be called any more (kBusy), as after an exception. Time for which this
  // process was suspended does not count.
  Status call(std::vector<Call>* calls);
  // For so long at most.
  void farewell(double limit_s);

 private:
  Client(std::string directory, std::string address, std::string secret, double timeout_s, uint64_t id);
  Status until_done(int64_t limit_ms);
  void take(const Event& event);
  void send(const ClientPost& post);
  int64_t now_ms() { return clock_.at(monotonic_ms()); }

  std::string directory_, address_;  // as it was said, and numeric
  Hub hub_;
  ClientCore core_;
  double timeout_s_;
  AwakeClock clock_;
  std::map<MemberId, Link> links_;  // 0: the directory
  std::map<Link, MemberId> who_;
  bool abandoned_ = false;  // a call is under way, or was not carried out to its end
  bool met_directory_ = false;
};

}  // namespace dl::pool
