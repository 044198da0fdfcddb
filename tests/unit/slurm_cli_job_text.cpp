// SPDX-License-Identifier: Apache-2.0
// What scontrol prints about jobs. kOf22_05, kOf24_11 and kOf26_05 were recorded from Slurm 22.05.8, 24.11.5 and
// 26.05.5: `scontrol -d show job` of a job whose name, comment and command imitate keys.
#include "launcher/slurm_cli/job_text.h"

#include <gtest/gtest.h>

namespace dl::slurm_cli {
namespace {

const char* const kOf22_05 = R"(JobId=1 JobName=my job JobState=COMPLETED EndTime=1
   UserId=root(0) GroupId=root(0) MCS_label=N/A
   Priority=1 Nice=0 Account=(null) QOS=(null)
   JobState=RUNNING Reason=None Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   DerivedExitCode=0:0
   RunTime=00:00:02 TimeLimit=365-00:00:00 TimeMin=N/A
   SubmitTime=2026-11-23T08:09:18 EligibleTime=2026-11-23T08:09:18
   AccrueTime=2026-11-23T08:09:18
   StartTime=2026-11-23T08:09:20 EndTime=2027-11-23T08:09:20 Deadline=N/A
   SuspendTime=None SecsPreSuspend=0 LastSchedEval=2026-11-23T08:09:20 Scheduler=Backfill
   Partition=batch AllocNode:Sid=login:11225
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=n[1-2]
   BatchHost=n1
   NumNodes=2 NumCPUs=2 NumTasks=2 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   TRES=cpu=2,mem=2M,node=2,billing=2
   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*
   JOB_GRES=gpu:toy:2
     Nodes=n[1-2] CPU_IDs=0 Mem=1 GRES=gpu:toy:1(IDX:0)
   MinCPUsNode=1 MinMemoryNode=1M MinTmpDiskNode=0
   Features=(null) DelayBoot=00:00:00
   OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)
   Command=(null)
   WorkDir=/tmp
   AdminComment=dl: label=1 x 
   Comment=mine Requeue=0 AdminComment=forged 
   StdErr=/tmp/out/a b=1.out
   StdIn=/dev/null
   StdOut=/tmp/out/a b=1.out
   Power=
   TresPerNode=gres:gpu:toy:1
   

)";

const char* const kOf24_11 = R"(JobId=1 JobName=my job JobState=COMPLETED EndTime=1
   UserId=root(0) GroupId=root(0) MCS_label=N/A
   Priority=1 Nice=0 Account=(null) QOS=(null)
   JobState=RUNNING Reason=None Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   DerivedExitCode=0:0
   RunTime=00:00:01 TimeLimit=365-00:00:00 TimeMin=N/A
   SubmitTime=2026-11-23T08:09:30 EligibleTime=2026-11-23T08:09:30
   AccrueTime=2026-11-23T08:09:30
   StartTime=2026-11-23T08:09:32 EndTime=2027-11-23T08:09:32 Deadline=N/A
   SuspendTime=None SecsPreSuspend=0 LastSchedEval=2026-11-23T08:09:32 Scheduler=Backfill
   Partition=batch AllocNode:Sid=login:0
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=n[1-2]
   BatchHost=n1
   NumNodes=2 NumCPUs=2 NumTasks=2 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   ReqTRES=cpu=2,mem=2M,node=2,billing=2
   AllocTRES=cpu=2,mem=2M,node=2,billing=2
   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*
   JOB_GRES=gpu:toy:2
     Nodes=n[1-2] CPU_IDs=0 Mem=1 GRES=gpu:toy:1(IDX:0)
   MinCPUsNode=1 MinMemoryNode=1M MinTmpDiskNode=0
   Features=(null) DelayBoot=00:00:00
   OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)
   Command=(null)
   WorkDir=/tmp
   AdminComment=dl: label=1 x 
   Comment=mine Requeue=0 AdminComment=forged 
   Extra=e StdOut=/f 
   StdErr=/tmp/out/a b=1.out
   StdIn=/dev/null
   StdOut=/tmp/out/a b=1.out
   TresPerNode=gres/gpu:toy:1
   

)";

const char* const kOf26_05 = R"(JobId=1 JobName=my job JobState=COMPLETED EndTime=1
   SLUID=s0M5M83Q87H200
   UserId=root(0) GroupId=root(0) MCS_label=N/A
   Priority=1 Nice=0 Account=(null) QOS=(null)
   JobState=RUNNING Reason=None Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   DerivedExitCode=0:0
   RunTime=00:00:02 TimeLimit=365-00:00:00 TimeMin=N/A
   SubmitTime=2026-11-23T08:09:40 EligibleTime=2026-11-23T08:09:40
   AccrueTime=2026-11-23T08:09:40
   StartTime=2026-11-23T08:09:41 EndTime=2027-11-23T08:09:41 Deadline=N/A
   SuspendTime=None SecsPreSuspend=0 LastSchedEval=2026-11-23T08:09:41 Scheduler=Backfill
   Partition=batch AllocNode:Sid=login:0
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=n[1-2]
   BatchHost=n1
   NumNodes=2 NumCPUs=2 NumTasks=2 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   ReqTRES=cpu=2,mem=2M,node=2,billing=2
   AllocTRES=cpu=2,mem=2M,node=2,billing=2
   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*
   JOB_GRES=gpu:toy:2
     Nodes=n[1-2] CPU_IDs=0 Mem=1 GRES=gpu:toy:1(IDX:0)
   MinCPUsNode=1 MinMemoryNode=1M MinTmpDiskNode=0
   Features=(null) DelayBoot=00:00:00
   OverSubscribe=NO Exclusive=NO Contiguous=0 Licenses=(null) LicensesAlloc=(null) Network=(null)
   Command=(null)
   SubmitLine=sbatch --parsable --chdir /tmp -o /tmp/out/a b=%j.out --mem=1 -J my job JobState=COMPLETED EndTime=1 --comment=mine Requeue=0 AdminComment=forged -N2 -n2 --gres=gpu:toy:1 --wrap sleep 100; echo JobState=X
   WorkDir=/tmp
   AdminComment=dl: label=1 x
   Comment=mine Requeue=0 AdminComment=forged
   Extra=e StdOut=/f
   StdErr=
   StdIn=/dev/null
   StdOut=/tmp/out/a b=1.out
   TresPerNode=gres/gpu:toy:1

)";

class JobTextOf : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Versions, JobTextOf, testing::Values(kOf22_05, kOf24_11, kOf26_05));

TEST_P(JobTextOf, GivesTheValuesThatSlurmMeant) {
  const auto job = parse_job_text(GetParam(), "1");
  ASSERT_TRUE(job) << job.error().text;
  const std::pair<const char*, const char*> rows[] = {
      {"JobId", "1"},
      {"JobName", "my job JobState=COMPLETED EndTime=1"},
      {"UserId", "root(0)"},
      {"Priority", "1"},
      {"JobState", "RUNNING"},
      {"Requeue", "1"},
      {"TimeLimit", "365-00:00:00"},
      {"ExcNodeList", "(null)"},
      {"NodeList", "n[1-2]"},
      {"JOB_GRES", "gpu:toy:2"},
      {"Network", "(null)"},
      {"Command", "(null)"},
      {"WorkDir", "/tmp"},
      {"AdminComment", "dl: label=1 x"},
      {"Comment", "mine Requeue=0 AdminComment=forged"},
      {"StdOut", "/tmp/out/a b=1.out"},
  };
  for (const auto& [key, value] : rows) EXPECT_EQ(job->value(key), value) << key;
  EXPECT_EQ(job->value("EndTime").substr(0, 5), "2027-");
  ASSERT_EQ(job->node_shares.size(), 1U);
  EXPECT_EQ(job->node_shares[0].nodes, "n[1-2]");
  EXPECT_EQ(job->node_shares[0].cpu_ids, "0");
  EXPECT_EQ(count_gpus(job->node_shares[0].gres), 1);
  EXPECT_EQ(job->values.count("Nodes"), 0U);
}

TEST(JobText, HasWhatAVersionAdds) {
  EXPECT_EQ(parse_job_text(kOf22_05, "1")->value("TRES"), "cpu=2,mem=2M,node=2,billing=2");
  EXPECT_EQ(parse_job_text(kOf22_05, "1")->value("TresPerNode"), "gres:gpu:toy:1");
  EXPECT_EQ(parse_job_text(kOf24_11, "1")->value("AllocTRES"), "cpu=2,mem=2M,node=2,billing=2");
  EXPECT_EQ(parse_job_text(kOf24_11, "1")->value("Extra"), "e StdOut=/f");
  EXPECT_EQ(parse_job_text(kOf26_05, "1")->value("SubmitLine"),
            "sbatch --parsable --chdir /tmp -o /tmp/out/a b=%j.out --mem=1 -J my job JobState=COMPLETED EndTime=1 "
            "--comment=mine Requeue=0 AdminComment=forged -N2 -n2 --gres=gpu:toy:1 --wrap sleep 100; echo JobState=X");
  EXPECT_EQ(parse_job_text(kOf26_05, "1")->value("SLUID"), "s0M5M83Q87H200");
}

// A job as scontrol prints it, from parts that users write.
std::string printed(const std::string& name, const std::string& texts, const std::string& network = "(null)") {
  return "JobId=7 JobName=" + name + R"(
   UserId=alice(1001) GroupId=alice(1001) MCS_label=N/A
   Priority=5 Nice=0 Account=nlp QOS=normal
   JobState=RUNNING Reason=None Dependency=(null)
   OverSubscribe=OK Contiguous=0 Licenses=(null) Network=)" +
         network + "\n" + texts;
}

TEST(JobText, KeepsLineBreaksInTheValueThatTheyAreIn) {
  const auto job = parse_job_text(
      printed("two\n   JobState=COMPLETED\n   BatchHost=evil\n   Command=no",
              "   Command=/a\nb\n   SubmitLine=sbatch --wrap echo a=b\n   BatchHost=evil\nJobState=COMPLETED\n\n"
              "   WorkDir=/home/alice\n   Comment=a\n\n   b \n   StdOut=/out\n   Power=\n   Future=1\n   \n\n",
              "x\n   BatchHost=evil"),
      "7");
  ASSERT_TRUE(job) << job.error().text;
  EXPECT_EQ(job->value("JobState"), "RUNNING");
  EXPECT_EQ(job->value("BatchHost"), "");
  EXPECT_EQ(job->value("JobName"), "two\n   JobState=COMPLETED\n   BatchHost=evil\n   Command=no");
  EXPECT_EQ(job->value("Network"), "x\n   BatchHost=evil");
  EXPECT_EQ(job->value("Command"), "/a\nb");
  EXPECT_EQ(job->value("SubmitLine"), "sbatch --wrap echo a=b\n   BatchHost=evil\nJobState=COMPLETED\n");
  EXPECT_EQ(job->value("WorkDir"), "/home/alice");
  EXPECT_EQ(job->value("Comment"), "a\n\n   b");
  EXPECT_EQ(job->value("StdOut"), "/out");
  EXPECT_EQ(job->value("Future"), "1");
}

TEST(JobText, KeepsTheBlanksOfTheWorkingDirectoryAndNotThoseOfScontrol) {
  const auto job = parse_job_text(
      printed("x", "   Command=/c\n   WorkDir=/w/ a\t \n   AdminComment=one \n   Comment=two \n   StdOut=/o\n"), "7");
  ASSERT_TRUE(job) << job.error().text;
  EXPECT_EQ(job->value("WorkDir"), "/w/ a\t ");
  EXPECT_EQ(job->value("AdminComment"), "one");
  EXPECT_EQ(job->value("Comment"), "two");
}

TEST(JobText, IsRefusedWhereItImitatesScontrol) {
  const std::string texts = "   Command=/c\n   WorkDir=/w\n   Comment=c\n   StdOut=/out\n";
  const std::string command = "   Command=/c\n";
  const std::string until_comment = command + "   WorkDir=/w\n   Comment=c\n";
  const std::pair<const char*, std::string> rows[] = {
      {"an owner in the name", printed("x\n   UserId=root(0)\n   JobState=FAILED", texts)},
      {"a number in the name", printed("x\n   SLUID=s1\n   BatchHost=evil", texts)},
      {"a command in the network", printed("x", texts, "y\n   Command=/evil")},
      {"a state in the command", printed("x", command + "   JobState=FAILED\n   WorkDir=/w\n")},
      {"a state in the submit line", printed("x", command + "   SubmitLine=a\n   JobState=FAILED\n   WorkDir=/w\n")},
      {"an admin's comment in the submit line",
       printed("x", command + "   SubmitLine=a\n   AdminComment=evil\n   WorkDir=/w\n")},
      {"an admin's comment in the comment", printed("x", until_comment + "   AdminComment=evil\n")},
      {"an output in the comment", printed("x", until_comment + "   StdOut=/evil\n   StdErr=/e\n   StdOut=/o\n")},
      {"a text behind the texts", printed("x", command + "   Power=\n   WorkDir=/w\n")},
      {"a key twice in a line", "JobId=7 JobName=x\n   UserId=a(1)\n   Account=b QOS=c QOS=d\n   JobState=RUNNING\n"},
      {"a whole job in the comment", printed("x", until_comment + "\n" + printed("x", texts))},
      {"no owner", "JobId=7 JobName=x\n   JobState=RUNNING\n"},
      {"no state", "JobId=7 JobName=x\n   UserId=a(1)\n"},
      {"one line", "JobId=7 JobName=x UserId=a(1) JobState=RUNNING Command=/c\n"},
      {"another job", "JobId=8 JobName=x\n   UserId=a(1)\n   JobState=RUNNING\n"},
      {"a message", "slurm_load_jobs error: Invalid job id specified\n"},
      {"nothing", ""},
  };
  for (const auto& [what, text] : rows) {
    const auto job = parse_job_text(text, "7");
    ASSERT_FALSE(job) << what;
    EXPECT_EQ(job.error().code, Errc::kInvalid) << what;
  }
}

// Recorded from Slurm 22.05.8 and 26.05.5: a job of the name "two\n   JobState=COMPLETED" with the comment
// "c\n   AdminComment=forged\n   Priority=0".
const char* const kHostile22_05 = R"(JobId=2 JobName=two
   JobState=COMPLETED
   UserId=root(0) GroupId=root(0) MCS_label=N/A
   Priority=0 Nice=0 Account=(null) QOS=(null)
   JobState=PENDING Reason=JobHeldUser Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   RunTime=00:00:00 TimeLimit=UNLIMITED TimeMin=N/A
   SubmitTime=2026-11-23T08:09:22 EligibleTime=Unknown
   AccrueTime=Unknown
   StartTime=Unknown EndTime=Unknown Deadline=N/A
   SuspendTime=None SecsPreSuspend=0 LastSchedEval=2026-11-23T08:09:22 Scheduler=Main
   Partition=batch AllocNode:Sid=login:11225
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=
   NumNodes=1 NumCPUs=1 NumTasks=1 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   TRES=cpu=1,mem=1M,node=1,billing=1
   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*
   MinCPUsNode=1 MinMemoryNode=1M MinTmpDiskNode=0
   Features=(null) DelayBoot=00:00:00
   OverSubscribe=OK Contiguous=0 Licenses=(null) Network=x
   Command=(null)
   WorkDir=/tmp
   Comment=c
   AdminComment=forged
   Priority=0 
   StdErr=/dev/null
   StdIn=/dev/null
   StdOut=/dev/null
   Power=
   

)";
const char* const kHostile26_05 = R"(JobId=2 JobName=two
   JobState=COMPLETED
   UserId=root(0) GroupId=root(0) MCS_label=N/A
   Priority=0 Nice=0 Account=(null) QOS=(null)
   JobState=PENDING Reason=JobHeldUser Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   RunTime=00:00:00 TimeLimit=UNLIMITED TimeMin=N/A
   SubmitTime=2026-11-23T08:09:43 EligibleTime=Unknown
   AccrueTime=Unknown
   StartTime=Unknown EndTime=Unknown Deadline=N/A
   SuspendTime=None SecsPreSuspend=0 LastSchedEval=2026-11-23T08:09:43 Scheduler=Main
   Partition=batch AllocNode:Sid=login:0
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=
   NumNodes=1-1 NumCPUs=1 NumTasks=1 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   ReqTRES=cpu=1,mem=1M,node=1,billing=1
   AllocTRES=(null)
   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*
   MinCPUsNode=1 MinMemoryNode=1M MinTmpDiskNode=0
   Features=(null) DelayBoot=00:00:00
   OverSubscribe=NO Exclusive=NO Contiguous=0 Licenses=(null) LicensesAlloc=(null) Network=x
   Command=(null)
   SubmitLine=sbatch --parsable --chdir /tmp -o /dev/null --mem=1 -H -J two
   JobState=COMPLETED --comment=c
   AdminComment=forged
   Priority=0 --network=x --wrap sleep 1
   WorkDir=/tmp
   Comment=c
   AdminComment=forged
   Priority=0
   StdErr=
   StdIn=/dev/null
   StdOut=/dev/null

)";

TEST(JobText, OfAHostileJobIsRefused) {
  for (const char* text : {kHostile22_05, kHostile26_05}) EXPECT_FALSE(parse_job_text(text, "1"));
}

// Slurm 22.05.8, shortened: the elements of an array, the one with the array's number among them.
const char* const kArray = R"(JobId=2 ArrayJobId=2 ArrayTaskId=3 JobName=wrap
   UserId=root(0) GroupId=root(0) MCS_label=N/A
   Priority=1 Nice=0 Account=acc qos=high QOS=(null)
   JobState=FAILED Reason=NonZeroExitCode Dependency=(null)
   Command=(null)
   WorkDir=/tmp
   StdOut=/dev/null
   Power=
   

JobId=4 ArrayJobId=2 ArrayTaskId=2 JobName=wrap
   UserId=root(0) GroupId=root(0) MCS_label=N/A
   JobState=RUNNING Reason=None Dependency=(null)
   Command=(null)
   StdOut=/dev/null
   Power=
   

)";

TEST(JobText, IsThatOfTheElementThatWasAskedFor) {
  EXPECT_EQ(parse_job_texts(kArray)->size(), 2U);
  EXPECT_EQ(parse_job_text(kArray, "2")->value("ArrayTaskId"), "3");
  EXPECT_EQ(parse_job_text(kArray, "2")->value("StdOut"), "/dev/null");
  EXPECT_EQ(parse_job_text(kArray, "4")->value("JobState"), "RUNNING");
  EXPECT_EQ(parse_job_text(kArray, "2_2")->value("JobId"), "4");
  EXPECT_FALSE(parse_job_text(kArray, "3"));
  EXPECT_EQ(parse_job_text(kArray, "2_3")->value("JobId"), "2");
  EXPECT_FALSE(parse_job_text(kArray, "2_1"));
  EXPECT_FALSE(parse_job_text(kArray, "3_2"));
}

// A record of a job array as Slurm 22.05.8 prints it: these elements wait together.
JobText waiting(const std::string& number, const std::string& array, const std::string& tasks) {
  JobText job;
  job.values = {{"JobId", number}, {"ArrayJobId", array}, {"ArrayTaskId", tasks}};
  return job;
}

TEST(JobText, TheOwnIdNamesOneJobAndNoOther) {
  const struct {
    const char *number, *array, *tasks, *id;
  } rows[] = {{"12", "", "", "12"},
              {"12", "12", "3", "12_3"},  // the last element, whose number is the array's
              {"14", "12", "0", "12_0"},
              {"12", "12", "0-3%1", "12_[0-3]"},
              {"12", "12", "1,3,5-9:2", "12_[1,3,5-9:2]"},
              {"12", "12", "4294967294", "12"},  // NO_VAL
              {"12", "12", "", "12"},
              {"12", "0", "3", "12"},
              {"12", "12", "N/A", "12"}};
  for (const auto& row : rows) EXPECT_EQ(own_id(waiting(row.number, row.array, row.tasks)), row.id);
  EXPECT_EQ(array_of("12_3"), "12");
  EXPECT_EQ(array_of("12_[0-3]"), "12");
  EXPECT_EQ(array_of("12"), "");
}

TEST(JobText, AnElementThatWaitsWithOthersIsFoundInTheirRecord) {
  const auto text = [](const std::string& tasks) {
    return "JobId=12 ArrayJobId=12 ArrayTaskId=" + tasks +
           " JobName=x\n   UserId=root(0)\n   JobState=PENDING\n   Command=(null)\n   StdOut=/dev/null\n\n";
  };
  const struct {
    const char *tasks, *has, *has_not;
  } rows[] = {
      {"0-3%1", "12_2", "12_4"}, {"1,3,5-9:2", "12_7", "12_6"}, {"5-9:2", "12_9", "12_11"}, {"7", "12_7", "12_8"}};
  for (const auto& row : rows) {
    EXPECT_TRUE(parse_job_text(text(row.tasks), row.has)) << row.tasks;
    EXPECT_FALSE(parse_job_text(text(row.tasks), row.has_not)) << row.tasks;
    EXPECT_FALSE(parse_job_text(text(row.tasks), "12_x")) << row.tasks;
  }
  // The number of an array whose last element has another record by now.
  EXPECT_TRUE(
      parse_job_text("JobId=13 ArrayJobId=12 ArrayTaskId=0 JobName=x\n   UserId=root(0)\n   JobState=RUNNING\n", "12"));
}

TEST(CountGpus, InEachForm) {
  const std::pair<const char*, int> rows[] = {
      {"", 0},           {"gpu:2(IDX:0-1)", 2}, {"gpu:a100:1(IDX:0),gpu:v100:2(IDX:1,3),shard:8", 3},
      {"gpu:toy=2", 2},  {"gpu=2", 2},          {"gres/gpu:toy=2", 2},
      {"gres:gpu:2", 2}, {"shard:8", 0},        {"gpumem:4", 0},
      {"gpu:x", 0},      {"gpu:-1", 0},         {"gpu:9999999999", 0},
      {"gpu:2(((", 2},
  };
  for (const auto& [text, gpus] : rows) EXPECT_EQ(count_gpus(text), gpus) << text;
}

}  // namespace
}  // namespace dl::slurm_cli
