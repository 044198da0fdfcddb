// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <filesystem>

#include "common/contract/job_directory.h"
#include "frameworks/learner_environment.h"
#include "launcher/image/container.h"

namespace dl::image {
namespace {

namespace fs = std::filesystem;

// The folders of PREFIX in which the file library.py of each Python package looks for libraries.
std::vector<fs::path> library_folders(const fs::path& prefix) {
  std::vector<fs::path> folders = {prefix / "lib64", prefix / "lib"};
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(prefix / "lib", failure))
    if (entry.path().filename().string().find("-linux-") != std::string::npos) folders.push_back(entry.path());
  return folders;
}

}  // namespace

Status copy_libraries(const std::string& job_dir) {
  const fs::path source = installed_python_folder();
  const fs::path prefix = source.parent_path().parent_path().parent_path();
  const fs::path target = job_dir + "/" + job_directory::kImage;
  std::error_code failure;
  // The folder is removed, not overwritten: a process of an earlier start may still have the old libraries mapped.
  fs::remove_all(target, failure);
  fs::create_directories(target / "lib", failure);
  const fs::path python = python_folder(job_dir);
  if (!failure) fs::create_directories(python.parent_path(), failure);
  if (!failure) fs::copy(source, python, fs::copy_options::recursive, failure);
  for (const char* name : {"libdlckpt.so.1", "libdllearner.so.1", "libdlpool.so.0"})
    for (const fs::path& folder : library_folders(prefix))
      if (std::error_code none; !failure && !fs::exists(target / "lib" / name) && fs::exists(folder / name, none))
        fs::copy_file(folder / name, target / "lib" / name, failure);  // copies the file that a link leads to
  if (failure) return errno_error("copy dlckpt into " + target.string(), failure.value());
  return {};
}

}  // namespace dl::image
