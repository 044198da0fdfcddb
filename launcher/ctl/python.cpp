// SPDX-License-Identifier: Apache-2.0
// dlctl python: lets a Python outside of jobs find the modules dlckpt and dl.
#include <fmt/core.h>

#include <cstdio>
#include <memory>

#include "frameworks/learner_environment.h"
#include "launcher/ctl/python_helper.h"
#include "launcher/ctl/subcommand.h"

namespace dl::ctl {
namespace {

struct PythonOptions {
  bool install = false, remove = false;
};

Status run(const PythonOptions& options) {
  const std::string folder = installed_python_folder();
  if (options.install) return run_python("dl.path_file", {"--install", folder});
  if (options.remove) return run_python("dl.path_file", {"--remove", folder});
  std::puts(fmt::format("export PYTHONPATH='{}'${{PYTHONPATH:+:$PYTHONPATH}}", folder).c_str());
  return {};
}

}  // namespace

Run add_python(CommandLine* line) {
  auto options = std::make_shared<PythonOptions>();
  line->flag("--install", &options->install, "let the python3 in PATH find the modules from now on (without pip)")
      .excludes("--remove");
  line->flag("--remove", &options->remove, "undo --install");
  line->footer("Without an option it prints a line for this shell: eval \"$(dlctl python)\"");
  return [options] { return run(*options); };
}

}  // namespace dl::ctl
