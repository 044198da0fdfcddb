// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/selection.h"

#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "launcher/common/parse.h"

namespace dl::ckpt::tool {
namespace {

bool matches_any(const std::vector<std::string>& patterns, const std::string& path) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return ::fnmatch(pattern.c_str(), path.c_str(), 0) == 0; });
}

}  // namespace

bool Selection::matches(const std::string& path) const {
  return (select.empty() || matches_any(select, path)) && !matches_any(exclude, path);
}

std::string Selection::nothing_matches() const {
  if (select.empty() && exclude.empty()) return "there is no tensor";
  std::string text = "no tensor matches";
  for (const std::string& pattern : select) text += " --select '" + printable(pattern) + "'";
  for (const std::string& pattern : exclude) text += " --exclude '" + printable(pattern) + "'";
  return text;
}

void add_selection(CLI::App* command, Selection* selection) {
  command->add_option("--select", selection->select, "Only tensors whose names match this pattern (may be given again)")
      ->allow_extra_args(false);
  command->add_option("--exclude", selection->exclude, "No tensors whose names match this pattern (may be given again)")
      ->allow_extra_args(false);
}

Result<std::vector<NamedTensor>> select_tensors(const Manifest& manifest, const Selection& selection,
                                                const std::string& strip) {
  std::vector<NamedTensor> named;
  std::set<std::string> names;
  for (const TensorRecord& tensor : manifest.tensors) {
    if (!selection.matches(tensor.path)) continue;
    const bool stripped = tensor.path.compare(0, strip.size(), strip) == 0;
    std::string name = stripped ? tensor.path.substr(strip.size()) : tensor.path;
    if (name.empty() || !names.insert(name).second)
      return Error{Errc::kConflict, "--strip '" + printable(strip) + "' leaves '" + printable(tensor.path) +
                                        (name.empty() ? "' without a name" : "' with the name of another tensor")};
    named.push_back(NamedTensor{&tensor, std::move(name)});
  }
  if (named.empty()) return Error{Errc::kNotFound, selection.nothing_matches()};
  return named;
}

}  // namespace dl::ckpt::tool
