// SPDX-License-Identifier: Apache-2.0
// One agent watches one learner. It is small and knows nothing of the job: it reports what it sees and does what dlrun
// tells it (launcher/protocol/control_protocol.h). When dlrun is lost, the agent ends the learner; when the agent dies,
// the kernel kills the learner. It never initialises PMIx, so that an MPI program that it starts can.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "launcher/agent/data_fetcher.h"
#include "launcher/agent/gpu_sampler.h"
#include "launcher/agent/held_port.h"
#include "launcher/agent/last_lines.h"
#include "launcher/agent/log_tee.h"
#include "launcher/agent/metrics_reader.h"
#include "launcher/agent/oom_watch.h"
#include "launcher/agent/pmix_server.h"
#include "launcher/agent/progress_watch.h"
#include "launcher/agent/use_sampler.h"
#include "launcher/agent/vote_watch.h"
#include "launcher/protocol/channel.h"
#include "launcher/protocol/progress_file.h"

namespace dl::agent {

class Agent {
 public:
  // How run() ended. The agent exits with 0 after kDone (all was reported to dlrun, however the learner ended), and
  // with 1 after kLost (dlrun was lost).
  enum class End { kDone = 0, kLost = 1, kAgain };

  // Runs to the end. kAgain: dlrun keeps this process for the next attempt. The caller then destroys this object and
  // starts the agent anew by exec, so that nothing of the old attempt is left. Fails if dlrun cannot be reached at the
  // start.
  Result<End> run();

 private:
  using Clock = std::chrono::steady_clock;

  Status watch_signals();
  Status greet();
  Status hold_ports(protocol::Hello* hello);
  void handle_signals();
  void handle(const protocol::ControlMessage& message);
  void on_start(const protocol::Start& message);
  void read_output();
  void feed(std::string_view output);
  std::string take_rest();
  void pass_on(int signal);
  void reap();
  void learner_ended(int wait_status, int64_t cpu_ms);
  void report_progress(bool force);
  void add_cause(protocol::Exited* exited) const;
  void send_exit(protocol::Exited exited, const std::string& rest = {});
  int poll_timeout_ms() const;
  void wait_for_events();
  void lost_dlrun();  // agent_lost.cpp
  void see_to_requeue();
  void watch_progress();
  void watch_votes();
  void take_stacks(const std::string& path);
  void stacks_taken();
  void watch_gpus(const protocol::Start& start);
  void report_gpus(bool rest = false);
  void watch_use();
  void fetch_data(const protocol::Fetch& fetch);
  void watch_data();
  void read_metrics(const protocol::Start& start);
  void watch_log();
  void report_log(uint64_t bytes);

  protocol::Channel channel_;
  protocol::ProgressFile progress_;
  PmixServer pmix_;
  HeldPort port_, coordinator_port_, ras_port_;  // held by rank 0 alone
  std::vector<HeldPort> ports_;                  // for its learner's own use
  LogTee tee_;
  MetricsReader metrics_;
  DataFetcher data_;
  LastLines last_;
  OomWatch memory_;
  std::string error_file_;
  std::vector<std::string> requeue_;  // arguments of dl-requeue; empty: no learner was started
  ProgressWatch watch_;
  VoteWatch votes_;
  GpuSampler gpus_;
  UseSampler use_;
  uint64_t log_bytes_ = 0, log_reported_ = 0;
  int64_t log_look_ms_ = 0, log_looked_ms_ = 0;
  int64_t last_sample_ms_ = 0;
  bool watching_ = false, stall_said_ = false, loss_said_ = false, output_loss_said_ = false, first_on_node_ = false;
  pid_t stacks_writer_ = 0;
  UniqueFd signals_, output_;
  std::string secret_;
  int rank_ = -1;
  bool started_ = false, asked_ = false;
  bool terminated_ = false;  // this process itself has got SIGTERM: Slurm ends the job
  bool done_ = false;        // all was reported; dlrun answers with Again or closes the connection
  bool leave_ = false;       // end without waiting for dlrun
  bool again_ = false;
  pid_t learner_ = 0;
  int passed_signal_ = 0;         // Start::passed_signal
  int64_t learner_since_ms_ = 0;  // of the wall clock
  int64_t request_ = 0;
  bool request_open_ = false;
  protocol::ProgressFile::View reported_;
  int64_t reported_done_ = 0;
  Clock::time_point last_report_{};
  Clock::time_point kill_at_ = Clock::time_point::max();
};

}  // namespace dl::agent
