// SPDX-License-Identifier: Apache-2.0
// The connection to dlrun is lost for good: the learner ends. If no guard is left that could start another dlrun, the
// job goes back into the queue, or its cancellation is recorded (launcher/guard/dl_requeue.cpp); the first agent of
// each node starts the program that finds out.
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "common/base/this_process.h"
#include "common/contract/env_names.h"
#include "common/process/child_process.h"
#include "common/process/descendants.h"
#include "launcher/agent/agent.h"

namespace dl::agent {
namespace {

using namespace std::chrono_literals;

constexpr auto kKillLimit = 3s;

}  // namespace

void Agent::lost_dlrun() {
  gpus_.stop();
  // The PMIx server is spared: it has lost dlrun, too, and ends by itself. So does what reads the metrics.
  kill_descendants(kKillLimit, {pmix_.pid(), metrics_.pid()});
  read_output();
  tee_.feed("dl-agent: dlrun is gone; this learner was ended\n");
  tee_.finish(500ms);
  metrics_.close();
  see_to_requeue();
}

// dl-requeue is a program of its own, so that agents need not load its libraries at each start. It is waited for,
// because Slurm ends the job step with its last task. If dlrun had asked the learner to end, it was stopping the job,
// and dl-requeue puts nothing back.
void Agent::see_to_requeue() {
  if (requeue_.empty() || !first_on_node_ || std::getenv("SLURM_JOB_ID") == nullptr) return;
  if (environment_value(env::kMayRequeue) == env::kNeverRequeue) return;
  if (asked_) ::unsetenv(env::kMayRequeue);
  const auto self = own_program();
  auto program = self ? program_beside(*self, "dl-requeue", "guard") : Result<std::string>(self.error());
  if (!program) return;
  SpawnOptions options;
  options.argv = {*program};
  options.argv.insert(options.argv.end(), requeue_.begin(), requeue_.end());
  options.new_process_group = true;
  // Slurm sends these signals to all processes of a job that it ends, also when the batch script has just died with
  // dlrun.
  options.ignored_signals = {SIGTERM, SIGINT, SIGHUP, SIGUSR2};
  const Result<pid_t> pid = spawn_process(options);
  if (!pid) return;
  while (::waitpid(*pid, nullptr, 0) < 0 && errno == EINTR) continue;
}

}  // namespace dl::agent
