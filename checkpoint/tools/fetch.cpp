// SPDX-License-Identifier: Apache-2.0
// dlckpt fetch: copies a checkpoint from an object store into a directory, where it exists only after every byte was
// verified.
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "checkpoint/include/dlckpt_lease.h"
#include "checkpoint/store/directory.h"
#include "checkpoint/store/file.h"
#include "checkpoint/store/lease.h"
#include "checkpoint/tools/maintenance.h"
#include "checkpoint/tools/objects.h"
#include "common/base/parse.h"
#include "common/base/this_process.h"
#include "common/contract/env_names.h"

namespace dl::ckpt::tool {
namespace {

struct FetchOptions {
  std::string place, dir;
  std::optional<int64_t> step;
  int64_t beside = 0;
  bool json = false;
};

// The lease of the directory: that of the job which has started us, or our own.
class HeldLease {
 public:
  static Result<HeldLease> take(const std::string& dir) {
    const std::string theirs = environment_value(env::kLease);
    if (!theirs.empty() && check_lease(posix_io(), dir, theirs)) return HeldLease(std::nullopt);
    DL_TRY_ASSIGN(Lease lease, Lease::acquire(posix_io(), dir, "dlckpt fetch", "", DLCKPT_LEASE_EXPIRY_S));
    return HeldLease(std::optional<Lease>(std::move(lease)));
  }
  void keep() {
    constexpr std::chrono::seconds kRenewEvery{DLCKPT_LEASE_EXPIRY_S / 4};
    const auto now = std::chrono::steady_clock::now();
    if (!lease_ || now - renewed_ < kRenewEvery) return;
    renewed_ = now;
    ignore(lease_->renew(), "a job that has taken it over meanwhile finds this checkpoint, or none");
  }

 private:
  explicit HeldLease(std::optional<Lease> lease) : lease_(std::move(lease)) {}
  std::optional<Lease> lease_;
  std::chrono::steady_clock::time_point renewed_ = std::chrono::steady_clock::now();
};

struct Fetched {
  std::optional<CheckpointName> name;    // nullopt: there was nothing to fetch
  std::optional<CheckpointName> newest;  // in the store
  std::string why;                       // of nullopt
};

// The checkpoints that may be fetched, newest first: of the wanted train step, or those that are newer than all in the
// directory.
Result<std::vector<CheckpointName>> wanted(const FetchOptions& options, const std::vector<CheckpointName>& there,
                                           const std::vector<CheckpointName>& here, std::string* why) {
  std::vector<CheckpointName> names;
  for (const CheckpointName& name : there) {
    if (options.step && name.step != *options.step) continue;
    const auto same = [&](const CheckpointName& other) {
      return other.save_id == name.save_id && other.step == name.step;
    };
    if (std::any_of(here.begin(), here.end(), same)) {
      *why = format_checkpoint_name(name) + " is in " + options.dir + " already";
      break;
    }
    if (!options.step && !here.empty() && !newer(name, here.front())) {
      *why = format_checkpoint_name(here.front()) + " in " + options.dir + " is newer than all in " + options.place;
      break;
    }
    names.push_back(name);
  }
  if (!names.empty() || !why->empty()) return names;
  const std::string what =
      options.step ? fmt::format("no checkpoint of train step {}", *options.step) : "no checkpoint";
  if (options.beside > 0 || (!options.step && !here.empty())) {
    *why = what + " in " + options.place;
    return names;
  }
  return Error{Errc::kNotFound, what + " in " + options.place};
}

Result<Fetched> fetch(const FetchOptions& options) {
  DL_TRY_ASSIGN(const auto level, open_objects(options.place));
  DL_TRY_ASSIGN(const std::vector<CheckpointName> there, list_checkpoints(*level));
  Fetched fetched;
  if (!there.empty()) fetched.newest = there.front();
  if (there.empty() && options.beside > 0) return fetched;
  if (there.empty() && !check_directory(options.dir))
    return Error{Errc::kNotFound, "no checkpoint in " + options.place};
  DL_TRY(make_directory(options.dir));
  DL_TRY_ASSIGN(HeldLease lease, HeldLease::take(options.dir));
  DL_TRY_ASSIGN(std::vector<CheckpointName> here, scan_checkpoints(posix_io(), options.dir));
  DL_TRY_ASSIGN(const std::vector<CheckpointName> names, wanted(options, there, here, &fetched.why));
  Status copied;
  for (const CheckpointName& name : names) {
    ProgressBar bar(format_checkpoint_name(name));
    copied = fetch_checkpoint(*level, name, posix_io(), options.dir, [&](uint64_t done, uint64_t all) {
      lease.keep();
      bar.update(done, all);
    });
    if (copied) {
      fetched.name = name;
      return fetched;
    }
    // Only damage makes an older one the better choice.
    if (copied.error().code != Errc::kCorrupt) return std::move(copied).error();
    complain(copied.error().text);
  }
  // Where the directory has a checkpoint, it is the one to go on from, and the caller has to know what is newest there.
  if (copied || (options.beside > 0 && !here.empty())) return fetched;
  return Error{Errc::kCorrupt, names.size() > 1
                                   ? fmt::format("all {} checkpoints in {} that could be fetched are damaged",
                                                 names.size(), options.place)
                                   : "the only checkpoint in " + options.place + " that could be fetched is damaged"};
}

Json name_or_null(const std::optional<CheckpointName>& name) {
  return name ? Json(format_checkpoint_name(*name)) : Json();
}

int run(const FetchOptions& options) {
  work_beside(options.beside);
  const auto fetched = fetch(options);
  if (!fetched) {
    complain(fetched.error().text);
    return exit_code_of(fetched.error());
  }
  const auto word = [](const std::optional<CheckpointName>& name) {
    return name ? format_checkpoint_name(*name) : std::string("-");
  };
  if (options.beside > 0) return answer({word(fetched->name), word(fetched->newest)});
  if (options.json) {
    print_json(Json{{"place", options.place},
                    {"dir", options.dir},
                    {"fetched", name_or_null(fetched->name)},
                    {"newest", name_or_null(fetched->newest)}});
  } else if (fetched->name) {
    print_line(fmt::format("{}: train step {}", checkpoint_path(options.dir, *fetched->name), fetched->name->step));
  } else {
    print_line(fetched->why);
  }
  return kOk;
}

}  // namespace

void add_fetch(CommandLine* line, int* exit_code) {
  auto* command = line->subcommand("fetch", "Copy a checkpoint from an object store into a directory");
  auto options = std::make_shared<FetchOptions>();
  command->argument("NAME:PATH", &options->place, "Where dlckpt send or objects= has put it").required();
  command->argument("DIR", &options->dir, "Checkpoint directory, made if it is missing; no job may be using it")
      .required();
  command->option("--step", &options->step, "The checkpoint of this train step").between(0, 9e18L);
  command->flag("--json", &options->json, "Print one object");
  add_beside(command, &options->beside);
  command->action([=] { *exit_code = run(*options); });
}

}  // namespace dl::ckpt::tool
