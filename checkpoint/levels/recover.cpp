// SPDX-License-Identifier: Apache-2.0
// Levels::recover: rank 0 asks which files the nodes have, and orders which rank copies what into the shared directory.
// Orders and answers are JSON texts; one that cannot be parsed only leads to an error.
#include <algorithm>
#include <cerrno>
#include <map>
#include <set>

#include "checkpoint/format/manifest_json.h"
#include "checkpoint/group/messages.h"
#include "checkpoint/levels/levels.h"
#include "checkpoint/retention/retention.h"
#include "checkpoint/store/directory.h"
#include "checkpoint/store/file.h"
#include "checkpoint/store/verify.h"

namespace dl::ckpt {
namespace {

std::string to_text(const Json& json) {
  return json.dump_sorted();
}

Error unreadable(const char* what) {
  return Error{Errc::kInternal, std::string(what) + " cannot be read; all ranks need the same libdlckpt"};
}

}  // namespace

// By checkpoint name: the files in its directories on one node, including MANIFEST.json.
struct Levels::Found {
  std::map<std::string, std::set<std::string>> have;

  bool has(const CheckpointName& name, const std::string& file) const {
    const auto at = have.find(format_checkpoint_name(name));
    return at != have.end() && at->second.count(file) > 0;
  }
  std::string format() const { return to_text(Json(have)); }
  static Found parse(const std::string& text) {
    Found found;
    const auto json = parse_json(text);
    if (!json || !json->is_object()) return found;
    for (const auto& [name, files] : json->members()) {
      if (!parse_checkpoint_name(name) || !files.is_array()) continue;
      for (const Json& file : files)
        if (file.is_string()) found.have[name].insert(file.get<std::string>());
    }
    return found;
  }
};

Levels::Found Levels::look_around() {
  Found found;
  auto ranks = list_directory(io_, node_dir_);
  if (!ranks) return found;
  for (const std::string& rank : *ranks) {
    const std::string directory = node_dir_ + "/" + rank;
    auto names = scan_checkpoints(io_, directory);
    if (!names) continue;
    for (const CheckpointName& name : *names) {
      auto files = list_directory(io_, checkpoint_path(directory, name));
      if (!files) continue;
      found.have[format_checkpoint_name(name)].insert(files->begin(), files->end());
    }
  }
  return found;
}

// The directories of this node's ranks in which the checkpoint has this file.
std::vector<std::string> Levels::find_file(const CheckpointName& name, const std::string& file) {
  std::vector<std::string> found;
  auto ranks = list_directory(io_, node_dir_);
  if (!ranks) return found;
  for (const std::string& rank : *ranks) {
    const std::string directory = node_dir_ + "/" + rank;
    Io::Info info;
    if (io_.stat(checkpoint_path(directory, name) + "/" + file, &info) == 0 && info.regular) found.push_back(directory);
  }
  return found;
}

// The manifest from one of these directories that has a good one.
Result<Manifest> Levels::find_manifest(const CheckpointName& name) {
  Error last{Errc::kNotFound, "its manifest is gone"};
  for (const std::string& directory : find_file(name, kManifestName)) {
    auto manifest = load_stored_manifest(io_, directory, name);
    if (manifest) return manifest;
    last = manifest.error();
  }
  return last;
}

Status Levels::copy_here(const Manifest& manifest, const StoredFile& file, const std::string& into) {
  Status outcome = Error{Errc::kCorrupt, file.name + " is gone"};
  for (const std::string& directory : find_file(manifest.name, file.name)) {
    const std::string target = into + "/" + file.name;
    outcome = copy_verified(io_, checkpoint_path(directory, manifest.name) + "/" + file.name, target, file);
    if (outcome && file.data_file != SIZE_MAX) {
      auto head = DataFile::open(io_, into, manifest, file.data_file);
      if (!head) {
        io_.unlink(target);
        outcome = std::move(head).error();
      }
    }
    if (outcome || outcome.error().code != Errc::kCorrupt) return outcome;
  }
  return outcome;
}

Result<std::string> Levels::follow(const std::string& order) {
  const auto json = parse_json(order);
  if (!json) return unreadable("a message of rank 0 about checkpoints on the nodes");
  DL_TRY_ASSIGN(const std::string what, string_member(*json, "do", 16));
  if (what == "forget") {
    // The shared directory has newer checkpoints than these.
    DL_TRY_ASSIGN(const int64_t generation, int_member(*json, "generation", 0, UINT32_MAX));
    auto ranks = list_directory(io_, node_dir_);
    if (!ranks) return std::string();
    for (const std::string& rank : *ranks) {
      std::vector<CheckpointName> old;
      auto names = scan_checkpoints(io_, node_dir_ + "/" + rank);
      if (!names) continue;
      for (const CheckpointName& name : *names)
        if (name.generation() < generation) old.push_back(name);
      ignore(remove_checkpoints(io_, node_dir_ + "/" + rank, old), "tried again by the next run");
    }
    return std::string();
  }
  DL_TRY_ASSIGN(const std::string text, string_member(*json, "name", 64));
  const auto name = parse_checkpoint_name(text);
  if (!name) return unreadable("a checkpoint's name in a message of rank 0");
  if (what == "manifest") {
    DL_TRY_ASSIGN(const int64_t rank, int_member(*json, "rank", 0, kMaxRanks));
    if (rank != settings_.rank) return std::string();
    DL_TRY_ASSIGN(const Manifest manifest, find_manifest(*name));
    return format_manifest(manifest);
  }
  // "copy": into a directory below the shared one, whose name rank 0 has chosen.
  DL_TRY_ASSIGN(const std::string target, string_member(*json, "into", 128));
  DL_TRY_ASSIGN(const Json* files, array_member(*json, "files"));
  Json failures = Json::object();
  std::optional<Manifest> manifest;
  for (const Json& row : *files) {
    DL_TRY_ASSIGN(const int64_t rank, int_member(row, "rank", 0, kMaxRanks));
    DL_TRY_ASSIGN(const std::string file_name, string_member(row, "file", 64));
    if (rank != settings_.rank) continue;
    const auto copy = [&]() -> Status {
      if (!manifest) {
        DL_TRY_ASSIGN(manifest, find_manifest(*name));
      }
      for (const StoredFile& file : stored_files(*manifest))
        if (file.name == file_name) return copy_here(*manifest, file, settings_.shared + "/" + target);
      return Error{Errc::kCorrupt, "no file " + file_name + " in the manifest"};
    };
    auto copied = or_out_of_memory(copy);
    if (!copied) failures[file_name] = copied.error().text;
  }
  return to_text(failures);
}

Status Levels::recover(Group& group, bool heal, std::string* note) {
  note->clear();
  DL_TRY_ASSIGN(const std::vector<std::string> reports, group.gather(look_around().format()));
  if (group.rank() != 0) {
    for (;;) {
      DL_TRY_ASSIGN(const std::string order, group.broadcast("", 4));
      if (order == "end") return {};
      auto answer = or_out_of_memory([&] { return follow(order); });
      auto sent = group.gather(answer ? say_ok(*answer) : say_error(answer.error()));
      if (!sent) return std::move(sent).error();
    }
  }
  std::vector<Found> found;
  found.reserve(reports.size());
  for (const std::string& report : reports) found.push_back(Found::parse(report));
  const Ask ask = [&](const std::string& order) -> Result<std::vector<std::string>> {
    DL_TRY_ASSIGN(const std::string said, group.broadcast(order, 1));
    if (said != order)
      return unreadable(
          "a message of another rank about checkpoints on the nodes");  // rank 0 had no space for its message
    auto answer = or_out_of_memory([&] { return follow(order); });
    return group.gather(answer ? say_ok(*answer) : say_error(answer.error()));
  };
  auto outcome = or_out_of_memory([&] { return bring_all(found, heal, ask, note); });
  auto told = group.broadcast("end", 1);
  if (!outcome) return outcome;
  if (!told) return std::move(told).error();
  return {};
}

Status Levels::bring_all(const std::vector<Found>& found, bool heal, const Ask& ask, std::string* note) {
  DL_TRY_ASSIGN(std::vector<CheckpointName> shared, scan_checkpoints(io_, settings_.shared));
  std::vector<CheckpointName> candidates;
  for (const Found& node : found)
    for (const auto& [text, files] : node.have) {
      const auto name = parse_checkpoint_name(text);
      // If the generations are equal, another run has gone on from the shared directory meanwhile, and its branch
      // counts.
      if (!name || (!shared.empty() && name->generation() <= shared.front().generation())) continue;
      if (std::none_of(candidates.begin(), candidates.end(),
                       [&](const CheckpointName& other) { return other.save_id == name->save_id; }))
        candidates.push_back(*name);
    }
  std::sort(candidates.begin(), candidates.end(), newer);
  for (const CheckpointName& name : candidates) {
    auto brought = bring(name, found, ask);
    if (brought) {
      *note += "brought " + format_checkpoint_name(name) + " from the nodes; ";
      break;
    }
    if (brought.error().code == Errc::kTimeout) return brought;
    *note += format_checkpoint_name(name) + " on the nodes: " + brought.error().text + "; ";
  }
  if (heal) DL_TRY(heal_newest(found, ask, note));
  DL_TRY_ASSIGN(shared, scan_checkpoints(io_, settings_.shared));
  if (!shared.empty()) {
    auto forgotten = ask(to_text(Json{{"do", "forget"}, {"generation", shared.front().generation()}}));
    if (!forgotten) return std::move(forgotten).error();
  }
  return {};
}

Result<Manifest> Levels::fetch_manifest(const CheckpointName& name, const std::vector<Found>& found, const Ask& ask,
                                        std::string* text) {
  Error last{Errc::kNotFound, "no node has its manifest"};
  for (size_t rank = 0; rank < found.size(); ++rank) {
    if (!found[rank].has(name, kManifestName)) continue;
    DL_TRY_ASSIGN(const std::vector<std::string> answers,
                  ask(to_text(Json{{"do", "manifest"}, {"name", format_checkpoint_name(name)}, {"rank", rank}})));
    auto heard = hear(answers[rank]);
    auto manifest = heard ? parse_manifest(*heard) : Result<Manifest>(std::move(heard).error());
    if (manifest && manifest->name.save_id == name.save_id && manifest->name.step == name.step) {
      *text = answers[rank].substr(say_ok().size());
      return manifest;
    }
    last = manifest ? Error{Errc::kCorrupt, "a node has another save's manifest under its name"} : manifest.error();
  }
  return last;
}

// Orders the nodes to copy each file into `target` (a directory below the shared one). If a node's copy is damaged,
// another node is asked.
Status Levels::gather_files(const CheckpointName& name, const std::vector<StoredFile>& files, const std::string& target,
                            const std::vector<Found>& found, const Ask& ask) {
  std::vector<StoredFile> open = files;
  std::map<std::string, std::set<size_t>> tried;
  std::map<std::string, std::string> why;
  while (!open.empty()) {
    Json rows = Json::array();
    std::vector<uint64_t> load(found.size(), 0);
    std::vector<std::pair<std::string, size_t>> asked;
    for (const StoredFile& file : open) {
      size_t best = SIZE_MAX;
      for (size_t rank = 0; rank < found.size(); ++rank)
        if (found[rank].has(name, file.name) && tried[file.name].count(rank) == 0 &&
            (best == SIZE_MAX || load[rank] < load[best]))
          best = rank;
      if (best == SIZE_MAX)
        return Error{Errc::kCorrupt,
                     why.count(file.name) ? why[file.name] : "no node that is here has its file " + file.name};
      tried[file.name].insert(best);
      load[best] += file.size;
      rows.push_back({{"rank", best}, {"file", file.name}});
      asked.emplace_back(file.name, best);
    }
    DL_TRY_ASSIGN(
        const std::vector<std::string> answers,
        ask(to_text(Json{
            {"do", "copy"}, {"name", format_checkpoint_name(name)}, {"into", target}, {"files", std::move(rows)}})));
    std::set<std::string> failed;
    for (const auto& [file, rank] : asked) {
      auto heard = hear(answers[rank]);
      const auto json = heard ? parse_json(*heard) : std::nullopt;
      if (json && json->is_object() && !json->contains(file)) continue;
      failed.insert(file);
      why[file] = !heard ? heard.error().text : json && json->is_object() ? json->at(file).dump_sorted() : "no answer";
    }
    open.erase(
        std::remove_if(open.begin(), open.end(), [&](const StoredFile& file) { return failed.count(file.name) == 0; }),
        open.end());
  }
  return {};
}

Status Levels::bring(const CheckpointName& name, const std::vector<Found>& found, const Ask& ask) {
  std::string text;
  DL_TRY_ASSIGN(const Manifest manifest, fetch_manifest(name, found, ask, &text));
  DL_TRY(discard_attempt(io_, settings_.shared, name));
  const std::string attempt = attempt_path(settings_.shared, name);
  const int rc = io_.mkdir(attempt);
  if (rc < 0) return io_error("make", attempt, rc);
  auto done = gather_files(name, stored_files(manifest), attempt.substr(settings_.shared.size() + 1), found, ask);
  if (done) done = publish(io_, settings_.shared, name, text);
  if (!done) ignore(discard_attempt(io_, settings_.shared, name), "the next run removes what is left");
  return done;
}

// Goes through the checkpoints from the newest on, until one verifies, and replaces damaged files by good ones of the
// nodes.
Status Levels::heal_newest(const std::vector<Found>& found, const Ask& ask, std::string* note) {
  DL_TRY_ASSIGN(const std::vector<CheckpointName> shared, scan_checkpoints(io_, settings_.shared));
  for (const CheckpointName& name : shared) {
    const std::string path = checkpoint_path(settings_.shared, name);
    std::string text;
    auto manifest = load_stored_manifest(io_, settings_.shared, name);
    const bool manifest_damaged = !manifest;
    if (manifest_damaged) manifest = fetch_manifest(name, found, ask, &text);
    if (!manifest) {
      if (manifest.error().code == Errc::kTimeout) return std::move(manifest).error();
      continue;
    }
    std::vector<StoredFile> damaged;
    for (const StoredFile& file : stored_files(*manifest))
      if (!verify_stored_file(io_, path, *manifest, file)) damaged.push_back(file);
    if (damaged.empty() && !manifest_damaged) return {};
    const std::string target = std::string(kTemporaryPrefix) + "heal-" + format_checkpoint_name(name);
    const std::string spare = settings_.shared + "/" + target;
    DL_TRY(remove_tree(io_, spare));
    const int rc = io_.mkdir(spare);
    if (rc < 0) return io_error("make", spare, rc);
    auto healed = gather_files(name, damaged, target, found, ask);
    if (healed && manifest_damaged) {
      healed = write_new_file(io_, spare + "/" + kManifestName, text, /*durable=*/true);
      damaged.push_back({kManifestName, 0, nullptr, SIZE_MAX, 0});
    }
    for (size_t i = 0; healed && i < damaged.size(); ++i)
      if (const int moved = io_.rename(spare + "/" + damaged[i].name, path + "/" + damaged[i].name); moved < 0)
        healed = io_error("replace", path + "/" + damaged[i].name, moved);
    if (healed)
      if (const int synced = io_.fsync_directory(path); synced < 0) healed = io_error("fsync", path, synced);
    ignore(remove_tree(io_, spare), "the next run removes what is left");
    if (healed) {
      *note += "replaced damaged files of " + format_checkpoint_name(name) + " by good ones from the nodes; ";
      return {};
    }
    if (healed.error().code == Errc::kTimeout) return healed;
  }
  return {};
}

}  // namespace dl::ckpt
