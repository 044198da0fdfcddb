// SPDX-License-Identifier: Apache-2.0
// dlckpt ls: lists the checkpoints of a directory or an object store, newest first, and attempts that were not
// finished.
#include <fmt/core.h>

#include <algorithm>

#include "checkpoint/store/directory.h"
#include "checkpoint/store/lease.h"
#include "checkpoint/store/retire.h"
#include "checkpoint/tools/command.h"
#include "checkpoint/tools/objects.h"
#include "common/base/parse.h"

namespace dl::ckpt::tool {
namespace {

struct Row {
  std::string name, state, reason;
  int64_t step = 0;
  std::optional<Manifest> manifest;
  bool pinned = false;
};

// The names of attempts, sorted; a running save is among them.
Result<std::vector<std::string>> unfinished(const std::string& dir) {
  DL_TRY_ASSIGN(const std::vector<std::string> entries, list_directory(posix_io(), dir));
  std::vector<std::string> names;
  const std::string prefix = kTemporaryPrefix;
  for (const std::string& entry : entries)
    if (entry.compare(0, prefix.size(), prefix) == 0 && parse_checkpoint_name(entry.substr(prefix.size())))
      names.push_back(entry);
  std::sort(names.begin(), names.end());
  return names;
}

Json to_json(const Row& row) {
  Json json{{"name", row.name}, {"step", row.step}, {"state", row.state}};
  if (!row.reason.empty()) json["reason"] = row.reason;
  if (row.state != "unfinished") json["pinned"] = row.pinned;
  if (row.manifest) {
    json["created_ms"] = row.manifest->created_ms;
    json["bytes"] = row.manifest->total_bytes();
    json["new_bytes"] = row.manifest->new_bytes();
    json["ranks"] = row.manifest->world_size;
    if (!row.manifest->metrics.empty()) json["metrics"] = row.manifest->metrics;
  }
  return json;
}

void print_table(const std::vector<Row>& rows) {
  print_line(fmt::format("{:>12}  {:19}  {:>9}  {:>9}  {:>5}  {:17}  {}", "STEP", "TIME", "SIZE", "NEW", "RANKS",
                         "STATE", "NAME"));
  for (const Row& row : rows) {
    const Manifest* m = row.manifest ? &*row.manifest : nullptr;
    print_line(fmt::format("{:>12}  {:19}  {:>9}  {:>9}  {:>5}  {:17}  {}", row.step,
                           m ? format_time(m->created_ms) : "-", m ? format_bytes(m->total_bytes()) : "-",
                           m ? format_bytes(m->new_bytes()) : "-", m ? std::to_string(m->world_size) : "-",
                           row.pinned ? row.state + ", pinned" : row.state, row.name));
  }
  for (const Row& row : rows)
    if (!row.reason.empty()) complain(row.reason);
}

// The rows of committed checkpoints. One that its job removes meanwhile has none; if all are, it looks again, since the
// job has newer ones then.
Result<std::vector<Row>> committed(const Target& target) {
  for (int look = 1;; ++look) {
    DL_TRY_ASSIGN(const std::vector<CheckpointName> names, scan_checkpoints(posix_io(), target.dir));
    std::vector<Row> rows;
    std::optional<Error> gone;
    for (const CheckpointName& name : names) {
      if (target.only && name.save_id != target.only->save_id) continue;
      Row row{format_checkpoint_name(name),           "committed", "", name.step, std::nullopt,
              is_pinned(posix_io(), target.dir, name)};
      auto manifest = inspect_outline(target.dir, name);
      if (manifest) {
        row.manifest = *std::move(manifest);
      } else if (manifest.error().code == Errc::kNotFound) {
        gone = std::move(manifest).error();
        continue;
      } else {
        row.state = "damaged";
        row.reason = manifest.error().text;
      }
      rows.push_back(std::move(row));
    }
    if (!gone || !rows.empty()) return rows;
    if (target.only || look == kLooks) return *std::move(gone);
  }
}

// Removes from the rows those of damaged checkpoints that the store has no more: what is read of a checkpoint that is
// being removed ends too soon, as that of a damaged one does.
Status leave_out_gone(ObjectLevel& level, std::vector<Row>* rows) {
  const auto damaged = [](const Row& row) { return !row.reason.empty(); };
  if (std::none_of(rows->begin(), rows->end(), damaged)) return {};
  DL_TRY_ASSIGN(const std::vector<CheckpointName> there, list_checkpoints(level));
  const auto gone = [&](const Row& row) {
    return damaged(row) && std::none_of(there.begin(), there.end(), [&](const CheckpointName& name) {
             return format_checkpoint_name(name) == row.name;
           });
  };
  rows->erase(std::remove_if(rows->begin(), rows->end(), gone), rows->end());
  return {};
}

// The rows of what an object store has. One that is removed meanwhile has none.
Result<std::vector<Row>> stored(const std::string& place) {
  DL_TRY_ASSIGN(const auto level, open_objects(place));
  DL_TRY_ASSIGN(const ObjectListing listing, list_objects(*level));
  std::vector<Row> rows;
  for (const CheckpointName& name : listing.committed) {
    Row row{format_checkpoint_name(name),          "committed", "", name.step, std::nullopt,
            listing.pinned.count(name.save_id) > 0};
    auto manifest = load_object_manifest(*level, name);
    if (manifest) {
      row.manifest = *std::move(manifest);
    } else if (manifest.error().code == Errc::kNotFound) {
      continue;
    } else if (manifest.error().code == Errc::kCorrupt) {
      row.state = "damaged";
      row.reason = manifest.error().text;
    } else {
      return std::move(manifest).error();
    }
    rows.push_back(std::move(row));
  }
  DL_TRY(leave_out_gone(*level, &rows));
  for (const CheckpointName& name : listing.unfinished)
    rows.push_back(Row{format_checkpoint_name(name), "unfinished", "", name.step, std::nullopt, false});
  return rows;
}

int show(const std::vector<Row>& rows, const std::string& path, bool json) {
  if (json) {
    Json list = Json::array();
    for (const Row& row : rows) list.push_back(to_json(row));
    print_json(list);
  } else if (rows.empty()) {
    complain("no checkpoint in " + path);
  } else {
    print_table(rows);
  }
  if (std::any_of(rows.begin(), rows.end(), [](const Row& row) { return !row.reason.empty(); })) return kDamaged;
  return rows.empty() && !json ? kNothing : kOk;
}

int run(const std::string& path, bool json) {
  if (is_object_place(path)) {
    const auto rows = stored(path);
    if (rows) return show(*rows, path, json);
    complain(rows.error().text);
    return exit_code_of(rows.error());
  }
  const Target target = resolve_target(path);
  if (auto there = check_directory(target.dir); !there) {
    complain(there.error().text);
    return kNothing;
  }
  auto rows = committed(target);
  auto attempts = unfinished(target.dir);
  if (!rows || !attempts) {
    complain(!rows ? rows.error().text : attempts.error().text);
    return kNothing;
  }
  if (!target.only) {
    for (const std::string& attempt : *attempts) {
      const auto name = parse_checkpoint_name(attempt.substr(std::string(kTemporaryPrefix).size()));
      rows->push_back(Row{attempt, "unfinished", "", name->step, std::nullopt, false});
    }
  }
  return show(*rows, target.dir, json);
}

}  // namespace

void add_ls(CommandLine* line, int* exit_code) {
  auto* command = line->subcommand("ls", "List the checkpoints of a directory or an object store, newest first");
  auto path = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  command->argument("DIR", path.get(), "Checkpoint directory, or NAME:PATH in an object store").required();
  command->flag("--json", json.get(), "Print an array of objects");
  command->action([=] { *exit_code = run(*path, *json); });
}

}  // namespace dl::ckpt::tool
