// SPDX-License-Identifier: Apache-2.0
#include "launcher/data/manifest.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <set>
#include <utility>

#include "common/base/count.h"
#include "common/base/lower_case.h"
#include "common/base/parse.h"
#include "launcher/data/digest.h"

namespace dl::data {
namespace {

constexpr size_t kLongestPart = 255;
constexpr uint64_t kMostBytes = uint64_t{1} << 60;
constexpr int64_t kFixedMtimeNs = 946'684'800'000'000'000;  // 2000-01-01

Error refused_path(std::string_view path, const char* why) {
  return Error{Errc::kInvalid,
               fmt::format("'{}' {}; allowed: relative names of 1 to {} bytes without '..', separated by single "
                           "slashes, no control characters",
                           printable(path), why, kLongestPart)};
}

bool by_path(const Entry& a, const Entry& b) {
  return a.path < b.path;
}

template <typename T>
bool read_number(std::string_view text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

// The text up to the next blank, which is removed with it.
std::string_view next_word(std::string_view* line) {
  const size_t blank = std::min(line->find(' '), line->size());
  const std::string_view word = line->substr(0, blank);
  line->remove_prefix(std::min(blank + 1, line->size()));
  return word;
}

bool is_identity(std::string_view text) {
  return text.find_first_of(" \n") == std::string_view::npos;
}

}  // namespace

bool same_file(const Entry& a, const Entry& b) {
  if (a.path != b.path || a.folder != b.folder) return false;
  if (a.folder) return true;
  if (a.size != b.size || a.identity != b.identity || a.executable != b.executable) return false;
  return !a.identity.empty() || a.mtime_ns == b.mtime_ns;
}

int64_t kept_mtime_ns(const Entry& entry) {
  return !entry.identity.empty() || entry.mtime_ns == 0 ? kFixedMtimeNs : entry.mtime_ns;
}

uint64_t Manifest::bytes() const {
  return std::accumulate(entries.begin(), entries.end(), uint64_t{0},
                         [](uint64_t sum, const Entry& entry) { return sum + entry.size; });
}

uint64_t Manifest::files() const {
  return static_cast<uint64_t>(
      std::count_if(entries.begin(), entries.end(), [](const Entry& entry) { return !entry.folder; }));
}

Status check_path(std::string_view path) {
  if (path.empty()) return refused_path(path, "names no file");
  if (path.size() > kLongestPath) return refused_path(path, "is too long a path");
  for (const char c : path)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return refused_path(path, "holds a control character");
  if (path.front() == '/') return refused_path(path, "is an absolute name");
  size_t begin = 0;
  while (begin <= path.size()) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty()) return refused_path(path, "holds an empty name");
    if (part == "." || part == "..") return refused_path(path, "holds '.' or '..' as a name");
    if (part.size() > kLongestPart) return refused_path(path, "holds a name that is too long");
    begin = end + 1;
  }
  return {};
}

Status settle(Manifest* manifest) {
  std::vector<Entry>& entries = manifest->entries;
  uint64_t bytes = 0;
  for (const Entry& entry : entries) {
    DL_TRY(check_path(entry.path));
    if (entry.size > kMostBytes - bytes)
      return Error{Errc::kInvalid,
                   fmt::format("'{}' and what is listed before it are more than {}, which no disk holds",
                               printable(entry.path), format_bytes(kMostBytes))};
    bytes += entry.size;
  }
  std::sort(entries.begin(), entries.end(), by_path);
  for (size_t i = 1; i < entries.size(); ++i) {
    if (entries[i].path != entries[i - 1].path) continue;
    if (entries[i].folder != entries[i - 1].folder)
      return Error{Errc::kInvalid, fmt::format("'{0}' is both a file and a folder ('{0}/') there, which no file system "
                                               "can hold; rename one of them",
                                               printable(entries[i].path))};
    if (!entries[i].folder)
      return Error{Errc::kConflict, fmt::format("'{}' is there twice", printable(entries[i].path))};
  }
  entries.erase(std::unique(entries.begin(), entries.end(),
                            [](const Entry& a, const Entry& b) { return a.folder && b.folder && a.path == b.path; }),
                entries.end());
  // Folders of which only the files in them are listed.
  std::set<std::string> missing;
  std::string_view last;
  for (const Entry& entry : entries) {
    for (size_t slash = entry.path.rfind('/'); slash != std::string::npos; slash = entry.path.rfind('/', slash - 1)) {
      const std::string_view parent = std::string_view(entry.path).substr(0, slash);
      if (last.substr(0, slash + 1) == std::string_view(entry.path).substr(0, slash + 1)) break;
      const auto at = std::lower_bound(entries.begin(), entries.end(), parent,
                                       [](const Entry& known, std::string_view path) { return known.path < path; });
      const bool known = at != entries.end() && at->path == parent;
      if (known && !at->folder)
        return Error{Errc::kInvalid,
                     fmt::format("'{0}' is a file, and '{1}' lies in a folder of that name, which no file system can "
                                 "hold; rename one of them",
                                 printable(parent), printable(entry.path))};
      if (!known) missing.emplace(parent);
      if (slash == 0) break;
    }
    last = entry.path;
  }
  for (const std::string& path : missing) {
    Entry folder;
    folder.path = path;
    folder.folder = true;
    entries.push_back(std::move(folder));
  }
  if (!missing.empty()) std::sort(entries.begin(), entries.end(), by_path);
  return {};
}

Manifest part_of(const Manifest& whole, unsigned node, unsigned nodes) {
  std::vector<size_t> order;
  for (size_t i = 0; i < whole.entries.size(); ++i)
    if (!whole.entries[i].folder) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return whole.entries[a].size > whole.entries[b].size; });
  // Largest first, each to the node that has the least: fewest bytes, then fewest files, then the first.
  std::set<std::pair<std::pair<uint64_t, uint64_t>, unsigned>> least;
  for (unsigned i = 0; i < nodes; ++i) least.insert({{0, 0}, i});
  std::vector<bool> mine(whole.entries.size(), false);
  for (const size_t at : order) {
    auto [load, who] = *least.begin();
    least.erase(least.begin());
    least.insert({{load.first + whole.entries[at].size, load.second + 1}, who});
    mine[at] = who == node;
  }
  Manifest part;
  for (size_t i = 0; i < whole.entries.size(); ++i)
    if (mine[i] || whole.entries[i].folder) part.entries.push_back(whole.entries[i]);
  return part;
}

std::string set_key(std::string_view source, const Manifest& manifest) {
  Digest digest(DigestKind::kSha256);
  digest.add("slurm-dl data 1\n");
  digest.add(source);
  digest.add("\n");
  std::string line;
  for (const Entry& entry : manifest.entries) {
    // The time counts only where the server tells nothing better.
    line = fmt::format("{} {} {} {} {}\n",
                       entry.folder       ? 'D'
                       : entry.executable ? 'X'
                                          : 'F',
                       entry.size, entry.identity.empty() && !entry.folder ? entry.mtime_ns : 0, entry.identity,
                       entry.path);
    digest.add(line);
  }
  return digest.hex();
}

std::vector<Entry> changes(const Manifest& before, const Manifest& after) {
  std::vector<Entry> found;
  size_t at = 0;
  auto gone = [&](const Entry& entry) {
    Entry none = entry;
    none.size = 0;
    none.identity.clear();
    found.push_back(std::move(none));
  };
  for (const Entry& entry : after.entries) {
    while (at < before.entries.size() && before.entries[at].path < entry.path) gone(before.entries[at++]);
    const bool known = at < before.entries.size() && before.entries[at].path == entry.path;
    if (!known || !same_file(before.entries[at], entry)) found.push_back(entry);
    if (known) ++at;
  }
  while (at < before.entries.size()) gone(before.entries[at++]);
  return found;
}

std::string manifest_text(const Manifest& manifest, const std::vector<std::string>& sums) {
  std::string text;
  text.reserve(manifest.entries.size() * 96);
  for (size_t i = 0; i < manifest.entries.size(); ++i) {
    const Entry& entry = manifest.entries[i];
    const std::string& sum = i < sums.size() && !sums[i].empty() ? sums[i] : "-";
    text += fmt::format("{} {} {} {} {} {}\n",
                        entry.folder       ? 'D'
                        : entry.executable ? 'X'
                                           : 'F',
                        entry.size, entry.mtime_ns, entry.identity.empty() ? "-" : entry.identity, sum, entry.path);
  }
  return text;
}

Result<KeptManifest> read_manifest(std::string_view text) {
  KeptManifest kept;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return Error{Errc::kCorrupt, "the last line of a kept manifest is cut"};
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    Entry entry;
    const std::string_view kind = next_word(&line);
    bool good = kind == "F" || kind == "X" || kind == "D";
    entry.folder = kind == "D";
    entry.executable = kind == "X";
    good = good && read_number(next_word(&line), &entry.size) && read_number(next_word(&line), &entry.mtime_ns);
    const std::string_view identity = next_word(&line);
    const std::string_view sum = next_word(&line);
    good = good && (!entry.folder || entry.size == 0) && is_identity(identity) && !identity.empty() && !sum.empty();
    if (identity != "-") entry.identity = identity;
    entry.path = line;
    if (!good || !check_path(entry.path)) return Error{Errc::kCorrupt, "a kept manifest holds a line of another form"};
    kept.manifest.entries.push_back(std::move(entry));
    kept.sums.emplace_back(sum);
  }
  return kept;
}

}  // namespace dl::data
