// SPDX-License-Identifier: Apache-2.0
// Selects the tensors of a checkpoint for a command, and gives them their names in the other format.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "common/cli/command_line.h"

namespace dl::ckpt::tool {

// --select and --exclude: shell patterns for whole names, in which '*' also matches '/'.
struct Selection {
  std::vector<std::string> select, exclude;
  bool matches(const std::string& path) const;
  // "no tensor matches --select 'x'", for a selection of nothing.
  std::string nothing_matches() const;
};
void add_selection(CommandLine* command, Selection* selection);

// A tensor with its name in the other format.
struct NamedTensor {
  const TensorRecord* tensor = nullptr;
  std::string name;
};
// The selected tensors; `strip` is removed from the front of the names that have it. kConflict if two then have the
// same name or one has an empty name; kNotFound if none is selected.
Result<std::vector<NamedTensor>> select_tensors(const Manifest& manifest, const Selection& selection,
                                                const std::string& strip);

}  // namespace dl::ckpt::tool
