// SPDX-License-Identifier: Apache-2.0
// The records that scontrol --oneliner prints: nodes, partitions, licences.
#include "launcher/slurm_cli/records.h"

#include <gtest/gtest.h>

namespace dl::slurm_cli {
namespace {

// Of Slurm 22.05.8.
constexpr const char* kNode =
    "NodeName=n1 Arch=x86_64 CoresPerSocket=4  CPUAlloc=1 CPUEfctv=4 CPUTot=4 CPULoad=8.15 AvailableFeatures=(null) "
    "ActiveFeatures=(null) Gres=gpu:a100:2(S:0) NodeAddr=127.0.0.1 NodeHostName=n1 Port=17001 Version=22.05.8 "
    "OS=Linux 6.1.0-18-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1 (2024-02-01)  RealMemory=12052 AllocMem=0 "
    "FreeMem=N/A Sockets=1 Boards=1 State=MIXED+DRAIN ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A "
    "Partitions=batch,borrow  BootTime=2026-11-20T01:00:00 CfgTRES=cpu=4,mem=12052M,billing=4,gres/gpu=2 "
    "AllocTRES=cpu=1,gres/gpu=1 CapWatts=n/a Reason=bad disk: sda=failed, as of mon=day [root@2026-11-21T03:00:00]\n";

TEST(Record, HasTheValuesOfOneLine) {
  const Record node(kNode);
  EXPECT_EQ(node.value("NodeName"), "n1");
  EXPECT_EQ(node.value("CPUAlloc"), "1") << "behind two blanks";
  EXPECT_EQ(node.value("Gres"), "gpu:a100:2(S:0)");
  EXPECT_EQ(node.value("MCS_label"), "");
  EXPECT_EQ(node.value("Nodename"), "") << "keys are as Slurm writes them";
  EXPECT_EQ(node.value("Node"), "");
  EXPECT_EQ(node.value(""), "");
}

TEST(Record, AValueMayHaveBlanksAndSignsOfEquality) {
  const Record node(kNode);
  EXPECT_EQ(node.value("OS"), "Linux 6.1.0-18-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1 (2024-02-01)");
  EXPECT_EQ(node.value("CfgTRES"), "cpu=4,mem=12052M,billing=4,gres/gpu=2");
  EXPECT_EQ(node.value("Reason"), "bad disk: sda=failed, as of mon=day [root@2026-11-21T03:00:00]");
  EXPECT_EQ(Record("Reason=  two   blanks = here =x").value("Reason"), "two blanks = here =x");
}

TEST(Record, OfAKeyThatOccursTwiceTheFirstCounts) {
  EXPECT_EQ(Record("NodeName=n1 State=DOWN Reason=was State=IDLE yesterday").value("State"), "DOWN");
  EXPECT_EQ(Record("NodeName=n1 State= State=IDLE").value("State"), "");
}

TEST(Record, SlurmsWordsForNoneAreNone) {
  const Record record("A=(null) B=N/A C=n/s D=None E= F=none G=(null)x");
  for (const char* key : {"A", "B", "C", "D", "E"}) EXPECT_EQ(record.value(key), "") << key;
  EXPECT_EQ(record.value("F"), "none");
  EXPECT_EQ(record.value("G"), "(null)x");
}

TEST(Record, TheLastValueEndsWithTheLine) {
  EXPECT_EQ(Record("NodeName=n1 NodeAddr=10.0.0.1\n").value("NodeAddr"), "10.0.0.1");
  EXPECT_EQ(Record("NodeName=n1 NodeAddr=10.0.0.1\nNodeName=n2 Port=2").value("NodeAddr"), "10.0.0.1");
  EXPECT_EQ(Record("NodeName=n1 NodeAddr=10.0.0.1\nNodeName=n2 Port=2").value("Port"), "");
  EXPECT_EQ(Record("NodeName=n1 NodeAddr=10.0.0.1 \r\n").value("NodeAddr"), "10.0.0.1");
  EXPECT_EQ(Record("\n \n  QOS=normal(1)\n").value("QOS"), "normal(1)") << "the first line that is not empty";
}

TEST(Record, OfWhatIsNoRecordNothingIsRead) {
  for (const char* text : {"", "\n", "  ", "=", "=x", "NodeName", "slurm_load_node error: Invalid node name specified"})
    EXPECT_EQ(Record(text).value("NodeName"), "") << text;
  EXPECT_EQ(Record("User Limits").value("User"), "");
}

TEST(ParseRecords, TakesTheLinesThatHaveTheKey) {
  const auto records =
      parse_records("\nNodeName=n1 State=IDLE\n\nNo nodes\nNodeName= State=IDLE\nNodeName=n2 State=DOWN", "NodeName");
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].value("NodeName"), "n1");
  EXPECT_EQ(records[1].value("State"), "DOWN");
  EXPECT_TRUE(parse_records("", "NodeName").empty());
  EXPECT_TRUE(parse_records("PartitionName=batch\n", "NodeName").empty());
}

TEST(ParseLicences, HaveTheirNumbersAndWhereTheyAreFrom) {
  const auto licences = parse_licences(
      "LicenseName=dl_nlp/borrow Total=3 Used=2 Free=1 Reserved=0 Remote=no\n"
      "LicenseName=far@server Total=10 Used=0 Free=10 Reserved=0 Remote=yes LastConsumed=0 LastDeficit=0\n"
      "LicenseName=half Total=5\nLicenseName=odd Total=many Used=0\nLicenseName=(null) Total=1\n"
      "No licenses configured in Slurm.\n");
  ASSERT_EQ(licences.size(), 3U);
  EXPECT_EQ(licences[0].name, "dl_nlp/borrow");
  EXPECT_EQ(licences[0].total, 3);
  EXPECT_EQ(licences[0].used, 2);
  EXPECT_EQ(licences[0].free, 1);
  EXPECT_FALSE(licences[0].remote);
  EXPECT_TRUE(licences[1].remote);
  EXPECT_EQ(licences[2].total, 5);
  EXPECT_EQ(licences[2].used, 0);
}

}  // namespace
}  // namespace dl::slurm_cli
