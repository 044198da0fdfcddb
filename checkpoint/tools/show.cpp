// SPDX-License-Identifier: Apache-2.0
// dlckpt show: shows the content of a checkpoint, and where its bytes are.
#include <fmt/core.h>

#include "checkpoint/store/directory.h"
#include "checkpoint/store/retire.h"
#include "checkpoint/tools/command.h"
#include "checkpoint/tools/size_tree.h"
#include "common/base/parse.h"

namespace dl::ckpt::tool {
namespace {

struct ShowOptions {
  std::string path;
  std::optional<int64_t> step;
  bool json = false, tensors = false;
  int depth = 2;
};

Json to_json(const Manifest& manifest, const ShowOptions& options) {
  Json json{{"name", format_checkpoint_name(manifest.name)},
            {"step", manifest.name.step},
            {"save_id", format_save_id(manifest.name.save_id)},
            {"created_ms", manifest.created_ms},
            {"ranks", manifest.world_size},
            {"writer", manifest.writer},
            {"run_id", manifest.run_id},
            {"bytes", manifest.total_bytes()}};
  if (!manifest.metrics.empty()) json["metrics"] = manifest.metrics;
  Json groups = Json::array();
  for (const SizeGroup& group : size_tree(manifest, options.depth))
    groups.push_back({{"group", group.name},
                      {"level", group.level},
                      {"bytes", group.bytes},
                      {"tensors", group.tensors},
                      {"blobs", group.blobs},
                      {"members", group.members},
                      {"dtypes", group.dtypes}});
  json["groups"] = std::move(groups);
  Json tensors = Json::array();
  for (const TensorRecord& tensor : manifest.tensors)
    tensors.push_back({{"path", tensor.path},
                       {"dtype", tensor.dtype->name},
                       {"shape", tensor.shape},
                       {"replicated", tensor.replicated},
                       {"shards", tensor.shards.size()},
                       {"bytes", tensor.bytes()}});
  json["tensors"] = std::move(tensors);
  Json blobs = Json::array();
  for (const BlobRecord& blob : manifest.blobs)
    blobs.push_back({{"path", blob.path}, {"rank", blob.rank}, {"bytes", blob.size}});
  json["blobs"] = std::move(blobs);
  Json files = Json::array();
  for (const FileRecord& file : manifest.files) {
    Json row{{"name", file.name()}, {"bytes", file.size}};
    if (file.origin) row["origin"] = format_checkpoint_name(*file.origin);
    files.push_back(std::move(row));
  }
  json["files"] = std::move(files);
  Json members = Json::array();
  for (const MemberRecord& member : manifest.members)
    members.push_back({{"name", member.name}, {"rank", member.rank}, {"file", member.file}, {"bytes", member.size}});
  json["members"] = std::move(members);
  return json;
}

// Prints metrics, the pin, and files that earlier saves wrote, if there are any.
void print_extras(const Manifest& manifest, bool pinned) {
  if (!manifest.metrics.empty()) {
    std::string text;
    for (const auto& [name, value] : manifest.metrics)
      text += fmt::format("{}{} {:.6g}", text.empty() ? "" : ", ", printable(name), value);
    print_line("  metrics: " + text);
  }
  if (pinned) print_line("  pinned: retention leaves it alone");
  uint64_t bytes = 0;
  size_t count = 0;
  std::optional<CheckpointName> oldest;
  for (const FileRecord& file : manifest.files) {
    if (!file.origin) continue;
    bytes += file.size;
    ++count;
    if (!oldest || file.origin->save_id < oldest->save_id) oldest = file.origin;
  }
  if (count > 0)
    print_line(fmt::format("  unchanged: {} in {} file{} written by earlier saves, the first at train step {}",
                           format_bytes(bytes), count, count == 1 ? "" : "s", oldest->step));
}

std::string own_files(size_t count) {
  return count == 0 ? std::string() : fmt::format(", {} file{} of the program", count, count == 1 ? "" : "s");
}

void print_tensors(const Manifest& manifest) {
  print_line("");
  for (const TensorRecord& tensor : manifest.tensors)
    print_line(fmt::format(
        "  {:>9}  {:13}  {:20}  {}{}", format_bytes(tensor.bytes()), tensor.dtype->name, ckpt::describe(tensor.shape),
        printable(tensor.path, 200),
        tensor.replicated ? " (replicated)"
                          : fmt::format(" ({} part{})", tensor.shards.size(), tensor.shards.size() == 1 ? "" : "s")));
  for (const BlobRecord& blob : manifest.blobs)
    print_line(fmt::format("  {:>9}  {:13}  {:20}  {}", format_bytes(blob.size), "blob",
                           blob.rank < 0 ? "all ranks" : fmt::format("rank {}", blob.rank), printable(blob.path, 200)));
  for (const MemberRecord& member : manifest.members)
    print_line(fmt::format("  {:>9}  {:13}  {:20}  {}", format_bytes(member.size), "file",
                           member.rank < 0 ? "all ranks" : fmt::format("rank {}", member.rank),
                           printable(member.name, 200)));
}

int run(const ShowOptions& options) {
  const Target target = resolve_target(options.path);
  auto newest = select_newest(target, options.step);
  if (!newest) {
    complain(newest.error().text);
    return kNothing;
  }
  const Result<Manifest>& manifest = newest->manifest;
  if (!manifest) {
    const bool gone = manifest.error().code == Errc::kNotFound;
    complain(gone ? manifest.error().text
                  : format_checkpoint_name(newest->name) + ": damaged: " + manifest.error().text);
    return gone ? kNothing : kDamaged;
  }
  if (options.json) {
    print_json(to_json(*manifest, options));
    return kOk;
  }
  const size_t stored = manifest->files.size() + manifest->members.size();
  print_line(
      fmt::format("{}\n  train step {}, saved {} by {} rank{}, {} in {} file{}, {} tensors, {} blobs{}\n  {}, run {}",
                  checkpoint_path(target.dir, manifest->name), manifest->name.step, format_time(manifest->created_ms),
                  manifest->world_size, manifest->world_size == 1 ? "" : "s", format_bytes(manifest->total_bytes()),
                  stored, stored == 1 ? "" : "s", manifest->tensors.size(), manifest->blobs.size(),
                  own_files(manifest->members.size()), printable(manifest->writer), printable(manifest->run_id)));
  print_extras(*manifest, is_pinned(posix_io(), target.dir, manifest->name));
  print_line("");
  for (const std::string& line : draw(size_tree(*manifest, options.depth), terminal_width(), terminal_has_unicode()))
    print_line(line);
  if (options.tensors) print_tensors(*manifest);
  return kOk;
}

}  // namespace

void add_show(CommandLine* line, int* exit_code) {
  auto* command = line->subcommand("show", "Describe a checkpoint: sizes per group, tensors");
  auto options = std::make_shared<ShowOptions>();
  command->argument("PATH", &options->path, "Checkpoint directory (its newest is shown), or one checkpoint in it")
      .required();
  command->option("--step", &options->step, "The checkpoint of this train step").between(0, 9e18L);
  command->option("--depth", &options->depth, "Parts of the names, ending at / or ., that make groups")
      .shows_default()
      .between(1, 100);
  command->flag("-t,--tensors", &options->tensors, "List every tensor, blob and file");
  command->flag("--json", &options->json, "Print one object");
  command->action([=] { *exit_code = run(*options); });
}

}  // namespace dl::ckpt::tool
