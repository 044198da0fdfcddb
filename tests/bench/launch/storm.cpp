// SPDX-License-Identifier: Apache-2.0
// Put into PATH as srun, it is what dlrun starts: one process that speaks for all agents of the job (--ntasks=N), as
// storm of tests/bench/rendezvous does for clients of the store. The agents say hello, "start" their learners when they
// are told to, wait 0.3 s, then learner 1 dies, and all others end theirs when they are told to.
//
// Writes to $BENCH_STORM one line of JSON: the seconds from the first connection until dlrun has told all agents to
// start, and from the death until the last one was told to end. Started as `srun --overlap ... --sweep`, it does
// nothing.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "common/contract/env_names.h"
#include "launcher/protocol/control_protocol.h"

namespace {

using Clock = std::chrono::steady_clock;
using namespace dl::protocol;

constexpr int kConnecting = 512;  // no listen queue (4096 at most on common kernels) drops one
constexpr auto kTraining = std::chrono::milliseconds(300);

struct Agent {
  int fd = -1;
  bool connected = false, started = false, told = false, closed = false;
  std::string rest;  // of a line that is not whole yet
};

double seconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "storm: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

class Storm {
 public:
  Storm(int count, int port, std::string secret)
      : agents_(static_cast<size_t>(count)), count_(count), port_(port), secret_(std::move(secret)) {}

  void run() {
    epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
    began_ = Clock::now();
    std::vector<epoll_event> events(1024);
    while (closed_ < count_) {
      while (next_ < count_ && connecting_ < kConnecting) connect(next_++);
      const int n = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 10);
      if (n < 0 && errno != EINTR) fail("wait");
      for (int i = 0; i < n; ++i) handle(events[static_cast<size_t>(i)]);
      if (all_started_ && !died_ && Clock::now() - all_started_at_ >= kTraining) die();
      if (seconds(began_, Clock::now()) > 120) fail("not done within 120 s");
    }
  }

  void report(const char* path) const {
    FILE* file = std::fopen(path, "w");
    if (file == nullptr) fail(path);
    std::fprintf(file, "{\"start\": %.6f, \"end\": %.6f}\n", seconds(began_, all_started_at_),
                 seconds(died_at_, last_told_at_));
    std::fclose(file);
  }

 private:
  void connect(int rank) {
    Agent& agent = agents_[static_cast<size_t>(rank)];
    ++connecting_;
    agent.fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (agent.fd < 0) fail("socket");
    const int one = 1;
    ::setsockopt(agent.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port_));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(agent.fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 && errno != EINPROGRESS)
      fail("connect");
    watch(rank, EPOLLOUT, EPOLL_CTL_ADD);
  }

  void watch(int rank, uint32_t what, int how) const {
    epoll_event event{};
    event.events = what;
    event.data.u32 = static_cast<uint32_t>(rank);
    ::epoll_ctl(epoll_, how, agents_[static_cast<size_t>(rank)].fd, &event);
  }

  void send(int rank, const ControlMessage& message) const {
    const std::string line = encode(message);
    const ssize_t n = ::send(agents_[static_cast<size_t>(rank)].fd, line.data(), line.size(), MSG_NOSIGNAL);
    if (n != static_cast<ssize_t>(line.size()) && errno != EPIPE && errno != ECONNRESET) fail("send");
  }

  void hello(int rank) {
    Hello hello;
    hello.role = "agent";
    hello.secret = secret_;
    hello.rank = rank;
    hello.host = "node" + std::to_string(rank / 8);
    hello.address = "127.0.0.1";
    hello.pid = 1;
    if (rank == 0) hello.port = hello.coordinator_port = hello.ras_port = 1024;
    send(rank, hello);
  }

  void handle(const epoll_event& event) {
    const auto rank = static_cast<int>(event.data.u32);
    Agent& agent = agents_[static_cast<size_t>(rank)];
    if (!agent.connected) {
      agent.connected = true;
      --connecting_;
      watch(rank, EPOLLIN, EPOLL_CTL_MOD);
      return hello(rank);
    }
    char buffer[65536];
    const ssize_t n = ::recv(agent.fd, buffer, sizeof buffer, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
      ::close(agent.fd);
      agent.closed = true;
      ++closed_;
      return;
    }
    agent.rest.append(buffer, static_cast<size_t>(n));
    for (size_t end; (end = agent.rest.find('\n')) != std::string::npos; agent.rest.erase(0, end + 1))
      line(rank, agent.rest.substr(0, end));
  }

  // Members are sorted by name, so "type" comes last; parsing 10,000 environments is not what is measured.
  void line(int rank, const std::string& text) {
    Agent& agent = agents_[static_cast<size_t>(rank)];
    const auto is = [&text](const char* type) {
      return text.find(std::string("\"type\":\"") + type + "\"") != std::string::npos;
    };
    if (!agent.started && is("start")) {
      agent.started = true;
      send(rank, Started{rank + 2});
      if (++started_ == count_) {
        all_started_ = true;
        all_started_at_ = Clock::now();
      }
    } else if (!agent.told && is("kill")) {
      agent.told = true;
      last_told_at_ = Clock::now();
      Exited exited;
      exited.exit = -1;
      exited.signal = 15;
      exited.asked = true;
      send(rank, exited);
    }
  }

  void die() {
    died_ = true;
    died_at_ = last_told_at_ = Clock::now();
    const int victim = count_ > 1 ? 1 : 0;
    agents_[static_cast<size_t>(victim)].told = true;
    Exited exited;
    exited.exit = -1;
    exited.signal = 9;
    send(victim, exited);
  }

  std::vector<Agent> agents_;
  int count_, port_, epoll_ = -1, next_ = 0, connecting_ = 0, started_ = 0, closed_ = 0;
  bool all_started_ = false, died_ = false;
  std::string secret_;
  Clock::time_point began_, all_started_at_, died_at_, last_told_at_;
};

}  // namespace

int main(int argc, char** argv) {
  int count = 0;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--ntasks=", 9) == 0) count = std::atoi(argv[i] + 9);
    if (std::strcmp(argv[i], "--sweep") == 0) return 0;
  }
  const char* endpoint = std::getenv(dl::env::kControl);
  const char* secret = std::getenv(dl::env::kSecret);
  const char* report = std::getenv("BENCH_STORM");
  if (count < 1 || endpoint == nullptr || secret == nullptr || report == nullptr) {
    std::fprintf(stderr, "storm: is started by dlrun as srun, with BENCH_STORM in the environment\n");
    return 2;
  }
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  const auto address = parse_endpoint(endpoint);
  if (!address) return 2;
  Storm storm(count, address->second, secret);
  storm.run();
  storm.report(report);
  return 0;
}
