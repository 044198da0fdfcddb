// SPDX-License-Identifier: Apache-2.0
// dlckpt gc: removes what killed jobs left behind and, if asked, checkpoints beyond those to keep.
#include <fmt/core.h>

#include <algorithm>

#include "checkpoint/include/dlckpt_lease.h"
#include "checkpoint/store/directory.h"
#include "checkpoint/store/lease.h"
#include "checkpoint/tools/judge.h"
#include "checkpoint/tools/maintenance.h"
#include "common/base/parse.h"

namespace dl::ckpt::tool {
namespace {

struct GcOptions {
  std::string dir;
  RetentionOptions retention;
  bool dry_run = false, verify = false, json = false;
};

bool starts_with(const std::string& text, const std::string& prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

// Temporary files of killed repairs, inside checkpoints.
std::vector<std::string> interrupted_repairs(const std::string& dir, const std::vector<CheckpointName>& names) {
  std::vector<std::string> paths;
  for (const CheckpointName& name : names) {
    const std::string checkpoint = format_checkpoint_name(name);
    const auto entries = list_directory(posix_io(), dir + "/" + checkpoint);
    if (!entries) continue;
    for (const std::string& entry : *entries)
      if (entry.size() > 5 && entry[0] == '.' && entry.compare(entry.size() - 4, 4, ".tmp") == 0)
        paths.push_back(checkpoint + "/" + entry);
  }
  return paths;
}

// Files that no running job needs: we hold the lease, so no job runs there.
Result<std::vector<std::string>> find_leftovers(const std::string& dir) {
  DL_TRY_ASSIGN(std::vector<std::string> entries, list_directory(posix_io(), dir));
  std::vector<std::string> found;
  for (const std::string& entry : entries)
    if (starts_with(entry, kTemporaryPrefix) || starts_with(entry, kRunPrefix)) found.push_back(entry);
  DL_TRY_ASSIGN(const std::vector<CheckpointName> names, scan_checkpoints(posix_io(), dir));
  for (std::string& path : interrupted_repairs(dir, names)) found.push_back(std::move(path));
  std::sort(found.begin(), found.end());
  return found;
}

// A checkpoint is intact only if its files exist, too (and with --verify, can be read), not just its manifest.
void look_closer(const std::string& dir, bool verify, std::vector<CheckpointFacts>* checkpoints) {
  for (CheckpointFacts& facts : *checkpoints) {
    if (!facts.intact) continue;
    ProgressBar bar(format_checkpoint_name(facts.name));
    const Verdict verdict = judge(posix_io(), dir, facts.name, verify ? Depth::kFull : Depth::kQuick,
                                  [&](uint64_t done, uint64_t total) { bar.update(done, total); });
    facts.intact = verdict.sound();
  }
  // Without the lease (--dry-run) a job may remove some meanwhile.
  const auto gone = [&](const CheckpointFacts& facts) { return !facts.intact && is_gone(posix_io(), dir, facts.name); };
  checkpoints->erase(std::remove_if(checkpoints->begin(), checkpoints->end(), gone), checkpoints->end());
}

Result<std::vector<RetentionVerdict>> decide(const GcOptions& options, std::vector<CheckpointFacts>* checkpoints) {
  if (options.retention.keep == 0) return std::vector<RetentionVerdict>{};
  DL_TRY_ASSIGN(const RetentionPolicy policy, policy_of(options.retention));
  DL_TRY_ASSIGN(*checkpoints, survey(posix_io(), options.dir, nullptr));
  look_closer(options.dir, options.verify, checkpoints);
  return decide_retention(*checkpoints, policy, std::nullopt);
}

Status remove(const GcOptions& options, const std::vector<std::string>& leftovers,
              const std::vector<RetentionVerdict>& verdicts, Lease* lease) {
  for (const std::string& path : leftovers)
    if (path.find('/') != std::string::npos) posix_io().unlink(options.dir + "/" + path);
  DL_TRY(collect_garbage(posix_io(), options.dir, ""));
  for (const RetentionVerdict& verdict : verdicts) {
    if (!verdict.remove) continue;
    // Removing many checkpoints may take longer than a lease lasts.
    DL_TRY(lease->renew());
    // It may have been pinned since the decision.
    if (is_pinned(posix_io(), options.dir, verdict.name)) continue;
    DL_TRY(remove_checkpoints(posix_io(), options.dir, {verdict.name}));
  }
  return {};
}

void report(const GcOptions& options, const std::vector<std::string>& leftovers,
            const std::vector<RetentionVerdict>& verdicts, const std::vector<CheckpointFacts>& checkpoints) {
  const auto bytes_of = [&](const CheckpointName& name) -> uint64_t {
    for (const CheckpointFacts& facts : checkpoints)
      if (facts.name.save_id == name.save_id) return facts.bytes;
    return 0;
  };
  if (options.json) {
    Json json{{"dir", options.dir}, {"dry_run", options.dry_run}, {"leftovers", leftovers}};
    Json list = Json::array();
    for (const RetentionVerdict& verdict : verdicts)
      list.push_back({{"name", format_checkpoint_name(verdict.name)},
                      {"step", verdict.name.step},
                      {"bytes", bytes_of(verdict.name)},
                      {"remove", verdict.remove},
                      {"reason", verdict.reason}});
    json["checkpoints"] = std::move(list);
    return print_json(json);
  }
  const char* removed = options.dry_run ? "would remove" : "removed";
  for (const RetentionVerdict& verdict : verdicts)
    print_line(fmt::format("{:12}  {}  {:>9}  {}", verdict.remove ? removed : "kept",
                           format_checkpoint_name(verdict.name), format_bytes(bytes_of(verdict.name)), verdict.reason));
  for (const std::string& path : leftovers)
    print_line(fmt::format("{:12}  {}  left behind", removed, printable(path, 200)));
  if (verdicts.empty() && leftovers.empty()) print_line("nothing to remove in " + options.dir);
}

int run(const GcOptions& options) {
  const auto fail = [](const Error& error) {
    complain(error.text);
    return error.code == Errc::kInvalid ? kUsage : kNothing;
  };
  if (const Target target = resolve_target(options.dir); target.only)
    return fail(
        Error{Errc::kInvalid, options.dir + " is one checkpoint; allowed: the checkpoint directory, " + target.dir});
  if (auto there = check_directory(options.dir); !there) return fail(there.error());
  std::optional<Lease> lease;
  if (!options.dry_run) {
    auto taken = Lease::acquire(posix_io(), options.dir, "dlckpt gc", "", DLCKPT_LEASE_EXPIRY_S);
    if (!taken) return fail(taken.error());
    lease.emplace(*std::move(taken));
  }
  auto leftovers = find_leftovers(options.dir);
  if (!leftovers) return fail(leftovers.error());
  std::vector<CheckpointFacts> checkpoints;
  auto verdicts = decide(options, &checkpoints);
  if (!verdicts) return fail(verdicts.error());
  if (lease) {
    auto done = remove(options, *leftovers, *verdicts, &*lease);
    if (!done) return fail(done.error());
  }
  report(options, *leftovers, *verdicts, checkpoints);
  return kOk;
}

}  // namespace

void add_gc(CommandLine* line, int* exit_code) {
  auto* command = line->subcommand("gc", "Remove what killed jobs left, and checkpoints beyond what is to be kept");
  auto options = std::make_shared<GcOptions>();
  command->argument("DIR", &options->dir, "Checkpoint directory; no job may be using it").required();
  add_retention(command, &options->retention, "Keep the newest so many; without it only leftovers go");
  command->flag("--verify", &options->verify, "Read every byte: only sound checkpoints count as kept");
  command->flag("-n,--dry-run", &options->dry_run, "Show what would be removed, and remove nothing");
  command->flag("--json", &options->json, "Print one object");
  command->action([=] { *exit_code = run(*options); });
}

}  // namespace dl::ckpt::tool
