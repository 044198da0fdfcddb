// SPDX-License-Identifier: Apache-2.0
// dl-metrics: an agent starts one beside its learner (collector.h), with NAME=VALUE for each thing it has to know, and
// a pipe as standard input. When the pipe is closed, it reads what is left, and ends. Users do not call it.
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>

#include "common/base/awake_clock.h"
#include "common/base/parse.h"
#include "common/base/standard_files.h"
#include "launcher/metrics/collector.h"

namespace dl::metrics {
namespace {

constexpr int kLookMs = 500;
constexpr int kSoonMs = 50;
constexpr int64_t kSoonLimitMs = 60'000;  // how long looks are taken soon for a learner that has not begun to train
constexpr int64_t kFinishMs = 1500;       // the agent waits a little longer for our end
constexpr int kOtherNiceness = 5;

int64_t unix_ms() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
}

// True when the agent has closed its end, or is gone.
bool ended(int wait_ms) {
  pollfd in{STDIN_FILENO, POLLIN, 0};
  if (::poll(&in, 1, wait_ms) <= 0) return false;
  char byte = 0;
  const ssize_t n = ::read(STDIN_FILENO, &byte, 1);
  return n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
}

Result<CollectorOptions> options_of(int argc, char** argv) {
  CollectorOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (name == "series") {
      options.series = value;
    } else if (name == "log") {
      options.log = value;
    } else if (name == "values") {
      options.values = value;
    } else if (name == "emetrics") {
      options.emetrics = value;
    } else if (name == "pattern") {
      options.patterns.push_back(value);
    } else if (name == "events") {
      options.events = value;
    } else if (name == "since") {
      DL_TRY_ASSIGN(options.since_ms, parse_int(value, 0, 1'000'000'000'000'000));
    } else if (name == "progress") {
      options.progress = value;
    } else if (name == "batch") {
      DL_TRY_ASSIGN(options.batch, parse_int(value, 0, 1'000'000'000'000));
    }  // others are of an agent of another version
  }
  if (options.series.empty() || options.log.empty())
    return Error{Errc::kInvalid, "dl-metrics is started by dl-agent; see dlrun(1)"};
  return options;
}

int run(int argc, char** argv) {
  auto options = options_of(argc, argv);
  if (!options) {
    std::fprintf(stderr, "%s\n", options.error().text.c_str());
    return 2;
  }
  ::setpriority(PRIO_PROCESS, 0, kOtherNiceness);
  Collector collector(*options);
  if (Status opened = collector.open(); !opened) {
    std::fprintf(stderr, "dl-metrics: %s\n", opened.error().text.c_str());
    return 1;
  }
  const int64_t soon_until = awake_ms() + kSoonLimitMs;
  bool more = false;
  while (!ended(more ? 0 : collector.waits_for_begin() && awake_ms() < soon_until ? kSoonMs : kLookMs))
    more = collector.look(unix_ms());
  collector.finish(unix_ms(), awake_ms() + kFinishMs);
  return 0;
}

}  // namespace
}  // namespace dl::metrics

int main(int argc, char** argv) try {
  dl::open_closed_standard_files();
  return dl::metrics::run(argc, argv);
} catch (const std::exception& error) {
  std::fprintf(stderr, "dl-metrics: %s\n", error.what());
  return 1;
}
