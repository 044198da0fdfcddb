// SPDX-License-Identifier: Apache-2.0
#include "launcher/image/runtimes.h"

#include <pwd.h>
#include <unistd.h>

namespace dl::image {
namespace {

// The options are those of ch-run(1) of 0.31. It passes the environment on, but it mounts the node's TMPDIR as the
// container's /tmp and unsets the variable, and it requires USER.
std::vector<std::string> charliecloud(const std::string& program, const Container& container,
                                      const LearnerCommand& command, Environment* environment) {
  std::vector<std::string> argv = {program, "--cd=" + command.work_dir};
  for (const std::string& path : container.binds) argv.push_back("--bind=" + path);
  if (const auto found = environment->find("TMPDIR"); found != environment->end()) {
    argv.emplace_back("--env-no-expand");
    argv.push_back("--set-env=TMPDIR=" + found->second);
    environment->erase(found);
  }
  const passwd* user = ::getpwuid(::geteuid());
  environment->emplace("USER", user != nullptr ? user->pw_name : std::to_string(::geteuid()));
  argv.push_back(container.image);
  argv.emplace_back("--");
  argv.insert(argv.end(), command.argv.begin(), command.argv.end());
  return argv;
}

// The options are those of apptainer-exec(1); singularity has the same.
std::vector<std::string> apptainer(const std::string& program, const Container& container,
                                   const LearnerCommand& command, Environment* /*environment*/) {
  std::vector<std::string> argv = {program, "exec", "--pwd", command.work_dir};
  for (const std::string& path : container.binds) {
    argv.emplace_back("--bind");
    argv.push_back(path);
  }
  if (command.gpus) argv.emplace_back("--nv");
  argv.push_back(container.image);
  argv.insert(argv.end(), command.argv.begin(), command.argv.end());
  return argv;
}

}  // namespace

const std::vector<Runtime>& runtimes() {
  static const std::vector<Runtime> table = {
      {"charliecloud",
       {"ch-run"},
       {ImageForm::kDirectory, ImageForm::kSquashfs},
       {"/dev", "/proc", "/sys", "/tmp"},
       true,
       ":",
       charliecloud},
      {"apptainer",
       {"apptainer", "singularity"},
       {ImageForm::kDirectory, ImageForm::kSquashfs, ImageForm::kSif},
       {"/dev", "/proc", "/sys", "/tmp"},
       false,
       ":,",
       apptainer},
  };
  return table;
}

}  // namespace dl::image
