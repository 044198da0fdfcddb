// SPDX-License-Identifier: Apache-2.0
// dlckpt send: copies a checkpoint of a directory into an object store, where it exists once its manifest is there.
#include <fmt/core.h>

#include "checkpoint/store/directory.h"
#include "checkpoint/tools/maintenance.h"
#include "checkpoint/tools/objects.h"
#include "common/base/parse.h"

namespace dl::ckpt::tool {
namespace {

struct SendOptions {
  std::string source, place;
  std::optional<int64_t> step;
  RetentionOptions retention;
  int64_t beside = 0;
  bool check = false, json = false;
};

// With --keep a place is one directory's alone: what another run has put there would push out this one's checkpoints,
// or be restored in place of them.
Status check_place_is_ours(const std::vector<CheckpointName>& there, const std::string& place, const std::string& dir,
                           const CheckpointName& name) {
  if (there.empty() || !newer(there.front(), name)) return {};
  DL_TRY_ASSIGN(const std::vector<CheckpointName> here, scan_checkpoints(posix_io(), dir));
  for (const CheckpointName& ours : here)
    if (ours.save_id == there.front().save_id) return {};
  return Error{Errc::kExists,
               fmt::format("{} holds {}, which is newer than {} and not in {}: another run's, or the directory was "
                           "lost; fetch it first (dlckpt fetch {} DIR), or give each run a place of its own",
                           place, format_checkpoint_name(there.front()), format_checkpoint_name(name), dir, place)};
}

struct Sent {
  CheckpointName name;
  uint64_t bytes = 0;
  bool now = false;  // it was not there before
  std::vector<std::string> removed;
};

Result<Sent> send(const SendOptions& options) {
  DL_TRY_ASSIGN(const RetentionPolicy policy, policy_of(options.retention));
  const Target source = resolve_target(options.source);
  DL_TRY_ASSIGN(const Newest newest, select_newest(source, options.step));
  if (!newest.manifest) return newest.manifest.error();
  Sent sent{newest.name, newest.manifest->total_bytes(), false, {}};
  DL_TRY_ASSIGN(const auto level, open_objects(options.place));
  DL_TRY_ASSIGN(const ObjectListing there, list_objects(*level));
  if (options.retention.keep > 0) DL_TRY(check_place_is_ours(there.committed, options.place, source.dir, sent.name));
  SignsOfLife signs(options.beside);
  {
    ProgressBar bar(format_checkpoint_name(sent.name));
    auto done = send_checkpoint(posix_io(), source.dir, sent.name, *level, [&](uint64_t moved, uint64_t all) {
      signs.give();
      bar.update(moved, all);
    });
    if (!done) return error_or_gone(posix_io(), source.dir, sent.name, std::move(done).error());
    sent.now = *done;
  }
  if (const Status pins = send_pins(posix_io(), source.dir, *level, there); !pins)
    complain(fmt::format("not all pins of {} were sent to {}: {}; the next send tries it again", source.dir,
                         options.place, pins.error().text));
  if (options.retention.keep == 0) return sent;
  const auto pinned = [&](const CheckpointName& name) { return is_pinned(posix_io(), source.dir, name); };
  const auto removed = retire_objects(*level, policy, sent.name, pinned);
  if (removed)
    for (const CheckpointName& name : *removed) sent.removed.push_back(format_checkpoint_name(name));
  else  // what was asked for is there all the same
    complain(fmt::format("older checkpoints in {} were not removed: {}; the next send with --keep tries it again",
                         options.place, removed.error().text));
  return sent;
}

// Whether objects= can be opened: asks no server.
int check(const SendOptions& options) {
  const auto level = open_objects(options.place);
  if (level) return answer({});
  complain(level.error().text);
  return exit_code_of(level.error());
}

int run(const SendOptions& options) {
  work_beside(options.beside);
  if (options.check) return check(options);
  const auto sent = send(options);
  if (!sent) {
    complain(sent.error().text);
    return exit_code_of(sent.error());
  }
  if (options.beside > 0) return answer({});
  const std::string name = format_checkpoint_name(sent->name);
  if (options.json) {
    print_json(Json{{"place", options.place},
                    {"name", name},
                    {"step", sent->name.step},
                    {"bytes", sent->bytes},
                    {"sent", sent->now},
                    {"removed", sent->removed}});
    return kOk;
  }
  print_line(fmt::format("{}: train step {}, {}, {}", name, sent->name.step, format_bytes(sent->bytes),
                         sent->now ? "sent to " + options.place : "in " + options.place + " already"));
  for (const std::string& removed : sent->removed) print_line("removed from " + options.place + ": " + removed);
  return kOk;
}

}  // namespace

void add_send(CommandLine* line, int* exit_code) {
  auto* command = line->subcommand("send", "Copy a checkpoint into an object store");
  auto options = std::make_shared<SendOptions>();
  command->argument("PATH", &options->source, "One checkpoint, or a checkpoint directory (its newest)").required();
  command
      ->argument("NAME:PATH", &options->place,
                 "Folder of a remote of your rclone configuration, for the checkpoints of one run")
      .required();
  command->option("--step", &options->step, "The checkpoint of this train step").between(0, 9e18L);
  add_retention(command, &options->retention, "Then keep only the newest so many there; without it all stay");
  command->flag("--json", &options->json, "Print one object");
  add_beside(command, &options->beside);
  command->flag("--check", &options->check, "Only look whether the place can be used").hidden();
  command->action([=] { *exit_code = run(*options); });
}

}  // namespace dl::ckpt::tool
