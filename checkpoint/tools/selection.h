// SPDX-License-Identifier: Apache-2.0
// Which tensors of a checkpoint a command works on, and their names in the other format.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "common/cli/command_line.h"

namespace dl::ckpt::tool {

// --select and --exclude: shell patterns over whole names, in which '*' also matches '/'.
struct Selection {
  std::vector<std::string> select, exclude;
  bool matches(const std::string& path) const;
  // "no tensor matches --select 'x'", for a selection that leaves nothing.
  std::string nothing_matches() const;
};
void add_selection(CommandLine* command, Selection* selection);

// A tensor with its name elsewhere.
struct NamedTensor {
  const TensorRecord* tensor = nullptr;
  std::string name;
};
// The selected tensors, `strip` taken off the front of the names that have it. kConflict if two then have one name or
// one has none left; kNotFound if none is selected.
Result<std::vector<NamedTensor>> select_tensors(const Manifest& manifest, const Selection& selection,
                                                const std::string& strip);

}  // namespace dl::ckpt::tool
