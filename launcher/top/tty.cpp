// SPDX-License-Identifier: Apache-2.0
#include "launcher/top/tty.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "launcher/top/screen.h"

namespace dl::top {
namespace {

constexpr int kEnding[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
constexpr int kCrashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr int kOthers[] = {SIGWINCH, SIGTSTP, SIGCONT};
constexpr size_t kAtOnce = 256;    // bytes that a terminal takes whenever it takes any
constexpr int kLastWriteMs = 500;  // a terminal that takes nothing for so long is left as it is

// What signal handlers use. They may only call a few functions, and these do not allocate.
struct termios g_before;
std::atomic<bool> g_taken{false};
int g_pipe[2] = {-1, -1};
struct sigaction g_actions[NSIG];

// Whether another program has the terminal: the shell, while this one is in the background. Changing the terminal's
// settings would stop this process then (SIGTTOU).
bool in_background() {
  const pid_t front = ::tcgetpgrp(STDIN_FILENO);
  return front > 0 && front != ::getpgrp();
}

// The terminal may be stopped (Ctrl-S), or nobody may read what is written to it any more.
void leave() {
  if (!g_taken.exchange(false)) return;
  const bool settings = !in_background();  // else they are the shell's by now
  if (settings) {
    ::tcflow(STDOUT_FILENO, TCOOFF);  // TCOON starts only what this has stopped
    ::tcflow(STDOUT_FILENO, TCOON);
  }
  struct pollfd item = {STDOUT_FILENO, POLLOUT, 0};
  if (::poll(&item, 1, kLastWriteMs) > 0 && (item.revents & POLLOUT) != 0) [[maybe_unused]]
    const ssize_t written = ::write(STDOUT_FILENO, kLeaveScreen, std::strlen(kLeaveScreen));
  if (settings) ::tcsetattr(STDIN_FILENO, TCSANOW, &g_before);
}

// Stops a process in the background until the shell gives it the terminal: before that the settings are those that the
// shell has for itself, and tcgetattr() waits for nothing. False: a signal that ends the program has come meanwhile.
bool wait_for_foreground() {
  return ::tcflow(STDIN_FILENO, TCOON) == 0 || errno != EINTR;
}

bool enter() {
  struct termios raw = g_before;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | IEXTEN);  // ISIG stays: Ctrl-C and Ctrl-Z are signals
  raw.c_iflag &= ~static_cast<tcflag_t>(ICRNL | INLCR);
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  if (::tcsetattr(STDIN_FILENO, TCSANOW, &raw) != 0) return false;
  g_taken = true;
  [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, kEnterScreen, std::strlen(kEnterScreen));
  return true;
}

void note_signal(int signal) {
  const int saved = errno;
  const auto byte = static_cast<char>(signal);
  [[maybe_unused]] const ssize_t written = ::write(g_pipe[1], &byte, 1);
  errno = saved;
}

// The handler's flags give the signal its default back. Raised once more, it ends the process when this returns.
void crash(int signal) {
  leave();
  ::raise(signal);
}

void handle(int signal, void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, &g_actions[signal]);
}

template <size_t N>
void restore(const int (&signals)[N]) {
  for (const int signal : signals) ::sigaction(signal, &g_actions[signal], nullptr);
}

// Ctrl-Z: the shell gets its terminal.
void stop_here() {
  leave();
  struct sigaction standard = {}, mine = {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(SIGTSTP, &standard, &mine);
  ::raise(SIGTSTP);
  ::sigaction(SIGTSTP, &mine, nullptr);
}

// The program goes on. After SIGSTOP it has not given the terminal back, but the shell has used it.
void take_again() {
  if (!wait_for_foreground()) return;
  if (!g_taken) ::tcgetattr(STDIN_FILENO, &g_before);
  enter();
}

}  // namespace

bool can_draw() {
  const char* term = std::getenv("TERM");  // NOLINT(concurrency-mt-unsafe): one thread
  return term != nullptr && *term != '\0' && std::strcmp(term, "dumb") != 0 && ::isatty(STDIN_FILENO) == 1 &&
         ::isatty(STDOUT_FILENO) == 1;
}

Result<std::unique_ptr<Tty>> Tty::open() {
  if (!can_draw()) return Error{Errc::kUnsupported, "this is no terminal that can be drawn on"};
  wait_for_foreground();
  if (::tcgetattr(STDIN_FILENO, &g_before) != 0) return errno_error("tcgetattr", errno);
  if (::pipe2(g_pipe, O_CLOEXEC | O_NONBLOCK) != 0) return errno_error("pipe", errno);
  std::unique_ptr<Tty> tty(new Tty);
  for (const int signal : kEnding) handle(signal, note_signal, 0);
  // With SA_RESTART, what SIGTTOU has stopped goes on after SIGCONT instead of failing. poll() ends all the same.
  for (const int signal : kOthers) handle(signal, note_signal, SA_RESTART);
  for (const int signal : kCrashes) handle(signal, crash, static_cast<int>(SA_RESETHAND));
  if (!enter()) return errno_error("tcsetattr", errno);
  return tty;
}

Tty::~Tty() {
  leave();
  restore(kEnding);
  restore(kOthers);
  restore(kCrashes);
  for (int& fd : g_pipe) {
    if (fd >= 0) ::close(fd);
    fd = -1;
  }
}

Tty::Size Tty::size() {
  constexpr int kMost = 1000;
  Size size;
  struct winsize window = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0) return size;
  if (window.ws_col > 0) size.columns = std::min<int>(window.ws_col, kMost);
  if (window.ws_row > 0) size.rows = std::min<int>(window.ws_row, kMost);
  return size;
}

Wake Tty::wait(const std::vector<int>& fds, int timeout_ms) {
  Wake wake;
  std::vector<struct pollfd> items = {{g_pipe[0], POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
  for (const int fd : fds) items.push_back({fd, POLLIN, 0});
  if (::poll(items.data(), items.size(), timeout_ms) < 0 && errno != EINTR) return wake;
  char buffer[1024];
  bool stops = false, goes_on = false;
  const auto take_signals = [&] {
    const ssize_t signals = ::read(g_pipe[0], buffer, sizeof buffer);
    for (ssize_t i = 0; i < signals; ++i) {
      const int signal = static_cast<unsigned char>(buffer[i]);
      wake.resized = wake.resized || signal == SIGWINCH;
      stops = stops || signal == SIGTSTP;
      goes_on = goes_on || signal == SIGCONT;
      const auto* const ends = std::find(std::begin(kEnding), std::end(kEnding), signal);
      if (wake.ending == 0 && ends != std::end(kEnding)) wake.ending = signal;
    }
  };
  take_signals();
  if (stops && wake.ending == 0) {
    stop_here();
    goes_on = true;
    take_signals();
  }
  // `kill %1` sends SIGTERM and SIGCONT: the program ends in the background, where it must not take the terminal.
  if (goes_on && wake.ending == 0) {
    take_again();
    wake.resized = wake.shown_anew = true;
  }
  // The shell has read what was typed before dlctl was stopped (Ctrl-Z), so there is nothing to read now.
  if (items[1].revents != 0 && !wake.shown_anew) {
    const ssize_t n = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (n > 0) wake.keys.assign(buffer, static_cast<size_t>(n));
    // The terminal is gone; SIGHUP may have come, or not, as to a process that is no session's foreground.
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) wake.ending = SIGHUP;
  }
  for (size_t i = 0; i < fds.size(); ++i)
    if (items[i + 2].revents != 0) wake.ready.push_back(fds[i]);
  return wake;
}

Tty::Written Tty::write(std::string_view bytes) {
  size_t left = 0;  // of a piece that was begun
  while (!bytes.empty()) {
    struct pollfd items[] = {{STDOUT_FILENO, POLLOUT, 0}, {g_pipe[0], POLLIN, 0}};
    if (::poll(items, 2, -1) < 0 && errno != EINTR) return Written::kGone;
    const bool writable = (items[0].revents & POLLOUT) != 0;
    // What is drawn next must not begin within a sequence. A terminal that has been stopped is not waited for.
    if (items[1].revents != 0 && (left == 0 || !writable)) return Written::kPart;
    if ((items[0].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) return Written::kGone;
    if (!writable) continue;
    if (left == 0) left = piece_of(bytes, kAtOnce);
    const ssize_t n = ::write(STDOUT_FILENO, bytes.data(), left);
    if (n < 0 && errno != EINTR && errno != EAGAIN) return Written::kGone;
    if (n <= 0) continue;
    bytes.remove_prefix(static_cast<size_t>(n));
    left -= static_cast<size_t>(n);
  }
  return Written::kAll;
}

void end_by(int signal) {
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

}  // namespace dl::top
