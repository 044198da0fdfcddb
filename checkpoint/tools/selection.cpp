// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/selection.h"

#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "checkpoint/convert/python_record.h"
#include "checkpoint/format/names.h"
#include "common/base/parse.h"

namespace dl::ckpt::tool {
namespace {

bool matches_any(const std::vector<std::string>& patterns, const std::string& path) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return ::fnmatch(pattern.c_str(), path.c_str(), 0) == 0; });
}

// dlckpt.attach() and dlckpt.dcp write characters that a name may not contain as %XX ('/' is %2F, '%' is %25); this
// reverses it. Text of another form stays as it is, and so does the %2E of "." and "..", which no HDF5 file could hold
// as names.
std::string unescaped(const std::string& path) {
  const auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; };
  std::string name;
  for (size_t i = 0; i < path.size(); ++i) {
    const int high = path[i] == '%' && i + 2 < path.size() ? digit(path[i + 1]) : -1;
    const int low = high >= 0 ? digit(path[i + 2]) : -1;
    const char character = low >= 0 ? static_cast<char>(high * 16 + low) : path[i];
    const bool taken = low >= 0 && character != '.';
    name += taken ? character : path[i];
    if (taken) i += 2;
  }
  return name;
}

// Programs in other languages name their tensors themselves, and mean a literal "%2F".
bool is_of_python(const Manifest& manifest) {
  return std::any_of(manifest.blobs.begin(), manifest.blobs.end(), [](const BlobRecord& blob) {
    return blob.path == kPythonRecord || blob.path == "dlckpt.dcp/metadata.json";
  });
}

}  // namespace

bool Selection::matches(const std::string& path) const {
  return (select.empty() || matches_any(select, path)) && !matches_any(exclude, path);
}

std::string Selection::nothing_matches() const {
  if (select.empty() && exclude.empty()) return "the checkpoint holds no tensor";
  std::string text = "no tensor matches";
  for (const std::string& pattern : select) text += " --select '" + printable(pattern) + "'";
  for (const std::string& pattern : exclude) text += " --exclude '" + printable(pattern) + "'";
  return text;
}

void add_selection(CommandLine* command, Selection* selection) {
  command->option("--select", &selection->select, "Only tensors whose names match this pattern (may be given again)");
  command->option("--exclude", &selection->exclude, "No tensors whose names match this pattern (may be given again)");
}

Result<std::vector<NamedTensor>> select_tensors(const Manifest& manifest, const Selection& selection,
                                                const std::string& strip) {
  std::vector<NamedTensor> named;
  std::set<std::string> names, stored;
  const bool escaped = is_of_python(manifest);
  if (escaped)
    for (const TensorRecord& tensor : manifest.tensors) stored.insert(tensor.path);
  for (const TensorRecord& tensor : manifest.tensors) {
    if (!selection.matches(tensor.path)) continue;
    std::string shown = escaped ? unescaped(tensor.path) : tensor.path;
    // The stored name is kept if the plain name cannot be that of a dataset, or belongs to another tensor.
    if (shown != tensor.path && (!check_path(shown) || stored.count(shown) > 0)) shown = tensor.path;
    const bool stripped = shown.compare(0, strip.size(), strip) == 0;
    std::string name = stripped ? shown.substr(strip.size()) : shown;
    if (name.empty() || !names.insert(name).second)
      return Error{Errc::kConflict, "--strip '" + printable(strip) + "' leaves '" + printable(tensor.path) +
                                        (name.empty() ? "' without a name" : "' with the name of another tensor")};
    named.push_back(NamedTensor{&tensor, std::move(name)});
  }
  if (named.empty()) return Error{Errc::kNotFound, selection.nothing_matches()};
  return named;
}

}  // namespace dl::ckpt::tool
