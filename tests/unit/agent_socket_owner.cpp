// SPDX-License-Identifier: Apache-2.0
// Whose a connection is, from the kernel's tables.
#include "launcher/agent/socket_owner.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/unique_fd.h"

namespace dl::agent {
namespace {

const char* const kTable4 =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 100 1 0 100 0 0 10 0\n"
    "   1: 0200000A:9C40 0100000A:1F90 01 00000000:00000000 02:000000A0 00000000  1000        0 101 2 0 20 4 30 10 -1\n"
    "   2: 0200000A:9C40 0100000A:1F91 01 00000000:00000000 02:000000A0 00000000  1001        0 102 2 0 20 4 30 10 -1\n"
    "rubbish\n   3: zz:9C40 0100000A:1F90 01\n";
const char* const kTable6 =
    "  sl  local_address                         remote_address                        st tx_queue rx_queue tr\n"
    "   0: 0000000000000000FFFF00000200000A:9C41 0000000000000000FFFF00000100000A:1F90 01 00000000:00000000 "
    "00:00000000 "
    "00000000  1002        0 103 1\n"
    "   1: 000080FE00000000FF005450B6AD1DFE:9C42 000080FE00000000FF005450B6AD1DFF:1F90 01 00000000:00000000 "
    "00:00000000 "
    "00000000  1003        0 104 1\n";

TEST(SocketOwner, IsFoundByBothPortsAndTheAddress) {
  EXPECT_EQ(owner_in(kTable4, {"10.0.0.2", 40000, 8080}), (SocketOwner{1000, 101}));
  EXPECT_EQ(owner_in(kTable4, {"::ffff:10.0.0.2", 40000, 8080}), (SocketOwner{1000, 101}))
      << "as a server that listens on IPv6 sees it";
  EXPECT_EQ(owner_in(kTable4, {"10.0.0.2", 40000, 8081}), (SocketOwner{1001, 102}));
  EXPECT_EQ(owner_in(kTable4, {"10.0.0.3", 40000, 8080}), std::nullopt);
  EXPECT_EQ(owner_in(kTable4, {"10.0.0.2", 40001, 8080}), std::nullopt);
  EXPECT_EQ(owner_in(kTable4, {"name", 40000, 8080}), std::nullopt);
  EXPECT_EQ(owner_in(kTable6, {"10.0.0.2", 40001, 8080}), (SocketOwner{1002, 103}));
  EXPECT_EQ(owner_in(kTable6, {"fe80::5054:ff:fe1d:adb6", 40002, 8080}), (SocketOwner{1003, 104}));
  EXPECT_EQ(owner_in("", {"10.0.0.2", 1, 1}), std::nullopt);
}

TEST(SocketOwner, OfAConnectionOfThisProcess) {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  const int server_port = ntohs(address.sin_port);
  ASSERT_EQ(::getsockname(client.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  EXPECT_EQ(socket_owner({"127.0.0.1", ntohs(address.sin_port), server_port}), ::getuid());
  EXPECT_EQ(socket_owner({"127.0.0.1", ntohs(address.sin_port), server_port + 1}), std::nullopt);
  EXPECT_EQ(socket_process({"127.0.0.1", ntohs(address.sin_port), server_port}), ::getpid());
  EXPECT_EQ(socket_process({"127.0.0.1", ntohs(address.sin_port), server_port + 1}), 0);
}

}  // namespace
}  // namespace dl::agent
