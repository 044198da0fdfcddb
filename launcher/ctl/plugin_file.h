// SPDX-License-Identifier: Apache-2.0
// What a plugin of ours says of itself, read from the file without loading it: a plugin can only be loaded by the
// program of Slurm's that it is for. And the lines of plugstack.conf. For `dlctl doctor`. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "launcher/slurm_cli/slurm_cli.h"

namespace dl::ctl {

struct PluginSigns {
  std::string type;          // plugin_type: "spank", "job_submit/dl"
  slurm_cli::Version slurm;  // plugin_version: of the Slurm that it was built for
  std::string release;       // dl_release: of slurm-dl; empty: a version that did not tell it
  bool any_slurm = false;    // dl_any_slurm: it tells each Slurm that very version, so all load it
};
// Reads the content of a shared object (ELF, 64 bit, of this byte order). kInvalid if it is none, or is no plugin of
// Slurm's.
Result<PluginSigns> read_plugin_signs(std::string_view content);

// One line of plugstack.conf, or of a file that it includes.
struct PlugstackLine {
  std::string file;
  int line = 0;
  bool required = false;
  std::string plugin;  // as it is written
  std::string config;  // the value of an argument config=; empty: none
  bool more = false;   // there are other arguments
};
struct Plugstack {
  std::vector<PlugstackLine> lines;
  std::vector<std::string> faults;  // a sentence for each line that Slurm does not understand, with file and number
  std::vector<std::string> unread;  // files that could not be read
};
using ReadText = std::function<std::optional<std::string>(const std::string& path)>;
using ListFiles = std::function<std::vector<std::string>(const std::string& pattern)>;
// Reads the lines as Slurm does (src/common/plugstack.c): the first word is "required", "optional" or "include", in
// small letters, '#' begins a remark, an included pattern is relative to the folder of its file. At most 100 files, so
// that a circle ends.
Plugstack read_plugstack(const std::string& path, const ReadText& read, const ListFiles& list);

}  // namespace dl::ctl
