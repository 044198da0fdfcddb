// SPDX-License-Identifier: Apache-2.0
// The manifest that is kept with a set of data in a node's cache.
#include "launcher/data/manifest.h"

#include <set>

#include "tests/fuzz/target.h"

namespace dl::ckpt::fuzz {
namespace {

using data::Manifest;

bool same(const Manifest& a, const Manifest& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (size_t i = 0; i < a.entries.size(); ++i)
    if (!data::same_file(a.entries[i], b.entries[i]) || a.entries[i].mtime_ns != b.entries[i].mtime_ns) return false;
  return true;
}

// What follows for a manifest of which the names are in order.
void settled(const Manifest& manifest) {
  constexpr unsigned kNodes = 3;
  uint64_t bytes = 0;
  std::set<std::string> folders;
  for (const data::Entry& entry : manifest.entries) {
    must(bytes + entry.size >= bytes, "the bytes of a settled manifest are a number");
    bytes += entry.size;
    const size_t slash = entry.path.rfind('/');
    must(slash == std::string::npos || folders.count(entry.path.substr(0, slash)) == 1, "each name lies in a folder");
    if (entry.folder) folders.insert(entry.path);
  }
  uint64_t parts = 0, files = 0;
  for (unsigned node = 0; node < kNodes; ++node) {
    const Manifest part = data::part_of(manifest, node, kNodes);
    parts += part.bytes();
    files += part.files();
  }
  must(parts == bytes && files == manifest.files(), "the parts of nodes are the whole, once");
}

}  // namespace

void data_manifest(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  auto kept = data::read_manifest(text);
  if (!kept) {
    must(!kept.error().text.empty(), "an error has a sentence");
    return;
  }
  must(kept->sums.size() == kept->manifest.entries.size(), "each entry has a checksum, or none is known");
  for (const data::Entry& entry : kept->manifest.entries)
    must(static_cast<bool>(data::check_path(entry.path)), "no name leads out of the set's folder");
  const auto again = data::read_manifest(data::manifest_text(kept->manifest, kept->sums));
  must(again && same(again->manifest, kept->manifest) && again->sums == kept->sums,
       "what was written again is the same");
  must(data::changes(kept->manifest, again->manifest).empty(), "of the same nothing has changed");
  if (data::settle(&kept->manifest)) settled(kept->manifest);
}

}  // namespace dl::ckpt::fuzz
