// SPDX-License-Identifier: Apache-2.0
// dlctl status [JOB...]: prints one job in full, or a line for each of several.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <iterator>
#include <memory>

#include "common/base/parse.h"
#include "common/json/json.h"
#include "common/process/child_process.h"
#include "launcher/ctl/act_as.h"
#include "launcher/ctl/job_view.h"
#include "launcher/ctl/subcommand.h"
#include "launcher/ctl/text.h"

namespace dl::ctl {
namespace {

struct Options {
  std::vector<std::string> jobs;
  std::string dir;
  bool all = false;
  bool ended = false;
  bool json = false;
};

std::string with_unused_gpus(std::string why, const JobView& view) {
  const int gpus = unused_gpus(view).gpus;
  if (gpus > 0) why += fmt::format("{}{} GPU{} not used", why.empty() ? "" : "; ", gpus, gpus == 1 ? "" : "s");
  return why;
}

constexpr char kBetweenCells = '\x1f', kBetweenRuns = '\x1e';

enum class As { kText, kJson, kRow };

// Formats one job as text, as JSON or as the cells of a row.
std::string words_of(const JobView& view, As as) {
  if (as == As::kText) return view_text(view);
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

// Formats several dlruns of a job, one after the other.
std::string words_of_runs(const std::vector<Job>& runs, bool ask, As as) {
  std::string words;
  for (const Job& run : runs) {
    if (!words.empty()) words += kBetweenRuns;
    words += words_of(view_job(run, ask), as);
  }
  return words;
}

// A job's files are read with the rights of its user, even if root asks. `choose`, which runs with these rights,
// returns the dlruns that are meant. If the rights cannot be taken on, only what Slurm reports is shown.
std::vector<std::string> look(const Job& job, const std::function<std::vector<Job>()>& choose, bool ask, As as) {
  auto words = made_as_owner(job, [&] { return words_of_runs(choose(), ask, as); });
  if (words) return split(*words, kBetweenRuns);
  std::fprintf(stderr, "dlctl status: %s\n", words.error().text.c_str());
  Job without = job;
  without.dir = record::JobDir();
  return {words_of(view_job(without, false), as)};
}

void print_lines(const std::vector<std::string>& lines, bool with_user) {
  std::vector<std::vector<std::string>> rows{
      {"JOB", "USER", "NAME", "STATE", "SINCE", "ATTEMPT", "STEP", "LEARNERS", "WHY"}};
  for (const std::string& line : lines) {
    rows.emplace_back();
    for (const std::string& cell : split(line, kBetweenCells)) rows.back().push_back(printable(cell, 300));
  }
  if (!with_user)
    for (std::vector<std::string>& row : rows)
      if (row.size() > 1) row.erase(row.begin() + 1);
  std::fputs(table(rows).c_str(), stdout);
}

// Prints the objects as an array, indented by two blanks.
void print_json(const std::vector<std::string>& objects) {
  std::string text = "[";
  for (const std::string& object : objects) {
    text += text.size() > 1 ? ",\n  " : "\n  ";
    for (const char c : object) text += c == '\n' ? std::string("\n  ") : std::string(1, c);
  }
  std::puts((text + (objects.empty() ? "]" : "\n]")).c_str());
}

// For the list of all jobs: those dlruns of a job that are running, or the job itself if none is.
std::vector<Job> runs_at_work(const Job& job) {
  std::vector<Job> runs = runs_of(job);
  const auto at_rest = [](const Job& run) { return run.run > 0 && ::access(run.dir.control().c_str(), F_OK) != 0; };
  runs.erase(std::remove_if(runs.begin(), runs.end(), at_rest), runs.end());
  if (runs.empty()) runs.push_back(job);
  return runs;
}

// Keeps line feeds and tabs, and escapes everything else that a terminal would interpret.
std::string plain(const std::string& text) {
  std::string out;
  for (const std::string& line : split(text, '\n')) out += (out.empty() ? "" : "\n") + terminal_text(line);
  return out;
}

Status run(const Options& options) {
  if (options.ended) return print_ended(options.jobs, options.json);
  if (options.jobs.empty() && options.dir.empty()) {
    if (find_program("squeue").empty()) {
      return Error{Errc::kNotFound,
                   "Slurm's commands are not installed here; name a job directory: dlctl status dl-local-..."};
    }
    std::vector<std::string> words;
    DL_TRY_ASSIGN(const std::vector<slurm_cli::JobInfo> jobs, slurm_cli::list_jobs(options.all ? "*" : ""));
    for (const slurm_cli::JobInfo& info : jobs) {
      const Job job = job_of(info);
      const auto its = look(
          job, [&] { return runs_at_work(job); }, false, options.json ? As::kJson : As::kRow);
      words.insert(words.end(), its.begin(), its.end());
    }
    if (options.json) {
      print_json(words);
    } else if (words.empty()) {
      std::puts(options.all ? "no job is queued or running"
                            : "you have no job queued or running (all users: dlctl status --all)");
    } else {
      print_lines(words, options.all);
    }
    return {};
  }
  std::vector<std::string> references = options.jobs;
  if (references.empty()) references.push_back(options.dir);
  std::vector<std::vector<std::string>> found;  // one element for each reference, with several jobs for a job array
  for (const std::string& reference : references) {
    DL_TRY_ASSIGN(const std::vector<Job> jobs, find_runs(reference, options.dir));
    found.emplace_back();
    const As as = options.json ? As::kJson : jobs.size() == 1 ? As::kText : As::kRow;
    for (const Job& job : jobs) {
      const auto words = look(
          job, [&] { return std::vector<Job>{job}; }, true, as);
      found.back().insert(found.back().end(), words.begin(), words.end());
    }
  }
  if (options.json) {
    std::vector<std::string> all;
    for (std::vector<std::string>& some : found) std::move(some.begin(), some.end(), std::back_inserter(all));
    print_json(all);
    return {};
  }
  for (size_t i = 0; i < found.size(); ++i) {
    if (i > 0) std::fputs("\n", stdout);
    if (found[i].size() == 1)
      std::fputs(plain(found[i].front()).c_str(), stdout);
    else
      print_lines(found[i], false);
  }
  return {};
}

}  // namespace

Run add_status(CommandLine* line) {
  auto options = std::make_shared<Options>();
  line->argument("JOB", &options->jobs, "job id, local-..., or path of a job directory; none: your jobs in the queue");
  line->option("--dir", &options->dir, "the job directory of a job that Slurm has forgotten")
      .form("DIR")
      .excludes("--ended");
  line->flag("--all", &options->all, "without JOB: the jobs of all users");
  line->flag("--ended", &options->ended, "jobs that have ended, by their job directories in JOB... (folders), or here")
      .excludes("--all");
  line->flag("--json", &options->json, "for programs: an array of objects");
  return [options] { return run(*options); };
}

}  // namespace dl::ctl
