// SPDX-License-Identifier: Apache-2.0
// dlctl clean: lists job directories of jobs that have ended, with their sizes, and removes them.
#include <fmt/core.h>

#include <cstdio>
#include <memory>

#include "common/base/parse.h"
#include "common/json/json.h"
#include "launcher/ctl/old_jobs.h"
#include "launcher/ctl/subcommand.h"
#include "launcher/ctl/text.h"
#include "launcher/record/job_lock.h"

namespace dl::ctl {
namespace {

struct CleanOptions {
  std::vector<std::string> folders;
  std::string older_than = "7d";
  bool results = false, yes = false, dry_run = false, json = false;
};

struct Found {
  OldJob job;
  TreeFacts tree;
  std::string keep;  // why it is not removed
  bool removed = false;
};

// Holds the directory's lock meanwhile, so that no dlrun starts in it.
Status remove(const std::string& path, const std::string& job_id) {
  DL_TRY_ASSIGN(const record::JobLock lock,
                record::JobLock::take(path, record::this_process(job_id, -1), std::chrono::milliseconds(0)));
  if (!lock.held()) return Error{Errc::kBusy, "its lock could not be taken"};
  return remove_tree(path);
}

void print(const std::vector<Found>& all, const CleanOptions& options) {
  const int64_t now = now_ms();
  std::vector<std::vector<std::string>> rows{{"JOB", "STATE", "ENDED", "SIZE", "FOLDER", "CLEAN"}};
  int64_t bytes = 0;
  int count = 0;
  for (const Found& found : all) {
    const bool goes = found.keep.empty();
    if (goes) {
      ++count;
      bytes += found.tree.bytes;
    }
    rows.push_back({printable(found.job.view.job.name(), 40), shown_name(found.job.view.shown),
                    found.job.ended_ms > 0 ? clock_text(found.job.ended_ms, now) : "-",
                    format_bytes(static_cast<uint64_t>(found.tree.bytes)),
                    printable(found.job.view.job.dir.root(), 200),
                    found.removed ? "removed"
                    : goes        ? "can go"
                                  : "stays: " + found.keep});
  }
  if (all.empty()) {
    std::puts("this folder has no job directory; allowed: dlctl clean FOLDER..., the folders that have some");
    return;
  }
  std::fputs(table(rows).c_str(), stdout);
  const std::string size = format_bytes(static_cast<uint64_t>(bytes));
  if (options.yes)
    std::printf("removed %d of %zu job director%s, %s\n", count, all.size(), all.size() == 1 ? "y" : "ies",
                size.c_str());
  else
    std::printf("%d of %zu job director%s can go, %s%s\n", count, all.size(), all.size() == 1 ? "y" : "ies",
                size.c_str(), count > 0 ? "; dlctl clean --yes removes them" : "");
}

void print_json(const std::vector<Found>& all) {
  Json json = Json::array();
  for (const Found& found : all) {
    Json item = {{"job", found.job.view.job.id}};
    if (found.job.view.job.run > 0) item["run"] = found.job.view.job.run;
    item["state"] = state_word(found.job.view.shown);
    item["cancelled"] = found.job.view.shown.cancelled;
    item["dir"] = found.job.view.job.dir.root();
    item["ended_ms"] = found.job.ended_ms;
    item["bytes"] = found.tree.bytes;
    item["files"] = found.tree.files;
    item["can_go"] = found.keep.empty();
    item["stays_because"] = found.keep;
    item["removed"] = found.removed;
    json.push_back(std::move(item));
  }
  std::puts(json.dump(2).c_str());
}

Status run(const CleanOptions& options) {
  CleanRules rules;
  const auto age = parse_duration(options.older_than);
  if (!age) return Error{age.error()}.with_context("--older-than");
  rules.older_than_s = age->count();
  rules.results = options.results;
  DL_TRY_ASSIGN(std::vector<OldJob> jobs,
                find_old_jobs(options.folders.empty() ? std::vector<std::string>{"."} : options.folders));
  std::vector<Found> all;
  int failed = 0;
  for (OldJob& job : jobs) {
    Found found;
    found.job = std::move(job);
    found.job.view.job = numbered(found.job.view.job);
    const std::string path = found.job.view.job.dir.root();
    if (auto tree = look_at_tree(path)) {
      found.tree = *std::move(tree);
      found.keep = found.job.view.shown.unknown ? "its record cannot be read"
                                                : reason_to_keep(found.job, found.tree, rules, now_ms());
    } else {
      found.keep = tree.error().text;
    }
    if (found.keep.empty() && options.yes) {
      const Status removed = remove(path, found.job.view.job.id);
      found.removed = static_cast<bool>(removed);
      if (!removed) {
        found.keep = removed.error().text;
        ++failed;
      }
    }
    all.push_back(std::move(found));
  }
  if (options.json)
    print_json(all);
  else
    print(all, options);
  if (failed > 0)
    return Error{Errc::kIo,
                 fmt::format("{} of the job directories could not be removed, for the reasons above", failed)};
  return {};
}

}  // namespace

Run add_clean(CommandLine* line) {
  auto options = std::make_shared<CleanOptions>();
  line->argument("FOLDER", &options->folders, "where the job directories lie; none: the current folder");
  line->option("--older-than", &options->older_than, "only those of jobs that ended at least this long ago")
      .form("TIME")
      .shows_default();
  line->flag("--results", &options->results, "also those with files in results/");
  line->flag("--yes", &options->yes, "remove them").excludes("--dry-run");
  line->flag("--dry-run", &options->dry_run, "only show them, as without --yes");
  line->flag("--json", &options->json, "for programs: an array of objects");
  return [options] { return run(*options); };
}

}  // namespace dl::ctl
