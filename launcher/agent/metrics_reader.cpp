// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/metrics_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <iterator>
#include <utility>

#include "common/base/this_process.h"
#include "common/process/child_process.h"

extern char** environ;

namespace dl::agent {
namespace {

constexpr std::chrono::milliseconds kEndLimit{2000};  // it takes 1.5 s at most by itself
constexpr const char* kOurs = "DL_CONTROL";           // variables for agents, the job's secret among them

}  // namespace

Status MetricsReader::start(std::vector<std::string> words) {
  DL_TRY_ASSIGN(const std::string self, own_program());
  DL_TRY_ASSIGN(const std::string program, program_beside(self, "dl-metrics", "metrics"));
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return errno_error("create a pipe", errno);
  const UniqueFd theirs(ends[0]);
  UniqueFd ours(ends[1]);
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return errno_error("open /dev/null", errno);
  SpawnOptions options;
  options.argv = {program};
  options.argv.insert(options.argv.end(), std::make_move_iterator(words.begin()), std::make_move_iterator(words.end()));
  std::vector<std::string> environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    if (std::strncmp(*entry, kOurs, std::strlen(kOurs)) != 0) environment.emplace_back(*entry);
  options.environment = std::move(environment);
  options.stdin_fd = theirs.get();
  options.stdout_fd = null.get();
  options.stderr_fd = null.get();  // else whoever reads our output would wait for its end
  options.new_process_group = true;
  // Slurm sends these to all processes of a job that it ends; the last values are wanted then, too.
  options.ignored_signals = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
  DL_TRY_ASSIGN(pid_, spawn_process(options));
  alive_ = std::move(ours);
  return {};
}

void MetricsReader::reaped(pid_t pid) {
  if (pid == pid_) pid_ = 0;
}

MetricsReader::~MetricsReader() {
  alive_.reset();
  if (pid_ > 0) end_child(pid_, kEndLimit);
}

}  // namespace dl::agent
