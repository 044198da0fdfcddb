// SPDX-License-Identifier: Apache-2.0
// The arguments of spank_dl.so in plugstack.conf: "required spank_dl.so config=/etc/slurm/dl.toml".
#pragma once

#include <string>

#include "common/base/result.h"

namespace dl {

struct PluginArgs {
  std::string config;  // absolute path of dl.toml; empty: the default place (site_config.h)
};

// kInvalid for an unknown key, a key given twice or a path that is not absolute: "plugstack.conf: 'x=1' ...; allowed:
// ...".
Result<PluginArgs> parse_plugin_args(int count, char* const* arguments);

}  // namespace dl
