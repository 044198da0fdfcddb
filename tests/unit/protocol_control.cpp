// SPDX-License-Identifier: Apache-2.0
#include "launcher/protocol/control_protocol.h"

#include <gtest/gtest.h>

namespace dl::protocol {
namespace {

TEST(ControlProtocolTest, EveryMessageIsReadBack) {
  Start start;
  start.context.rank = 3;
  start.context.master_addr = "10.0.0.1";
  start.context.cpus_per_learner = 4;
  start.context.launcher_store = true;
  start.context.store_addr = "10.0.0.2";
  start.context.store_port = 5555;
  start.families = {"torch", "mpi"};
  start.environment = {{"A", "b=c"}};
  start.forced = {{"X", "\n\""}};
  start.command = {"python3", "train.py", "--x=ü"};
  start.container = {"/i.sqfs", ImageForm::kSquashfs, "charliecloud", {"/a", "/b"}};
  start.log = "/a b/c";
  start.prefix = true;
  start.line_prefix = "[2:1] ";
  start.serves = true;
  JobStatus status;
  status.job = "12";
  status.learners = {{0, "n1", 42, "PROCESSING", 5, 4, 100, "slow"}};
  status.vote = {3, 4, 2, 6, "loader stalls 40 %"};
  const ControlMessage messages[] = {
      Hello{"agent", "ff", 1, 2, "n1", "10.0.0.1", 4711, 4712, 4713, {4714}, 42, false, true, "why", 3},
      Started{7},
      StepReport{1, true, 2, 3},
      Progress{1, 2, 3, 4, 5},
      Notice{15},
      Exited{-1, 9, true, "why", 3, true, "KeyError: 1", {"a", "b"}, {7, "full"}},
      start,
      Request{1, 2},
      Decide{1, 2, 3},
      Withdraw{4},
      Signal{15, true},
      Kill{500},
      Ping{9},
      Pause{"because"},
      StatusQuery{},
      Reply{true, "ok"},
      status,
      Stalled{60000},
      LogSize{123456789012},
      LogLost{4096, "write /job/log: No space left on device", "standard output: Disk quota exceeded"},
      StandingStill{41, "S", 60000, {"a"}},
      Stacks{"/a b/c"},
      Again{},
      Grow{2},
      Fetch{{"/libexec/dl-data", "fetch", "--hold"}, "/jobs/7/data/n1.json"},
      Fetched{"fetching", 10, 20, 1, 2, 5, false, 75, "the server does not answer"},
      GpuUse{97, 5000, 2, 4000, 1 << 20, 300'000, 1500, 2000},
      Use{10'000, 9990, 1 << 30, 2, -1, 4096},
      Pmix{"{\"type\":\"done\"}"},
      WhoConnects{7, "fe80::1", 40000, 8080},
      Connects{7, 1000},
      OpenSession{1, "ab", "cd", 4711},
      Resume{1, "ab", 5, 2},
      Resumed{"cd", 6, 3},
      Voted{-2, "a \"b\""}};
  static_assert(std::size(messages) == std::variant_size_v<ControlMessage>);
  for (const ControlMessage& message : messages) {
    std::string line = encode(message);
    ASSERT_EQ(line.find('\n'), line.size() - 1);
    auto read = decode(line);
    ASSERT_TRUE(read) << line << read.error().text;
    EXPECT_EQ(read->index(), message.index());
    EXPECT_EQ(encode(*read), line);
  }
}

// After an upgrade an agent that is kept for the next attempt runs the new program, and its dlrun still the old one.
TEST(ControlProtocolTest, AStartOfAnOlderDlrunIsRead) {
  const auto start = decode(R"({"type":"start","log":"/a","prefix":true,"quiet":false})");
  ASSERT_TRUE(start) << start.error().text;
  EXPECT_TRUE(std::get<Start>(*start).prefix);
  EXPECT_EQ(std::get<Start>(*start).line_prefix, "");
}

TEST(ControlProtocolTest, NonsenseIsRefused) {
  for (const char* line : {"", "{", "[]", "1", "{}", R"({"type":1})", R"({"type":"hello","rank":"one"})",
                           R"({"type":"start","families":{"a":1}})", R"({"type":"kill","grace_ms":[]})",
                           R"({"type":"resume","token":1})", R"({"type":"ping","received":"many"})"})
    EXPECT_FALSE(decode(line)) << line;
  EXPECT_EQ(decode(R"({"type":"of_the_future"})").error().code, Errc::kUnsupported);
  EXPECT_TRUE(decode(R"({"type":"ping","new":1})")) << "unknown members are for later versions";
}

TEST(ControlProtocolTest, LinesAreSplitWhereverTheStreamIsCut) {
  std::string stream = "one\ntwo\n\nthree\nrest";
  for (size_t cut = 0; cut <= stream.size(); ++cut) {
    LineSplitter splitter(100);
    auto first = splitter.feed(stream.data(), cut);
    auto second = splitter.feed(stream.data() + cut, stream.size() - cut);
    ASSERT_TRUE(first && second);
    first->insert(first->end(), second->begin(), second->end());
    EXPECT_EQ(*first, (std::vector<std::string>{"one", "two", "", "three"}));
  }
}

TEST(ControlProtocolTest, ALineBeyondTheLimitIsRefused) {
  LineSplitter splitter(10);
  EXPECT_TRUE(splitter.feed("0123456789", 10));
  EXPECT_FALSE(splitter.feed("x", 1));
}

TEST(ControlProtocolTest, Secrets) {
  auto a = make_secret(), b = make_secret();
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->size(), 32U);
  EXPECT_NE(*a, *b);
  EXPECT_TRUE(same_secret(*a, *a));
  EXPECT_FALSE(same_secret(*a, *b));
  EXPECT_FALSE(same_secret(*a, a->substr(1)));
  EXPECT_FALSE(same_secret("", *a));
}

TEST(ControlProtocolTest, Endpoints) {
  for (const auto& [host, port] :
       std::vector<std::pair<std::string, int>>{{"10.0.0.1", 1}, {"fe80::1", 65535}, {"n1", 5}}) {
    auto read = parse_endpoint(format_endpoint(host, port));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->first, host);
    EXPECT_EQ(read->second, port);
  }
  for (const char* text : {"", ":", "host", "host:", ":5", "host:0", "host:65536", "host:5x", "[]:5"})
    EXPECT_FALSE(parse_endpoint(text)) << text;
}

}  // namespace
}  // namespace dl::protocol
