// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/slurm_output.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/base/parse.h"
#include "common/process/child_process.h"
#include "launcher/slurm_cli/user_settings.h"

namespace dl::ctl {

Result<std::string> slurm_output(const std::vector<std::string>& command, std::chrono::seconds limit) {
  CommandOptions options;
  options.timeout = limit;
  options.max_output = size_t{64} << 20;
  options.environment = {"LC_ALL=C.UTF-8", "SLURM_BITSTR_LEN=0"};
  options.without = slurm_cli::user_settings();
  DL_TRY_ASSIGN(const CommandResult result, run_command(command, options));
  if (result.ok()) return result.out;
  std::string said(trim(result.err.empty() ? result.out : result.err));
  const auto verb =
      std::find_if(command.begin() + 1, command.end(), [](const std::string& word) { return word[0] != '-'; });
  return Error{Errc::kIo, fmt::format("{} {}: {}", command[0], verb == command.end() ? "" : *verb,
                                      printable(said.substr(0, said.find('\n')), 300))};
}

}  // namespace dl::ctl
