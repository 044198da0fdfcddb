// SPDX-License-Identifier: Apache-2.0
// Where the bytes of a checkpoint are: a tree over the first parts of the names, drawn with bars.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"

namespace dl::ckpt::tool {

struct SizeGroup {
  std::string name;  // "model/layers."; a name that has no further part stands for itself
  int level = 0;     // 0: outermost
  uint64_t bytes = 0;
  size_t tensors = 0, blobs = 0, members = 0;
  std::map<std::string, uint64_t> dtypes;  // bytes of each
};

// Groups of up to `depth` parts, which end at '/' or '.', each followed by its own; siblings by size, the largest
// first.
std::vector<SizeGroup> size_tree(const Manifest& manifest, int depth);

// Lines for people: name, size, share, a bar, counts, dtypes. `width` columns are used; of many siblings the small ones
// are summed up in one line. `blocks`: bars of Unicode blocks instead of '#'.
std::vector<std::string> draw(const std::vector<SizeGroup>& groups, size_t width, bool blocks);

// Columns of the terminal on stdout, or 100 where it is none; and whether its locale has Unicode.
size_t terminal_width();
bool terminal_has_unicode();

}  // namespace dl::ckpt::tool
