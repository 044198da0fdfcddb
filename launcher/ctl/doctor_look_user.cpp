// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "common/base/parse.h"
#include "common/base/this_process.h"
#include "common/process/child_process.h"
#include "frameworks/learner_environment.h"
#include "launcher/ctl/doctor_look.h"

namespace dl::ctl::doctor {
namespace {

struct FileSystem {
  uint32_t magic;
  const char* name;
  bool shared;
};
// Numbers without a name in Linux' headers are those of the file systems' own sources.
constexpr FileSystem kFileSystems[] = {
    {NFS_SUPER_MAGIC, "nfs", true},    {0x0BD00BD0, "lustre", true},  {0x47504653, "gpfs", true},
    {0x19830326, "beegfs", true},      {0x00C36400, "ceph", true},    {0xAAD7AAEA, "panfs", true},
    {0x65735546, "fuse", true},        {0x7461636F, "ocfs2", true},   {0x01161970, "gfs2", true},
    {V9FS_MAGIC, "9p", true},          {0xFF534D42, "cifs", true},    {0xFE534D42, "smb2", true},
    {EXT4_SUPER_MAGIC, "ext4", false}, {0x58465342, "xfs", false},    {0x9123683E, "btrfs", false},
    {0x2FC12FC1, "zfs", false},        {TMPFS_MAGIC, "tmpfs", false}, {0x794C7630, "overlay", false},
};

SeenFolder seen_folder(const std::string& what, const std::string& path) {
  SeenFolder folder{what, path, false, false, "", true};
  struct statfs status {};
  if (::statfs(path.c_str(), &status) != 0) return folder;
  folder.there = true;
  folder.writable = ::access(path.c_str(), W_OK | X_OK) == 0;
  for (const FileSystem& system : kFileSystems) {
    if (static_cast<uint32_t>(status.f_type) != system.magic) continue;
    folder.kind = system.name;
    folder.shared = system.shared;
  }
  return folder;
}

void look_at_programs(Facts* facts) {
  const auto self = own_program();
  if (!self) return;
  const std::string folder = self->substr(0, self->rfind('/'));
  const std::string parts = folder + "/../libexec/slurm-dl";
  const auto there = [](const std::string& path) { return ::access(path.c_str(), X_OK) == 0; };
  if (!there(folder + "/dlrun") && !there(folder + "/../dlrun")) facts->missing_programs.emplace_back("dlrun");
  for (const char* name : {"dl-agent", "dl-bind", "dl-metrics", "dl-preflight", "dl-requeue"})
    if (!there(parts + "/" + name) && !there(std::string(DL_PKGLIBEXECDIR "/") + name))
      facts->missing_programs.emplace_back(name);
  facts->in_path = !find_program("dlrun").empty();
}

void look_at_flags(Facts* facts) {
  const auto help = run_command({"sbatch", "--help"});
  if (!help)
    facts->flags_fault = help.error().text;
  else if (!help->ok())
    facts->flags_fault = std::string(trim(help->err.substr(0, help->err.find('\n'))));
  else
    facts->flags = help->out.find("--dl-framework") != std::string::npos;
}

// Imports the module as a learner does, whose PYTHONPATH ends in our folder; never from the working directory, which
// may be anybody's.
void look_at_python(Facts* facts) {
  facts->python = find_program("python3");
  if (facts->python.empty()) return;
  std::string folder = installed_python_folder();
  if (const std::string set = environment_value("DL_PYTHON_FOLDER"); !set.empty() && set[0] == '/') folder = set;
  CommandOptions options;
  options.timeout = std::chrono::seconds(30);
  const std::string path = environment_value("PYTHONPATH");
  options.environment = {"PYTHONPATH=" + path + (path.empty() ? "" : ":") + folder};
  const auto tried = run_command({facts->python, "-c", "import sys; sys.path.pop(0); import dlckpt"}, options);
  if (!tried) {
    facts->python_fault = tried.error().text;
  } else if (!tried->ok()) {
    const std::string_view said = trim(tried->err);
    facts->python_fault = said.empty() ? "it ended without a word" : std::string(said.substr(said.rfind('\n') + 1));
  }
}

}  // namespace

void look_at_user(Facts* facts) {
  look_at_programs(facts);
  look_at_flags(facts);
  look_at_python(facts);
  if (const std::string home = environment_value("HOME"); !home.empty())
    facts->folders.push_back(seen_folder("home directory", home));
  char here[4096] = "";
  if (::getcwd(here, sizeof here - 1) != nullptr && environment_value("HOME") != here)
    facts->folders.push_back(seen_folder("working directory", here));
  if (facts->site && facts->site->job_dir[0] == '/') {
    const std::string& jobs = facts->site->job_dir;
    // The folder above the first name that is different for each job.
    facts->folders.push_back(seen_folder("job_dir of dl.toml", jobs.substr(0, jobs.rfind('/', jobs.find('%')) + 1)));
  }
}

}  // namespace dl::ctl::doctor
