// SPDX-License-Identifier: Apache-2.0
// dlpolicyd: lends idle GPUs and takes them back. This file reads the command line and makes sure that no second
// dlpolicyd runs.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "common/base/parse.h"
#include "common/base/standard_files.h"
#include "common/base/unique_fd.h"
#include "common/cli/command_line.h"
#include "config.h"
#include "slurm-plugin/policyd/daemon.h"

namespace dl::policyd {
namespace {

// Exit codes; dlpolicyd(8) has the same table.
enum ExitCode { kDone = 0, kFailed = 1, kUsage = 2, kRunsAlready = 3, kOtherSlurm = 4 };

// The file stays locked as long as the process lives. It holds the process id for people to read.
Result<UniqueFd> lock(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (file.get() < 0) return errno_error("--pidfile " + path, errno);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return errno_error("--pidfile " + path, errno);
    return Error{Errc::kBusy, fmt::format("another dlpolicyd runs: it has {} locked", path)};
  }
  const std::string text = fmt::format("{}\n", ::getpid());
  if (::ftruncate(file.get(), 0) != 0 || ::write(file.get(), text.data(), text.size()) < 0)
    return errno_error("--pidfile " + path, errno);
  return file;
}

int fail(const Error& error, int code) {
  std::fprintf(stderr, "dlpolicyd: %s\n", error.text.c_str());
  return code;
}

int run(int argc, char** argv) {
  DaemonOptions options;
  options.config = default_site_config_path(true);
  std::string pidfile = "/run/dlpolicyd.pid";
  std::string interval = "1s";
  bool verbose = false;
  CommandLine line("dlpolicyd", "Lends idle GPUs of tenants' quotas, and takes them back when they are claimed.");
  line.version("--version", PACKAGE_STRING);
  line.option("--config", &options.config, "the site's dl.toml").form("FILE").shows_default();
  line.flag("--once", &options.once, "one round, then exit");
  line.flag("--dry-run", &options.dry_run, "print what would be done and why, and change nothing");
  line.flag("--json", &options.json, "with --dry-run: as JSON");
  line.option("--interval", &interval, "between two rounds, 1s to 1m").form("TIME").shows_default();
  line.option("--pidfile", &pidfile, "locked, so that there is one on this machine").form("FILE").shows_default();
  line.option("--state-file", &options.state_file, "keeps past use for the fair share").form("FILE");
  line.option("--history-file", &options.history_file, "keeps who held what, for dlctl quota --history").form("FILE");
  line.option("--metrics-file", &options.metrics_file, "for node_exporter's textfile collector").form("FILE");
  line.flag("--verbose", &verbose, "log every change, also those of waiting jobs");
  line.footer("It runs in the foreground. SIGHUP reads dl.toml again. Manual: dlpolicyd(8).");
  const Result<std::string> text = line.parse(argc, argv);
  if (!text) {
    std::fputs(line.complaint(text.error()).c_str(), stderr);
    return kUsage;
  }
  if (!text->empty()) return std::fputs(text->c_str(), stdout) < 0 ? kFailed : kDone;
  const auto seconds = parse_duration(interval);
  if (!seconds) return fail(Error(seconds.error()).with_context("--interval"), kUsage);
  if (seconds->count() < 1 || seconds->count() > 60)
    return fail(Error{Errc::kInvalid, fmt::format("--interval: '{}' is not allowed; allowed: 1s to 1m", interval)},
                kUsage);
  options.interval = *seconds;
  if (options.json && !options.dry_run)
    return fail(Error{Errc::kConflict, "--json needs --dry-run; add --dry-run, or leave --json out"}, kUsage);
  set_verbose(verbose);

  // Other signals keep their default action and end the process: there is nothing to undo.
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGHUP);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);

  Result<UniqueFd> locked = UniqueFd();
  if (!options.dry_run) {
    locked = lock(pidfile);
    if (!locked) return fail(locked.error(), locked.error().code == Errc::kBusy ? kRunsAlready : kFailed);
  }
  Daemon daemon(options);
  if (Status configured = daemon.configure(); !configured) return fail(configured.error(), kUsage);
  observe::start_slurm();
  if (Status done = daemon.run(); !done)
    return fail(done.error(), done.error().code == Errc::kUnsupported ? kOtherSlurm : kFailed);
  return kDone;
}

}  // namespace
}  // namespace dl::policyd

int main(int argc, char** argv) {
  dl::open_closed_standard_files();
  try {
    return dl::policyd::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dlpolicyd: %s\n", error.what());
    return dl::policyd::kFailed;
  }
}
