// SPDX-License-Identifier: Apache-2.0
// What the agent looks at from time to time: whether its learner makes progress, what the learner does if not, how the
// learner votes, and what it uses.
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "common/base/awake_clock.h"
#include "common/process/descendants.h"
#include "launcher/agent/agent.h"
#include "launcher/agent/stacks.h"

namespace dl::agent {
namespace {

constexpr int64_t kSampleMs = 1000;                              // how often progress is looked for
constexpr const char* kEventsFolder = "tb";                      // in LOG_DIR, as FfDL's programs name it
constexpr const char* kEmetricsFile = "evaluation-metrics.txt";  // in LOG_DIR, as FfDL's programs name it

}  // namespace

void Agent::watch_progress() {
  // The watch is told of every look, so that time in which the agent itself did not run does not count as silence.
  const int64_t now_ms = awake_ms();
  if (!watching_ || learner_ <= 0 || stall_said_ || now_ms - last_sample_ms_ < kSampleMs) return;
  last_sample_ms_ = now_ms;
  const protocol::ProgressFile::View page = progress_.read();
  ProgressSample sample;
  sample.at_ms = now_ms;
  sample.state = page.state;
  sample.step = page.step;
  sample.saved_step = page.saved_step;
  sample.sending = page.sending;
  sample.log_bytes = log_bytes_;
  if (watch_.wants_cpu()) sample.cpu_ms = cpu_ms_of_tree(learner_);
  watch_.add(sample);
  if (!watch_.stalled()) return;
  stall_said_ = true;
  channel_.send(protocol::Stalled{watch_.silent_ms()});
}

void Agent::watch_votes() {
  if (learner_ <= 0 || progress_.path().empty()) return;
  if (const auto vote = votes_.look(progress_.vote(), awake_ms()))
    channel_.send(protocol::Voted{vote->change, vote->reason});
}

// A child process writes the stacks. That may take seconds, in which the agent has to listen to dlrun.
void Agent::take_stacks(const std::string& path) {
  if (learner_ <= 0 || stacks_writer_ > 0) return;
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    // Only the first agent of a node asks NCCL, whose status is the same for all learners of the node.
    write_stacks(learner_, first_on_node_, path);
    ::_exit(0);
  }
  if (pid > 0) {
    stacks_writer_ = pid;
  } else {
    stacks_taken();
  }
}

void Agent::stacks_taken() {
  stacks_writer_ = 0;
  protocol::StandingStill still;
  still.step = progress_.read().step;
  still.state = std::string(1, main_thread_state(learner_));
  still.silent_ms = watch_.silent_ms();
  still.last_lines = last_.lines();
  channel_.send(still);
}

// Starts the measuring of what the learner uses, too. The GPUs are those that Slurm gives the agent, whatever the
// learner is given or sets itself.
void Agent::watch_gpus(const protocol::Start& start) {
  const LearnerContext& its = start.context;
  const VisibleGpus visible = visible_gpus(start.gpus, start.narrowed);
  gpus_.start(gpus_of_learner(visible.get(), its.local_rank, its.local_world_size, its.gpus_per_learner),
              start.gpu_look_ms);
  use_.start(start.use_ms, first_on_node_ ? its.local_world_size : 0, awake_ms());
}

// Metrics are a convenience: a learner trains without them.
void Agent::read_metrics(const protocol::Start& start) {
  if (start.series.empty()) return;
  const std::string folder = start.series.substr(0, start.series.rfind('/'));
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    return tee_.feed("dl-agent: " + errno_error("write to " + folder, errno).text +
                     ": no metrics of this learner are recorded\n");
  std::vector<std::string> words = {"series=" + start.series,
                                    "log=" + start.log,
                                    "values=" + start.values,
                                    "emetrics=" + start.context.log_dir + "/" + kEmetricsFile,
                                    "progress=" + progress_.path(),
                                    "batch=" + std::to_string(start.context.global_batch),
                                    "since=" + std::to_string(learner_since_ms_),
                                    "events=" + start.context.log_dir + "/" + kEventsFolder};
  for (const std::string& pattern : start.metrics) words.push_back("pattern=" + pattern);
  if (Status started = metrics_.start(std::move(words)); !started)
    tee_.feed("dl-agent: " + started.error().text + ": no metrics of this learner are recorded\n");
}

void Agent::watch_log() {
  const int64_t now_ms = awake_ms();
  if (log_look_ms_ <= 0 || done_ || now_ms - log_looked_ms_ < log_look_ms_) return;
  log_looked_ms_ = now_ms;
  report_log(tee_.log_bytes());
}

void Agent::report_log(uint64_t bytes) {
  if (log_look_ms_ <= 0 || bytes == log_reported_) return;
  log_reported_ = bytes;
  channel_.send(protocol::LogSize{bytes});
}

void Agent::report_gpus(bool rest) {
  if (const auto use = gpus_.read(rest); use && !done_) channel_.send(*use);
}

void Agent::watch_use() {
  if (learner_ <= 0) return;
  if (const auto use = use_.look({pmix_.pid(), metrics_.pid(), gpus_.pid(), stacks_writer_}, awake_ms()))
    channel_.send(*use);
}

// dl-data may be missing on this node, and then the job is told so like of any other failure of it.
void Agent::fetch_data(const protocol::Fetch& fetch) {
  if (started_ || data_.has_started()) return;
  if (Status started = data_.start(fetch); !started) {
    protocol::Fetched failed;
    failed.exit = 127;
    failed.error = started.error().text;
    channel_.send(failed);
  }
}

void Agent::watch_data() {
  if (const auto fetched = data_.look(awake_ms())) channel_.send(*fetched);
}

}  // namespace dl::agent
