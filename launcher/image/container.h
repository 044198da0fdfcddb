// SPDX-License-Identifier: Apache-2.0
// Learners in a container image (--dl-image): which runtime runs it, and the command line that runs a learner in it.
// dlrun chooses the runtime; its agents stay outside the container and wrap the command of their learner. Without a
// daemon or root: every runtime of the table runs the command as the same user, in the same process group and PID
// namespace, so that signals, exit codes, stack traces and the end of all processes work as they do without a
// container.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/contract/image_file.h"
#include "common/contract/job_directory.h"
#include "frameworks/families.h"

namespace dl::image {

struct Container {
  std::string image;  // absolute path; empty: no container
  ImageForm form = ImageForm::kDirectory;
  std::string runtime;  // name of a row of the table in runtimes.cpp
  // Absolute paths of the node that are seen in the container under the same name.
  std::vector<std::string> binds;
};

// Looks at the image at `path` (absolute) and chooses what runs it on this machine: the runtime of that name, or for
// "auto" the first of the table that runs this form of image and whose program is in PATH. Errors of image_form();
// kUnsupported if no runtime is there, with the programs that were looked for.
Result<Container> choose_container(const std::string& path, const std::string& runtime);

// "charliecloud, apptainer"
std::string runtime_names();

struct LearnerCommand {
  std::vector<std::string> argv;
  std::string work_dir;  // absolute
  bool gpus = false;     // the learner has GPUs
};
// Wraps a learner's command so that it runs in the container. Makes folders of `binds` that are missing on the node,
// and, if the image is a directory and the runtime needs mount points, the folders of the same name in it. *environment
// is the learner's; variables that the runtime needs are added. kNotFound (the program is not in PATH), kInvalid (a
// path that cannot be bound), kUnsupported, or the error of a folder that cannot be made.
Result<std::vector<std::string>> in_container(const Container& container, const LearnerCommand& command,
                                              Environment* environment);

// Those of `paths` (absolute) that are not inside another of them or of `shared`; sorted, without duplicates. Pure.
std::vector<std::string> outermost(std::vector<std::string> paths, const std::vector<std::string>& shared);

// Copies our Python packages and libraries, which an image does not have, into JOB_DIR/image, laid out as they are
// installed; an older copy there is replaced. Errors of the file system.
Status copy_libraries(const std::string& job_dir);
// The folder of the copied Python packages, for PYTHONPATH.
inline std::string python_folder(const std::string& job_dir) {
  return job_dir + "/" + job_directory::kImage + "/share/slurm-dl/python";
}

}  // namespace dl::image
