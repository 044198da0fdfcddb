// SPDX-License-Identifier: Apache-2.0
// dlckpt verify: reads every byte and compares every checksum, without libhdf5.
#include <fmt/format.h>

#include "checkpoint/tools/command.h"
#include "launcher/common/parse.h"

namespace dl::ckpt::tool {
namespace {

struct Options {
  std::vector<std::string> paths;
  std::optional<int64_t> step;
  bool json = false, quiet = false;
};

// Verifies one; true if it is sound.
bool judge(const std::string& dir, const CheckpointName& name, const Options& options, Json* list) {
  const std::string title = format_checkpoint_name(name);
  Result<Manifest> manifest = Error{};
  {
    ProgressBar bar(title);
    manifest = verify_checkpoint(posix_io(), dir, name, [&](uint64_t done, uint64_t total) {
      bar.update(done, total);
      return true;
    });
  }
  Json row{{"dir", dir}, {"name", title}, {"step", name.step}, {"verified", manifest.has_value()}};
  if (manifest) {
    row["bytes"] = manifest->total_bytes();
    if (!options.json && !options.quiet)
      print_line(fmt::format("{}: verified, {} in {} files", title, format_bytes(manifest->total_bytes()),
                             manifest->files.size()));
  } else {
    row["reason"] = manifest.error().text;
    if (!options.json) complain(title + ": damaged: " + manifest.error().text);
  }
  list->push_back(std::move(row));
  return manifest.has_value();
}

int run(const Options& options) {
  bool sound = true, nothing = false;
  Json list = Json::array();
  for (const std::string& path : options.paths) {
    const Target target = resolve_target(path);
    auto names = select_checkpoints(target, options.step);
    if (!names) {
      complain(names.error().text);
      nothing = true;
      continue;
    }
    for (const CheckpointName& name : *names) sound = judge(target.dir, name, options, &list) && sound;
  }
  if (options.json) print_json(list);
  if (!sound) return kDamaged;
  return nothing ? kNothing : kOk;
}

}  // namespace

void add_verify(CLI::App* app, int* exit_code) {
  auto* command = app->add_subcommand("verify", "Read everything and compare all checksums");
  auto options = std::make_shared<Options>();
  command->add_option("PATH", options->paths, "Checkpoint directory, or one checkpoint in it")->required();
  command->add_option("--step", options->step, "Only checkpoints of this train step")->check(CLI::NonNegativeNumber);
  command->add_flag("--json", options->json, "Print an array of objects");
  command->add_flag("-q,--quiet", options->quiet, "Print only what is damaged");
  command->callback([=] { *exit_code = run(*options); });
}

}  // namespace dl::ckpt::tool
