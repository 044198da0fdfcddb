// SPDX-License-Identifier: Apache-2.0
#include "launcher/image/container.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "common/base/atomic_file.h"
#include "common/base/parse.h"
#include "common/process/child_process.h"
#include "launcher/image/runtimes.h"

namespace dl::image {
namespace {

namespace fs = std::filesystem;

bool takes(const Runtime& runtime, ImageForm form) {
  return std::find(runtime.forms.begin(), runtime.forms.end(), form) != runtime.forms.end();
}

std::string program_of(const Runtime& runtime) {
  for (const char* program : runtime.programs)
    if (std::string path = find_program(program); !path.empty()) return path;
  return "";
}

std::string programs_text(const Runtime& runtime) {
  std::string text;
  for (const char* program : runtime.programs) text.append(text.empty() ? "" : " or ").append(program);
  return text;
}

bool is_below(const std::string& path, const std::string& folder) {
  return path == folder || path.compare(0, folder.size() + 1, folder + "/") == 0;
}

// Charliecloud shows a path of the node only at a folder or file of the same name in the image, which is created here.
Status make_mount_point(const std::string& image, const std::string& path) {
  const std::string place = image + path;
  std::error_code failure;
  if (fs::exists(fs::symlink_status(place, failure))) return {};
  if (Status made = make_directories(place); !made)
    return Error{made.error().code,
                 "the image has no folder " + printable(path, 400) +
                     " at which the node's is seen, and it cannot be made (" + made.error().text +
                     "); allowed: an image with that folder",
                 made.error().sys_errno};
  return {};
}

}  // namespace

std::string runtime_names() {
  std::string names;
  for (const Runtime& runtime : runtimes()) names.append(names.empty() ? "" : ", ").append(runtime.name);
  return names;
}

Result<Container> choose_container(const std::string& path, const std::string& runtime_name) {
  Container container;
  container.image = path;
  DL_TRY_ASSIGN(container.form, image_form(path));
  std::string tried;
  for (const Runtime& runtime : runtimes()) {
    if (runtime_name != "auto" && runtime_name != runtime.name) continue;
    if (!takes(runtime, container.form)) continue;
    if (!program_of(runtime).empty()) {
      container.runtime = runtime.name;
      return container;
    }
    tried += (tried.empty() ? "" : ", ") + programs_text(runtime);
  }
  const std::string what = "'" + printable(path, 400) + "' is " + image_form_name(container.form);
  if (tried.empty())
    return Error{Errc::kUnsupported, what + ", which " + runtime_name + " does not run here ([image] in dl.toml)"};
  return Error{Errc::kUnsupported, what + ", and nothing on this node runs it; looked for " + tried};
}

std::vector<std::string> outermost(std::vector<std::string> paths, const std::vector<std::string>& shared) {
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> kept;
  for (const std::string& path : paths) {
    const auto covers = [&path](const std::string& folder) { return is_below(path, folder); };
    if (std::none_of(shared.begin(), shared.end(), covers) && std::none_of(kept.begin(), kept.end(), covers))
      kept.push_back(path);
  }
  return kept;
}

Result<std::vector<std::string>> in_container(const Container& container, const LearnerCommand& command,
                                              Environment* environment) {
  const auto& table = runtimes();
  const auto runtime =
      std::find_if(table.begin(), table.end(), [&](const Runtime& row) { return container.runtime == row.name; });
  if (runtime == table.end())
    return Error{Errc::kUnsupported, "'" + printable(container.runtime) +
                                         "' is not a program that runs images; allowed: " + runtime_names()};
  const std::string program = program_of(*runtime);
  if (program.empty())
    return Error{Errc::kNotFound,
                 programs_text(*runtime) +
                     ": No such file or directory on this node, but the image needs one of these programs"};

  Container shown = container;
  std::vector<std::string> wanted = container.binds;
  // TMPDIR, the user's folder for temporary files, may be anywhere.
  if (const auto found = environment->find("TMPDIR"); found != environment->end() && found->second.rfind('/', 0) == 0)
    wanted.push_back(found->second);
  shown.binds.clear();
  for (const std::string& path : outermost(wanted, runtime->shared)) {
    if (path.find_first_of(runtime->no_bind) != std::string::npos)
      return Error{Errc::kInvalid, "'" + printable(path, 400) + "' cannot be seen in a container of " + runtime->name +
                                       "; allowed: a path without any of " + runtime->no_bind};
    std::error_code failure;
    // A folder that is missing is created, such as the local level of a checkpoint. If that fails it is left out: paths
    // that a site lists need not exist on every node.
    if (!fs::exists(path, failure) && !make_directories(path)) continue;
    if (runtime->wants_mount_points && container.form == ImageForm::kDirectory)
      DL_TRY(make_mount_point(container.image, path));
    shown.binds.push_back(path);
  }
  // Each learner has a user namespace of its own. The kernel then lets no learner read another's memory, as Open MPI
  // would for large messages, and PMIx's store in slurmd's spool folder is not visible. Both have another method,
  // chosen here.
  environment->emplace("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
  environment->emplace("PMIX_MCA_gds", "hash");
  return runtime->wrap(program, shown, command, environment);
}

}  // namespace dl::image
