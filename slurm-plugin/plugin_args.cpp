// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/plugin_args.h"

#include <fmt/core.h>

#include "common/base/parse.h"

namespace dl {

Result<PluginArgs> parse_plugin_args(int count, char* const* arguments) {
  constexpr std::string_view kConfig = "config=";
  PluginArgs args;
  for (int i = 0; i < count; ++i) {
    const std::string_view argument = arguments[i] == nullptr ? "" : arguments[i];
    const char* fault = nullptr;
    if (argument.substr(0, kConfig.size()) != kConfig)
      fault = "is not an argument of spank_dl.so";
    else if (!args.config.empty())
      fault = "is a second config=";
    else if (argument.size() == kConfig.size() || argument[kConfig.size()] != '/')
      fault = "does not name an absolute path";
    if (fault != nullptr)
      return Error{Errc::kInvalid,
                   fmt::format("plugstack.conf: '{}' {}; allowed: config=/path/dl.toml", printable(argument), fault)};
    args.config = argument.substr(kConfig.size());
  }
  return args;
}

}  // namespace dl
