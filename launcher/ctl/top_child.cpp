// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/top_child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "common/base/clock.h"
#include "common/json/json.h"
#include "common/process/child_process.h"

namespace dl::ctl {
namespace {

constexpr int64_t kEveryMs = 2000;
constexpr int64_t kRestShare = 9;  // times as long as a look has taken nothing is done
constexpr size_t kMostAnswer = 256 << 20;

bool send_whole(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

// Reads what was told, each a JSON text on a line. False: nobody is left who would tell anything.
bool hear(int fd, std::string* heard, std::string* told) {
  char buffer[4096];
  const ssize_t n = ::recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
  if (n == 0) return false;
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  heard->append(buffer, static_cast<size_t>(n));
  for (size_t end = heard->find('\n'); end != std::string::npos; end = heard->find('\n')) {
    const Json json = Json::parse(heard->substr(0, end));
    if (json.is_string()) *told = json.text();
    heard->erase(0, end + 1);
  }
  return true;
}

[[noreturn]] void look_on(int fd, pid_t parent, const LookChild::Look& look) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(0);
  // Whatever it might print would spoil the picture.
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null.get(), standard);
  std::string heard, told;
  int64_t next = monotonic_ms();
  for (;;) {
    struct pollfd item = {fd, POLLIN, 0};
    const int64_t left = std::max<int64_t>(0, next - monotonic_ms());
    const int ready = ::poll(&item, 1, static_cast<int>(std::min<int64_t>(left, 60'000)));
    if (ready < 0 && errno != EINTR) ::_exit(1);
    if (ready > 0) {
      if (!hear(fd, &heard, &told)) ::_exit(0);
      next = monotonic_ms();
      continue;
    }
    const int64_t begin = monotonic_ms();
    if (begin < next) continue;
    if (!send_whole(fd, look(told) + "\n")) ::_exit(0);
    const int64_t now = monotonic_ms();
    next = now + std::max(kEveryMs, (now - begin) * kRestShare);
  }
}

}  // namespace

Result<LookChild> LookChild::start(const Look& look) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return errno_error("socketpair", errno);
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  const pid_t parent = ::getpid(), pid = ::fork();
  if (pid < 0) return errno_error("fork", errno);
  if (pid == 0) {
    ours.reset();
    try {
      look_on(theirs.get(), parent, look);
    } catch (...) {
      ::_exit(1);
    }
  }
  LookChild child;
  child.fd_ = std::move(ours);
  child.pid_ = pid;
  return child;
}

LookChild::~LookChild() {
  if (!fd_ || pid_ <= 0) return;  // moved from
  fd_.reset();
  ::kill(pid_, SIGKILL);
  end_child(pid_, std::chrono::milliseconds(0));
}

Result<std::string> LookChild::take() {
  char buffer[65536];
  for (;;) {
    const ssize_t n = ::recv(fd_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0 || waiting_.size() > kMostAnswer)
      return Error{Errc::kIo, "the process that looks at the jobs has ended: too little memory, or it was killed"};
    waiting_.append(buffer, static_cast<size_t>(n));
  }
  const size_t end = waiting_.rfind('\n');
  if (end == std::string::npos) return std::string();
  const size_t before = end == 0 ? std::string::npos : waiting_.rfind('\n', end - 1);
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  std::string answer = waiting_.substr(begin, end - begin);
  waiting_.erase(0, end + 1);
  return answer;
}

void LookChild::tell(const std::string& text) {
  // If the child has ended, take() says so.
  (void)send_whole(fd_.get(), Json(text).dump() + "\n");
}

}  // namespace dl::ctl
