// SPDX-License-Identifier: Apache-2.0
// Learners in a container image (--dl-image): which runtime takes it, and the command line that runs a learner in it.
// dlrun chooses, its agents stay outside and wrap the command of their learner. No daemon, no root: every runtime of
// the table starts the command as a child of its own, as the same user, in the same process group and PID namespace, so
// that signals, exit codes, stack traces and the end of all processes work as they do without a container.
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

// The image at `path` (absolute), and what runs it on this machine: the runtime of that name, or for "auto" the first
// of the table that takes the form of the image and whose program is in PATH. kNotFound, kInvalid, or kUnsupported with
// the programs that were looked for.
Result<Container> choose_container(const std::string& path, const std::string& runtime);

// "charliecloud, apptainer"
std::string runtime_names();

// What a learner's command becomes. Looks for the program in PATH; makes folders of the node that are missing in
// `binds`; and, where the image is a directory and its runtime wants it, the folders in it at which they are seen.
// `environment` is the learner's and is changed as far as the runtime needs. kInvalid, kUnsupported, or the error of
// the folder that could not be made.
struct LearnerCommand {
  std::vector<std::string> argv;
  std::string work_dir;  // absolute
  bool gpus = false;     // it has GPUs
};
Result<std::vector<std::string>> in_container(const Container& container, const LearnerCommand& command,
                                              Environment* environment);

// Of `paths` (absolute), those that are not below another one or below `shared`; sorted, each once. Pure.
std::vector<std::string> outermost(std::vector<std::string> paths, const std::vector<std::string>& shared);

// An image does not hold what is installed on the node. dlrun puts a copy of our Python packages and libraries into
// JOB_DIR/image, laid out as they are installed; an older copy there is replaced. The error of the file system.
Status copy_libraries(const std::string& job_dir);
// Where the Python packages are then, for PYTHONPATH.
inline std::string python_folder(const std::string& job_dir) {
  return job_dir + "/" + job_directory::kImage + "/share/slurm-dl/python";
}

}  // namespace dl::image
