// SPDX-License-Identifier: Apache-2.0
#include "common/process/descendants.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <unordered_map>

#include "common/base/atomic_file.h"

namespace dl {
namespace {

struct ProcessRow {
  pid_t parent = 0;
  char state = '?';
};

std::vector<pid_t> all_pids() {
  std::vector<pid_t> pids;
  DIR* proc = ::opendir("/proc");
  if (proc == nullptr) return pids;
  while (const dirent* entry = ::readdir(proc)) {
    pid_t pid = std::atoi(entry->d_name);
    if (pid > 0) pids.push_back(pid);
  }
  ::closedir(proc);
  return pids;
}

// Reads parent and state from /proc/PID/stat: "PID (NAME) STATE PPID ...". NAME may hold any character, so the search
// begins at the last ')'.
bool read_row(pid_t pid, ProcessRow* row) {
  auto text = read_small_file("/proc/" + std::to_string(pid) + "/stat", 4096);
  if (!text) return false;
  size_t close = text->rfind(')');
  if (close == std::string::npos || close + 4 > text->size()) return false;
  row->state = (*text)[close + 2];
  row->parent = std::atoi(text->c_str() + close + 4);
  return true;
}

void reap_all() {
  while (::waitpid(-1, nullptr, WNOHANG) > 0) continue;
}

}  // namespace

std::vector<pid_t> descendants_of(pid_t root, bool ended) {
  std::unordered_multimap<pid_t, pid_t> children;
  for (pid_t pid : all_pids()) {
    ProcessRow row;
    if (read_row(pid, &row) && (ended || row.state != 'Z') && row.state != 'X') children.emplace(row.parent, pid);
  }
  std::vector<pid_t> found;
  std::vector<pid_t> open{root};
  while (!open.empty()) {
    auto range = children.equal_range(open.back());
    open.pop_back();
    for (auto it = range.first; it != range.second; ++it) {
      found.push_back(it->second);
      open.push_back(it->second);
    }
  }
  return found;
}

int kill_descendants(std::chrono::milliseconds limit, const std::vector<pid_t>& spared) {
  auto deadline = std::chrono::steady_clock::now() + limit;
  std::set<pid_t> seen;
  const bool some = std::any_of(spared.begin(), spared.end(), [](pid_t pid) { return pid > 0; });
  int empty_looks = 0;  // one reading of /proc may miss a process that is started meanwhile
  for (useconds_t pause = 200;; pause = std::min<useconds_t>(pause * 2, 20000)) {
    reap_all();
    // Without a child there is no descendant either, because orphans become our children.
    if (::waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD) break;
    std::vector<pid_t> found = descendants_of(::getpid());
    const auto is_spared = [&](pid_t pid) { return std::find(spared.begin(), spared.end(), pid) != spared.end(); };
    found.erase(std::remove_if(found.begin(), found.end(), is_spared), found.end());
    empty_looks = found.empty() ? empty_looks + 1 : 0;
    if (some && empty_looks > 1) break;
    for (pid_t pid : found) {
      ::kill(pid, SIGKILL);
      seen.insert(pid);
    }
    reap_all();
    if (std::chrono::steady_clock::now() >= deadline) break;
    ::usleep(pause);
  }
  return static_cast<int>(seen.size());
}

int sweep_marked(const std::string& entry) {
  std::set<pid_t> spared{::getpid()};
  for (pid_t pid = ::getppid(); pid > 1 && spared.insert(pid).second;) {
    ProcessRow row;
    pid = read_row(pid, &row) ? row.parent : 0;
  }
  int killed = 0;
  for (pid_t pid : all_pids()) {
    if (spared.count(pid) != 0) continue;
    std::string folder = "/proc/" + std::to_string(pid);
    struct stat status {};
    if (::stat(folder.c_str(), &status) != 0 || status.st_uid != ::getuid()) continue;
    auto environment = read_small_file(folder + "/environ", 8 << 20);
    if (!environment) continue;
    std::string text = '\0' + *environment;
    if (text.find('\0' + entry + '\0') == std::string::npos) continue;
    if (::kill(pid, SIGKILL) == 0) ++killed;
  }
  return killed;
}

}  // namespace dl
