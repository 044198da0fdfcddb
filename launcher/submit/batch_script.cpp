// SPDX-License-Identifier: Apache-2.0
#include "launcher/submit/batch_script.h"

#include <algorithm>
#include <string_view>

#include "common/base/parse.h"
#include "common/base/shell_word.h"

namespace dl::submit {
namespace {

// A value in the form that sbatch reads: in double quotes, with backslashes and quotes escaped.
std::string directive_value(const std::string& value) {
  const bool plain = !value.empty() && std::all_of(value.begin(), value.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("@%_+=:,./-~[]").find(c) != std::string_view::npos;
  });
  if (plain) return value;
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + '"';
}

// Commands that activate the present environment (modules, virtual environments), so that the script also works when it
// is submitted again from another shell.
struct ActiveEnvironment {
  const char* variable;
  std::string (*lines)(const std::string& value);
};
const ActiveEnvironment kActiveEnvironments[] = {
    {"LOADEDMODULES",
     [](const std::string& value) {
       std::string names;
       for (const std::string& name : split(value, ':'))
         if (!name.empty()) names += " " + shell_word(name);
       return names.empty() ? names : "! command -v module >/dev/null || module load" + names + "\n";
     }},
    {"CONDA_PREFIX",
     [](const std::string& value) {
       return "export CONDA_PREFIX=" + shell_word(value) + " PATH=" + shell_word(value) + "/bin:$PATH\n";
     }},
    {"VIRTUAL_ENV",
     [](const std::string& value) {
       return "export VIRTUAL_ENV=" + shell_word(value) + " PATH=" + shell_word(value) + "/bin:$PATH\n";
     }},
};

std::string_view file_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

bool runs_scripts(std::string_view program) {
  for (const std::string_view name : {"python", "pypy", "bash", "sh", "zsh", "perl", "Rscript", "julia", "node"})
    if (program.substr(0, name.size()) == name) return true;
  return program == "env" || program == "time" || program == "torchrun";
}

}  // namespace

Result<std::string> batch_script(const ScriptInput& input) {
  std::string text = "#!/bin/bash\n";
  for (const auto& [name, value] : input.sbatch) {
    if ((name + value).find_first_of(std::string("\n\r\0", 3)) != std::string::npos)
      return Error{Errc::kInvalid, "--" + printable(name) + ": '" + printable(value) + "' holds a line break"};
    text += "#SBATCH --" + name + (value.empty() ? "" : "=" + directive_value(value)) + "\n";
  }
  std::string typed = input.typed;
  std::replace(typed.begin(), typed.end(), '\n', ' ');
  text += "# Written by: " + typed + "\n";
  for (const ActiveEnvironment& active : kActiveEnvironments) {
    const auto found = input.environment.find(active.variable);
    if (found != input.environment.end() && !found->second.empty()) text += active.lines(found->second);
  }
  text += "cd -- " + shell_word(input.work_dir) + " || exit\n";
  // With exec, dlrun is the batch task, which Slurm gives time to save even when it ends the job at once.
  return text + "exec " + shell_words(input.dlrun) + " -- " + shell_words(input.command) + "\n";
}

std::string job_name_of(const std::vector<std::string>& command) {
  std::string_view name = file_name(command.front());
  if (runs_scripts(name)) {
    for (size_t i = 1; i < command.size(); ++i) {
      const std::string& word = command[i];
      if (word == "-c") break;
      if (word == "-m" && i + 1 < command.size()) {
        name = command[i + 1];
        break;
      }
      // The name is that of the script, not of an assignment for env or the value of an option.
      if (word.empty() || word[0] == '-' || word.find('=') != std::string::npos || word.find('.') == std::string::npos)
        continue;
      name = file_name(word);
      name = name.substr(0, name.rfind('.'));
      break;
    }
  }
  std::string clean;
  for (const char c : name.substr(0, 64)) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      std::string_view("._-").find(c) != std::string_view::npos;
    clean += good ? c : '_';
  }
  // A name such as "." or "-x" is not suitable for a file.
  if (clean.empty() || clean[0] == '.' || clean[0] == '-') clean = "dlrun" + clean;
  return clean;
}

}  // namespace dl::submit
