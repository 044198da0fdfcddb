// SPDX-License-Identifier: Apache-2.0
#include "common/process/child_process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "common/base/parse.h"
#include "common/base/unique_fd.h"

extern char** environ;

namespace dl {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<bool> children_are_separate{false};

constexpr std::chrono::milliseconds kDieLimit{100};  // for a child that was killed

// Everything that the child needs. It is prepared before fork(), because after fork() only async-signal-safe calls are
// allowed.
struct ChildPlan {
  std::string path;
  std::vector<char*> argv;
  std::vector<char*> environment;
  const char* work_dir = nullptr;
  int stdin_fd = -1, stdout_fd = -1, stderr_fd = -1, error_fd = -1;
  bool new_process_group = false, new_session = false;
  int parent_death_signal = 0;
  pid_t parent = 0;
  const std::vector<int>* ignored_signals = nullptr;
};

// Puts `from` at descriptor `to`, without O_CLOEXEC.
bool place_fd(int from, int to) {
  if (from < 0 || from == to) return from < 0 || ::fcntl(to, F_SETFD, 0) == 0;
  return ::dup2(from, to) == to;
}

[[noreturn]] void run_child(const ChildPlan& plan) {
  for (int signal = 1; signal < NSIG; ++signal) {
    if (signal == SIGKILL || signal == SIGSTOP) continue;
    struct sigaction action {};
    action.sa_handler = SIG_DFL;
    ::sigaction(signal, &action, nullptr);  // fails for the two signals that the C library reserves; harmless
  }
  for (int signal : *plan.ignored_signals) {
    struct sigaction action {};
    action.sa_handler = SIG_IGN;
    ::sigaction(signal, &action, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  bool ok = true;
  if (plan.new_session)  // and with it a process group
    ok = ::setsid() >= 0;
  else if (plan.new_process_group)
    ok = ::setpgid(0, 0) == 0;
  if (ok && plan.parent_death_signal != 0) {
    ok = ::prctl(PR_SET_PDEATHSIG, plan.parent_death_signal) == 0;
    if (ok && ::getppid() != plan.parent) ::_exit(127);  // the parent died before prctl
  }
  ok = ok && place_fd(plan.stdin_fd, 0) && place_fd(plan.stdout_fd, 1) && place_fd(plan.stderr_fd, 2);
  if (ok && plan.work_dir != nullptr) ok = ::chdir(plan.work_dir) == 0;
  if (ok) ::execve(plan.path.c_str(), plan.argv.data(), plan.environment.data());
  int failure = errno;
  ssize_t written = ::write(plan.error_fd, &failure, sizeof failure);
  ::_exit(written == sizeof failure ? 127 : 126);
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

}  // namespace

std::string find_program(const std::string& program) {
  auto executable = [](const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && ::access(path.c_str(), X_OK) == 0;
  };
  if (program.empty()) return {};
  if (program.find('/') != std::string::npos) return executable(program) ? program : std::string();
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split(path != nullptr ? path : "/usr/bin:/bin", ':')) {
    std::string candidate = (folder.empty() ? std::string(".") : folder) + "/" + program;
    if (executable(candidate)) return candidate;
  }
  return {};
}

void separate_children() {
  children_are_separate = true;
}

Result<std::pair<UniqueFd, UniqueFd>> new_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return errno_error("create a pipe", errno);
  return std::make_pair(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

Result<pid_t> spawn_process(const SpawnOptions& options) {
  if (options.argv.empty() || options.argv[0].empty()) return Error{Errc::kInvalid, "no command to start"};
  ChildPlan plan;
  plan.path = find_program(options.argv[0]);
  if (plan.path.empty()) {
    bool has_slash = options.argv[0].find('/') != std::string::npos;
    // For a name with a slash, execve() reports best what is wrong with it (missing, a folder, not executable).
    if (!has_slash) {
      // A file of this name lies in the working directory: the user has probably forgotten the interpreter or "./".
      const bool here = ::access(options.argv[0].c_str(), F_OK) == 0;
      return Error{Errc::kNotFound,
                   options.argv[0] + ": no such program in PATH" +
                       (here ? "; the file of that name here is started by its interpreter (python3 " +
                                   options.argv[0] + ") or by its path (./" + options.argv[0] + ")"
                             : ""),
                   ENOENT};
    }
    plan.path = options.argv[0];
  }
  plan.argv = pointers(options.argv);
  if (options.environment) {
    plan.environment = pointers(*options.environment);
  } else {
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) plan.environment.push_back(*entry);
    plan.environment.push_back(nullptr);
  }
  UniqueFd null_fd;
  if (options.stdin_fd < 0) {
    null_fd.reset(::open("/dev/null", O_RDWR | O_CLOEXEC));
    if (!null_fd) return errno_error("open /dev/null", errno);
  }
  DL_TRY_ASSIGN(auto error_pipe, new_pipe());
  plan.work_dir = options.work_dir.empty() ? nullptr : options.work_dir.c_str();
  plan.stdin_fd = options.stdin_fd < 0 ? null_fd.get() : options.stdin_fd;
  plan.stdout_fd = options.stdout_fd;
  plan.stderr_fd = options.stderr_fd;
  plan.error_fd = error_pipe.second.get();
  plan.new_process_group = options.new_process_group;
  plan.new_session = children_are_separate;
  plan.parent_death_signal = options.parent_death_signal;
  plan.ignored_signals = &options.ignored_signals;
  plan.parent = ::getpid();

  // Signals stay blocked from before fork() until the child has reset its handlers: no handler of the parent may run in
  // it.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_t pid = ::fork();
  if (pid == 0) run_child(plan);
  int fork_errno = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return errno_error("start " + options.argv[0], fork_errno);
  error_pipe.second.reset();
  int failure = 0;
  ssize_t n;
  do n = ::read(error_pipe.first.get(), &failure, sizeof failure);
  while (n < 0 && errno == EINTR);
  if (n == sizeof failure) {
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) continue;
    return errno_error(options.argv[0], failure);
  }
  return pid;
}

namespace {

// Moves bytes between this process and a running command until the command has closed both outputs; false at the
// deadline.
bool exchange(Clock::time_point deadline, const CommandOptions& options, UniqueFd* input, UniqueFd* out, UniqueFd* err,
              CommandResult* result) {
  size_t sent = 0;
  if (options.input.empty()) input->reset();
  while (*out || *err) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd fds[3] = {{out->get(), POLLIN, 0}, {err->get(), POLLIN, 0}, {input->get(), POLLOUT, 0}};
    if (::poll(fds, 3, static_cast<int>(std::min<int64_t>(left, 1000))) < 0 && errno != EINTR) return false;
    for (int i = 0; i < 2; ++i) {
      if (fds[i].fd < 0 || (fds[i].revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
      char buffer[16384];
      ssize_t n = ::read(fds[i].fd, buffer, sizeof buffer);
      std::string& text = i == 0 ? result->out : result->err;
      if (n > 0 && text.size() < options.max_output)
        text.append(buffer, std::min(static_cast<size_t>(n), options.max_output - text.size()));
      if (n == 0 || (n < 0 && errno != EINTR)) (i == 0 ? out : err)->reset();
    }
    if (fds[2].fd >= 0 && (fds[2].revents & (POLLOUT | POLLERR)) != 0) {
      // The input fits into the pipe (checked by the caller), so this cannot block; SIGPIPE is ignored by all callers.
      ssize_t n = ::write(fds[2].fd, options.input.data() + sent, options.input.size() - sent);
      if (n > 0) sent += static_cast<size_t>(n);
      if (sent == options.input.size() || (n < 0 && errno != EINTR)) input->reset();
    }
  }
  return true;
}

Result<int> reap_until(pid_t pid, Clock::time_point deadline) {
  for (;;) {
    int status = 0;
    pid_t done = ::waitpid(pid, &status, WNOHANG);
    if (done == pid) return status;
    if (done < 0 && errno != EINTR) return errno_error("wait for a child", errno);
    if (Clock::now() >= deadline) return Error{Errc::kTimeout, "no answer"};
    ::usleep(1000);
  }
}

}  // namespace

Result<CommandResult> run_command(const std::vector<std::string>& argv, const CommandOptions& options) {
  if (options.input.size() > 65536) return Error{Errc::kInternal, "run_command: input larger than 64 KiB"};
  SpawnOptions spawn;
  spawn.argv = argv;
  spawn.ignored_signals = options.ignored_signals;
  if (!options.environment.empty() || !options.without.empty()) {
    std::vector<std::string> merged = options.environment;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
      std::string name(*entry, std::strcspn(*entry, "="));
      bool replaced = std::any_of(options.environment.begin(), options.environment.end(), [&](const std::string& set) {
        return set.compare(0, name.size() + 1, name + "=") == 0;
      });
      if (!replaced && std::find(options.without.begin(), options.without.end(), name) == options.without.end())
        merged.emplace_back(*entry);
    }
    spawn.environment = std::move(merged);
  }
  DL_TRY_ASSIGN(auto input, new_pipe());
  DL_TRY_ASSIGN(auto out, new_pipe());
  DL_TRY_ASSIGN(auto err, new_pipe());
  spawn.stdin_fd = input.first.get();
  spawn.stdout_fd = out.second.get();
  spawn.stderr_fd = err.second.get();
  Clock::time_point deadline = Clock::now() + options.timeout;
  DL_TRY_ASSIGN(pid_t pid, spawn_process(spawn));
  input.first.reset();
  out.second.reset();
  err.second.reset();
  CommandResult result;
  bool finished = exchange(deadline, options, &input.second, &out.first, &err.first, &result);
  Result<int> status = finished ? reap_until(pid, deadline) : Error{Errc::kTimeout, "no answer"};
  if (!status) {
    ::kill(pid, SIGKILL);
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) continue;
    return Error{status.error().code, fmt::format("{}: no answer within {:g} s", argv[0],
                                                  std::chrono::duration<double>(options.timeout).count())};
  }
  if (WIFEXITED(*status)) result.exit_code = WEXITSTATUS(*status);
  if (WIFSIGNALED(*status)) result.signal = WTERMSIG(*status);
  return result;
}

void end_child(pid_t pid, std::chrono::milliseconds limit) {
  const Result<int> ended = reap_until(pid, Clock::now() + limit);
  if (ended || ended.error().code != Errc::kTimeout) return;
  ::kill(pid, SIGKILL);
  ignore(reap_until(pid, Clock::now() + kDieLimit), "nothing more can be done to it");
}

int shell_exit_code(int wait_status) {
  if (WIFSIGNALED(wait_status)) return 128 + WTERMSIG(wait_status);
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 1;
}

}  // namespace dl
