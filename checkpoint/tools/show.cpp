// SPDX-License-Identifier: Apache-2.0
// dlckpt show: what a checkpoint holds, and where the bytes are.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "checkpoint/store/directory.h"
#include "checkpoint/tools/command.h"
#include "launcher/common/parse.h"

namespace dl::ckpt::tool {
namespace {

struct Options {
  std::string path;
  std::optional<int64_t> step;
  bool json = false, tensors = false;
  int depth = 1;
};

struct Group {
  uint64_t bytes = 0;
  size_t tensors = 0, blobs = 0;
};

// The first `depth` parts of a path.
std::string group_of(const std::string& path, int depth) {
  size_t at = 0;
  for (int i = 0; i < depth; ++i) {
    at = path.find('/', at);
    if (at == std::string::npos) return path;
    ++at;
  }
  return path.substr(0, at);
}

std::map<std::string, Group> group_sizes(const Manifest& manifest, int depth) {
  std::map<std::string, Group> groups;
  for (const TensorRecord& tensor : manifest.tensors) {
    Group& group = groups[group_of(tensor.path, depth)];
    group.bytes += tensor.bytes();
    ++group.tensors;
  }
  for (const BlobRecord& blob : manifest.blobs) {
    Group& group = groups[group_of(blob.path, depth)];
    group.bytes += blob.size;
    ++group.blobs;
  }
  return groups;
}

Json to_json(const Manifest& manifest, const Options& options) {
  Json json{{"name", format_checkpoint_name(manifest.name)},
            {"step", manifest.name.step},
            {"save_id", format_save_id(manifest.name.save_id)},
            {"created_ms", manifest.created_ms},
            {"ranks", manifest.world_size},
            {"writer", manifest.writer},
            {"run_id", manifest.run_id},
            {"bytes", manifest.total_bytes()}};
  Json groups = Json::array();
  for (const auto& [name, group] : group_sizes(manifest, options.depth))
    groups.push_back({{"group", name}, {"bytes", group.bytes}, {"tensors", group.tensors}, {"blobs", group.blobs}});
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
  for (const FileRecord& file : manifest.files) files.push_back({{"name", file.name()}, {"bytes", file.size}});
  json["files"] = std::move(files);
  return json;
}

void print_groups(const Manifest& manifest, int depth) {
  const auto groups = group_sizes(manifest, depth);
  uint64_t total = 0, largest = 1;
  size_t width = 5;
  for (const auto& [name, group] : groups) {
    total += group.bytes;
    largest = std::max(largest, group.bytes);
    width = std::max(width, std::min<size_t>(printable(name, 60).size(), 60));
  }
  std::vector<std::pair<std::string, Group>> sorted(groups.begin(), groups.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  print_line("");
  for (const auto& [name, group] : sorted) {
    constexpr uint64_t kWidth = 30;
    const double share = total ? 100.0 * static_cast<double>(group.bytes) / static_cast<double>(total) : 0;
    const auto length = static_cast<size_t>(static_cast<double>(group.bytes) / static_cast<double>(largest) * kWidth);
    std::string count;
    if (group.tensors) count += fmt::format("{} tensor{}", group.tensors, group.tensors == 1 ? "" : "s");
    if (group.blobs)
      count += fmt::format("{}{} blob{}", count.empty() ? "" : ", ", group.blobs, group.blobs == 1 ? "" : "s");
    print_line(fmt::format("  {:{}}  {:>9}  {:5.1f}%  {:30}  {}", printable(name, 60), width, format_bytes(group.bytes),
                           share, std::string(length, '#'), count));
  }
}

void print_tensors(const Manifest& manifest) {
  print_line("");
  for (const TensorRecord& tensor : manifest.tensors)
    print_line(fmt::format(
        "  {:>9}  {:13}  {:20}  {}{}", format_bytes(tensor.bytes()), tensor.dtype->name, describe(tensor.shape),
        printable(tensor.path, 200),
        tensor.replicated ? " (replicated)"
                          : fmt::format(" ({} part{})", tensor.shards.size(), tensor.shards.size() == 1 ? "" : "s")));
  for (const BlobRecord& blob : manifest.blobs)
    print_line(fmt::format("  {:>9}  {:13}  {:20}  {}", format_bytes(blob.size), "blob",
                           blob.rank < 0 ? "all ranks" : fmt::format("rank {}", blob.rank), printable(blob.path, 200)));
}

int run(const Options& options) {
  const Target target = resolve_target(options.path);
  auto names = select_checkpoints(target, options.step);
  if (!names) {
    complain(names.error().text);
    return kNothing;
  }
  auto manifest = inspect(target.dir, names->front());
  if (!manifest) {
    complain(format_checkpoint_name(names->front()) + ": damaged: " + manifest.error().text);
    return kDamaged;
  }
  if (options.json) {
    print_json(to_json(*manifest, options));
    return kOk;
  }
  print_line(
      fmt::format("{}\n  train step {}, saved {} by {} rank{}, {} in {} file{}, {} tensors, {} blobs\n  {}, run {}",
                  checkpoint_path(target.dir, manifest->name), manifest->name.step, format_time(manifest->created_ms),
                  manifest->world_size, manifest->world_size == 1 ? "" : "s", format_bytes(manifest->total_bytes()),
                  manifest->files.size(), manifest->files.size() == 1 ? "" : "s", manifest->tensors.size(),
                  manifest->blobs.size(), printable(manifest->writer), printable(manifest->run_id)));
  print_groups(*manifest, options.depth);
  if (options.tensors) print_tensors(*manifest);
  return kOk;
}

}  // namespace

void add_show(CLI::App* app, int* exit_code) {
  auto* command = app->add_subcommand("show", "Describe a checkpoint: sizes per group, tensors");
  auto options = std::make_shared<Options>();
  command->add_option("PATH", options->path, "Checkpoint directory (its newest is shown), or one checkpoint in it")
      ->required();
  command->add_option("--step", options->step, "The checkpoint of this train step")->check(CLI::NonNegativeNumber);
  command->add_option("--depth", options->depth, "Parts of the names that make a group")->check(CLI::Range(1, 100));
  command->add_flag("-t,--tensors", options->tensors, "List every tensor and blob");
  command->add_flag("--json", options->json, "Print one object");
  command->callback([=] { *exit_code = run(*options); });
}

}  // namespace dl::ckpt::tool
