// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/python_helper.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "common/process/child_process.h"
#include "frameworks/learner_environment.h"

namespace dl::ctl {

Status run_python(const std::string& module, const std::vector<std::string>& arguments) {
  std::string folder = installed_python_folder();
  if (const char* set = std::getenv("DL_PYTHON_FOLDER"); set != nullptr && set[0] == '/') folder = set;
  if (::access((folder + "/dl/__init__.py").c_str(), R_OK) != 0)
    return Error{Errc::kIo, folder + "/dl is not there: slurm-dl is not installed as a whole"};
  std::string python = find_program("python3");
  if (python.empty())
    return Error{Errc::kUnsupported, "there is no python3 in PATH, which this needs; install it, or load its module"};
  // The folder takes the place of sys.path[0], where Python would look in the working directory.
  std::string program =
      fmt::format("import sys; sys.path[0] = sys.argv.pop(1); from {} import main; sys.exit(main())", module);
  std::vector<std::string> words = {python, "-c", std::move(program), std::move(folder)};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::fflush(nullptr);
  ::execv(python.c_str(), argv.data());
  return errno_error("start " + python, errno);
}

}  // namespace dl::ctl
