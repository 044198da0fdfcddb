// SPDX-License-Identifier: Apache-2.0
// Lists the files below a path, for the manifest of what is fetched and for what is stored.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "launcher/data/manifest.h"

namespace dl::data {

// What a walk does with entries that cannot be files of a set.
enum class Odd {
  kRefuse,  // a source: the first one ends the walk, with a sentence that names it
  kLeave,   // results: they are left out and named in Tree::left, so that all others are stored
};

struct Tree {
  Manifest manifest;
  std::string root;                 // the folder below which the paths are; for a single file the one that it lies in
  bool single = false;              // the path is a file
  std::vector<std::string> left{};  // "PATH is a FIFO", with Odd::kLeave
  std::vector<std::pair<std::string, std::string>> links{};  // path and target, with Odd::kLeave
};

// Lists `path`: a file, or a folder with all that is below it.
// Odd::kRefuse: symbolic links are followed, to folders, too, since what they point to may not be there on the node
// that reads the copy. Refused (kInvalid) are a link that leads to nothing or in a circle, devices, FIFOs, sockets, and
// names that check_path() refuses. Odd::kLeave: links are kept as links, if their target is relative and stays below
// the path. kNotFound, kDenied; kBusy for an error of the file server.
Result<Tree> walk(const std::string& path, Odd odd);

}  // namespace dl::data
