// SPDX-License-Identifier: Apache-2.0
// dl-data: moves the data of a job in and its results out, as the job's user. dlrun, its agents and dlctl start it; the
// exit statuses are in fault.h.
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/parse.h"
#include "common/base/standard_files.h"
#include "common/cli/command_line.h"
#include "common/remote/scrub.h"
#include "launcher/data/cache_commands.h"
#include "launcher/data/fault.h"
#include "launcher/data/fetch.h"
#include "launcher/data/store.h"
#include "launcher/record/sources_file.h"

namespace dl::data {
namespace {

constexpr int kTouchMs = 3600 * 1000;
constexpr int64_t kMostSeconds = 10LL * 365 * 24 * 3600;

struct Arguments {
  std::string sources, cache, dest, progress, to, limit = "0";
  std::vector<std::string> from, places;
  int64_t node = 0, nodes = 1, deadline = 0, streams = 0, tries = 6, floor = 5, lease_pid = 0;
  bool hold = false;
  CacheArguments of_cache;
};

int complain(const Error& error) {
  std::fprintf(stderr, "dl-data: %s\n", scrubbed(error.text, secrets_of_environment()).c_str());
  return exit_status(error);
}

Patience patience_of(const Arguments& arguments) {
  Patience patience;
  patience.tries = static_cast<unsigned>(arguments.tries);
  return patience;
}

// Keeps the leases until standard input is closed, or the process is gone.
Status hold(const Arguments& arguments, const Held& held) {
  pollfd ends[2] = {{-1, POLLIN, 0}, {-1, POLLIN, 0}};
  UniqueFd process;
  if (arguments.lease_pid > 0) {
    process = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(arguments.lease_pid), 0)));
    if (!process)
      return errno == ESRCH ? Status()
                            : Status(errno_error("watch process " + std::to_string(arguments.lease_pid), errno));
    ends[0].fd = process.get();
  }
  if (arguments.hold) ends[1].fd = STDIN_FILENO;
  std::vector<NodeCache> caches;
  if (!held.keys.empty() || !held.job.empty())
    if (auto cache = NodeCache::open(arguments.cache, {})) caches.push_back(*std::move(cache));
  for (;;) {
    const int ready = ::poll(ends, 2, kTouchMs);
    if (ready < 0 && errno != EINTR) return errno_error("wait", errno);
    for (const NodeCache& cache : caches) {
      for (const std::string& key : held.keys) cache.touch(key);
      if (!held.job.empty()) cache.touch_job(held.job);
    }
    if (ready <= 0) continue;
    if (ends[0].revents != 0) return {};
    char byte = 0;
    const ssize_t n = (ends[1].revents != 0) ? ::read(STDIN_FILENO, &byte, 1) : 1;
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) return {};
  }
}

int fetch_command(const Arguments& arguments) {
  FetchOptions options;
  auto sources = record::read_sources(arguments.sources);
  if (!sources) return complain(sources.error());
  options.sources = *std::move(sources);
  options.cache = arguments.cache;
  options.dest = arguments.dest;
  while (options.dest.size() > 1 && options.dest.back() == '/') options.dest.pop_back();
  options.node = static_cast<unsigned>(arguments.node);
  options.nodes = static_cast<unsigned>(arguments.nodes);
  if (options.node >= options.nodes)
    return complain({Errc::kInvalid, "--node " + std::to_string(options.node) +
                                         " is out of range; allowed: 0 to one less than --nodes"});
  const auto limit = parse_bytes(arguments.limit);
  if (!limit) return complain(limit.error());
  options.limits.limit = *limit;
  options.limits.floor_percent = static_cast<uint64_t>(arguments.floor);
  options.transfer.streams = static_cast<unsigned>(arguments.streams);
  options.transfer.patience = patience_of(arguments);
  Progress progress(arguments.progress);
  auto held = fetch(options, &progress);
  if (!held) return complain(held.error());
  progress.state(Progress::State::kDone);
  progress.done();
  std::printf("%s\n", progress.json().dump().c_str());
  if (Status told = flush_standard_output(); !told && !arguments.hold) return complain(told.error());
  if (arguments.hold || arguments.lease_pid > 0)
    if (Status ended = hold(arguments, *held); !ended) return complain(ended.error());
  return kExitDone;
}

int store_command(const Arguments& arguments) {
  StoreOptions options;
  for (const std::string& text : arguments.from) {
    auto folder = parse_store_folder(text);
    if (!folder) return complain(folder.error());
    options.folders.push_back(*std::move(folder));
  }
  options.to = arguments.to;
  if (arguments.deadline > 0) options.deadline_ms = monotonic_ms() + arguments.deadline * 1000;
  options.streams = static_cast<unsigned>(arguments.streams);
  options.patience = patience_of(arguments);
  Progress progress(arguments.progress);
  const auto stored = store(options, &progress);
  if (!stored) return complain(stored.error());
  progress.state(Progress::State::kDone);
  progress.done();
  std::printf("%s\n", progress.json().dump().c_str());
  if (!stored->left.empty())
    std::fprintf(stderr, "dl-data: stored all but %s%s; see \"left\" in %s there\n", stored->left.front().c_str(),
                 stored->left.size() > 1 ? (" and " + std::to_string(stored->left.size() - 1) + " more").c_str() : "",
                 kStoredManifest);
  return kExitDone;
}

int check_command(const Arguments& arguments) {
  if (!arguments.sources.empty()) {
    const auto sources = record::read_sources(arguments.sources);
    if (!sources) return complain(sources.error());
    for (const Source& source : *sources)
      if (Status good = check_origin(source); !good) return complain(good.error());
  }
  for (const std::string& to : arguments.places)
    if (Status good = check_destination(to); !good) return complain(good.error());
  return kExitDone;
}

void add_common(CommandLine* line, Arguments* arguments) {
  line->option("--progress", &arguments->progress, "rewritten each second with how far it is (JSON)").form("FILE");
  line->option("--streams", &arguments->streams, "transfers at once; 0: what suits the source")
      .between(0, 256)
      .shows_default();
  line->option("--tries", &arguments->tries, "how often a failing server is asked before it is given up")
      .between(1, 1000)
      .shows_default();
}

int run(int argc, char** argv) {
  Arguments arguments;
  int status = kExitDone;
  CommandLine line("dl-data", "Moves the data of a job in and its results out. Started by dlrun and dlctl.");
  line.require_subcommand();
  CommandLine* check = line.subcommand("check", "Looks whether sources are there, and places to store in can be.");
  check->option("--sources", &arguments.sources, "the sources (JSON)").form("FILE");
  check->option("--to", &arguments.places, "a path, or NAME:PATH of the rclone configuration; may be repeated")
      .form("DEST");
  check->action([&] { status = check_command(arguments); });

  CommandLine* fetch = line.subcommand("fetch", "Fetches sources into the cache, and links DIR to them.");
  fetch->option("--sources", &arguments.sources, "the sources (JSON)").form("FILE").required();
  fetch->option("--cache", &arguments.cache, "the site's folder for caches; each user has one in it")
      .form("DIR")
      .required();
  fetch->option("--dest", &arguments.dest, "becomes the folder of the data").form("DIR").required();
  fetch->option("--node", &arguments.node, "which part of a shard is this node's")
      .between(0, 1'000'000)
      .shows_default();
  fetch->option("--nodes", &arguments.nodes, "how many parts there are").between(1, 1'000'000).shows_default();
  fetch->option("--limit", &arguments.limit, "the most that the user's cache may hold; 0: no limit")
      .form("BYTES")
      .shows_default();
  fetch->option("--floor", &arguments.floor, "percent of the disk that stay free").between(0, 100).shows_default();
  fetch->flag("--hold", &arguments.hold, "keep the data from being evicted until standard input is closed");
  fetch->option("--lease-pid", &arguments.lease_pid, "the same, until this process is gone")
      .form("PID")
      .between(1, 1 << 30);
  add_common(fetch, &arguments);
  fetch->action([&] { status = fetch_command(arguments); });

  CommandLine* store = line.subcommand("store", "Copies results to a path or a remote, a manifest last.");
  store->option("--from", &arguments.from, "what to store, and the folder for it below DEST")
      .form("DIR[=NAME]")
      .required();
  store->option("--to", &arguments.to, "a path, or NAME:PATH of the rclone configuration").form("DEST").required();
  store->option("--deadline", &arguments.deadline, "end after so long, with what is stored by then")
      .form("SECONDS")
      .between(1, kMostSeconds);
  add_common(store, &arguments);
  store->action([&] { status = store_command(arguments); });

  add_cache_commands(&line, &arguments.of_cache, [&](const Result<std::string>& said) {
    if (!said)
      status = complain(said.error());
    else
      std::printf("%s", said->c_str());
  });

  const auto text = line.parse(argc, argv);
  if (!text) {
    std::fprintf(stderr, "%s\n", scrubbed(line.complaint(text.error())).c_str());
    return kExitWrongCommand;
  }
  if (!text->empty())
    std::printf("%s", text->c_str());
  else
    line.run_action();
  if (Status told = flush_standard_output(); !told && status == kExitDone) return complain(told.error());
  return status;
}

}  // namespace
}  // namespace dl::data

int main(int argc, char** argv) try {
  dl::open_closed_standard_files();
  ::signal(SIGPIPE, SIG_IGN);
  return dl::data::run(argc, argv);
} catch (const std::exception& error) {
  std::fprintf(stderr, "dl-data: %s\n", error.what());
  return dl::data::kExitFault;
}
