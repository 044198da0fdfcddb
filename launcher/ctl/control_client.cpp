// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/control_client.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>

#include "common/base/parse.h"
#include "common/base/unique_fd.h"
#include "common/process/child_process.h"
#include "launcher/ctl/act_as.h"
#include "launcher/record/open_below.h"
#include "launcher/slurm_cli/records.h"
#include "launcher/slurm_cli/user_settings.h"

namespace dl::ctl {
namespace {

using Clock = std::chrono::steady_clock;

// Waits for events on the socket; false if the deadline has passed.
bool wait_for(int fd, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    struct pollfd item = {fd, events, 0};
    const int ready = ::poll(&item, 1, static_cast<int>(left));
    if (ready > 0) return true;
    if (ready == 0) return false;
    if (errno != EINTR) return true;  // the next call on the socket reports the error
  }
}

Error no_answer(const record::ControlInfo& info, const std::string& why) {
  return Error{Errc::kBusy, "dlrun does not answer at " + protocol::format_endpoint(info.host, info.port) + ": " + why};
}

constexpr int kFirstUserPort = 1024;

// The address of the node where, according to Slurm, the job's batch script runs.
Result<std::string> host_by_slurm(const Job& job) {
  if (job.local || !job.slurm) return std::string("127.0.0.1");
  const std::string& node = job.slurm->batch_host;
  if (!is_plain_name(node)) return Error{Errc::kBusy, "Slurm does not say where job " + job.id + " runs"};
  CommandOptions options;
  options.without = slurm_cli::user_settings();
  DL_TRY_ASSIGN(const CommandResult shown, run_command({"scontrol", "--oneliner", "show", "node", node}, options));
  if (std::string address = slurm_cli::Record(shown.out).value("NodeAddr"); !address.empty()) return address;
  return Error{Errc::kBusy, "Slurm does not say which address node " + node + " has"};
}

Result<UniqueFd> connect_to_address(const record::ControlInfo& info, const struct addrinfo& address,
                                    Clock::time_point deadline) {
  UniqueFd fd(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return errno_error("socket", errno);
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) == 0) return fd;
  if (errno != EINPROGRESS) return no_answer(info, errno_error("connect", errno).text);
  if (!wait_for(fd.get(), POLLOUT, deadline)) return no_answer(info, "no connection was made in time");
  int failure = 0;
  socklen_t size = sizeof failure;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &failure, &size) != 0) failure = errno;
  if (failure != 0) return no_answer(info, errno_error("connect", failure).text);
  return fd;
}

Result<UniqueFd> connect_to(const record::ControlInfo& info, Clock::time_point deadline) {
  struct addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG;
  struct addrinfo* found = nullptr;
  const int rc = ::getaddrinfo(info.host.c_str(), std::to_string(info.port).c_str(), &hints, &found);
  if (rc != 0) return no_answer(info, ::gai_strerror(rc));
  const std::unique_ptr<struct addrinfo, void (*)(struct addrinfo*)> guard(found, &::freeaddrinfo);
  Error last = no_answer(info, "its host name has no address");
  for (const struct addrinfo* at = found; at != nullptr; at = at->ai_next) {
    auto fd = connect_to_address(info, *at, deadline);
    if (fd) return fd;
    last = std::move(fd).error();
  }
  return last;
}

Status send_all(int fd, const std::string& text, Clock::time_point deadline) {
  size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t n = ::send(fd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n > 0) {
      sent += static_cast<size_t>(n);
    } else if (errno == EAGAIN) {
      if (!wait_for(fd, POLLOUT, deadline)) return Error{Errc::kTimeout, "dlrun did not read the question in time"};
    } else if (errno != EINTR) {
      return Error{Errc::kBusy, errno_error("send", errno).text};
    }
  }
  return {};
}

}  // namespace

Result<protocol::ControlMessage> ask_dlrun(const Job& job, const protocol::ControlMessage& question,
                                           std::chrono::milliseconds timeout) {
  DL_TRY_ASSIGN(record::ControlInfo info,
                record::parse_control(job.dir.control(),
                                      record::read_below(job.dir.root(), "control.json", record::kMaxControlBytes)));
  if (is_foreign(job)) {
    if (info.port < kFirstUserPort) return no_answer(info, "no program of a user's listens on ports below 1024");
    DL_TRY_ASSIGN(info.host, host_by_slurm(job));
  }
  const Clock::time_point deadline = Clock::now() + timeout;
  DL_TRY_ASSIGN(const UniqueFd fd, connect_to(info, deadline));
  protocol::Hello hello;
  hello.role = "ctl";
  hello.secret = info.secret;
  DL_TRY(send_all(fd.get(), protocol::encode(hello) + protocol::encode(question), deadline));
  protocol::LineSplitter splitter(protocol::kMaxLineBytes);
  for (;;) {
    if (!wait_for(fd.get(), POLLIN, deadline)) return Error{Errc::kTimeout, "dlrun did not answer in time"};
    char buffer[16384];
    const ssize_t n = ::recv(fd.get(), buffer, sizeof buffer, 0);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) return Error{Errc::kBusy, errno_error("recv", errno).text};
    if (n == 0) return Error{Errc::kBusy, "dlrun closed the connection without an answer"};
    DL_TRY_ASSIGN(const std::vector<std::string> lines, splitter.feed(buffer, static_cast<size_t>(n)));
    for (const std::string& line : lines) {
      auto message = protocol::decode(line);
      if (!message) continue;  // a message of another version
      if (std::holds_alternative<protocol::Reply>(*message) || std::holds_alternative<protocol::JobStatus>(*message)) {
        return message;
      }
    }
  }
}

}  // namespace dl::ctl
