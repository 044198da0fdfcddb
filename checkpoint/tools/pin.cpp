// SPDX-License-Identifier: Apache-2.0
// dlckpt pin, unpin: a file PINNED in a checkpoint keeps jobs and dlckpt gc from retiring it.
#include "checkpoint/store/directory.h"
#include "checkpoint/store/retire.h"
#include "checkpoint/tools/maintenance.h"

namespace dl::ckpt::tool {
namespace {

struct PinOptions {
  std::string path, note;
  std::optional<int64_t> step;
  bool json = false;
};

int run(const PinOptions& options, bool pinned) {
  const Target target = resolve_target(options.path);
  auto names = select_checkpoints(target, options.step);
  if (!names) {
    complain(names.error().text);
    return kNothing;
  }
  const CheckpointName& name = names->front();
  const std::string title = format_checkpoint_name(name);
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
    complain(title + ": pinned, but damaged: " + manifest.error().text);
    return kDamaged;
  }
  if (options.json) {
    print_json(Json{{"dir", target.dir}, {"name", title}, {"step", name.step}, {"pinned", pinned}});
  } else {
    print_line(title + (pinned ? ": pinned" : was_pinned ? ": not pinned any more" : ": it was not pinned"));
  }
  return kOk;
}

void add(CommandLine* line, int* exit_code, bool pinned) {
  auto* command = line->subcommand(pinned ? "pin" : "unpin", pinned ? "Keep a checkpoint whatever retention says"
                                                                    : "Let retention have a checkpoint again");
  auto options = std::make_shared<PinOptions>();
  command->argument("PATH", &options->path, "One checkpoint, or a checkpoint directory (its newest)").required();
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
