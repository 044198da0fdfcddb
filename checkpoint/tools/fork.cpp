// SPDX-License-Identifier: Apache-2.0
// dlckpt fork: makes a checkpoint available in another directory, for a run that goes on from it independently (a
// sweep, a fine-tuning). Files of a committed checkpoint are never changed (and one with several names is not
// overwritten in place either), so hard links suffice: nothing is copied.
#include <fmt/core.h>

#include "checkpoint/include/dlckpt_lease.h"
#include "checkpoint/levels/verified_copy.h"
#include "checkpoint/store/directory.h"
#include "checkpoint/store/lease.h"
#include "checkpoint/tools/maintenance.h"
#include "common/base/parse.h"

namespace dl::ckpt::tool {
namespace {

struct ForkOptions {
  std::string source, target;
  std::optional<int64_t> step;
  bool json = false;
};

// Links every file of the checkpoint into `attempt`, under the same name.
Status link_files(const std::string& source, const std::string& attempt, const Manifest& manifest) {
  for (const StoredFile& file : stored_files(manifest)) {
    const std::string from = source + "/" + file.name;
    const int rc = posix_io().link(from, attempt + "/" + file.name);
    if (rc == -EXDEV)
      return Error{Errc::kUnsupported, attempt + " is on another file system than " + source +
                                           ", where a file cannot have a second name; copy the checkpoint (cp -r)"};
    if (rc == -EPERM || rc == -EOPNOTSUPP)
      return Error{Errc::kUnsupported, "the file system of " + source +
                                           " gives no file a second name, or not to you (the files are another "
                                           "user's); copy the checkpoint (cp -r)"};
    if (rc < 0) return io_error("link", from, rc);
  }
  return {};
}

// Whether the checkpoint was still published after all its files had been linked. Then none of them was being
// overwritten: only a checkpoint that was retired, and so has lost its name, may be overwritten in place.
Status still_there(const std::string& dir, const CheckpointName& name) {
  DL_TRY_ASSIGN(const std::vector<CheckpointName> names, scan_checkpoints(posix_io(), dir));
  for (const CheckpointName& other : names)
    if (other.save_id == name.save_id && other.step == name.step) return {};
  return Error{Errc::kNotFound, format_checkpoint_name(name) +
                                    " was retired by its job meanwhile; fork again, or pin it before (dlckpt pin)"};
}

Status fork_checkpoint(const std::string& dir, const CheckpointName& name, const Manifest& manifest,
                       const std::string& target) {
  DL_TRY_ASSIGN(const std::string text,
                read_small_file(posix_io(), checkpoint_path(dir, name) + "/" + kManifestName, kMaxManifestBytes));
  DL_TRY(make_directory(target));
  DL_TRY_ASSIGN(Lease lease, Lease::acquire(posix_io(), target, "dlckpt fork", "", DLCKPT_LEASE_EXPIRY_S));
  DL_TRY_ASSIGN(const std::vector<CheckpointName> there, scan_checkpoints(posix_io(), target));
  if (!there.empty())
    return Error{Errc::kExists, target + " holds checkpoints already (" + format_checkpoint_name(there.front()) +
                                    " is the newest); fork into a directory of its own"};
  const std::string attempt = attempt_path(target, name);
  DL_TRY(remove_tree(posix_io(), attempt));
  if (const int rc = posix_io().mkdir(attempt); rc < 0) return io_error("make", attempt, rc);
  auto done = link_files(checkpoint_path(dir, name), attempt, manifest);
  if (done) done = still_there(dir, name);
  // Checks that the linked files are those that the manifest describes: sizes, user blocks, block tables.
  for (size_t i = 0; done && i < manifest.files.size(); ++i) {
    auto file = DataFile::open(posix_io(), attempt, manifest, i);
    if (!file) done = std::move(file).error();
  }
  if (done) done = publish(posix_io(), target, name, text);
  if (!done) ignore(discard_attempt(posix_io(), target, name), "dlckpt gc removes what is left");
  return done;
}

int run(const ForkOptions& options) {
  const auto fail = [](const Error& error) {
    complain(error.text);
    if (error.code == Errc::kInvalid || error.code == Errc::kExists) return kUsage;
    return error.code == Errc::kCorrupt ? kDamaged : kNothing;
  };
  const Target source = resolve_target(options.source);
  auto newest = select_newest(source, options.step);
  if (!newest) return fail(newest.error());
  const CheckpointName& name = newest->name;
  const Result<Manifest>& manifest = newest->manifest;
  if (!manifest) return fail(manifest.error());
  const auto done = fork_checkpoint(source.dir, name, *manifest, options.target);
  if (!done) return fail(done.error());
  if (options.json) {
    print_json(Json{{"source", checkpoint_path(source.dir, name)},
                    {"checkpoint", checkpoint_path(options.target, name)},
                    {"step", name.step},
                    {"files", stored_files(*manifest).size()},
                    {"bytes", manifest->total_bytes()}});
  } else {
    print_line(fmt::format("{}: train step {}, {}, nothing copied", checkpoint_path(options.target, name), name.step,
                           format_bytes(manifest->total_bytes())));
  }
  return kOk;
}

}  // namespace

void add_fork(CommandLine* line, int* exit_code) {
  auto* command = line->subcommand("fork", "Give a checkpoint to another directory, without copying it");
  auto options = std::make_shared<ForkOptions>();
  command->argument("SRC", &options->source, "One checkpoint, or a checkpoint directory (its newest)").required();
  command->argument("DST", &options->target, "Checkpoint directory without checkpoints, made if it is missing")
      .required();
  command->option("--step", &options->step, "The checkpoint of this train step").between(0, 9e18L);
  command->flag("--json", &options->json, "Print one object");
  command->action([=] { *exit_code = run(*options); });
}

}  // namespace dl::ckpt::tool
