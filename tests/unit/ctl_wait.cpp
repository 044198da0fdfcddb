// SPDX-License-Identifier: Apache-2.0
// Why Slurm lets a job wait, from texts that Slurm 22.05.8 and 24.11.5 printed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

#include "launcher/ctl/wait_reason.h"
#include "launcher/ctl/wait_texts.h"
#include "launcher/ctl/wait_why.h"
#include "launcher/slurm_cli/slurm_cli.h"

namespace dl::ctl {
namespace {

// Recorded texts hold local times.
class Wait : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
  }
};

// A waiting job as 22.05.8 prints it, with another reason, other lines and another size.
std::string job_text(const std::string& reason, const std::string& dependency = "(null)",
                     const std::string& size = "NumNodes=1-1 NumCPUs=1 NumTasks=1",
                     const std::string& tres = "TRES=cpu=1,mem=6026M,node=1,billing=1,gres/gpu=1") {
  return "JobId=9 JobName=waits\n"
         "   UserId=root(0) GroupId=root(0) MCS_label=N/A\n"
         "   Priority=1100000 Nice=0 Account=nlp QOS=dl-guaranteed\n"
         "   JobState=PENDING Reason=" +
         reason + " Dependency=" + dependency +
         "\n"
         "   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0\n"
         "   RunTime=00:00:00 TimeLimit=00:10:00 TimeMin=N/A\n"
         "   SubmitTime=2026-11-24T21:44:31 EligibleTime=2026-11-24T22:44:31\n"
         "   AccrueTime=2026-11-24T21:44:31\n"
         "   StartTime=2026-11-24T22:14:31 EndTime=Unknown Deadline=N/A\n"
         "   SuspendTime=None SecsPreSuspend=0 LastSchedEval=2026-11-24T21:44:34 Scheduler=Backfill:*\n"
         "   Partition=batch AllocNode:Sid=login:16342\n"
         "   ReqNodeList=(null) ExcNodeList=(null)\n"
         "   NodeList=\n"
         "   " +
         size +
         " CPUs/Task=1 ReqB:S:C:T=0:0:*:*\n"
         "   " +
         tres +
         "\n"
         "   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*\n"
         "   MinCPUsNode=1 MinMemoryCPU=6026M MinTmpDiskNode=0\n"
         "   Features=(null) DelayBoot=00:00:00\n"
         "   OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)\n"
         "   Command=(null)\n"
         "   WorkDir=/tmp\n"
         "   StdErr=/tmp/slurm-2.out\n"
         "   StdIn=/dev/null\n"
         "   StdOut=/tmp/slurm-2.out\n"
         "   Power=\n"
         "   TresPerNode=gres:gpu:1\n";
}

const char* const kNodes =
    "NodeName=n1 Arch=x86_64 CoresPerSocket=4  CPUAlloc=1 CPUEfctv=4 CPUTot=4 CPULoad=8.15 AvailableFeatures=(null) "
    "ActiveFeatures=(null) Gres=gpu:2 NodeAddr=10.77.38.11 NodeHostName=n1 Version=22.05.8 OS=Linux 6.18.44-fc-v669 #1 "
    "SMP PREEMPT_DYNAMIC @0  RealMemory=24105 AllocMem=6026 FreeMem=16205 Sockets=1 Boards=1 State=MIXED "
    "ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=batch  BootTime=2026-11-24T21:31:24 "
    "SlurmdStartTime=2026-11-24T21:44:13 LastBusyTime=2026-11-24T21:44:13 "
    "CfgTRES=cpu=4,mem=24105M,billing=4,gres/gpu=2 AllocTRES=cpu=1,mem=6026M,gres/gpu=2 CapWatts=n/a CurrentWatts=0 "
    "AveWatts=0 ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s\n"
    "NodeName=n2 Arch=x86_64 CoresPerSocket=4  CPUAlloc=0 CPUEfctv=4 CPUTot=4 CPULoad=14.04 AvailableFeatures=(null) "
    "ActiveFeatures=(null) Gres=gpu:2 NodeAddr=10.77.38.12 NodeHostName=n2 Version=22.05.8 OS=Linux 6.18.44-fc-v669 #1 "
    "SMP PREEMPT_DYNAMIC @0  RealMemory=24105 AllocMem=0 FreeMem=15574 Sockets=1 Boards=1 State=IDLE+DRAIN "
    "ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=batch  BootTime=2026-11-24T21:31:24 "
    "SlurmdStartTime=2026-11-24T21:44:13 LastBusyTime=2026-11-24T21:49:32 "
    "CfgTRES=cpu=4,mem=24105M,billing=4,gres/gpu=2 AllocTRES= CapWatts=n/a CurrentWatts=0 AveWatts=0 "
    "ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s Reason=bad disk, see ticket 7 "
    "[root@2026-11-24T21:44:57]\n";

const char* const kPartition =
    "PartitionName=batch AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL AllocNodes=ALL Default=YES QoS=N/A "
    "DefaultTime=NONE DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO MaxNodes=UNLIMITED MaxTime=00:05:00 "
    "MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED Nodes=n[1-2] PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO "
    "OverSubscribe=NO OverTimeLimit=NONE PreemptMode=REQUEUE State=UP TotalCPUs=8 TotalNodes=2 "
    "SelectTypeParameters=NONE JobDefaults=(null) DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED "
    "TRES=cpu=8,mem=48210M,node=2,billing=8,gres/gpu=4\n";

const char* const kQueue =
    "11|PENDING|1200000|ada|2|2|gres:gpu:2|N/A|N/A|Priority\n"
    "13|PENDING|1200000|ada|2|2|gres:gpu:2|N/A|N/A|AssocMaxJobsLimit\n"
    "12|PENDING|1150000|bob|1|4|N/A|N/A|N/A|Resources\n"
    "9|PENDING|1100000|root|1|1|gres:gpu:1|N/A|N/A|Priority\n"
    "2|RUNNING|1014286|eve|1|1|gres:gpu:2|2026-11-24T21:49:32|2026-11-24T22:30:00|None\n"
    "14_[2-5%2]|PENDING|1100000|root|1|1|N/A|N/A|N/A|JobArrayTaskLimit\n"
    "14_1|RUNNING|1100000|root|1|1|N/A|2026-11-24T21:49:32|2026-11-24T22:00:00|None\n";

const char* const kQosLimits =
    "Current Association Manager state\n\nQOS Records\n\n"
    "QOS=normal(1)\n    UsageRaw=0.000000\n"
    "    GrpTRES=cpu=N(2),mem=N(12052),energy=N(0),node=N(2),gres/gpu=9(4)\n"
    "QOS=dl-guaranteed(3)\n    UsageRaw=0.000000\n"
    "    GrpJobs=N(0) GrpJobsAccrue=N(1) GrpSubmitJobs=N(1) GrpWall=N(0.00)\n"
    "    GrpTRES=cpu=N(0),mem=N(0),energy=N(0),node=N(0),billing=N(0),fs/disk=N(0),vmem=N(0),pages=N(0),gres/gpu=4(3)\n"
    "    "
    "GrpTRESMins=cpu=N(0),mem=N(0),energy=N(0),node=N(0),billing=N(0),fs/disk=N(0),vmem=N(0),pages=N(0),gres/gpu=N(0)\n"
    "    MaxWallPJ=60\n    MaxTRESPJ=cpu=2\n    MaxTRESPN=\n"
    "    Account Limits\n      vision\n        MaxJobsPA=N(0) MaxJobsAccruePA=N(1) MaxSubmitJobsPA=N(1)\n"
    "    User Limits\n      0\n        MaxJobsPU=1(1) MaxJobsAccruePU=N(1) MaxSubmitJobsPU=N(1)\n"
    "        MaxTRESPU=cpu=N(0),mem=N(0),gres/gpu=2(2)\n"
    "      1000\n        MaxJobsPU=1(0) MaxJobsAccruePU=N(1) MaxSubmitJobsPU=N(1)\n";

const char* const kAssocLimits =
    "Current Association Manager state\n\nAssociation Records\n\n"
    "ClusterName=dl Account=nlp UserName= Partition= Priority=0 ID=4\n"
    "    ParentAccount=root(1) Lft=10 DefAssoc=No\n"
    "    GrpTRES=cpu=N(0),mem=N(0),energy=N(0),node=N(0),billing=N(0),fs/disk=N(0),vmem=N(0),pages=N(0),gres/gpu=1(0)\n"
    "    GrpTRESRunMins=cpu=100(0),mem=N(0),gres/gpu=N(0)\n"
    "    MaxJobs= MaxJobsAccrue= MaxSubmitJobs= MaxWallPJ=\n"
    "ClusterName=dl Account=nlp UserName=cloudsdk(1000) Partition= Priority=0 ID=7\n"
    "    MaxJobs=7(0) MaxJobsAccrue= MaxSubmitJobs= MaxWallPJ=\n"
    "ClusterName=dl Account=nlp UserName=root(0) Partition= Priority=0 ID=9\n"
    "    GrpTRES=cpu=N(0),gres/gpu=N(0)\n"
    "    MaxJobs=3(3) MaxJobsAccrue= MaxSubmitJobs= MaxWallPJ=\n";

WaitTexts texts_of(const std::string& job) {
  WaitTexts texts;
  auto parsed = slurm_cli::parse_job_text(job, "9");
  EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().text);
  if (parsed) texts.job = *parsed;
  texts.nodes = kNodes;
  texts.partition = kPartition;
  texts.queue = kQueue;
  texts.priority = "1100000|0|0|0|100000|0|0|1000000|0|\n";
  texts.qos_limits = kQosLimits;
  texts.assoc_limits = kAssocLimits;
  texts.now_s = *slurm_cli::parse_slurm_time("2026-11-24T21:44:31");
  return texts;
}

std::string all_of(const WaitAnswer& answer) {
  std::string text = answer.sentence + "\n";
  for (const std::string& line : answer.lines) text += line + "\n";
  return text + "> " + answer.advice + "\n";
}

std::string said(const std::string& reason, const std::string& dependency = "(null)") {
  return all_of(explain_wait(texts_of(job_text(reason, dependency))));
}

TEST(Amounts, GpusAreCountedOnce) {
  const auto gpus = [](const char* tres) { return parse_amounts(tres).gpus; };
  EXPECT_EQ(gpus("billing=4,cpu=4,gres/gpu=2,gres/gpu:a100=2,mem=1G"), 2);
  EXPECT_EQ(gpus("cpu=4,gres/gpu:a100=2,gres/gpu:h100=3"), 5);
  EXPECT_EQ(gpus("cpu=4,mem=1G,gres/gpumem=80G,gres/shard=4"), -1);
  for (const char* bad : {"", "gres/gpu", "gres/gpu=", "gres/gpu=x", "gres/gpu=-1", "gres/gpu=99999999999999999999"})
    EXPECT_EQ(gpus(bad), -1) << bad;
}

TEST_F(Wait, WhoIsAheadAndWhatIsFree) {
  EXPECT_EQ(
      said("Priority"),
      "job 9 waits: jobs of higher priority are ahead (Priority)\n"
      "2 jobs are ahead of it in partition 'batch', with at least its priority: 11 of ada (2 nodes, 4 GPUs), 12 of "
      "bob (1 node, 4 CPUs)\n"
      "it asks for 1 node, 1 CPU, 1 GPU; free in partition 'batch' are 0 of 2 GPUs, 3 of 4 CPUs, and 0 of 2 nodes "
      "are idle\n"
      "not usable: n2 is IDLE+DRAIN (bad disk, see ticket 7)\n"
      "its priority is 1100000: fair share 100000, QOS 1000000\n"
      "Slurm expects it to start at 22:14:31 (in 30m00s), if those that run now take their whole time limits "
      "and nothing of higher priority comes\n"
      "> \n");
}

TEST_F(Wait, ResourcesNamesThoseWhoHoldThem) {
  const std::string text = said("Resources");
  EXPECT_NE(text.find("waiting for free nodes or GPUs (Resources)"), std::string::npos) << text;
  EXPECT_NE(text.find("running there, by the end of their time limits: 2 of eve (1 node, 2 GPUs) until 22:30:00"),
            std::string::npos)
      << text;
  auto texts = texts_of(job_text("Resources", "(null)", "NumNodes=4-4 NumCPUs=4 NumTasks=4",
                                 "TRES=cpu=4,mem=6026M,node=4,billing=1,gres/gpu=3"));
  EXPECT_NE(all_of(explain_wait(texts)).find("more than the usable nodes of the partition have together"),
            std::string::npos);
}

TEST_F(Wait, WhatNeverStartsSaysSoAndWhatToDo) {
  auto texts = texts_of(job_text("PartitionNodeLimit", "(null)", "NumNodes=7-7 NumCPUs=7 NumTasks=7",
                                 "TRES=cpu=7,mem=42182M,node=7,billing=7"));
  texts.job.values["TresPerNode"] = "(null)";
  const WaitAnswer answer = explain_wait(texts);
  EXPECT_FALSE(answer.can_ever_run);
  EXPECT_EQ(answer.lines[0], "it asks for 7 nodes, 7 CPUs, 41.2 GiB of memory");
  EXPECT_EQ(answer.lines[1], "partition 'batch' has 2 nodes with at most 4 CPUs and 2 GPUs each");
  EXPECT_EQ(answer.advice, "scontrol update JobId=9 NumNodes=N, or scancel 9 and submit it smaller");
  EXPECT_NE(said("PartitionTimeLimit").find("its time limit is 00:10:00; partition 'batch' allows 00:05:00"),
            std::string::npos);
  EXPECT_FALSE(explain_wait(texts_of(job_text("DependencyNeverSatisfied", "afterok:2(failed)"))).can_ever_run);
  EXPECT_TRUE(explain_wait(texts_of(job_text("Priority"))).can_ever_run);
}

// A cluster without slurmdbd: no TRES is called gres/gpu, as no AccountingStorageTRES names it.
class WaitWithoutTres : public Wait {
 protected:
  // 3 nodes of 4 CPUs and 2 GPUs, 22.05.8, and `used` GPUs on each.
  static WaitTexts texts_of(const std::string& reason, const std::string& size, const std::string& form, int used) {
    std::string job = job_text(reason, "(null)", size, "TRES=cpu=1,mem=6026M,node=1,billing=1");
    job.replace(job.find("TresPerNode=gres:gpu:1"), 22, form);
    WaitTexts texts = ctl::texts_of(job);
    texts.nodes.clear();
    for (int node = 1; node <= 3; ++node)
      texts.nodes += "NodeName=n" + std::to_string(node) +
                     " Arch=x86_64 CoresPerSocket=4  CPUAlloc=2 CPUEfctv=4 CPUTot=4 CPULoad=16.83 "
                     "AvailableFeatures=(null) ActiveFeatures=(null) Gres=gpu:2 GresDrain=N/A GresUsed=gpu:" +
                     std::to_string(used) +
                     " NodeAddr=10.77.234.11 NodeHostName=n1 Version=22.05.8 RealMemory=24105 AllocMem=12052 "
                     "FreeMem=12890 Sockets=1 Boards=1 State=MIXED ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A "
                     "MCS_label=N/A Partitions=batch,borrow  BootTime=2026-11-25T07:48:04 "
                     "CfgTRES=cpu=4,mem=24105M,billing=4 AllocTRES=cpu=2,mem=12052M CapWatts=n/a\n";
    texts.queue =
        "9|PENDING|1|root|1|1|N/A|2026-11-25T09:17:56|2026-11-25T09:22:56|Resources\n"
        "1|RUNNING|1|root|1|1|gres:gpu:1|2026-11-24T21:44:00|2026-11-24T21:49:00|None\n"
        "2|RUNNING|1|ada|2|3|N/A|2026-11-24T21:44:00|2026-11-24T21:50:00|None\n"
        "3|RUNNING|1|bob|1|1|N/A|2026-11-24T21:44:00|2026-11-24T21:51:00|None\n";
    texts.queue_gpus =
        "9|1|N/A|N/A|N/A|gres:gpu:1|\n1|1|N/A|gres:gpu:1|N/A|N/A|\n2|3|N/A|N/A|N/A|gres:gpu:1|\n"
        "3|1|gres:gpu:2|N/A|N/A|N/A|\n";
    return texts;
  }
};

TEST_F(WaitWithoutTres, GpusAreCountedAllTheSame) {
  const char* const kOne = "NumNodes=1-1 NumCPUs=1 NumTasks=1";
  const std::string text = all_of(explain_wait(texts_of("Resources", kOne, "TresPerTask=gres:gpu:1", 2)));
  EXPECT_NE(text.find("it asks for 1 node, 1 CPU, 1 GPU; free in partition 'batch' are 0 of 6 GPUs, 6 of 12 CPUs, and "
                      "0 of 3 nodes are idle\n"
                      "running there, by the end of their time limits: 1 of root (1 node, 1 GPU) until 21:49:00, 2 of "
                      "ada (2 nodes, 3 GPUs) until 21:50:00, 3 of bob (1 node, 2 GPUs) until 21:51:00\n"),
            std::string::npos)
      << text;
  EXPECT_TRUE(explain_wait(texts_of("Resources", kOne, "TresPerTask=gres:gpu:1", 2)).can_ever_run);
  const std::string spread =
      all_of(explain_wait(texts_of("Resources", "NumNodes=1 NumCPUs=1 NumTasks=1", "TresPerNode=gres:gpu:2", 1)));
  EXPECT_NE(spread.find("the most that one node has free is 2 CPUs and 1 GPU; memory counts, too"), std::string::npos)
      << spread;
  for (const char* form : {"TresPerJob=gres:gpu:4", "TresPerNode=gres:gpu:2", "TresPerSocket=gres/gpu:2",
                           "TresPerTask=cpu=1,gres/gpu=1", "TresPerNode=gres/gpu:a100=2"})
    EXPECT_NE(all_of(explain_wait(texts_of("Priority", "NumNodes=2-2 NumCPUs=4 NumTasks=4", form, 2)))
                  .find("it asks for 2 nodes, 4 CPUs, 4 GPUs; "),
              std::string::npos)
        << form;
}

TEST_F(WaitWithoutTres, MoreGpusThanThePartitionHasNeverCome) {
  const auto texts = texts_of("PartitionNodeLimit", "NumNodes=4-7 NumCPUs=7 NumTasks=7", "TresPerTask=gres:gpu:1", 2);
  const WaitAnswer answer = explain_wait(texts);
  EXPECT_FALSE(answer.can_ever_run);
  ASSERT_FALSE(answer.lines.empty());
  EXPECT_EQ(answer.lines[0], "it asks for 7 GPUs, and partition 'batch' has 6, so it never starts there");
  EXPECT_EQ(answer.advice, "scancel 9, and submit it with at most 6 GPUs, or to another partition (-p)");
  EXPECT_EQ(explain_wait(texts_of("PartitionConfig", "NumNodes=4-7 NumCPUs=7 NumTasks=7", "TresPerTask=gres:gpu:1", 2))
                .advice,
            answer.advice);
  // Newer versions of Slurm let it wait for free nodes.
  const WaitAnswer waits =
      explain_wait(texts_of("Resources", "NumNodes=4-7 NumCPUs=7 NumTasks=7", "TresPerTask=gres/gpu=1", 2));
  EXPECT_FALSE(waits.can_ever_run);
  EXPECT_EQ(all_of(waits).find("until nodes come back"), std::string::npos) << all_of(waits);
}

TEST_F(Wait, HeldBegunLaterAndDependent) {
  EXPECT_NE(said("JobHeldUser").find("> scontrol release 9 lets it go"), std::string::npos);
  auto texts = texts_of(job_text("JobHeldUser"));
  texts.paused = true;
  EXPECT_EQ(explain_wait(texts).sentence, "job 9 waits: dlctl pause has saved it and holds it (JobHeldUser)");
  EXPECT_EQ(explain_wait(texts).advice, "dlctl resume 9 lets it go on");
  texts = texts_of(job_text("BeginTime"));
  texts.put_back = "time limit: not saved: killed 5 s after Slurm began to end the job";
  EXPECT_NE(all_of(explain_wait(texts)).find("it was put back into the queue: time limit: not saved: killed 5 s after"),
            std::string::npos);
  EXPECT_NE(said("BeginTime").find("it may start at 22:44:31 (in 1h00m)"), std::string::npos);
  const std::string text = said("Dependency", "afterok:2(unfulfilled):14_1,afterany:77(unfulfilled)");
  EXPECT_NE(text.find("job 2 of eve is RUNNING\njob 14_1 of root is RUNNING\n"), std::string::npos) << text;
  EXPECT_EQ(dependency_ids("afterok:12(unfulfilled):13_3,afterany:14+5(failed),singleton"),
            (std::vector<std::string>{"12", "13_3", "14"}));
}

TEST_F(Wait, NodesThatAreOutAreNamedWithTheirReason) {
  const std::string text = said("ReqNodeNotAvail,_UnavailableNodes:n2");
  EXPECT_NE(text.find("a node it asks for is down or reserved"), std::string::npos) << text;
  EXPECT_NE(text.find("n2 is IDLE+DRAIN (bad disk, see ticket 7)"), std::string::npos) << text;
  EXPECT_NE(said("Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions")
                .find("nodes that it needs are down, drained, or kept for a partition of higher priority"),
            std::string::npos);
  EXPECT_NE(said("ReqNodeNotAvail,_May_be_reserved_for_other_job").find("a shorter --time may let it start"),
            std::string::npos);
}

TEST_F(Wait, LimitsHaveTheirNumbers) {
  EXPECT_NE(said("QOSGrpGRES").find("the limit of QOS 'dl-guaranteed' is 4 GPUs (or other GRES); 3 are used\n"),
            std::string::npos)
      << said("QOSGrpGRES");
  EXPECT_NE(said("QOSMaxJobsPerUserLimit").find("is 1 running job of each user; 1 is used"), std::string::npos);
  EXPECT_NE(said("QOSMaxGRESPerUser").find("is 2 GPUs (or other GRES) of each user; 2 are used"), std::string::npos);
  EXPECT_NE(said("QOSMaxWallDurationPerJobLimit").find("is 60 minutes of time limit of each job"), std::string::npos);
  EXPECT_NE(said("AssocGrpGRES").find("the limit of account 'nlp' is 1 GPU (or other GRES); 0 are used"),
            std::string::npos);
  EXPECT_NE(said("AssocMaxJobsLimit").find("the limit of user 'root' in account 'nlp' is 3 running jobs; 3 are used"),
            std::string::npos);
  EXPECT_EQ(said("AssocMaxJobsLimit").find("cloudsdk"), std::string::npos) << "another user's limit is not his";
  EXPECT_NE(
      said("AssocGrpCPURunMinutesLimit").find("is 100 minutes of CPUs that running jobs may still use; 0 are used"),
      std::string::npos);
  auto texts = texts_of(job_text("AssocGrpMemLimit"));
  EXPECT_NE(all_of(explain_wait(texts)).find("a limit of MB of memory of its account 'nlp' or an account above it"),
            std::string::npos);
}

// What a QOS has of licences and burst buffers, of each account, and of a partition.
TEST_F(Wait, LimitsOfOthersAreNotHis) {
  const std::string qos =
      "QOS Records\n\nQOS=partner(2)\n    GrpTRES=cpu=N(2),gres/gpu=1(1)\n    MaxWallPJ=5\n"
      "QOS=of-batch(4)\n    GrpTRES=cpu=N(2),gres/gpu=8(7)\n"
      "QOS=dl-guaranteed(3)\n"
      "    GrpTRES=cpu=7(0),gres/gpu=4(3),bb/cray=9(8),license/matlab=3(2),license/ansys=N(1)\n"
      "    Account Limits\n      vision\n        MaxJobsPA=6(1)\n        MaxTRESPA=cpu=N(0),gres/gpu=5(1)\n"
      "      nlp\n        MaxJobsPA=2(2)\n        MaxTRESPA=cpu=N(0),gres/gpu=3(3)\n"
      "    User Limits\n      0\n        MaxJobsPU=1(1)\n";
  const auto said_of = [&](const std::string& reason, const std::string& partitions_qos = "N/A") {
    auto texts = texts_of(job_text(reason));
    texts.qos_limits = qos;
    texts.partition.replace(texts.partition.find("QoS=N/A"), 7, "QoS=" + partitions_qos);
    return all_of(explain_wait(texts));
  };
  const auto count = [](const std::string& text, const std::string& what) {
    int found = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count(said_of("QOSGrpGRES"), "the limit of"), 1) << said_of("QOSGrpGRES");
  EXPECT_EQ(said_of("QOSGrpGRES").find("partner"), std::string::npos) << "a QOS whose name only begins like that";
  EXPECT_NE(said_of("QOSGrpGRES", "of-batch").find("the limit of QOS 'of-batch' is 8 GPUs"), std::string::npos);
  EXPECT_NE(said_of("QOSMaxJobsPerAccountLimit").find("is 2 running jobs of each account; 2 are used"),
            std::string::npos);
  EXPECT_EQ(count(said_of("QOSMaxJobsPerAccountLimit"), "the limit of"), 1) << "vision's is not his";
  EXPECT_NE(said_of("QOSMaxGRESPerAccount").find("is 3 GPUs (or other GRES) of each account; 3 are used"),
            std::string::npos);
  EXPECT_EQ(count(said_of("QOSMaxGRESPerAccount"), "the limit of"), 1);
  EXPECT_NE(said_of("QOSGrpLicense").find("is 3 licences 'matlab'; 2 are used"), std::string::npos)
      << said_of("QOSGrpLicense");
  EXPECT_EQ(count(said_of("QOSGrpLicense"), "the limit of"), 1) << said_of("QOSGrpLicense");
  EXPECT_NE(said_of("QOSGrpBB").find("is 9 of burst buffer 'cray'; 8 are used"), std::string::npos)
      << said_of("QOSGrpBB");
  EXPECT_EQ(count(said_of("QOSGrpBB"), "the limit of"), 1);
}

TEST_F(Wait, LicencesArraysAndWhatDoesNotWait) {
  auto job = job_text("Licenses");
  job.replace(job.find("Licenses=(null)"), 15, "Licenses=foo:2");
  auto texts = texts_of(job);
  texts.licences =
      "LicenseName=foo Total=4 Used=3 Free=1 Reserved=0 Remote=no\nLicenseName=bar Total=1 Used=1 Free=0\n";
  EXPECT_NE(all_of(explain_wait(texts)).find("of 'foo' there are 4, of which 1 is free"), std::string::npos);
  // A licence of the user's own says nothing of a quota, which licences that begin with dl_ count.
  EXPECT_EQ(explain_wait(texts).sentence, "job 9 waits: not all licences that it asks for are free (Licenses)");
  texts.job.values["Licenses"] = "dl_vision:2,dl_vision/borrow:1";
  EXPECT_EQ(explain_wait(texts).sentence, "job 9 waits: the quota is used up (Licenses)");
  job = job_text("JobArrayTaskLimit");
  job.replace(0, job.find(" JobName"), "JobId=14 ArrayJobId=14 ArrayTaskId=2-5%2 ArrayTaskThrottle=2");
  texts = texts_of(job_text("Priority"));
  texts.job = *slurm_cli::parse_job_text(job, "14");
  EXPECT_NE(all_of(explain_wait(texts)).find("1 of its elements runs, and 2 may"), std::string::npos)
      << all_of(explain_wait(texts));
  texts = texts_of(job_text("None"));
  texts.job.values["JobState"] = "RUNNING";
  texts.job.values["NodeList"] = "n1";
  EXPECT_EQ(explain_wait(texts).sentence, "job 9 does not wait: it is RUNNING on n1 since 22:14:31");
}

TEST_F(Wait, OneThatDlpolicydDroppedSaysWhatItLacked) {
  auto texts = texts_of(job_text("None"));
  texts.job.values["JobState"] = "CANCELLED";
  texts.job.values["AdminComment"] =
      "dl:1 tenant=nlp tier=auto learners=2:4 gpus=1 pausable=1 placement=pack charge=borrowed dropped=2:1@1795558471";
  EXPECT_EQ(explain_wait(texts).sentence,
            "job 9 does not wait: dlpolicyd dropped it at 22:14:31: it needs 2 GPUs at its smallest size, and would "
            "have to borrow; if all jobs before it were at their smallest sizes, 1 would be left (admission = \"drop\" "
            "in dl.toml)");
  texts.job.values["AdminComment"] = "dropped=2:1@1795558471";
  EXPECT_EQ(explain_wait(texts).sentence.find("dropped"), std::string::npos);
}

TEST_F(Wait, Slurm2411IsReadAlike) {
  WaitTexts texts;
  texts.job = *slurm_cli::parse_job_text(
      "JobId=6 JobName=qosgrp\n"
      "   UserId=root(0) GroupId=root(0) MCS_label=N/A\n"
      "   Priority=1100000 Nice=0 Account=vision QOS=dl-guaranteed\n"
      "   JobState=PENDING Reason=Priority Dependency=(null)\n"
      "   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0\n"
      "   RunTime=00:00:00 TimeLimit=00:10:00 TimeMin=N/A\n"
      "   SubmitTime=2026-11-24T22:26:41 EligibleTime=2026-11-24T22:26:41\n"
      "   AccrueTime=2026-11-24T22:26:41\n"
      "   StartTime=2027-11-24T22:26:42 EndTime=2027-11-24T22:36:42 Deadline=N/A\n"
      "   SuspendTime=None SecsPreSuspend=0 LastSchedEval=2026-11-24T22:26:46 Scheduler=Backfill:*\n"
      "   Partition=batch AllocNode:Sid=login:0\n"
      "   ReqNodeList=(null) ExcNodeList=(null)\n"
      "   NodeList=\n"
      "   NumNodes=1 NumCPUs=1 NumTasks=1 CPUs/Task=1 ReqB:S:C:T=0:0:*:*\n"
      "   ReqTRES=cpu=1,mem=6026M,node=1,billing=1,gres/gpu=2\n"
      "   AllocTRES=(null)\n"
      "   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*\n"
      "   MinCPUsNode=1 MinMemoryCPU=6026M MinTmpDiskNode=0\n"
      "   Features=(null) DelayBoot=00:00:00\n"
      "   OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)\n"
      "   Command=(null)\n   WorkDir=/tmp\n   StdErr=/tmp/slurm-6.out\n   StdIn=/dev/null\n   StdOut=/tmp/slurm-6.out\n"
      "   TresPerNode=gres/gpu:2\n",
      "6");
  texts.nodes =
      "NodeName=n1 Arch=x86_64 CoresPerSocket=4  CPUAlloc=3 CPUEfctv=4 CPUTot=4 CPULoad=16.32 AvailableFeatures=(null) "
      "ActiveFeatures=(null) Gres=gpu:2 NodeAddr=10.77.230.11 NodeHostName=n1 Version=24.11.5 OS=Linux 6.18.44-fc-v669 "
      "#1 "
      "SMP PREEMPT_DYNAMIC @0  RealMemory=24105 AllocMem=18078 FreeMem=9900 Sockets=1 Boards=1 State=MIXED "
      "ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=batch  BootTime=2026-11-24T21:31:24 "
      "SlurmdStartTime=2026-11-24T22:26:40 LastBusyTime=2026-11-24T22:26:40 ResumeAfterTime=None "
      "CfgTRES=cpu=4,mem=24105M,billing=4,gres/gpu=2 AllocTRES=cpu=3,mem=18078M,gres/gpu=1 CurrentWatts=0 AveWatts=0 "
      "\n";
  texts.queue =
      "3|PENDING|1100000|root|1|2|N/A|2027-11-24T22:26:42|NONE|Priority\n"
      "6|PENDING|1100000|root|1|1|gres/gpu:2|2027-11-24T22:26:42|2027-11-24T22:36:42|Priority\n"
      "2|RUNNING|1100000|root|1|1|gres/gpu:1|2026-11-24T22:26:42|2027-11-24T22:26:42|None\n";
  texts.now_s = *slurm_cli::parse_slurm_time("2026-11-24T22:26:46");
  const std::string text = all_of(explain_wait(texts));
  EXPECT_NE(
      text.find("1 job is ahead of it in partition 'batch', with at least its priority: 3 of root (1 node, 2 CPUs)"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("it asks for 1 node, 1 CPU, 2 GPUs; free in partition 'batch' are 1 of 2 GPUs, 1 of 4 CPUs"),
            std::string::npos)
      << text;
  const auto limits = parse_limits(
      "QOS=dl-guaranteed(3)\n    "
      "GrpTRES=cpu=N(0),mem=N(0),node=N(0),gres/gpu=1(0),gres/gpumem=N(0),gres/gpuutil=N(0)\n",
      "GrpTRES", "gres/gpu", {});
  ASSERT_EQ(limits.size(), 1U);
  EXPECT_EQ(limits[0].limit, 1);
  EXPECT_EQ(parse_queue(texts.queue)[2].gpus, 1);
}

TEST_F(Wait, EveryReasonOfSlurmHasWords) {
  for (const char* reason : {"QOSGrpCpuLimit",
                             "QOSGrpCPUMinutesLimit",
                             "QOSGrpCPURunMinutesLimit",
                             "QOSGrpJobsLimit",
                             "QOSGrpMemLimit",
                             "QOSGrpNodeLimit",
                             "QOSGrpSubmitJobsLimit",
                             "QOSGrpWallLimit",
                             "QOSMaxCpuPerJobLimit",
                             "QOSMaxCpuMinutesPerJobLimit",
                             "QOSMaxNodePerJobLimit",
                             "QOSMaxWallDurationPerJobLimit",
                             "QOSMaxCpuPerUserLimit",
                             "QOSMaxJobsPerUserLimit",
                             "QOSMaxNodePerUserLimit",
                             "QOSMaxSubmitJobPerUserLimit",
                             "QOSMinCpuNotSatisfied",
                             "AssocGrpCpuLimit",
                             "AssocGrpCPUMinutesLimit",
                             "AssocGrpCPURunMinutesLimit",
                             "AssocGrpJobsLimit",
                             "AssocGrpMemLimit",
                             "AssocGrpNodeLimit",
                             "AssocGrpSubmitJobsLimit",
                             "AssocGrpWallLimit",
                             "AssocMaxJobsLimit",
                             "AssocMaxCpuPerJobLimit",
                             "AssocMaxCPUMinutesPerJobLimit",
                             "AssocMaxNodePerJobLimit",
                             "AssocMaxWallDurationPerJobLimit",
                             "AssocMaxSubmitJobLimit",
                             "AssocGrpUnknown",
                             "AssocGrpUnknownMinutes",
                             "AssocGrpUnknownRunMinutes",
                             "AssocMaxUnknownPerJob",
                             "AssocGrpMemMinutes",
                             "AssocGrpMemRunMinutes",
                             "AssocMaxMemPerJob",
                             "AssocMaxMemMinutesPerJob",
                             "AssocGrpNodeMinutes",
                             "AssocGrpEnergy",
                             "AssocGrpGRES",
                             "AssocGrpGRESMinutes",
                             "AssocGrpGRESRunMinutes",
                             "AssocMaxGRESPerJob",
                             "AssocMaxGRESMinutesPerJob",
                             "AssocGrpLicense",
                             "AssocGrpBB",
                             "QOSMaxGRESPerNode",
                             "QOSMaxMemoryPerUser",
                             "QOSMaxGRESPerUser",
                             "QOSMinGRES",
                             "QOSMinMemory",
                             "QOSMaxNodePerAccount",
                             "QOSMaxJobsPerAccountLimit",
                             "QOSGrpBilling",
                             "AssocGrpBillingRunMinutes",
                             "QOSMaxCpuPerNode",
                             "QOSMaxGRESPerAccount",
                             "QOSMaxSubmitJobPerAccountLimit"}) {
    const auto limit = parse_limit_reason(reason);
    ASSERT_TRUE(limit) << reason;
    EXPECT_FALSE(limit->what.empty()) << reason;
    EXPECT_NE(explain_reason(reason), reason);
  }
  EXPECT_EQ(parse_limit_reason("AssocGrpGRESRunMinutes")->key, "GrpTRESRunMins");
  EXPECT_EQ(parse_limit_reason("QOSMaxCpuMinutesPerJobLimit")->key, "MaxTRESMinsPJ");
  EXPECT_EQ(parse_limit_reason("QOSMaxWallDurationPerJobLimit")->key, "MaxWallPJ");
  for (const char* not_one : {"QOSNotAllowed", "Priority", "Assoc", "QOSGrp", "QOSGrpElephants", "QOSMaxCpuPerMoon"})
    EXPECT_FALSE(parse_limit_reason(not_one)) << not_one;
  EXPECT_FALSE(is_quota_reason("QOSMinGRES"));
  EXPECT_FALSE(is_quota_reason("QOSNotAllowed"));
  EXPECT_TRUE(is_quota_reason("AssociationJobLimit"));
}

TEST_F(Wait, TheReasonOfANodeMayHaveSignsOfEquality) {
  const auto nodes =
      parse_nodes("NodeName=n1 State=IDLE+DRAIN Reason=bad disk: sda=failed [root@2026-11-21T03:00:00]\n");
  ASSERT_EQ(nodes.size(), 1U);
  EXPECT_EQ(nodes[0].reason, "bad disk: sda=failed");
}

TEST_F(Wait, RubbishIsNotBelieved) {
  EXPECT_TRUE(parse_nodes("garbage\nNodeName= State=IDLE\n").empty());
  EXPECT_TRUE(parse_queue("a|b|c\n").empty());
  EXPECT_FALSE(parse_priority("1|2"));
  EXPECT_TRUE(parse_limits("GrpTRES=cpu", "GrpTRES", "gres/gpu", {}).empty());
  WaitTexts texts;
  texts.job.values["JobState"] = "PENDING";
  texts.job.values["Reason"] = "Resources";
  EXPECT_FALSE(explain_wait(texts).sentence.empty());
}

}  // namespace
}  // namespace dl::ctl
