// SPDX-License-Identifier: Apache-2.0
// Shows where the bytes of a checkpoint are: a tree over the first parts of the names, drawn with bars.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"

namespace dl::ckpt::tool {

struct SizeGroup {
  std::string name;  // "model/layers."; a name without a further part stands for itself
  int level = 0;     // 0: outermost
  uint64_t bytes = 0;
  size_t tensors = 0, blobs = 0, members = 0;
  std::map<std::string, uint64_t> dtypes;  // bytes of each dtype
};

// Groups of up to `depth` parts, which end at '/' or '.'; each is followed by its own parts. Siblings are sorted by
// size, the largest first.
std::vector<SizeGroup> size_tree(const Manifest& manifest, int depth);

// Lines for people: name, size, share, a bar, counts, dtypes. They are `width` columns wide; small siblings are summed
// up in one line if there are many. `blocks`: bars of Unicode blocks instead of '#'.
std::vector<std::string> draw(const std::vector<SizeGroup>& groups, size_t width, bool blocks);

// The columns of the terminal on stdout (100 if it is none), and whether its locale has Unicode.
size_t terminal_width();
bool terminal_has_unicode();

}  // namespace dl::ckpt::tool
