// SPDX-License-Identifier: Apache-2.0
// What a source holds: its files with their sizes and identities. It is made before anything is fetched, and names the
// set in the cache. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace dl::data {

struct Entry {
  std::string path;      // below the source, "a/b"; see check_path()
  uint64_t size = 0;     // bytes; 0 for a folder
  int64_t mtime_ns = 0;  // when it was last changed, since 1970; 0: the server does not tell
  // What the server tells of its content: "sha256:HEX", "sha1:HEX", "md5:HEX" or "etag:TEXT"; empty: only size and time
  // are known.
  std::string identity{};
  bool folder = false;      // a folder; listed for those that are empty, too
  bool executable = false;  // its owner may execute it
};
// Whether both are one state of one file.
bool same_file(const Entry& a, const Entry& b);
// The time that the fetched file gets: that of the source; where an identity says more than a time, a fixed one, so
// that the same content has the same time always.
int64_t kept_mtime_ns(const Entry& entry);

struct Manifest {
  std::vector<Entry> entries;  // by path, each once
  uint64_t bytes() const;
  uint64_t files() const;
};

// kInvalid "'PATH' ..." unless the path can be that of a file below a folder of ours: relative, each part with 1 to 255
// bytes and neither "." nor "..", no control character, at most kLongestPath bytes.
constexpr size_t kLongestPath = 3500;
Status check_path(std::string_view path);

// Sorts the entries, and adds folders that only the paths of others name. kInvalid: a path is refused (check_path()),
// or one name is both a file and a folder ("a" and "a/b"), as object stores allow, or the files are more than 1 EiB
// together; kConflict: a path is there twice.
Status settle(Manifest* manifest);

// Part `node` of `nodes` of the files: each file is in one part, parts differ by less than the largest file, and all
// nodes find the same division. Folders are in all of them. Precondition: node < nodes, and settle() was called.
Manifest part_of(const Manifest& whole, unsigned node, unsigned nodes);

// The name of the set in the cache: 64 hexadecimal digits that differ for other sources, paths, sizes or identities.
std::string set_key(std::string_view source, const Manifest& manifest);

// The entries of `after` that are not in `before`, or changed; those that are gone, with size 0 and an empty identity.
std::vector<Entry> changes(const Manifest& before, const Manifest& after);

// How a manifest is kept: a line for each entry, "F|X|D SIZE MTIME_NS IDENTITY SUM PATH". X is an executable file.
// sums: the checksum of each entry's content (xxh3:HEX), by its place; "-" and a list that ends early: unknown.
std::string manifest_text(const Manifest& manifest, const std::vector<std::string>& sums);
// kCorrupt: it is no such text.
struct KeptManifest {
  Manifest manifest;
  std::vector<std::string> sums;  // one for each entry
};
Result<KeptManifest> read_manifest(std::string_view text);

}  // namespace dl::data
