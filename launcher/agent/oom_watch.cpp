// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/oom_watch.h"

#include <unistd.h>

#include <csignal>
#include <sstream>
#include <vector>

#include "common/base/atomic_file.h"
#include "common/base/parse.h"

namespace dl::agent {
namespace {

constexpr size_t kMaxText = 1 << 20;

bool has_word(const std::string& list, std::string_view word) {
  for (const std::string& each : split(list, ','))
    if (each == word) return true;
  return false;
}

// Path of this process's control group within the hierarchy: from the line "0::/a/b" for version 2 (controller empty),
// from a line such as "4:memory:/a/b" for version 1.
std::string own_group(const std::string& cgroup, std::string_view controller) {
  std::istringstream lines(cgroup);
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first == std::string::npos ? first : first + 1);
    if (second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? names.empty() : has_word(names, controller)) return line.substr(second + 1);
  }
  return {};
}

struct Mount {
  std::string root, point;
};

// Finds the mount of a type of file system. A line: "36 35 98:0 /root /point options ... - TYPE source super-options".
bool find_mount(const std::string& mountinfo, std::string_view type, std::string_view option, Mount* mount) {
  std::istringstream lines(mountinfo);
  for (std::string line; std::getline(lines, line);) {
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const std::vector<std::string> before = split(line.substr(0, dash), ' ');
    const std::vector<std::string> after = split(line.substr(dash + 3), ' ');
    if (before.size() < 6 || after.size() < 3 || after[0] != type) continue;
    if (!option.empty() && !has_word(after[2], option)) continue;
    *mount = {before[3], before[4]};
    return true;
  }
  return false;
}

OomFile file_in(const Mount& mount, std::string group, const char* name) {
  // The mounted folder may itself be a group below the root of the hierarchy.
  if (mount.root != "/" && group.rfind(mount.root, 0) == 0) group.erase(0, mount.root.size());
  if (group == "/") group.clear();
  return {mount.point + group + "/" + name, mount.point + "/" + name};
}

}  // namespace

bool died_of_memory(int exit, int signal, bool asked, const OomCounts& before, const OomCounts& after) {
  if (asked || (exit == 0 && signal == 0)) return false;
  const bool in_group = before.cgroup >= 0 && after.cgroup > before.cgroup;
  const bool on_machine = before.machine >= 0 && after.machine > before.machine;
  return in_group || (signal == SIGKILL && on_machine);
}

OomFile oom_file(const std::string& cgroup, const std::string& mountinfo) {
  Mount mount;
  // On a hybrid system version 2 is mounted without the memory controller, which belongs to version 1 there.
  const std::string v1 = own_group(cgroup, "memory");
  if (!v1.empty() && find_mount(mountinfo, "cgroup", "memory", &mount)) return file_in(mount, v1, "memory.oom_control");
  const std::string v2 = own_group(cgroup, "");
  if (!v2.empty() && find_mount(mountinfo, "cgroup2", "", &mount)) return file_in(mount, v2, "memory.events");
  return {};
}

int64_t oom_kills(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("oom_kill ", 0) != 0) continue;
    const auto count = parse_int(trim(std::string_view(line).substr(9)), 0, INT64_MAX);
    return count ? *count : -1;
  }
  return -1;
}

void OomWatch::start() {
  const auto cgroup = read_small_file("/proc/self/cgroup", kMaxText);
  const auto mountinfo = read_small_file("/proc/self/mountinfo", kMaxText);
  if (cgroup && mountinfo) {
    const OomFile file = oom_file(*cgroup, *mountinfo);
    path_ = file.path;
    if (!path_.empty() && ::access(path_.c_str(), R_OK) != 0) path_ = file.at_root;
  }
  before_ = now();
}

OomCounts OomWatch::now() const {
  OomCounts counts;
  if (!path_.empty())
    if (const auto text = read_small_file(path_, kMaxText)) counts.cgroup = oom_kills(*text);
  if (const auto text = read_small_file("/proc/vmstat", kMaxText)) counts.machine = oom_kills(*text);
  return counts;
}

}  // namespace dl::agent
