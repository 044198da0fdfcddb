// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "common/base/parse.h"
#include "launcher/plan/launch_plan.h"

namespace dl::plan {
namespace {

bool is_shell(const std::string& name) {
  constexpr std::array<const char*, 6> kShells = {"sh", "bash", "zsh", "ksh", "dash", "fish"};
  return std::find(kShells.begin(), kShells.end(), name) != kShells.end();
}

// Whether a command reads its program from standard input: "python3 -", "python3 -u", "bash -s -- 3", "sh".
bool reads_its_program(const std::vector<std::string>& command) {
  const std::string name = command.front().substr(command.front().rfind('/') + 1);
  const bool shell = is_shell(name);
  if (!shell && name.rfind("python", 0) != 0) return false;
  for (size_t i = 1; i < command.size(); ++i) {
    const std::string& word = command[i];
    if (word == "-" || (shell && word == "-s")) return true;
    // Options of one letter that take no value, of both; anything else is a program, or tells where it is.
    const bool plain =
        word.size() > 1 && word[0] == '-' && word.find_first_not_of("-beiluvxBEIOPSq") == std::string::npos;
    if (!plain || word[1] == '-') return false;
  }
  return true;
}

}  // namespace

Status check_program_input(const LaunchPlan& plan) {
  if (!plan.reads_stdin || plan.world_size() == 1 || !reads_its_program(plan.command)) return {};
  return Error{Errc::kInvalid, "'" + printable(join(plan.command, " "), 100) +
                                   "' reads its program from standard input, which learner 0 " +
                                   "alone has, so the other " + std::to_string(plan.world_size() - 1) +
                                   " would run nothing; allowed: a program in a file, or in an argument (-c)"};
}

}  // namespace dl::plan
