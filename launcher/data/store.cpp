// SPDX-License-Identifier: Apache-2.0
#include "launcher/data/store.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "common/base/clock.h"
#include "common/base/parse.h"
#include "common/contract/data_request.h"
#include "common/contract/early_check.h"
#include "common/json/json.h"
#include "common/remote/rclone.h"
#include "launcher/data/fault.h"
#include "launcher/data/home.h"

namespace dl::data {

Result<StoreFolder> parse_store_folder(const std::string& text) {
  StoreFolder folder;
  const size_t equals = text.rfind('=');
  folder.from = at_home(text.substr(0, equals));
  if (equals != std::string::npos) folder.name = text.substr(equals + 1);
  if (folder.from.empty())
    return Error{Errc::kInvalid, "'" + printable(text) + "' names no folder; allowed: DIR[=NAME]"};
  if (!folder.name.empty()) DL_TRY(check_path(folder.name));
  return folder;
}

Status check_destination(const std::string& to) {
  DL_TRY(check_place(to));
  if (place_of(to) == Place::kRemote) return check_remote_known(to);
  if (place_of(to) == Place::kPath) return check_can_store(at_home(to));
  return Error{Errc::kInvalid, fmt::format("nothing can be stored in '{}'; allowed: a path, or NAME:PATH of your "
                                           "rclone configuration",
                                           shown_place(to))};
}

namespace {

std::string front_of(const StoreFolder& folder) {
  return folder.name.empty() ? "" : folder.name + "/";
}

}  // namespace

bool is_late(const StoreOptions& options) {
  return options.deadline_ms != 0 && monotonic_ms() >= options.deadline_ms;
}

Error too_late(const Counts& counts) {
  return late_error(fmt::format(
      "the results are not stored yet: {} of {} ({} of {} files) are there at the deadline; "
      "what is there stays, and another store goes on with the rest",
      format_bytes(counts.bytes), format_bytes(counts.total), counts.files.load(), counts.all_files.load()));
}

std::string stored_manifest(const std::vector<StoreTree>& trees) {
  Json files = Json::array(), links = Json::array(), left = Json::array();
  for (const StoreTree& one : trees) {
    const std::string front = front_of(one.folder);
    for (const Entry& entry : one.tree.manifest.entries)
      if (!entry.folder)
        files.push_back({{"path", front + entry.path}, {"size", entry.size}, {"mtime_ns", entry.mtime_ns}});
    for (const auto& [path, target] : one.tree.links) links.push_back({{"path", front + path}, {"to", target}});
    for (const std::string& text : one.tree.left) left.push_back(front + text);
  }
  Json manifest = Json::object();
  manifest["version"] = 1;
  manifest["files"] = std::move(files);
  manifest["links"] = std::move(links);
  manifest["left"] = std::move(left);
  return manifest.dump() + "\n";
}

void leave_out(const std::string& path, const std::string& why, Tree* tree) {
  std::vector<Entry>& entries = tree->manifest.entries;
  const auto at = std::lower_bound(entries.begin(), entries.end(), path,
                                   [](const Entry& entry, const std::string& text) { return entry.path < text; });
  if (at != entries.end() && at->path == path) entries.erase(at);
  if (!why.empty()) tree->left.push_back(printable(path, 400) + why);
}

Result<Stored> store(const StoreOptions& options, Progress* progress) {
  std::vector<StoreTree> trees;
  Stored stored;
  for (const StoreFolder& folder : options.folders) {
    auto walked = walk(folder.from, Odd::kLeave);
    // A job that ended early may have made no results.
    if (!walked && walked.error().code == Errc::kNotFound) continue;
    DL_TRY_ASSIGN(Tree tree, std::move(walked));
    progress->counts.total += tree.manifest.bytes();
    progress->counts.all_files += tree.manifest.files();
    trees.push_back({folder, std::move(tree)});
  }
  progress->state(Progress::State::kStoring);
  const std::string planned = stored_manifest(trees);
  const bool remote = place_of(options.to) == Place::kRemote;
  if (place_of(options.to) == Place::kUrl || place_of(options.to) == Place::kCatalogue)
    return Error{Errc::kInvalid, fmt::format("'{}' cannot be stored to; allowed: a path, or NAME:PATH of your rclone "
                                             "configuration",
                                             shown_place(options.to))};
  const std::string path = at_home(options.to);
  DL_TRY(remote ? drop_remote_manifest(options, planned) : drop_path_manifest(path, planned));
  DL_TRY(remote ? store_in_remote(options, &trees, progress) : store_in_path(options, &trees, progress));
  if (is_late(options)) return too_late(progress->counts);
  for (const StoreTree& one : trees)
    for (const std::string& text : one.tree.left) stored.left.push_back(front_of(one.folder) + text);
  const std::string text = stored_manifest(trees);
  DL_TRY(remote ? write_remote_manifest(options, text) : write_path_manifest(path, text));
  return stored;
}

}  // namespace dl::data
