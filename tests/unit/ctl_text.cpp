// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/text.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "launcher/ctl/job_view.h"
#include "launcher/ctl/log_files.h"

namespace dl::ctl {
namespace {

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/dl-ctl-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~Folder() { std::system(("rm -rf " + path_).c_str()); }  // NOLINT(cert-env33-c,concurrency-mt-unsafe)
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  void append(const std::string& name, const std::string& text) const {
    std::ofstream(path_ + "/" + name, std::ios::app) << text;
  }

 private:
  std::string path_;
};

TEST(CtlText, Tables) {
  EXPECT_EQ(table({{"A", "LONG"}, {"longer", "x"}, {"ü", "y", "z"}}), "A       LONG\nlonger  x\nü       y     z\n");
  EXPECT_EQ(table({}), "");
}

TEST(CtlText, Ages) {
  EXPECT_EQ(age_text(-5), "0s");
  EXPECT_EQ(age_text(59999), "59s");
  EXPECT_EQ(age_text(130000), "2m10s");
  EXPECT_EQ(age_text(3900000), "1h05m");
  EXPECT_EQ(age_text(100LL * 3600 * 1000), "4d04h");
}

TEST(CtlText, NothingMovesTheTerminalButColours) {
  EXPECT_EQ(terminal_text("plain \ttext ü"), "plain \ttext ü");
  EXPECT_EQ(terminal_text("\x1b[31mred\x1b[0m"), "\x1b[31mred\x1b[0m\x1b[0m");
  EXPECT_EQ(terminal_text("\x1b[2Jgone"), "\\x1b[2Jgone");
  EXPECT_EQ(terminal_text("\x1b]0;title\a"), "\\x1b]0;title\\x07");
  EXPECT_EQ(terminal_text("\x1b"), "\\x1b");
  EXPECT_EQ(terminal_text("\x1b["), "\\x1b[");
  EXPECT_EQ(terminal_text("\x1b[" + std::string(100, '1') + "m").substr(0, 5), "\\x1b[");
  EXPECT_EQ(terminal_text("\xc2\x9b"
                          "2J"),
            "\\x9b2J")
      << "a control of one byte, in UTF-8";
  EXPECT_EQ(terminal_text(" 10%\r 50%\r100%\r"), "100%");
  EXPECT_EQ(terminal_text(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(terminal_text("\r\r"), "");
}

TEST(LogFiles, AreListedByNumber) {
  const Folder folder;
  const record::JobDir dir(folder.path());
  EXPECT_TRUE(list_attempts(dir).empty());
  ASSERT_TRUE(dir.prepare(1));
  ASSERT_TRUE(dir.prepare(10));
  ASSERT_TRUE(dir.prepare(2));
  EXPECT_EQ(list_attempts(dir), (std::vector<int>{1, 2, 10}));
  for (const char* name : {"learner-0.log", "learner-11.log.zst", "learner-2.log", "learner-2.log.zst",
                           "learner-3.log.zst.tmp", "learner-x.log", "learner-1.error.json"}) {
    folder.append(std::string("logs/attempt-2/") + name, "");
  }
  EXPECT_EQ(list_learner_logs(dir, 2), (std::vector<int>{0, 2, 11}));
}

TEST(JobView, ReadsARecordAndSurvivesABrokenOne) {
  const Folder folder;
  folder.append(
      "events.jsonl",
      "{\"time_ms\":1000,\"attempt\":1,\"state\":\"DEPLOY\",\"reason\":\"\"}\n"
      "{\"time_ms\":2000,\"attempt\":1,\"learner\":0,\"state\":\"PROCESSING\",\"reason\":\"\",\"host\":\"n1\"}\n"
      "not json\n"
      "{\"time_ms\":3000,\"attempt\":1,\"state\":\"HALTED\",\"reason\":\"paused\",\"step\":40}\n");
  folder.append("plan.json",
                "{\"framework\":\"pytorch\",\"world_size\":2,\"nodes\":[{\"name\":\"n1\"},{\"name\":\"n2\"},7],"
                "\"checkpoint\":{\"path\":\"/c\",\"keep\":3,\"every_s\":600}}");
  Job job;
  job.id = "local-1";
  job.local = true;
  job.dir = record::JobDir(folder.path());
  JobView view = view_job(job, true);
  EXPECT_EQ(view.shown.state, record::JobState::kHalted);
  EXPECT_EQ(view.shown.reason, "paused");
  EXPECT_EQ(view.attempt, 1);
  EXPECT_EQ(view.history.size(), 2U);
  EXPECT_EQ(view.plan.framework, "pytorch");
  EXPECT_EQ(view.plan.node_list, "n[1-2]");
  EXPECT_EQ(view.plan.checkpoint, "/c,every=10m,keep=3");
  ASSERT_EQ(view.learners.size(), 1U);
  EXPECT_EQ(view.learners[0].host, "n1");
  EXPECT_NE(view_text(view).find("HALTED"), std::string::npos);

  const Folder broken;
  broken.append("plan.json", "[[[");
  broken.append("events.jsonl", std::string(1000, '\xff'));
  broken.append("control.json", "{\"port\":\"x\"}");
  job.dir = record::JobDir(broken.path());
  view = view_job(job, true);
  EXPECT_EQ(view.shown.reason, "nothing is recorded");
  EXPECT_FALSE(view_text(view).empty());
}

}  // namespace
}  // namespace dl::ctl
