// SPDX-License-Identifier: Apache-2.0
// The data of an attempt: which agents fetch it to their nodes, and how far they are. One agent of each node does, that
// of its first learner, and holds it as long as the attempt lasts. There is no clock and no socket in this class.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/plan/launch_plan.h"
#include "launcher/protocol/control_protocol.h"
#include "launcher/record/job_dir.h"
#include "launcher/supervise/first_cause.h"

namespace dl::supervise {

class DataFetch {
 public:
  // Forgets the last attempt. Without --data, ready() is true from then on.
  void begin_attempt(const plan::LaunchPlan& plan);

  bool must_ask() const { return wanted_ && nodes_.empty(); }
  // What agents are to be told, by rank. dir: the job's.
  std::vector<std::pair<int, protocol::Fetch>> ask(const plan::LaunchPlan& plan, const record::JobDir& dir);
  bool ready() const;  // all is there on all nodes
  bool under_way() const { return !nodes_.empty() && !ready(); }
  // The agent of this rank must stay until the attempt is over, because it holds the data of its node; also while it
  // begins anew.
  bool holds(int rank) const { return nodes_.count(rank) != 0; }

  // An agent's answer. A failure if its dl-data has ended before all was there.
  std::optional<Failure> heard(int rank, const protocol::Fetched& fetched);
  // "fetching data: 1.2 of 4 GiB on 2 nodes at 210 MiB/s"; empty if nothing is under way.
  std::string text() const;

 private:
  bool wanted_ = false;
  std::map<int, protocol::Fetched> nodes_;  // by rank of the agent
};

}  // namespace dl::supervise
