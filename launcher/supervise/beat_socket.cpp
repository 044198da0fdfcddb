// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/beat_socket.h"

#include <linux/errqueue.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/base/unique_fd.h"

namespace dl::supervise {

using namespace protocol;

namespace {

constexpr int kAtOnce = 256;  // datagrams that are read before the loop does other work

// Space for one control message of sendmsg() or recvmsg(), suitably aligned.
union Control {
  cmsghdr align;
  char bytes[512];
};

int port_of(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

bool same_host(const sockaddr_storage& a, const sockaddr_storage& b) {
  if (a.ss_family != b.ss_family) return false;
  if (a.ss_family == AF_INET6)
    return IN6_ARE_ADDR_EQUAL(&reinterpret_cast<const sockaddr_in6&>(a).sin6_addr,
                              &reinterpret_cast<const sockaddr_in6&>(b).sin6_addr);
  return reinterpret_cast<const sockaddr_in&>(a).sin_addr.s_addr ==
         reinterpret_cast<const sockaddr_in&>(b).sin_addr.s_addr;
}

// An IPv6 socket also serves IPv4 addresses; a machine without IPv6 gets one for IPv4 alone.
UniqueFd bound_socket(int family) {
  UniqueFd fd(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fd;
  sockaddr_storage any{};
  any.ss_family = static_cast<sa_family_t>(family);
  const int one = 1, zero = 0;
  // The kernel then reports each refused destination in the error queue. On an IPv6 socket, IP_RECVERR is for the
  // destinations with an IPv4 address.
  ::setsockopt(fd.get(), SOL_IP, IP_RECVERR, &one, sizeof one);
  if (family == AF_INET6) {
    ::setsockopt(fd.get(), SOL_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    ::setsockopt(fd.get(), SOL_IPV6, IPV6_RECVERR, &one, sizeof one);
    ::setsockopt(fd.get(), SOL_IPV6, IPV6_RECVPKTINFO, &one, sizeof one);
  }
  const socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), size) != 0) fd.reset();
  return fd;
}

}  // namespace

bool same_peer(const BeatPeer& a, const BeatPeer& b) {
  return a.size > 0 && b.size > 0 && same_host(a.address, b.address) && port_of(a.address) == port_of(b.address);
}

Status BeatSocket::open() {
  UniqueFd fd = bound_socket(AF_INET6);
  if (!fd) {
    family_ = AF_INET;
    fd = bound_socket(AF_INET);
  }
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (!fd || ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0)
    return errno_error("open a port for heartbeats", errno);
  auto* poll = new uv_poll_t{};
  if (int rc = uv_poll_init(loop_, poll, fd.get()); rc != 0) {
    delete poll;
    return Error{Errc::kIo, std::string("watch the port for heartbeats: ") + uv_strerror(rc)};
  }
  poll->data = this;
  poll_ = poll;
  fd_ = fd.release();
  port_ = port_of(own);
  const auto on_event = [](uv_poll_t* handle, int status, int /*events*/) {
    auto* self = static_cast<BeatSocket*>(handle->data);
    if (self == nullptr) return;
    self->read();
    // libuv stops polling after an error. The only errors here are refused destinations, so polling is started again.
    if (status < 0 && self->poll_ != nullptr) uv_poll_start(handle, UV_READABLE, handle->poll_cb);
  };
  uv_poll_start(poll_, UV_READABLE, on_event);
  return {};
}

void BeatSocket::send(const Beat& beat, const Token& token, const BeatPeer& to) {
  if (fd_ < 0 || to.size == 0) return;
  BeatBytes bytes = encode_beat(beat, token);
  iovec part{bytes.data(), bytes.size()};
  Control control{};
  msghdr message{};
  sockaddr_storage address = to.address;
  message.msg_name = &address;
  message.msg_namelen = to.size;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (to.own_known) {
    message.msg_control = control.bytes;
    message.msg_controllen = CMSG_SPACE(sizeof(in6_pktinfo));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_IPV6;
    header->cmsg_type = IPV6_PKTINFO;
    header->cmsg_len = CMSG_LEN(sizeof(in6_pktinfo));
    in6_pktinfo info{};
    info.ipi6_addr = to.own;
    std::memcpy(CMSG_DATA(header), &info, sizeof info);
  }
  // sendmsg() may fail with the error of an earlier datagram, so that a second try is needed.
  for (int i = 0; i < 2; ++i)
    if (::sendmsg(fd_, &message, MSG_NOSIGNAL) >= 0 || errno == EAGAIN) return;
}

bool BeatSocket::read_one() {
  uint8_t bytes[kBeatBytes + 1];
  iovec part{bytes, sizeof bytes};
  Control control{};
  BeatPeer from;
  msghdr message{};
  message.msg_name = &from.address;
  message.msg_namelen = sizeof from.address;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  const ssize_t n = ::recvmsg(fd_, &message, 0);
  if (n < 0) return errno != EAGAIN;
  from.size = message.msg_namelen;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_IPV6 || header->cmsg_type != IPV6_PKTINFO) continue;
    in6_pktinfo info{};
    std::memcpy(&info, CMSG_DATA(header), sizeof info);
    from.own = info.ipi6_addr;
    from.own_known = true;
  }
  if (auto heard = decode_beat(bytes, static_cast<size_t>(n))) handlers_.on_beat(*heard, from);
  return true;
}

void BeatSocket::read() {
  for (int i = 0; i < kAtOnce && fd_ >= 0 && read_one(); ++i) {
  }
  if (fd_ >= 0) read_refusals();
}

void BeatSocket::read_refusals() {
  for (int i = 0; i < kAtOnce && fd_ >= 0; ++i) {
    Control control{};
    BeatPeer to;
    msghdr message{};
    message.msg_name = &to.address;
    message.msg_namelen = sizeof to.address;
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    if (::recvmsg(fd_, &message, MSG_ERRQUEUE) < 0) return;
    to.size = message.msg_namelen;
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
      const bool of_ip = (header->cmsg_level == SOL_IP && header->cmsg_type == IP_RECVERR) ||
                         (header->cmsg_level == SOL_IPV6 && header->cmsg_type == IPV6_RECVERR);
      if (!of_ip || header->cmsg_len < CMSG_LEN(sizeof(sock_extended_err) + sizeof(sockaddr_in))) continue;
      sock_extended_err error{};
      std::memcpy(&error, CMSG_DATA(header), sizeof error);
      sockaddr_storage offender{};
      std::memcpy(&offender, CMSG_DATA(header) + sizeof error,
                  std::min(sizeof offender, header->cmsg_len - CMSG_LEN(sizeof error)));
      // A refusal that a firewall on the way has sent says nothing about the process at the destination.
      if (error.ee_errno == ECONNREFUSED && same_host(offender, to.address)) handlers_.on_refused(to);
    }
  }
}

void BeatSocket::close() {
  if (poll_ == nullptr) return;
  poll_->data = nullptr;
  uv_close(reinterpret_cast<uv_handle_t*>(poll_),
           [](uv_handle_t* handle) { delete reinterpret_cast<uv_poll_t*>(handle); });
  poll_ = nullptr;
  // uv_close has already stopped polling the socket.
  ::close(fd_);
  fd_ = -1;
  port_ = 0;
}

}  // namespace dl::supervise
