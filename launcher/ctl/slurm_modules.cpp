// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/slurm_modules.h"

#include <dirent.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include "config.h"

namespace dl::ctl {
namespace {

constexpr const char* kPrefix = "slurm-";

// "22.05" for the folder "slurm-22.05"; empty for any other name.
std::string series_of_folder(const std::string& name) {
  const std::string prefix = kPrefix;
  if (name.compare(0, prefix.size(), prefix) != 0) return {};
  std::string series = name.substr(prefix.size());
  if (series.size() != 5) return {};
  for (size_t i = 0; i < series.size(); ++i)
    if (i == 2 ? series[i] != '.' : series[i] < '0' || series[i] > '9') return {};
  return series;
}

std::string path_in(const std::string& folder, const std::string& series) {
  return fmt::format("{}/{}{}/{}", folder, kPrefix, series, observe::kModuleFile);
}

}  // namespace

std::string series_of(const slurm_cli::Version& version) {
  return fmt::format("{:02}.{:02}", version.major, version.minor);
}

std::vector<std::string> module_folders(const std::string& program, const std::string& bindir,
                                        const std::string& pkglibdir) {
  using std::filesystem::path;
  std::vector<std::string> folders;
  if (!program.empty())
    folders.push_back((path(program).parent_path() / path(pkglibdir).lexically_relative(bindir)).lexically_normal());
  if (folders.empty() || folders.front() != pkglibdir) folders.push_back(pkglibdir);
  return folders;
}

std::vector<SlurmModule> find_modules(const std::vector<std::string>& folders) {
  std::map<std::string, std::string> found;
  for (const std::string& folder : folders) {
    const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(folder.c_str()), &::closedir);
    if (dir == nullptr) continue;
    while (const dirent* entry = ::readdir(dir.get())) {  // NOLINT(concurrency-mt-unsafe): a stream of its own
      const std::string series = series_of_folder(entry->d_name);
      if (series.empty()) continue;
      const std::string path = path_in(folder, series);
      if (::access(path.c_str(), R_OK) == 0) found.emplace(series, path);
    }
  }
  std::vector<SlurmModule> modules;
  modules.reserve(found.size());
  for (const auto& [series, path] : found) modules.push_back({series, path});
  return modules;
}

std::string series_list(const std::vector<SlurmModule>& modules) {
  std::string list;
  for (const SlurmModule& module : modules) list += (list.empty() ? "" : ", ") + module.series;
  return list;
}

Result<std::string> choose_module(const std::vector<SlurmModule>& modules, const slurm_cli::Version& version,
                                  const std::vector<std::string>& folders) {
  const std::string series = series_of(version);
  const auto found =
      std::find_if(modules.begin(), modules.end(), [&](const SlurmModule& module) { return module.series == series; });
  if (found != modules.end()) return found->path;
  const std::string others = modules.empty() ? "nor is there one for any other Slurm"
                                             : fmt::format("there are modules for Slurm {}", series_list(modules));
  return Error{
      Errc::kUnsupported,
      fmt::format("Slurm {} runs here, and this slurm-dl has no module to read its records: {} is not there, {}; "
                  "configure slurm-dl {} with that Slurm (--with-slurm=PREFIX) and the same prefix, and run make "
                  "install-slurm-module",
                  series, path_in(folders.empty() ? "." : folders.front(), series), others, PACKAGE_VERSION)};
}

Status check_module(const observe::Module& module, const std::string& path, const std::string& release,
                    const std::string& series) {
  if (module.release == release && module.series == series && module.record_shape == observe::record_shape()) return {};
  return Error{
      Errc::kUnsupported,
      fmt::format("{} is of slurm-dl {} for Slurm {}, and this dlctl needs one of its own build, slurm-dl {}, for "
                  "Slurm {}: build both from one source, and install them together",
                  path, module.release, module.series, release, series)};
}

}  // namespace dl::ctl
