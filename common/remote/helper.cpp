// SPDX-License-Identifier: Apache-2.0
#include "common/remote/helper.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>
#include <utility>

#include "common/base/clock.h"
#include "common/base/unique_fd.h"
#include "common/process/child_process.h"

namespace dl::data {
namespace {

constexpr size_t kPassedAtOnce = 1 << 20;
constexpr int kPipeBytes = 1 << 20;
constexpr size_t kMostSaid = 16 << 10;
constexpr size_t kLongestLine = 64 << 10;
constexpr int kPollMs = 200;
constexpr std::chrono::milliseconds kEndLimit{5000}, kEndLook{2};

class Helper {
 public:
  explicit Helper(const HelperRun& run) : run_(run), buffer_(kPassedAtOnce) {}
  ~Helper() {
    if (pid_ > 0) end_child(pid_, std::chrono::milliseconds(0));
  }
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  Result<HelperEnd> to_the_end() {
    DL_TRY(start());
    DL_TRY(pass_on());
    // It has closed its output, and has nothing more to do.
    const int64_t until_ms = monotonic_ms() + kEndLimit.count();
    int status = 0;
    for (;;) {
      const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
      if (ended == pid_) break;
      if (ended < 0 && errno != EINTR) return errno_error("wait for " + run_.argv[0], errno);
      if (monotonic_ms() >= until_ms || (run_.stop != nullptr && *run_.stop))
        return Error{Errc::kTimeout, run_.argv[0] + " does not end"};
      std::this_thread::sleep_for(kEndLook);
    }
    pid_ = -1;
    end_.status = shell_exit_code(status);
    return std::move(end_);
  }

 private:
  Status start() {
    DL_TRY_ASSIGN(auto in, new_pipe());
    DL_TRY_ASSIGN(auto out, new_pipe());
    DL_TRY_ASSIGN(auto err, new_pipe());
    ::fcntl(out.first.get(), F_SETPIPE_SZ, kPipeBytes);  // fewer switches between the two; the kernel may refuse
    SpawnOptions spawn;
    spawn.argv = run_.argv;
    spawn.stdin_fd = run_.input.empty() && !run_.next ? -1 : in.first.get();
    spawn.stdout_fd = out.second.get();
    spawn.stderr_fd = err.second.get();
    spawn.parent_death_signal = SIGKILL;
    DL_TRY_ASSIGN(pid_, spawn_process(spawn));
    out_ = std::move(out.first);
    err_ = std::move(err.first);
    if (run_.next) {
      // Read and written in turn, so neither end may wait for the other.
      if (::fcntl(in.second.get(), F_SETFL, O_NONBLOCK) != 0) return errno_error("prepare a pipe", errno);
      ::fcntl(in.second.get(), F_SETPIPE_SZ, kPipeBytes);
      in_ = std::move(in.second);
    }
    // It fits into the pipe, so that this does not block; SIGPIPE is ignored by dl-data.
    if (!run_.input.empty() && ::write(in.second.get(), run_.input.data(), run_.input.size()) < 0 && errno != EPIPE)
      return errno_error("write to " + run_.argv[0], errno);
    return {};
  }

  // Writes what its standard input takes now.
  Status feed() {
    if (piece_.empty()) {
      DL_TRY_ASSIGN(piece_, run_.next());
      if (piece_.empty()) {
        in_.reset();
        return {};
      }
    }
    const ssize_t n = ::write(in_.get(), piece_.data(), piece_.size());
    if (n >= 0)
      piece_.remove_prefix(static_cast<size_t>(n));
    else if (errno == EPIPE)
      in_.reset();  // it has ended, or needs no more: its exit status tells
    else if (errno != EAGAIN && errno != EINTR)
      return errno_error("write to " + run_.argv[0], errno);
    return {};
  }

  Status pass_on() {
    int64_t last_ms = monotonic_ms();
    while (out_ || err_) {
      if (run_.stop != nullptr && *run_.stop) return Error{Errc::kBusy, "stopped"};
      pollfd fds[3] = {{out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}, {in_.get(), POLLOUT, 0}};
      if (::poll(fds, 3, kPollMs) < 0) {
        if (errno != EINTR) return errno_error("wait for " + run_.argv[0], errno);
        continue;
      }
      bool moved = false;
      if (fds[2].fd >= 0 && fds[2].revents != 0) {
        DL_TRY(feed());
        moved = true;
      }
      for (int i = 0; i < 2; ++i) {
        if (fds[i].fd < 0 || (fds[i].revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
        const ssize_t n = ::read(fds[i].fd, buffer_.data(), buffer_.size());
        if (n < 0 && errno == EINTR) continue;
        moved = true;
        if (n <= 0) {
          (i == 0 ? out_ : err_).reset();
          continue;
        }
        const std::string_view data(buffer_.data(), static_cast<size_t>(n));
        if (i == 1)
          complain(data);
        else if (run_.out)
          DL_TRY(run_.out(data));
      }
      if (moved) last_ms = monotonic_ms();
      if (monotonic_ms() - last_ms > run_.stall_ms)
        return Error{Errc::kTimeout, fmt::format("{}: nothing moved for {} s", run_.argv[0], run_.stall_ms / 1000)};
    }
    if (!line_.empty() && run_.line) run_.line(line_);
    return {};
  }

  void complain(std::string_view data) {
    end_.said += data;
    if (end_.said.size() > kMostSaid) end_.said.erase(0, end_.said.size() - kMostSaid);
    if (!run_.line) return;
    line_ += data;
    size_t begin = 0;
    for (size_t end = line_.find('\n'); end != std::string::npos; end = line_.find('\n', begin)) {
      run_.line(std::string_view(line_).substr(begin, end - begin));
      begin = end + 1;
    }
    line_.erase(0, begin);
    if (line_.size() > kLongestLine) line_.clear();
  }

  const HelperRun& run_;
  std::vector<char> buffer_;
  std::string line_;
  pid_t pid_ = -1;
  UniqueFd in_, out_, err_;
  std::string_view piece_;  // of what is written, the part that is left
  HelperEnd end_;
};

}  // namespace

Result<HelperEnd> run_helper(const HelperRun& run) {
  return Helper(run).to_the_end();
}

}  // namespace dl::data
