// SPDX-License-Identifier: Apache-2.0
// The companions of the job (companion_job.h): submits them, watches what becomes of them, and gives them back. Slurm
// is asked on another thread; handlers are called on the loop's. Times are of the awake clock.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/supervise/blocking_calls.h"
#include "launcher/supervise/companion_job.h"
#include "launcher/supervise/companion_jobs.h"

namespace dl::supervise {

class Companions final : public CompanionJobs {
 public:
  // Called when the state of a companion was looked at, unless it waits.
  using Heard = std::function<void(const std::string& job, const CompanionState& state)>;

  // job_id: of the job that the companions are for; name: companion_name().
  Companions(uv_loop_t* loop, std::string job_id, std::string name, Heard heard)
      : job_id_(std::move(job_id)), name_(std::move(name)), heard_(std::move(heard)), calls_(loop) {}

  static constexpr int64_t kWaitMs = 60'000;  // how long one for offered nodes may wait
  void submit(const plan::LaunchPlan& plan, int nodes, const std::optional<OfferedNodes>& offered,
              std::function<void(const Result<std::string>&)> then) override;
  bool submitting() const override { return submitting_; }
  const std::vector<std::string>& held() const override { return held_; }
  void look(int64_t now_ms) override;
  void look_soon() override { looked_ms_ = 0; }
  void give_back(const std::string& job) override;
  void give_back_all() override;
  // Ends those with this name that are not held: of an earlier dlrun, or whose submission seemed to fail. They are
  // looked for from the next look() on, until Slurm has answered once, and after for_ms once more: what a command has
  // sent to a slurmctld that is busy may become a job when the command has given up.
  static constexpr int64_t kStrayMs = 120'000;
  void give_back_strays(int64_t for_ms);

  // Nothing is asked now, and none is still to be given back.
  bool idle() const { return calls_.idle() && going_.empty(); }

 private:
  // When something is tried again: after a pause that grows.
  class Again {
   public:
    bool is_due(int64_t now_ms);

   private:
    int64_t pause_ms_ = 1000;
    int64_t due_ms_ = 0;  // 0: so long after the next question
  };
  struct Going {
    Again again;
    bool asked = false;  // Slurm is asked just now
  };
  struct Strays {
    int64_t for_ms = 0;
    int64_t until_ms = 0;  // 0: it was not looked for them yet
    Again again;
    bool asked = false;
  };
  void look_at_held(int64_t now_ms);
  void cancel(const std::string& job);
  void look_for_strays(int64_t now_ms);

  std::string job_id_, name_;
  Heard heard_;
  BlockingCalls calls_;
  std::vector<std::string> held_;  // their ids
  std::vector<std::string> waiting_;
  std::map<std::string, Going> going_;      // those that were given back, and that Slurm has not ended yet
  std::optional<Strays> strays_;            // while they are looked for
  std::map<std::string, int64_t> offered_;  // of those that wait: until when; 0: they were not looked at yet
  bool submitting_ = false, over_ = false;
  int looks_ = 0;  // that are not answered yet
  int64_t looked_ms_ = 0;
};

}  // namespace dl::supervise
