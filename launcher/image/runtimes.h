// SPDX-License-Identifier: Apache-2.0
// The table of container runtimes. To add one: a function and a row in runtimes.cpp. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/image/container.h"

namespace dl::image {

struct Runtime {
  const char* name;                   // in dl.toml and messages
  std::vector<const char*> programs;  // names of its program; the first in PATH is used
  std::vector<ImageForm> forms;       // forms of images that it runs
  std::vector<std::string> shared;    // folders of the node that every container shows
  bool wants_mount_points;            // a bind needs a folder of the same name in the image
  const char* no_bind;                // characters that a path to bind may not contain
  std::vector<std::string> (*wrap)(const std::string& program, const Container& container,
                                   const LearnerCommand& command, Environment* environment);
};
const std::vector<Runtime>& runtimes();

}  // namespace dl::image
