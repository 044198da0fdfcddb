// SPDX-License-Identifier: Apache-2.0
// Connections of a pool by themselves: peers that are busy, hosts and addresses that are not there, and want of
// descriptors.
#include <gtest/gtest.h>

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
