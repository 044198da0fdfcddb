// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/client/object_program.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "common/base/parse.h"
#include "common/base/unique_fd.h"
#include "common/contract/env_names.h"

extern char** environ;

namespace dl::ckpt {
namespace {

constexpr int kTickMs = 200;
constexpr size_t kMostSaid = 64 << 10;
constexpr const char* kComplaint = "dlckpt: ";
constexpr std::string_view kMovedLine = "moved\n";

// Where the program is: beside this library in all the ways of installing it, or in PATH.
Result<std::string> find_dlckpt() {
  std::vector<std::string> places;
  if (const char* given = std::getenv("DLCKPT_PROGRAM"); given && *given) {
    places.emplace_back(given);
  } else {
    Dl_info self{};
    if (::dladdr(reinterpret_cast<const void*>(&run_object_program), &self) != 0 && self.dli_fname) {
      std::string dir = self.dli_fname;
      dir.resize(std::min(dir.rfind('/'), dir.size()));
      for (const char* place : {"/../bin/dlckpt", "/../../bin/dlckpt", "/../dlckpt"}) places.push_back(dir + place);
    }
    for (const std::string& dir : split(std::getenv("PATH") ? std::getenv("PATH") : "/usr/bin:/bin", ':'))
      if (!dir.empty()) places.push_back(dir + "/dlckpt");
  }
  for (const std::string& place : places)
    if (place.find('/') != std::string::npos && ::access(place.c_str(), X_OK) == 0) return place;
  return Error{
      Errc::kUnsupported,
      "the program dlckpt is neither beside libdlckpt nor in PATH; install slurm-dl whole, or set DLCKPT_PROGRAM to "
      "its path"};
}

// Attributes and actions of posix_spawn, which have to be destroyed.
struct SpawnPlan {
  SpawnPlan() {
    ::posix_spawnattr_init(&attributes);
    ::posix_spawn_file_actions_init(&actions);
  }
  ~SpawnPlan() {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  posix_spawnattr_t attributes{};
  posix_spawn_file_actions_t actions{};
};

// The variables, with another lease.
std::vector<std::string> with_lease(std::vector<std::string> variables, const std::string& lease_token) {
  if (lease_token.empty()) return variables;
  const std::string lease = std::string(env::kLease) + "=";
  variables.erase(std::remove_if(variables.begin(), variables.end(),
                                 [&](const std::string& entry) { return entry.rfind(lease, 0) == 0; }),
                  variables.end());
  variables.push_back(lease + lease_token);
  return variables;
}

std::vector<char*> pointers_to(std::vector<std::string>* texts) {
  std::vector<char*> pointers;
  for (std::string& text : *texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

Result<pid_t> spawn(const ObjectProgram& program, const std::vector<std::string>& words, const std::string& lease_token,
                    int output) {
  SpawnPlan plan;
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  ::posix_spawnattr_setsigdefault(&plan.attributes, &all);
  ::posix_spawnattr_setsigmask(&plan.attributes, &none);
  ::posix_spawnattr_setflags(&plan.attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  ::posix_spawn_file_actions_addopen(&plan.actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&plan.actions, output, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&plan.actions, output, STDERR_FILENO);
  std::vector<std::string> argv{program.path};
  argv.insert(argv.end(), words.begin(), words.end());
  argv.insert(argv.end(), {"--beside", std::to_string(::getpid())});
  std::vector<std::string> variables = with_lease(program.environment, lease_token);
  pid_t pid = -1;
  const int rc = ::posix_spawn(&pid, program.path.c_str(), &plan.actions, &plan.attributes, pointers_to(&argv).data(),
                               pointers_to(&variables).data());
  if (rc != 0) return errno_error("start " + program.path, rc);
  return pid;
}

// Whether the child has ended. It stays to be reaped, unless the program that trains has reaped it.
bool has_ended(pid_t pid) {
  siginfo_t info{};
  const int rc = ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT);
  return rc < 0 ? errno == ECHILD : info.si_pid == pid;
}

void reap(pid_t pid) {
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// Takes the lines that only say that bytes have moved out of what was said. Returns whether there was one.
bool take_signs(std::string* said) {
  bool moved = false;
  for (size_t at = 0; (at = said->find(kMovedLine, at)) != std::string::npos;) {
    if (at == 0 || (*said)[at - 1] == '\n') {
      said->erase(at, kMovedLine.size());
      moved = true;
    } else {
      ++at;
    }
  }
  return moved;
}

// Collects what the child says until it ends. A process that has been forked meanwhile may hold the pipe open, so its
// end is not waited for.
Status listen(pid_t pid, int from, const Tick& tick, const Moving& moving, std::string* said) {
  char buffer[4096];
  for (bool ended = false, closed = false;;) {
    pollfd fd{from, POLLIN, 0};
    const bool readable = !closed && ::poll(&fd, 1, ended ? 0 : kTickMs) > 0;
    if (readable) {
      const ssize_t n = ::read(from, buffer, sizeof buffer);
      if (n > 0 && said->size() < kMostSaid) said->append(buffer, static_cast<size_t>(n));
      closed = n == 0;
      if (take_signs(said) && moving) moving();
      if (n > 0) continue;
    }
    if (ended) return {};
    if (closed) ::poll(nullptr, 0, kTickMs / 10);
    ended = has_ended(pid);
    if (!ended) DL_TRY(tick());
  }
}

}  // namespace

Result<ObjectProgram> find_object_program() {
  ObjectProgram program;
  DL_TRY_ASSIGN(program.path, find_dlckpt());
  for (char** entry = environ; entry && *entry; ++entry) program.environment.emplace_back(*entry);
  return program;
}

Result<std::vector<std::string>> run_object_program(const ObjectProgram& program, const std::vector<std::string>& words,
                                                    const std::string& lease_token, const Tick& tick,
                                                    std::vector<std::string>* remarks, const Moving& moving) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return errno_error("create a pipe", errno);
  UniqueFd from(ends[0]), to(ends[1]);
  DL_TRY_ASSIGN(const pid_t pid, spawn(program, words, lease_token, to.get()));
  to.reset();
  std::string said;
  Status heard = listen(pid, from.get(), tick, moving, &said);
  if (!heard) ::kill(pid, SIGKILL);
  reap(pid);
  if (!heard) return std::move(heard).error();
  std::string complaint;
  std::optional<std::vector<std::string>> answer;
  for (const std::string& line : split(said, '\n')) {
    if (line.rfind(kComplaint, 0) == 0) {
      complaint = line.substr(std::strlen(kComplaint));
      if (remarks) remarks->push_back(complaint);
    } else if (line == "ok" || line.rfind("ok ", 0) == 0) {
      answer = split(line, ' ');
      answer->erase(answer->begin());
    } else if (!line.empty() && complaint.empty()) {
      complaint = line;  // such as that of the loader
    }
  }
  if (answer) return *std::move(answer);
  return Error{Errc::kIo, complaint.empty() ? "dlckpt ended without an answer, as if it had been killed"
                                            : printable(complaint, 2000)};
}

}  // namespace dl::ckpt
