// SPDX-License-Identifier: Apache-2.0
// The parsers against output of Slurm 22.05.8.
#include "launcher/slurm_cli/slurm_cli.h"

#include <gtest/gtest.h>

namespace dl::slurm_cli {
namespace {

const char* const kShowJob = R"(JobId=12 JobName=train.sh
   UserId=alice(1001) GroupId=alice(1001) MCS_label=N/A
   Priority=4294901759 Nice=0 Account=nlp QOS=borrow
   JobState=RUNNING Reason=None Dependency=(null)
   Requeue=1 Restarts=2 BatchFlag=1 Reboot=0 ExitCode=0:0
   RunTime=00:00:05 TimeLimit=1-01:00:00 TimeMin=N/A
   SubmitTime=2026-11-21T03:00:00 EligibleTime=2026-11-21T03:00:00
   StartTime=2026-11-21T03:00:01 EndTime=2026-11-21T04:00:01 Deadline=N/A
   PreemptEligibleTime=2026-11-21T03:00:01 PreemptTime=None
   NodeList=n[1-2]
   BatchHost=n1
   Command=/home/a b/train.sh
   WorkDir=/home/a b
   Comment=my own | dl:PROCESSING attempt=1 dir=/home/a b/dl-12 reason=x=y
   StdOut=/home/a b/slurm-12.out
)";

TEST(SlurmCliTest, ShowJob) {
  auto job = parse_show_job(kShowJob, "12");
  ASSERT_TRUE(job) << job.error().text;
  EXPECT_EQ(job->job_id, "12");
  EXPECT_EQ(job->user, "alice");
  EXPECT_EQ(job->state, "RUNNING");
  EXPECT_EQ(job->qos, "borrow");
  EXPECT_TRUE(job->requeue);
  EXPECT_TRUE(job->batch);
  EXPECT_FALSE(job->held);
  EXPECT_EQ(job->restarts, 2);
  EXPECT_EQ(job->time_limit_s, 25 * 3600);
  EXPECT_EQ(*job->end_time - *job->start_time, 3600);
  EXPECT_FALSE(job->preempt_time);
  EXPECT_EQ(job->comment, "my own | dl:PROCESSING attempt=1 dir=/home/a b/dl-12 reason=x=y");
  EXPECT_EQ(job->work_dir, "/home/a b");
  EXPECT_EQ(job->node_list, "n[1-2]");
}

TEST(SlurmCliTest, AJobToWhichASignalIsOnItsWayRuns) {
  std::string text = kShowJob;
  text.replace(text.find("JobState=RUNNING"), 16, "JobState=SIGNALING");
  auto job = parse_show_job(text, "12");
  ASSERT_TRUE(job) << job.error().text;
  EXPECT_EQ(job->state, "RUNNING");
}

TEST(SlurmCliTest, AnElementOfAnArrayGoesByItsOwnId) {
  // In scontrol's order: what waits has the array's number.
  const std::string rest = " JobName=x\n   UserId=ada(1000)\n   JobState=PENDING\n   Command=(null)\n   StdOut=/x\n\n";
  const std::string text = "JobId=12 ArrayJobId=12 ArrayTaskId=10-11%1" + rest +
                           "JobId=14 ArrayJobId=12 ArrayTaskId=9" + rest + "JobId=13 ArrayJobId=12 ArrayTaskId=2" +
                           rest;
  const auto jobs = parse_show_jobs(text);
  ASSERT_TRUE(jobs) << jobs.error().text;
  ASSERT_EQ(jobs->size(), 3U);
  EXPECT_EQ(jobs->at(0).job_id, "12_2");
  EXPECT_EQ(jobs->at(0).number, "13");
  EXPECT_EQ(jobs->at(1).job_id, "12_9");
  EXPECT_EQ(jobs->at(2).job_id, "12_[10-11]");
  EXPECT_EQ(parse_show_job(text, "14")->job_id, "12_9");
  EXPECT_EQ(parse_show_job(text, "12_11")->job_id, "12_11");
  EXPECT_FALSE(parse_show_job(text, "12_1"));
}

TEST(SlurmCliTest, ShowJobOfSomethingElse) {
  EXPECT_FALSE(parse_show_job("", "12"));
  EXPECT_FALSE(parse_show_job("slurm_load_jobs error: Invalid job id specified", "12"));
  EXPECT_FALSE(parse_show_job(kShowJob, "13"));
}

TEST(SlurmCliTest, Squeue) {
  const std::string mark =
      "\x1e"
      "0123\x1f";
  std::string line = mark +
                     "12\x1fPENDING\x1fJobHeldUser\x1f"
                     "alice\x1f"
                     "debug\x1fnormal\x1fnlp\x1fN/A\x1fN/A\x1f"
                     "2026-11-21T03:00:00\x1f\x1f/home\x1ftrain\x1f(null)\n";
  auto jobs = parse_squeue(line + line, mark);
  ASSERT_TRUE(jobs) << jobs.error().text;
  ASSERT_EQ(jobs->size(), 2U);
  EXPECT_EQ(jobs->at(0).reason, "JobHeldUser");
  EXPECT_TRUE(jobs->at(0).held);
  EXPECT_EQ(jobs->at(0).comment, "");
  EXPECT_FALSE(jobs->at(0).start_time);
  EXPECT_FALSE(parse_squeue(mark + "nonsense\n", mark));
  EXPECT_TRUE(parse_squeue("", mark)->empty());
  // A user's working directory, name or comment may hold line breaks, and what looks like another job.
  std::string odd = line;
  odd.replace(odd.find("/home"), 5, "/home/new\nline");
  odd.replace(odd.find("(null)"), 6, "mine\n13\x1fRUNNING\x1fNone\x1froot\x1f\x1f\x1f\x1f\x1f\x1f\x1f\x1f\x1f\x1f");
  jobs = parse_squeue(odd + line, mark);
  ASSERT_TRUE(jobs) << jobs.error().text;
  ASSERT_EQ(jobs->size(), 2U);
  EXPECT_EQ(jobs->at(0).work_dir, "/home/new\nline");
  EXPECT_EQ(jobs->at(1).work_dir, "/home");
}

TEST(SlurmCliTest, Times) {
  EXPECT_TRUE(parse_slurm_time("2026-11-21T03:00:00"));
  for (const char* text : {"", "None", "N/A", "Unknown", "03:00", "2026-11-21T03:00:00Z"})
    EXPECT_FALSE(parse_slurm_time(text)) << text;
}

TEST(SlurmCliTest, Versions) {
  EXPECT_EQ(parse_version("slurm-wlm 22.05.8")->micro, 8);
  EXPECT_TRUE(parse_version("slurm 24.05.0-0rc1")->at_least(24, 5));
  EXPECT_FALSE(parse_version("slurm-wlm 23.11.4")->at_least(24, 5));
  EXPECT_FALSE(parse_version("unknown"));
}

TEST(SlurmCliTest, MpiPluginsAreThoseThatSrunLists) {
  EXPECT_EQ(mpi_plugins_of("MPI plugin types are...\n\tpmix\n\tcray_shasta\n\tnone\n\tpmi2\n"
                           "specific pmix plugin versions available: pmix_v4,pmix_v5\n"),
            (std::vector<std::string>{"pmix", "cray_shasta", "none", "pmi2", "pmix_v4", "pmix_v5"}));
  EXPECT_EQ(mpi_plugins_of("MPI plugin types are...\n\tnone\n\tpmi2\n"), (std::vector<std::string>{"none", "pmi2"}));
  EXPECT_TRUE(mpi_plugins_of("srun: error: no controller\n").empty());
}

// Lines of `scontrol show config` of 22.05.8 and 24.11.5.
constexpr const char* kWithSlurmdbd = "AccountingStorageType   = accounting_storage/slurmdbd\nAuthType = auth/munge\n";
constexpr const char* kWithoutOn2205 = "AccountingStorageType   = accounting_storage/none\n";
constexpr const char* kWithoutOn2411 = "AccountingStorageType   = (null)\n";

TEST(SlurmCliTest, SlurmdbdIsThereOnlyWhereItIsNamed) {
  EXPECT_TRUE(has_slurmdbd(kWithSlurmdbd));
  EXPECT_FALSE(has_slurmdbd(kWithoutOn2205));
  EXPECT_FALSE(has_slurmdbd(kWithoutOn2411));
  EXPECT_FALSE(has_slurmdbd(""));
}

TEST(SlurmCliTest, TheClusterIsNamedInItsConfiguration) {
  EXPECT_EQ(
      cluster_name_of("BurstBufferType         = (null)\nClusterName             = dl-3\nCommunicationParameters = \n"),
      "dl-3");
  EXPECT_EQ(cluster_name_of("SLURM_CONF = /etc/ClusterName\n"), "");
  EXPECT_EQ(cluster_name_of(""), "");
  EXPECT_FALSE(signals_reach_all_of("PriorityType = priority/basic\nProctrackType           = proctrack/cgroup\n"));
  EXPECT_FALSE(signals_reach_all_of("ProctrackType           = proctrack/pgid\n"));
  EXPECT_TRUE(signals_reach_all_of("ProctrackType           = proctrack/linuxproc\n"));
  EXPECT_FALSE(signals_reach_all_of(""));
}

TEST(SlurmCliTest, KillWaitIsWhatSlurmConfSaysButNeverLessThanSlurmdWaits) {
  EXPECT_EQ(kill_wait_of("KeepAliveTime           = SYSTEM_DEFAULT\nKillOnBadExit           = 0\nKillWait              "
                         "  = 10 sec\nLaunchParameters        = (null)\n")
                .count(),
            10);
  EXPECT_EQ(kill_wait_of("KillWait = 120 sec").count(), 120);
  EXPECT_EQ(kill_wait_of("KillWait = 2 sec").count(), 5) << "slurmd waits for 5 s at least";
  EXPECT_EQ(kill_wait_of("KillWait = soon").count(), 30) << "Slurm's default";
  EXPECT_EQ(kill_wait_of("").count(), 30);
}

TEST(SlurmCliTest, AJobWhoseNodesWereReleasedIsChangedWithSlurmdbdOrByNewSlurm) {
  const Version v2205{22, 5, 8}, v2311{23, 11, 11}, v2405{24, 5, 8}, v2411{24, 11, 5};
  for (const Version& version : {v2205, v2311, v2405, v2411})
    EXPECT_TRUE(can_update_after_release(kWithSlurmdbd, version)) << version.major;
  EXPECT_FALSE(can_update_after_release(kWithoutOn2205, v2205));
  EXPECT_FALSE(can_update_after_release(kWithoutOn2411, v2311));
  EXPECT_FALSE(can_update_after_release(kWithoutOn2411, v2405));
  EXPECT_TRUE(can_update_after_release(kWithoutOn2411, v2411));
}

}  // namespace
}  // namespace dl::slurm_cli
