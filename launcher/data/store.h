// SPDX-License-Identifier: Apache-2.0
// dl-data store: copies results and logs to the place that the user has named. The last file written there is a
// manifest of all others, dl-results.json: where it is, all that it lists is there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "launcher/data/progress.h"
#include "launcher/data/retry.h"
#include "launcher/data/walk.h"

namespace dl::data {

constexpr char kStoredManifest[] = "dl-results.json";

struct StoreFolder {
  std::string from;  // a file or folder
  std::string name;  // the folder below the destination; empty: the destination itself
};
// "DIR" or "DIR=NAME". kInvalid for a name that check_path() refuses.
Result<StoreFolder> parse_store_folder(const std::string& text);

// Checks what can be checked at once of a place to store in, which may hold placeholders: a folder above it can be
// written to, or its remote is in the user's configuration of rclone, which others cannot read. Asks no server.
Status check_destination(const std::string& to);

struct StoreOptions {
  std::vector<StoreFolder> folders;
  std::string to;           // a path or NAME:PATH
  int64_t deadline_ms = 0;  // of monotonic_ms(); 0: none
  unsigned streams = 0;
  Patience patience;
};

// What was left out because it cannot be stored (a device, a name with a control character, a link to elsewhere, a file
// that may not be read, one in whose place there lies a folder with files in it), with the reason; as in the manifest.
struct Stored {
  std::vector<std::string> left;
};

// Stores what is not there yet: a file with the same size and time counts as stored. Each file appears whole. What is
// of another kind there is replaced, and no link below the destination is followed. Errors:
// of the folders (source_error()) and of the destination (destination_error(), rclone's); late_error() at the deadline.
// What was stored stays, and another call goes on.
Result<Stored> store(const StoreOptions& options, Progress* progress);

// Of one folder.
struct StoreTree {
  StoreFolder folder;
  Tree tree;
};
// The manifest's text.
std::string stored_manifest(const std::vector<StoreTree>& trees);

// The two ways to store; in store_path.cpp and store_remote.cpp. They leave the manifest to the caller.
// A file that has gone meanwhile, or cannot be stored, is taken out of its tree's manifest; of the latter Tree::left
// tells.
Status store_in_path(const StoreOptions& options, std::vector<StoreTree>* trees, Progress* progress);
Status store_in_remote(const StoreOptions& options, std::vector<StoreTree>* trees, Progress* progress);
constexpr char kUnreadable[] = " may not be read";
// Takes a file out of a tree's manifest. why: for Tree::left; empty: it has gone.
void leave_out(const std::string& path, const std::string& why, Tree* tree);
// Puts the manifest in its place, as the last step; or takes an older one away before the first, unless it is the same.
Status write_path_manifest(const std::string& to, const std::string& text);
Status write_remote_manifest(const StoreOptions& options, const std::string& text);
Status drop_path_manifest(const std::string& to, const std::string& text);
Status drop_remote_manifest(const StoreOptions& options, const std::string& text);

bool is_late(const StoreOptions& options);
Error too_late(const Counts& counts);

}  // namespace dl::data
