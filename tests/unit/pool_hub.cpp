// SPDX-License-Identifier: Apache-2.0
// Connections of a pool by themselves: peers that are busy, hosts and addresses that are not there, and want of
// descriptors.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <ctime>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "launcher/pool/hub.h"

using namespace dl;
using namespace dl::pool;

namespace {

const std::string kSecret(kSecretBytes, 's');

// Two ends of a connection from a member to another.
class Ends {
 public:
  Ends() : acceptor(kSecret), connector(kSecret) {
    if (!acceptor.open() || !connector.open() || !acceptor.listen("127.0.0.1", 0)) return;
    auto made = connector.connect(endpoint("127.0.0.1", acceptor.port()), Who::kMember, 7);
    if (!made) return;
    link = *made;
    for (int i = 0; i < 1000 && !is_open; ++i) {
      acceptor.wait(1);
      for (const Event& event : connector.wait(1)) is_open = is_open || event.what == Event::What::kOpened;
    }
  }
  Hub acceptor, connector;
  Link link = 0;
  bool is_open = false;
};

}  // namespace

TEST(PoolHub, AConnectionToAPeerThatIsTooBusyToReadIsKept) {
  Ends ends;
  ASSERT_TRUE(ends.is_open);
  Message message;
  message.kind = Kind::kForward;
  message.bytes.resize(kMostBytes, 'b');
  ends.connector.send(ends.link, message);
  for (const int64_t end = monotonic_ms() + 8000; monotonic_ms() < end;)
    ASSERT_TRUE(ends.connector.wait(100).empty()) << "after " << end - monotonic_ms() << " ms less than 8 s";
  bool came = false;
  for (int i = 0; i < 10000 && !came; ++i) {
    ASSERT_TRUE(ends.connector.wait(0).empty());
    for (const Event& event : ends.acceptor.wait(1)) came = came || event.message.bytes == message.bytes;
  }
  EXPECT_TRUE(came);
}

TEST(PoolHub, WhoeverConnectsWhenThereAreTooFewDescriptorsIsTakenInLaterAndMeanwhileNoCpuIsUsed) {
  Hub acceptor(kSecret), connector(kSecret);
  ASSERT_TRUE(acceptor.open() && connector.open() && acceptor.listen("127.0.0.1", 0));
  ASSERT_TRUE(connector.connect(endpoint("127.0.0.1", acceptor.port()), Who::kClient));
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(0);
  ::close(next);
  const rlimit none{static_cast<rlim_t>(next), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto cpu_seconds = [] {
    timespec now = {};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  };
  const double began = cpu_seconds();
  acceptor.wait(1000);
  const double used = cpu_seconds() - began;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_LT(used, 0.2);
  bool is_open = false;
  for (int i = 0; i < 1000 && !is_open; ++i) {
    acceptor.wait(1);
    for (const Event& event : connector.wait(1)) is_open = is_open || event.what == Event::What::kOpened;
  }
  EXPECT_TRUE(is_open);
}
