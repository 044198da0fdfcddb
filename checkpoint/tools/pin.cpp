// SPDX-License-Identifier: Apache-2.0
// dlckpt pin, unpin: a file PINNED in a checkpoint, or an object PINNED beside its objects in a store, keeps jobs and
// dlckpt from retiring it.
#include <memory>

#include "checkpoint/store/directory.h"
#include "checkpoint/store/retire.h"
#include "checkpoint/tools/maintenance.h"
#include "checkpoint/tools/objects.h"

namespace dl::ckpt::tool {
namespace {

struct PinOptions {
  std::string path, note;
  std::optional<int64_t> step;
  bool json = false;
};

// `key` says in JSON what `where` is.
void tell(const PinOptions& options, const char* key, const std::string& where, const CheckpointName& name,
          bool was_pinned, bool pinned) {
  const std::string title = format_checkpoint_name(name);
  if (options.json)
    print_json(Json{{key, where}, {"name", title}, {"step", name.step}, {"pinned", pinned}});
  else
    print_line(title + (pinned ? ": pinned" : was_pinned ? ": not pinned any more" : ": it was not pinned"));
}

// The checkpoint that is meant: the newest in the store, of the train step if one is given.
Result<CheckpointName> select_stored(const ObjectListing& listing, const Target& target, const PinOptions& options) {
  for (const CheckpointName& name : listing.committed) {
    if (target.only && (name.save_id != target.only->save_id || name.step != target.only->step)) continue;
    if (!options.step || name.step == *options.step) return name;
  }
  std::string what = target.only ? format_checkpoint_name(*target.only) : "checkpoint";
  if (options.step) what += " of train step " + std::to_string(*options.step);
  return Error{Errc::kNotFound, "no " + what + " in " + target.dir};
}

Status change_in_store(const PinOptions& options, bool pinned) {
  const Target target = resolve_target(options.path);
  DL_TRY_ASSIGN(const auto level, open_objects(target.dir));
  DL_TRY_ASSIGN(const ObjectListing listing, list_objects(*level));
  DL_TRY_ASSIGN(const CheckpointName name, select_stored(listing, target, options));
  const bool was_pinned = listing.pinned.count(name.save_id) > 0;
  if (pinned && (!was_pinned || !options.note.empty())) DL_TRY(pin_object(*level, name, options.note));
  if (!pinned && was_pinned) DL_TRY(unpin_object(*level, name));
  tell(options, "place", target.dir, name, was_pinned, pinned);
  return {};
}

int run_in_store(const PinOptions& options, bool pinned) {
  const Status done = change_in_store(options, pinned);
  if (done) return kOk;
  complain(done.error().text);
  return exit_code_of(done.error());
}

int run(const PinOptions& options, bool pinned) {
  if (is_object_place(options.path)) return run_in_store(options, pinned);
  const Target target = resolve_target(options.path);
  auto names = select_checkpoints(target, options.step);
  if (!names) {
    complain(names.error().text);
    return kNothing;
  }
  const CheckpointName& name = names->front();
  const bool was_pinned = is_pinned(posix_io(), target.dir, name);
  const auto done = pinned ? pin(posix_io(), target.dir, name, options.note) : unpin(posix_io(), target.dir, name);
  if (!done) {
    complain(error_or_gone(posix_io(), target.dir, name, done.error()).text);
    return kNothing;
  }
  // The checkpoint is checked after it was pinned, because a pinned checkpoint that cannot be read helps nobody, and a
  // job may have removed it a moment before.
  const auto manifest = pinned ? inspect(target.dir, name) : Result<Manifest>(Manifest{});
  if (!manifest && manifest.error().code == Errc::kNotFound) {
    complain(manifest.error().text);
    return kNothing;
  }
  if (!manifest) {
    complain(format_checkpoint_name(name) + ": pinned, but damaged: " + manifest.error().text);
    return kDamaged;
  }
  tell(options, "dir", target.dir, name, was_pinned, pinned);
  return kOk;
}

void add(CommandLine* line, int* exit_code, bool pinned) {
  auto* command = line->subcommand(pinned ? "pin" : "unpin", pinned ? "Keep a checkpoint whatever retention says"
                                                                    : "Let retention have a checkpoint again");
  auto options = std::make_shared<PinOptions>();
  command
      ->argument("PATH", &options->path,
                 "One checkpoint, or a directory of checkpoints or NAME:PATH in an object store (its newest)")
      .required();
  command->option("--step", &options->step, "The checkpoint of this train step").between(0, 9e18L);
  if (pinned) command->option("--note", &options->note, "Why, for whoever finds the file PINNED");
  command->flag("--json", &options->json, "Print one object");
  command->action([=] { *exit_code = run(*options, pinned); });
}

}  // namespace

void add_pin(CommandLine* line, int* exit_code) {
  add(line, exit_code, true);
}

void add_unpin(CommandLine* line, int* exit_code) {
  add(line, exit_code, false);
}

}  // namespace dl::ckpt::tool
