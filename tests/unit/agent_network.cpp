// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

#include "launcher/agent/held_port.h"
#include "launcher/agent/network_interface.h"

namespace dl::agent {
namespace {

TEST(NetworkInterface, TheLoopbackIsKnownInEveryForm) {
  for (const char* address : {"127.0.0.1", "::ffff:127.0.0.1"}) EXPECT_EQ(interface_of(address), "lo") << address;
}

TEST(NetworkInterface, AnAddressThatNobodyHasIsUnknown) {
  for (const char* address :
       {"", "192.0.2.1", "::ffff:192.0.2.1", "2001:db8::1", "fe80::1%", "name", "%lo", "127.0.0.1:80"})
    EXPECT_EQ(interface_of(address), "") << address;
}

TEST(HeldPort, SeveralAreDifferentAndMoveWithTheirObjects) {
  std::vector<HeldPort> ports(5);
  std::set<int> numbers;
  for (HeldPort& port : ports) {
    ASSERT_TRUE(port.hold());
    numbers.insert(port.port());
  }
  EXPECT_EQ(numbers.size(), ports.size());
  EXPECT_EQ(numbers.count(0), 0U);
  HeldPort moved = std::move(ports[0]);
  EXPECT_EQ(numbers.count(moved.port()), 1U);
}

}  // namespace
}  // namespace dl::agent
