// SPDX-License-Identifier: Apache-2.0
// dlctl results JOB: where a job's results are, whether they were stored, and a copy of them.
#include <fmt/core.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "common/base/atomic_file.h"
#include "common/base/parse.h"
#include "common/base/this_process.h"
#include "common/contract/data_request.h"
#include "common/json/json.h"
#include "common/process/child_process.h"
#include "launcher/ctl/act_as.h"
#include "launcher/ctl/find_job.h"
#include "launcher/ctl/subcommand.h"
#include "launcher/ctl/text.h"
#include "launcher/slurm_cli/slurm_cli.h"

namespace dl::ctl {
namespace {

constexpr size_t kMostPlan = 64 << 20, kMostStored = 64 << 10;
constexpr std::chrono::hours kCopyLimit{24};

struct ResultsOptions {
  std::string job, dir, fetch;
  bool json = false;
};

// What dlrun has written of the newest store.
struct Stored {
  bool asked = false;  // the job has --dl-results
  std::string to;
  bool known = false;  // a store was tried, or left out
  bool done = false;
  int attempt = 0;
  int64_t time_ms = 0;
  std::string reason;
  std::string job, job_state;  // the job that the store was handed to, and what Slurm says of it; empty: none
};

std::string text_at(const Json& json, const char* name) {
  const Json* member = json.find(name);
  return member != nullptr && member->is_string() ? member->text() : std::string();
}

int64_t number_at(const Json& json, const char* name) {
  const Json* member = json.find(name);
  return member != nullptr && member->is_number_integer() ? member->get<int64_t>() : 0;
}

Stored read_stored(const record::JobDir& dir) {
  Stored stored;
  if (const auto text = read_small_file(dir.plan(), kMostPlan)) {
    const Json plan = Json::parse(*text);
    if (const Json* results = plan.find("results")) stored.to = text_at(*results, "to");
    stored.asked = !stored.to.empty();
  }
  if (const auto text = read_small_file(dir.stored(), kMostStored)) {
    const Json json = Json::parse(*text);
    stored.known = json.is_object();
    if (!stored.known) return stored;
    stored.asked = true;
    stored.to = text_at(json, "to");
    const Json* done = json.find("done");
    stored.done = done != nullptr && done->is_boolean() && done->get<bool>();
    stored.attempt = static_cast<int>(number_at(json, "attempt"));
    stored.time_ms = number_at(json, "time_ms");
    stored.reason = text_at(json, "reason");
    stored.job = text_at(json, "job");
    if (!parse_int(stored.job, 1, UINT32_MAX)) stored.job.clear();
  }
  return stored;
}

// What Slurm says of the job that stores the results; "GONE" if it does not know the job (any more), empty if it does
// not answer.
std::string state_of(const std::string& job) {
  const auto shown = slurm_cli::show_job(job);
  if (shown) return shown->state;
  return shown.error().code == Errc::kNotFound ? "GONE" : "";
}

bool still_stores(const std::string& state) {
  return state.empty() || state == "PENDING" || state == "CONFIGURING" || state == "RUNNING" || state == "SUSPENDED" ||
         state == "COMPLETING";
}

// said_in: what the job that stores them has said.
std::string outcome_of(const Stored& stored, const std::string& said_in) {
  if (!stored.asked) return "not asked for (--dl-results)";
  if (!stored.known) return "not yet";
  const std::string when = fmt::format("attempt {}, {}", stored.attempt, clock_text(stored.time_ms, now_ms()));
  if (stored.done) return "yes, after " + when;
  if (!stored.job.empty()) {
    const std::string state = stored.job_state.empty() ? "Slurm does not answer" : stored.job_state;
    if (still_stores(stored.job_state))
      return fmt::format("not yet, since {}: job {} does it ({})", when, stored.job, state);
    return fmt::format("no, after {}: {}, and job {}, which was to do it, is {}; see {}", when,
                       printable(stored.reason, 400), stored.job, state, printable(said_in, 400));
  }
  return fmt::format("no, after {}: {}; the next end of the job stores all of it", when, printable(stored.reason, 400));
}

// Whether the record is of the user whose rights this process has. Whoever writes a record chooses the place in it, and
// with it what rclone opens and runs, so that of somebody else is shown but not followed.
bool own_record(const record::JobDir& dir) {
  struct stat status {};
  return ::stat(dir.root().c_str(), &status) == 0 && status.st_uid == ::geteuid();
}

// What parse_results() takes, which refuses remotes that are configured in their own name.
Status check_stored_place(const std::string& to) {
  Status checked = data::check_place(to);
  const data::Place place = data::place_of(to);
  if (checked && (place == data::Place::kRemote || (place == data::Place::kPath && to.front() == '/'))) return {};
  return Error{Errc::kInvalid, fmt::format("the record of the job names no place for results: {}",
                                           checked ? "'" + data::shown_place(to) + "'" : checked.error().text)};
}

// The job's user has a configuration of rclone of his own, where root has taken his rights, too.
CommandOptions as_this_user() {
  CommandOptions options;
  options.timeout = kCopyLimit;
  if (::getuid() == 0) return options;
  const struct passwd* entry = ::getpwuid(::geteuid());  // NOLINT(concurrency-mt-unsafe): one thread
  const std::string home = environment_value("HOME");
  struct stat status {};
  const bool mine = !home.empty() && ::stat(home.c_str(), &status) == 0 && status.st_uid == ::geteuid();
  if (mine || entry == nullptr) return options;
  options.environment = {std::string("HOME=") + entry->pw_dir};
  options.without = {"XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"};
  return options;
}

// Copies everything below `from` into `to`, by the program that knows the place.
Status copy_all(const std::string& from, const std::string& to) {
  DL_TRY(make_directories(to));
  std::vector<std::string> command;
  if (data::place_of(from) == data::Place::kRemote)
    command = {"rclone", "copy", "--", from, std::filesystem::absolute(to).string()};
  else
    command = {"cp", "-a", "--", from + "/.", to};
  DL_TRY_ASSIGN(const CommandResult done, run_command(command, as_this_user()));
  if (done.ok()) return {};
  const std::string words = done.err.empty() ? done.out : done.err;
  return Error{Errc::kIo, fmt::format("{}: {}", data::shown_place(from), printable(trim(words), 300))};
}

Status fetch(const ResultsOptions& options, const record::JobDir& dir, const Stored& stored) {
  const bool from_place = stored.done && own_record(dir);
  if (from_place) {
    DL_TRY(check_stored_place(stored.to));
    DL_TRY(copy_all(stored.to, options.fetch));
  } else {
    for (const std::string& folder : {dir.results(), dir.logs(), dir.metrics()})
      if (::access(folder.c_str(), F_OK) == 0)
        DL_TRY(copy_all(folder, options.fetch + folder.substr(folder.rfind('/'))));
  }
  std::printf("copied to %s from %s\n", printable(options.fetch, 400).c_str(),
              from_place ? data::shown_place(stored.to).c_str() : "the job directory");
  return {};
}

Status run(const ResultsOptions& options) {
  DL_TRY_ASSIGN(const Job job, find_run(options.job, options.dir));
  DL_TRY(act_as_owner(job));
  if (!job.has_dir())
    return Error{Errc::kNotFound, "the directory of job " + job.name() + " is not known; allowed: --dir=DIR"};
  Stored stored = read_stored(job.dir);
  if (!stored.done && !stored.job.empty()) stored.job_state = state_of(stored.job);
  if (options.json) {
    Json json = {{"job", job.id}, {"directory", job.dir.results()}, {"to", nullptr}, {"stored", stored.done}};
    if (stored.asked) json["to"] = stored.to;
    if (stored.known) json["attempt"] = stored.attempt;
    if (stored.known) json["time_ms"] = stored.time_ms;
    if (!stored.reason.empty()) json["reason"] = stored.reason;
    if (!stored.job.empty()) json["store_job"] = stored.job;
    if (!stored.job_state.empty()) json["store_job_state"] = stored.job_state;
    std::puts(json.dump(2).c_str());
  } else {
    std::printf("results    %s\n", printable(job.dir.results(), 400).c_str());
    if (stored.asked) std::printf("stored in  %s\n", data::shown_place(stored.to).c_str());
    std::printf("stored     %s\n", outcome_of(stored, job.dir.data() + "/store-" + stored.job + ".out").c_str());
  }
  return options.fetch.empty() ? Status() : fetch(options, job.dir, stored);
}

}  // namespace

Run add_results(CommandLine* line) {
  auto options = std::make_shared<ResultsOptions>();
  line->argument("JOB", &options->job, "job id, local-..., or path of a job directory").required();
  line->option("--fetch", &options->fetch, "copy results, logs and metrics into this folder").form("DIR");
  line->option("--dir", &options->dir, "the job directory, where dlctl does not find it").form("DIR");
  line->flag("--json", &options->json, "for programs").excludes("--fetch");
  return [options] { return run(*options); };
}

}  // namespace dl::ctl
