// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/terminal_relay.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <string_view>
#include <thread>

#include "common/base/standard_files.h"
#include "common/base/unique_fd.h"

namespace dl {
namespace {

// The end of the pipe that the thread writes to. Child processes close it, because they would otherwise keep the pipe
// from ending. It becomes -1 once closed: the same number may then belong to another file, also in children of
// children.
std::mutex write_end_lock;
int write_end = -1;

void close_write_end() {
  if (write_end >= 0) ::close(write_end);
  write_end = -1;
}

bool write_all(int to, std::string_view data) {
  while (!data.empty()) {
    const ssize_t n = ::write(to, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    data.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

void copy(const UniqueFd& terminal, int to) {
  // Signals are handled by the main thread.
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t n = ::read(terminal.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0 || !write_all(to, {buffer.data(), static_cast<size_t>(n)})) break;
  }
  const std::lock_guard<std::mutex> locked(write_end_lock);
  close_write_end();
}

}  // namespace

Status relay_terminal() {
  if (standard_input_is_given()) return {};
  if (::isatty(STDIN_FILENO) == 0)
    return Error{Errc::kInvalid,
                 "standard input is no terminal, so nobody can answer a debugger; allowed: a terminal (in salloc, or "
                 "srun --pty bash), or its commands from a file or a pipe"};
  int ends[2];
  UniqueFd terminal(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  if (!terminal || ::pipe2(ends, O_CLOEXEC) != 0) return errno_error("create a pipe for the terminal", errno);
  UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  if (::dup2(from.get(), STDIN_FILENO) < 0) return errno_error("give the terminal to learner 0", errno);
  write_end = to.release();
  ::pthread_atfork([] { write_end_lock.lock(); }, [] { write_end_lock.unlock(); },
                   [] {
                     close_write_end();
                     write_end_lock.unlock();
                   });
  std::thread([terminal = std::move(terminal), to = write_end] { copy(terminal, to); }).detach();
  return {};
}

}  // namespace dl
