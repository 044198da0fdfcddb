// SPDX-License-Identifier: Apache-2.0
// storm serve          our server; prints its port, and ends at the end of its standard input
// storm clients PORT N N clients of TCPStore, each doing what init_process_group makes a rank do; prints the seconds
//
// Each client: connect, VALIDATE and PING; ADD to the count of ranks; SET an address of 64 bytes; WAIT for rank 0's and
// GET it; WAIT for those of its eight next neighbours and MULTI_GET them; BARRIER with all. At most 512 connections are
// being made at a time, so that no listen queue (4096 at most on common kernels) drops one.
#include <fcntl.h>
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

#include "launcher/rendezvous/tcp_store_server.h"
#include "launcher/rendezvous/wire.h"

namespace {

using namespace dl::rendezvous;

constexpr int kConnecting = 512, kNeighbours = 8;
constexpr size_t kValue = 64;

struct Client {
  int fd = -1, stage = 0;
  size_t awaited = 0;  // bytes of the reply still to come
};

std::string key(int rank) {
  return "/rank/" + std::to_string(rank);
}
void put_op(std::string* out, Op op) {
  put_u8(out, static_cast<uint8_t>(op));
}
void put_wait(std::string* out, const std::vector<std::string>& keys, Op op = Op::kWait) {
  put_op(out, op);
  put_i64(out, static_cast<int64_t>(keys.size()));
  for (const std::string& k : keys) put_text(out, k);
}

// What is sent in a stage, and how long the reply is. Empty: done.
std::string request(int rank, int count, int stage, size_t* reply) {
  std::string out;
  std::vector<std::string> neighbours;
  for (int i = 1; i <= std::min(kNeighbours, count - 1); ++i) neighbours.push_back(key((rank + i) % count));
  switch (stage) {
    case 0:
      put_op(&out, Op::kValidate), put_u32(&out, kMagic);
      put_op(&out, Op::kPing), put_u32(&out, static_cast<uint32_t>(rank));
      *reply = 4;
      break;
    case 1:
      put_op(&out, Op::kAdd), put_text(&out, "init/"), put_i64(&out, 1);
      *reply = 8;
      break;
    case 2:
      put_op(&out, Op::kSet), put_text(&out, key(rank)), put_text(&out, std::string(kValue, 'a'));
      put_wait(&out, {key(0)});
      *reply = 1;
      break;
    case 3:
      put_op(&out, Op::kGet), put_text(&out, key(0));
      *reply = 8 + kValue;
      break;
    case 4:
      put_wait(&out, neighbours);
      *reply = 1;
      break;
    case 5:
      put_wait(&out, neighbours, Op::kMultiGet);
      *reply = neighbours.size() * (8 + kValue);
      break;
    case 6:
      put_op(&out, Op::kBarrier), put_text(&out, "/barrier"), put_i64(&out, count);
      *reply = 1;
      break;
    default:
      break;
  }
  return out;
}

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "storm: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

void more_descriptors() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 1 << 20);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

int serve() {
  auto server = TcpStoreServer::start();
  if (!server) return 1;
  std::printf("%d\n", (*server)->port());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}

int clients(int port, int count) {
  more_descriptors();
  std::vector<Client> all(static_cast<size_t>(count));
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int next = 0, connecting = 0, done = 0;
  const auto began = std::chrono::steady_clock::now();
  std::vector<epoll_event> events(1024);
  auto advance = [&](int rank) {
    Client& c = all[static_cast<size_t>(rank)];
    const std::string out = request(rank, count, c.stage, &c.awaited);
    if (out.empty()) {
      ++done;
      return;
    }
    ++c.stage;
    if (::send(c.fd, out.data(), out.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(out.size())) fail("send");
  };
  while (done < count) {
    for (; next < count && connecting < kConnecting; ++next, ++connecting) {
      Client& c = all[static_cast<size_t>(next)];
      c.fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
      if (c.fd < 0) fail("socket");
      const int one = 1;
      ::setsockopt(c.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
      if (::connect(c.fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 && errno != EINPROGRESS)
        fail("connect");
      epoll_event event{};
      event.events = EPOLLOUT;
      event.data.u32 = static_cast<uint32_t>(next);
      ::epoll_ctl(epoll, EPOLL_CTL_ADD, c.fd, &event);
    }
    const int n = ::epoll_wait(epoll, events.data(), static_cast<int>(events.size()), 60000);
    if (n <= 0) fail("no answer for 60 s");
    for (int i = 0; i < n; ++i) {
      const auto rank = static_cast<int>(events[static_cast<size_t>(i)].data.u32);
      Client& c = all[static_cast<size_t>(rank)];
      if (c.stage == 0) {
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.u32 = static_cast<uint32_t>(rank);
        ::epoll_ctl(epoll, EPOLL_CTL_MOD, c.fd, &event);
        advance(rank);
        continue;
      }
      char buffer[4096];
      const ssize_t got = ::recv(c.fd, buffer, std::min(sizeof buffer, std::max<size_t>(c.awaited, 1)), 0);
      if (got <= 0) fail("the server closed a connection");
      c.awaited -= static_cast<size_t>(got);
      if (c.awaited > 0) continue;
      if (c.stage == 1) --connecting;  // its ping was answered
      advance(rank);
    }
  }
  std::printf("%.6f\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "serve") return serve();
  if (argc == 4 && std::string(argv[1]) == "clients") return clients(std::atoi(argv[2]), std::atoi(argv[3]));
  std::fprintf(stderr, "usage: storm serve | storm clients PORT N\n");
  return 2;
}
