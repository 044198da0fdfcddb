// SPDX-License-Identifier: Apache-2.0
// What --dl-data and --dl-results ask for: the sources that are fetched for a job, and the place where its results are
// stored. Plugins, dlrun and dl-data read the values with these functions. Pure.
//
// No value may carry a credential: submit lines are kept in Slurm's accounting and shown to other users. A URL with a
// user name, a password or a signature is refused, and so is a connection string of rclone; the message does not repeat
// it. Credentials belong in the user's own configuration of rclone, which a source names as NAME:PATH.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace dl::data {

constexpr size_t kMaxSources = 64;

enum class Cache {
  kNode,   // the whole set on each node
  kShard,  // each node has its part of the files
  kNone,   // read where it lies: a path of a file system that all nodes see
};
const char* cache_name(Cache cache);  // "node", "shard", "none"
Result<Cache> parse_cache(std::string_view text);
// How a source is cached where nobody says: a path is read where it lies, unless it has a checksum, which is checked
// when it is copied; anything else is copied to each node.
Cache usual_cache(std::string_view from, bool has_checksum);

struct Source {
  std::string from;     // a path, NAME:PATH, https://..., or @NAME of the site's catalogue
  std::string to = {};  // the folder below DATA_DIR, "a/b"; empty: DATA_DIR itself
  Cache cache = Cache::kNode;
  std::string checksum = {};  // "sha256:" and 64 lower-case digits, of a single file; empty: none
};
bool operator==(const Source& a, const Source& b);

enum class Place {
  kPath,       // of a file system
  kRemote,     // NAME:PATH of the user's configuration of rclone
  kUrl,        // https://...
  kCatalogue,  // @NAME
};
// What kind of place a text names, whether or not it is a valid one. A path whose first part holds a colon is written
// with "./" in front.
Place place_of(std::string_view from);
// The text for messages: without the part of a URL that may hold a credential, control characters made visible.
std::string shown_place(std::string_view from);

// kInvalid "'PLACE' ...; allowed: ..." unless the place is one that data can be fetched from: at most 1024 bytes, no
// control characters; a URL with https and no credential; a remote by its name alone. Paths may begin with "~/"; '$' is
// refused, since no shell reads the value.
Status check_place(std::string_view from);
// Checks one source: its place, folder ("..", "." and absolute ones are refused) and checksum, and that they fit
// together: a URL needs a checksum, and cache=none a path. checksum is rewritten to lower case.
Status check_source(Source* source);
// The same for 1 to kMaxSources sources together: no folder may be, or lie in, that of another one.
Status check_sources(std::vector<Source>* sources);

// --dl-data=SRC[,to=DIR][,cache=node|shard|none][,checksum=sha256:DIGEST], or FILE.toml with several sources, or @NAME.
// A SRC in double quotes, with \ before " and \, may hold commas. Options come in any order, each at most once. How
// @NAME is cached, and its checksum, are in the site's catalogue. Without cache= the usual one is chosen.
struct DataFlag {
  std::string file;  // path of FILE.toml; empty: `source` is meant
  Source source;
};
Result<DataFlag> parse_data(std::string_view text);

// --dl-results=DEST[,checkpoint]: DEST is a path or NAME:PATH, and may hold the placeholders of path_pattern.h. Without
// %j, the job's id is a folder below it, so that jobs never mix. checkpoint: the newest checkpoint is stored as well.
struct ResultsFlag {
  std::string to;
  bool checkpoint = false;
};
Result<ResultsFlag> parse_results(std::string_view text);

}  // namespace dl::data
