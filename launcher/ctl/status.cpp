// SPDX-License-Identifier: Apache-2.0
// dlctl status [JOB...]: prints one job in full, or a line for each of several.
#include <fmt/core.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <utility>

#include "common/base/clock.h"
#include "common/base/parse.h"
#include "common/json/json.h"
#include "common/process/child_process.h"
#include "launcher/ctl/act_as.h"
#include "launcher/ctl/job_view.h"
#include "launcher/ctl/status_watch.h"
#include "launcher/ctl/subcommand.h"
#include "launcher/ctl/text.h"

namespace dl::ctl {
namespace {

struct StatusOptions {
  std::vector<std::string> jobs;
  std::string dir;
  bool all = false;
  bool ended = false;
  bool json = false;
  bool watch = false;
  bool learners = false;
};

std::string with_unused_gpus(std::string why, const JobView& view) {
  const int gpus = unused_gpus(view).gpus;
  if (gpus > 0) why += fmt::format("{}{} GPU{} not used", why.empty() ? "" : "; ", gpus, gpus == 1 ? "" : "s");
  return why;
}

constexpr char kBetweenCells = '\x1f', kBetweenRuns = '\x1e';

enum class As { kText, kUse, kJson, kRow };  // kUse: as text, with what each learner uses
// For --watch, what words_of_runs() gives begins with the state, and whether that is an end.
constexpr char kAfterState = '\x1d';
constexpr char kEnd[] = " (end)";

// Formats one job as text, as JSON or as the cells of a row.
std::string words_of(const JobView& view, As as) {
  if (as == As::kText || as == As::kUse) return view_text(view, as == As::kUse);
  if (as == As::kJson) return view_json(view).dump(2);
  const std::vector<std::string> row = {view.job.name(),
                                        printable(view.user, 16),
                                        view.name.empty() ? "-" : printable(view.name, 24),
                                        shown_name(view.shown),
                                        view.shown.since_ms ? age_text(now_ms() - *view.shown.since_ms) : "-",
                                        view.attempt > 0 ? std::to_string(view.attempt) : "-",
                                        view.step < 0 ? "-" : std::to_string(view.step),
                                        view.plan.learners > 0 ? std::to_string(view.plan.learners) : "-",
                                        with_unused_gpus(printable(view.shown.reason, 60), view)};
  return join(row, std::string(1, kBetweenCells));
}

// Formats several dlruns of a job, one after the other, each with its state before it.
std::string words_of_runs(const std::vector<Job>& runs, bool ask, As as) {
  std::string words;
  for (const Job& run : runs) {
    if (!words.empty()) words += kBetweenRuns;
    JobView view = view_job(run, ask);
    if (ask) view.pace = read_pace(view, now_ms());
    const bool goes_on = view.shown.state == record::JobState::kHalted || !record::is_final(view.shown.state);
    words += shown_name(view.shown) + std::string(goes_on ? "" : kEnd) + kAfterState + words_of(view, as);
  }
  return words;
}

struct Words {
  std::string state, text;
};

// A job's files are read with the rights of its user, even if root asks. `choose`, which runs with these rights,
// returns the dlruns that are meant. If the rights cannot be taken on, only what Slurm reports is shown.
std::vector<Words> look(const Job& job, const std::function<std::vector<Job>()>& choose, bool ask, As as) {
  // In a list, a job without a directory, such as each one that has never started, needs no process with its user's
  // rights: none of its files is read.
  auto words = ask || job.has_dir() ? made_as_owner(job, [&] { return words_of_runs(choose(), ask, as); })
                                    : Result<std::string>(words_of_runs({job}, false, as));
  if (!words) {
    std::fprintf(stderr, "dlctl status: %s\n", words.error().text.c_str());
    Job without = job;
    without.dir = record::JobDir();
    words = words_of_runs({without}, false, as);
  }
  std::vector<Words> all;
  for (const std::string& one : split(*words, kBetweenRuns)) {
    const size_t end = one.find(kAfterState);
    all.push_back({one.substr(0, end), end == std::string::npos ? "" : one.substr(end + 1)});
  }
  return all;
}

std::string lines_text(const std::vector<Words>& lines, bool with_user) {
  std::vector<std::vector<std::string>> rows{
      {"JOB", "USER", "NAME", "STATE", "SINCE", "ATTEMPT", "STEP", "LEARNERS", "WHY"}};
  for (const Words& line : lines) {
    rows.emplace_back();
    for (const std::string& cell : split(line.text, kBetweenCells)) rows.back().push_back(printable(cell, 300));
  }
  if (!with_user)
    for (std::vector<std::string>& row : rows)
      if (row.size() > 1) row.erase(row.begin() + 1);
  return table(rows);
}

// Prints the objects as an array, indented by two blanks.
void print_json(const std::vector<Words>& objects) {
  std::string text = "[";
  for (const Words& object : objects) {
    text += text.size() > 1 ? ",\n  " : "\n  ";
    for (const char c : object.text) text += c == '\n' ? std::string("\n  ") : std::string(1, c);
  }
  std::puts((text + (objects.empty() ? "]" : "\n]")).c_str());
}

// Keeps line feeds and tabs, and escapes everything else that a terminal would interpret.
std::string plain(const std::string& text) {
  std::string out;
  for (const std::string& line : split(text, '\n')) out += (out.empty() ? "" : "\n") + terminal_text(line);
  return out;
}

// The jobs in Slurm's queue.
std::vector<Words> look_at_queue(const std::vector<Job>& jobs, As as) {
  std::vector<Words> words;
  for (const Job& job : jobs)
    for (Words& its : look(
             job, [&] { return runs_at_work(job); }, false, as))
      words.push_back(std::move(its));
  return words;
}

Result<std::vector<Job>> queue(const StatusOptions& options) {
  if (find_program("squeue").empty())
    return Error{Errc::kNotFound,
                 "Slurm's commands are not installed here; name a job directory: dlctl status dl-local-..."};
  DL_TRY_ASSIGN(const std::vector<slurm_cli::JobInfo> listed, slurm_cli::list_jobs(options.all ? "*" : ""));
  std::vector<Job> jobs;
  jobs.reserve(listed.size());
  for (const slurm_cli::JobInfo& info : listed) jobs.push_back(job_of(info));
  return jobs;
}

std::string queue_text(const std::vector<Words>& words, const StatusOptions& options) {
  if (!words.empty()) return lines_text(words, options.all);
  return options.all ? "no job is queued or running\n"
                     : "you have no job queued or running (all users: dlctl status --all)\n";
}

// The jobs that are named: an element for each reference, with several jobs for a job array.
using Found = std::vector<std::vector<Job>>;
std::vector<Words> look_at(const std::vector<Job>& jobs, As as) {
  std::vector<Words> all;
  for (const Job& job : jobs)
    for (Words& its : look(
             job, [&] { return std::vector<Job>{job}; }, true, as))
      all.push_back(std::move(its));
  return all;
}

std::string named_text(const std::vector<std::vector<Words>>& found) {
  std::string text;
  for (const std::vector<Words>& words : found) {
    if (!text.empty()) text += "\n";
    text += words.size() == 1 ? plain(words.front().text) : lines_text(words, false);
  }
  return text;
}

std::vector<std::vector<Words>> look_at_all(const Found& found, bool learners) {
  std::vector<std::vector<Words>> words;
  words.reserve(found.size());
  const As one = learners ? As::kUse : As::kText;
  for (const std::vector<Job>& jobs : found) words.push_back(look_at(jobs, jobs.size() == 1 ? one : As::kRow));
  return words;
}

// status --watch: Slurm is asked once in ten seconds at most, for one of the references in turn.
class Watched {
 public:
  Watched(StatusOptions options, std::vector<std::string> references, Found found)
      : options_(std::move(options)), references_(std::move(references)), found_(std::move(found)) {}

  WatchLook look() {
    ask_slurm();
    WatchLook seen;
    std::vector<std::vector<Words>> all;
    if (references_.empty())
      all.push_back(look_at_queue(found_[0], As::kRow));
    else
      all = look_at_all(found_, options_.learners);
    seen.text = references_.empty() ? queue_text(all[0], options_) : named_text(all);
    seen.ended = !references_.empty();
    for (const std::vector<Words>& some : all)
      for (const Words& one : some) {
        seen.states += one.state + "\n";
        if (one.state.find(kEnd) == std::string::npos) seen.ended = false;
      }
    return seen;
  }

 private:
  void ask_slurm() {
    constexpr int64_t kEveryMs = 10'000;
    const int64_t now = monotonic_ms();
    if (now - asked_ms_ < kEveryMs) return;
    asked_ms_ = now;
    // What Slurm said last stays where it does not answer.
    if (references_.empty()) {
      if (auto jobs = queue(options_)) found_[0] = *std::move(jobs);
      return;
    }
    turn_ = (turn_ + 1) % references_.size();
    if (auto jobs = find_runs(references_[turn_], options_.dir)) found_[turn_] = *std::move(jobs);
  }

  StatusOptions options_;
  std::vector<std::string> references_;  // empty: the queue, which is found_[0]
  Found found_;
  size_t turn_ = 0;
  int64_t asked_ms_ = monotonic_ms();
};

Status run(const StatusOptions& options) {
  if (options.ended) return print_ended(options.jobs, options.json);
  std::vector<std::string> references = options.jobs;
  if (references.empty() && !options.dir.empty()) references.push_back(options.dir);
  Found found;
  for (const std::string& reference : references) {
    DL_TRY_ASSIGN(std::vector<Job> jobs, find_runs(reference, options.dir));
    found.push_back(std::move(jobs));
  }
  if (references.empty()) {
    DL_TRY_ASSIGN(std::vector<Job> jobs, queue(options));
    found.push_back(std::move(jobs));
  }
  if (options.watch) {
    Watched watched(options, std::move(references), std::move(found));
    return watch_status([&watched] { return watched.look(); });
  }
  if (options.json) {
    std::vector<Words> all;
    for (const std::vector<Job>& jobs : found)
      for (Words& words : references.empty() ? look_at_queue(jobs, As::kJson) : look_at(jobs, As::kJson))
        all.push_back(std::move(words));
    print_json(all);
    return {};
  }
  const std::string text = references.empty() ? queue_text(look_at_queue(found[0], As::kRow), options)
                                              : named_text(look_at_all(found, options.learners));
  std::fputs(text.c_str(), stdout);
  return {};
}

}  // namespace

Run add_status(CommandLine* line) {
  auto options = std::make_shared<StatusOptions>();
  line->argument("JOB", &options->jobs, "job id, local-..., or path of a job directory; none: your jobs in the queue");
  line->option("--dir", &options->dir, "the job directory of a job that Slurm has forgotten")
      .form("DIR")
      .excludes("--ended");
  line->flag("--all", &options->all, "without JOB: the jobs of all users");
  line->flag("--ended", &options->ended, "jobs that have ended, by their job directories in JOB... (folders), or here")
      .excludes("--all");
  line->flag("-w,--watch", &options->watch, "look again and again; q quits").excludes("--ended");
  line->flag("--json", &options->json, "for programs: an array of objects").excludes("--watch");
  line->flag("--learners", &options->learners, "of one JOB: also what each of its learners has used")
      .excludes("--ended");
  return [options] { return run(*options); };
}

}  // namespace dl::ctl
