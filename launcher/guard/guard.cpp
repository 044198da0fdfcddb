// SPDX-License-Identifier: Apache-2.0
#include "launcher/guard/guard.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "common/base/atomic_file.h"
#include "common/base/clock.h"
#include "common/process/descendants.h"
#include "launcher/guard/death.h"

namespace dl::guard {

// Memory that the guard and its child share. The first byte of a text is written last, so that a child that is killed
// while it writes leaves an empty text rather than a part of one.
struct Shared {
  pid_t guard = 0, script = 0;
  bool fault = false, began = false;
  // Written after its time, so that a child that is killed in between leaves none. Atomic, since the compiler may
  // change the order of other stores.
  std::atomic<int> signal{0};
  int64_t signal_ms = 0;
  char control[4096] = "";
  char run_id[128] = "";
  sigset_t mask{};  // of signals, as dlrun was started with
};

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// The time until learners on other nodes have ended. Agents end them at once when their connection breaks. If an agent
// cannot learn of the break, it ends its learner 2.5 s (kAgentLeaseMs, launcher/protocol/two_ways.h) after the last of
// its messages, which it sends each half second, was acknowledged.
constexpr milliseconds kFence{3250};
constexpr milliseconds kKillLimit{3000};
constexpr milliseconds kLook{20};
constexpr int kExitFault = 70;

constexpr int kHandedOn[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

bool asks_for_an_end(int signal) {
  return signal == SIGHUP || signal == SIGINT || signal == SIGQUIT || signal == SIGTERM;
}

bool under_slurm() {
  return std::getenv("SLURM_JOB_ID") != nullptr;
}

pid_t parent_of(pid_t pid) {
  auto text = read_small_file("/proc/" + std::to_string(pid) + "/stat", 4096);
  const size_t close = text ? text->rfind(')') : std::string::npos;
  return close == std::string::npos || close + 4 > text->size() ? 0 : std::atoi(text->c_str() + close + 4);
}

template <size_t size>
void keep(const std::string& text, char (*out)[size]) {
  (*out)[0] = '\0';
  if (text.empty() || text.size() >= size) return;
  std::memcpy(*out + 1, text.c_str() + 1, text.size());  // with the byte 0 at its end
  (*out)[0] = text[0];
}

class Guard {
 public:
  explicit Guard(Shared* shared) : shared_(shared), link_(shared) {}
  int run(const Work& work);

 private:
  pid_t start(const Work& work, const Predecessor& predecessor);
  [[noreturn]] void be_child(const Work& work, const Predecessor& predecessor);
  int wait_for_child();
  void handle(int signal);
  bool reap();
  bool clear_up();

  Shared* shared_;
  Link link_;
  sigset_t watched_{};
  char name_[16] = "";  // the name of this process before the guard changed it
  pid_t child_ = 0;
  int status_ = 0;
  bool ended_ = false, stop_asked_ = false;
  bool children_left_ = true, orphan_killed_ = false;
  int ended_by_ = 0;  // the signal that ended the guard while it had no child
  int notice_ = 0;
  int64_t notice_ms_ = 0;
};

void Guard::be_child(const Work& work, const Predecessor& predecessor) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != shared_->guard) ::_exit(kExitFault);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  ::prctl(PR_SET_NAME, name_);
  // The child may write to the terminal although the guard's process group is in its foreground.
  ::signal(SIGTTOU, SIG_IGN);
  sigset_t blocked = shared_->mask;
  if (!predecessor.death.empty() && under_slurm()) {
    sigaddset(&blocked, SIGTERM);
    sigaddset(&blocked, SIGUSR2);
  }
  ::sigprocmask(SIG_SETMASK, &blocked, nullptr);
  int status = kExitFault;
  try {
    status = work(predecessor, &link_);
  } catch (const std::exception& e) {
    shared_->fault = true;
    std::fprintf(stderr, "dlrun: %s\n", e.what());
  }
  std::fflush(nullptr);
  std::exit(status);
}

pid_t Guard::start(const Work& work, const Predecessor& predecessor) {
  shared_->fault = false;
  stop_asked_ = ended_ = false;
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) be_child(work, predecessor);
  if (pid > 0) ::setpgid(pid, pid);
  return pid;
}

void Guard::handle(int signal) {
  if (signal == SIGTSTP) {
    // The learners run on, as they do when a dlrun without a guard is stopped.
    if (child_ > 0) ::kill(child_, SIGSTOP);
    ::raise(SIGSTOP);
    return;
  }
  if (signal == SIGCONT) {
    if (child_ > 0) ::kill(child_, SIGCONT);
    return;
  }
  bool handed_on = false;
  for (int each : kHandedOn) handed_on = handed_on || each == signal;
  if (!handed_on) return;
  if (child_ > 0) {
    stop_asked_ = stop_asked_ || asks_for_an_end(signal);
    ::kill(child_, signal);
  } else if (signal == SIGUSR2 || (signal == SIGTERM && under_slurm())) {
    if (notice_ == SIGTERM) return;
    notice_ = signal;  // Slurm sends these; the next dlrun finds out what it means
    notice_ms_ = unix_ms();
  } else if (asks_for_an_end(signal)) {
    ended_by_ = signal;
  }
}

// Whether the child has ended. Orphans of a dead child also become children of the guard, and are waited for here.
bool Guard::reap() {
  for (;;) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid < 0 && errno == EINTR) continue;
    children_left_ = pid >= 0;
    if (pid <= 0) return ended_;
    if (pid == child_) {
      child_ = 0;
      ended_ = true;
      status_ = status;
    } else if (!WIFEXITED(status)) {
      orphan_killed_ = true;
    }
  }
}

int Guard::wait_for_child() {
  siginfo_t info{};
  while (!reap()) {
    const int signal = ::sigwaitinfo(&watched_, &info);
    if (signal > 0) handle(signal);
  }
  return status_;
}

// Ends what the dead dlrun has left on this host, and waits until nothing of it can train on other hosts. True if
// everything had ended by itself; srun does so when its last agent has ended.
bool Guard::clear_up() {
  const Clock::time_point fence = Clock::now() + kFence;
  if (shared_->control[0] != '\0') ::unlink(shared_->control);
  orphan_killed_ = false;
  siginfo_t info{};
  const timespec look{0, std::chrono::nanoseconds(kLook).count()};
  while (ended_by_ == 0 && Clock::now() < fence) {
    reap();
    if (!children_left_ && !orphan_killed_) return true;
    const int signal = ::sigtimedwait(&watched_, &info, &look);
    if (signal > 0) handle(signal);
  }
  kill_descendants(kKillLimit);
  return false;
}

int Guard::run(const Work& work) {
  sigemptyset(&watched_);
  for (int signal : kHandedOn) sigaddset(&watched_, signal);
  for (int signal : {SIGCHLD, SIGTSTP, SIGCONT}) sigaddset(&watched_, signal);
  sigset_t blocked = watched_;
  sigaddset(&blocked, SIGPIPE);
  ::sigprocmask(SIG_BLOCK, &blocked, &shared_->mask);
  ::prctl(PR_GET_NAME, name_);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  shared_->guard = ::getpid();
  shared_->script = ::getppid();
  Budget budget;
  Predecessor predecessor;
  for (;;) {
    shared_->control[0] = shared_->run_id[0] = '\0';
    shared_->signal = 0;
    const pid_t pid = start(work, predecessor);
    if (pid < 0) {
      std::fprintf(stderr, "dlrun: cannot start another process: %s\n", std::strerror(errno));
      return predecessor.death.empty() ? kExitFault : predecessor.exit_status;
    }
    child_ = pid;
    ::prctl(PR_SET_NAME, "dl-guard");
    ChildEnd end;
    end.wait_status = wait_for_child();
    end.fault = shared_->fault;
    end.stop_asked = stop_asked_;
    const Verdict verdict = judge(end);
    if (!verdict.died || predecessor.last) return verdict.exit_status;
    const bool all_gone = clear_up();
    if (ended_by_ != 0) return 128 + ended_by_;
    predecessor = Predecessor{};
    predecessor.death = verdict.text;
    predecessor.exit_status = verdict.exit_status;
    predecessor.began = shared_->began;
    predecessor.last = !budget.take(std::chrono::duration_cast<milliseconds>(Clock::now().time_since_epoch()).count());
    // The first one counts, except that SIGTERM is stronger.
    const int unanswered = shared_->signal;
    const bool its_own = unanswered == SIGTERM || (unanswered != 0 && notice_ != SIGTERM);
    predecessor.notice = its_own ? unanswered : notice_;
    predecessor.notice_ms = its_own ? shared_->signal_ms : notice_ms_;
    if (!all_gone) predecessor.unswept = shared_->run_id;
    notice_ = 0;
  }
}

}  // namespace

void Link::control_file(const std::string& path) {
  keep(path, &shared_->control);
}
void Link::began() {
  shared_->began = true;
}
void Link::run_id(const std::string& id) {
  keep(id, &shared_->run_id);
}
void Link::handles_signals() {
  ::pthread_sigmask(SIG_SETMASK, &shared_->mask, nullptr);
}
void Link::unanswered(int signal, int64_t unix_ms) {
  shared_->signal = 0;
  shared_->signal_ms = unix_ms;
  shared_->signal = signal;
}
bool Link::script_gone() const {
  return parent_of(shared_->guard) != shared_->script;
}

int run_guarded(const Work& work) {
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::fprintf(stderr, "dlrun: no memory can be shared with a child process: %s\n", std::strerror(errno));
    return kExitFault;
  }
  auto* shared = new (memory) Shared;
  const int status = Guard(shared).run(work);
  ::munmap(memory, sizeof(Shared));
  return status;
}

}  // namespace dl::guard
