// SPDX-License-Identifier: Apache-2.0
// dl-data ls, pin, unpin and gc.
#pragma once

#include <functional>
#include <string>

#include "common/base/result.h"
#include "common/cli/command_line.h"

namespace dl::data {

struct CacheArguments {
  std::string cache, name;
  bool json = false, all = false;
};

// Adds the subcommands. done: called with what one prints, or its error. Both pointers must outlive the parsing.
void add_cache_commands(CommandLine* line, CacheArguments* arguments,
                        const std::function<void(const Result<std::string>&)>& done);

}  // namespace dl::data
