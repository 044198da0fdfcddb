// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/allocation/allocation.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

namespace dl::plan {
namespace {

// As a batch script of Slurm 22.05.8 found it: sbatch -N2 -n4 -c2 --gres=gpu:2.
Environment batch() {
  return {{"SLURM_JOB_ID", "12"},
          {"SLURM_CLUSTER_NAME", "alpha"},
          {"SLURM_JOB_NAME", "digits"},
          {"SLURM_JOB_NODELIST", "n[1-2]"},
          {"SLURM_TASKS_PER_NODE", "2(x2)"},
          {"SLURM_JOB_CPUS_PER_NODE", "4(x2)"},
          {"SLURM_CPUS_PER_TASK", "2"},
          {"SLURM_NTASKS", "4"},
          {"SLURM_GPUS_ON_NODE", "2"},
          {"SLURM_SUBMIT_DIR", "/home/ada"}};
}

TEST(Allocation, ReadsABatchScript) {
  auto allocation = allocation_from_slurm(batch());
  ASSERT_TRUE(allocation) << allocation.error().text;
  EXPECT_EQ(allocation->job_id, "12");
  EXPECT_EQ(allocation->cluster, "alpha");
  EXPECT_EQ(allocation->job_name, "digits");
  EXPECT_EQ(allocation->submit_dir, "/home/ada");
  EXPECT_EQ(allocation->tasks, 4);
  EXPECT_EQ(allocation->restart_count, 0);
  EXPECT_FALSE(allocation->end_time_s);
  ASSERT_EQ(allocation->nodes.size(), 2U);
  EXPECT_EQ(allocation->nodes[1].name, "n2");
  EXPECT_EQ(allocation->nodes[1].tasks, 2);
  EXPECT_EQ(allocation->nodes[1].cpus, 4);
  EXPECT_EQ(allocation->nodes[1].gpus, 2);
}

TEST(Allocation, AnElementOfAnArrayGoesByItsOwnId) {
  Environment environment = batch();
  environment["SLURM_ARRAY_TASK_ID"] = "7";
  environment["SLURM_ARRAY_JOB_ID"] = "12";  // the last one, whose number would name them all
  EXPECT_EQ(allocation_from_slurm(environment)->job_id, "12_7");
  // Any other one, or a job that was submitted from within the array.
  environment["SLURM_ARRAY_JOB_ID"] = "11";
  auto allocation = allocation_from_slurm(environment);
  EXPECT_EQ(allocation->job_id, "12");
  slurm_cli::JobText job;
  job.values = {{"JobId", "12"}, {"ArrayJobId", "11"}, {"ArrayTaskId", "7"}};
  refine_from_scontrol(job, &*allocation);
  EXPECT_EQ(allocation->job_id, "11_7");
  job.values = {{"JobId", "12"}};
  refine_from_scontrol(job, &*allocation);
  EXPECT_EQ(allocation->job_id, "12");
  environment["SLURM_ARRAY_TASK_ID"] = "x";
  EXPECT_FALSE(allocation_from_slurm(environment));
}

TEST(Allocation, TheJobsFolderFollowsChdir) {
  auto allocation = allocation_from_slurm(batch());
  ASSERT_TRUE(allocation);
  EXPECT_EQ(allocation->submit_dir, "/home/ada");
  slurm_cli::JobText job;
  job.values = {{"JobId", "12"}, {"WorkDir", "/scratch/ada"}};
  refine_from_scontrol(job, &*allocation);
  EXPECT_EQ(allocation->submit_dir, "/scratch/ada");
  job.values = {{"JobId", "12"}, {"WorkDir", "(null)"}};
  refine_from_scontrol(job, &*allocation);
  EXPECT_EQ(allocation->submit_dir, "/scratch/ada");
}

TEST(Allocation, GpusFromWhatIsSaid) {
  const struct {
    Environment extra;
    int gpus;
  } cases[] = {
      {{{"SLURM_GPUS_PER_NODE", "a100:4"}}, 4},
      {{{"SLURM_GPUS_PER_NODE", "a100:4,v100:1"}}, 5},
      {{{"SLURM_GPUS", "4"}}, 2},
      {{{"SLURM_GPUS", "5"}}, -1},  // uneven: asked of scontrol
  };
  for (const auto& item : cases) {
    Environment environment = batch();
    for (const auto& extra : item.extra) environment[extra.first] = extra.second;
    auto allocation = allocation_from_slurm(environment);
    ASSERT_TRUE(allocation);
    EXPECT_EQ(allocation->nodes[1].gpus, item.gpus);
  }
  Environment none = batch();
  none.erase("SLURM_GPUS_ON_NODE");
  EXPECT_EQ(allocation_from_slurm(none)->nodes[0].gpus, -1);
}

TEST(Allocation, RefusesWhatDoesNotParseAndNamesIt) {
  const struct {
    const char* name;
    const char* value;
  } cases[] = {{"SLURM_JOB_ID", "x"},
               {"SLURM_JOB_ID", "0"},
               {"SLURM_JOB_ID", "99999999999999999999"},
               {"SLURM_JOB_NODELIST", "n[1-"},
               {"SLURM_JOB_NODELIST", "n1,n1"},
               {"SLURM_JOB_NODELIST", "n[1-999999999]"},
               {"SLURM_TASKS_PER_NODE", "2"},
               {"SLURM_TASKS_PER_NODE", "2(x9)"},
               {"SLURM_JOB_CPUS_PER_NODE", "4(x2),-1"},
               {"SLURM_CPUS_PER_TASK", "two"},
               {"SLURM_NTASKS", "-4"},
               {"SLURM_GPUS_ON_NODE", "2 "},
               {"SLURM_GPUS_PER_NODE", "a100:"},
               {"SLURM_RESTART_COUNT", "1e3"},
               {"SLURM_JOB_END_TIME", "soon"}};
  for (const auto& item : cases) {
    Environment environment = batch();
    environment[item.name] = item.value;
    auto allocation = allocation_from_slurm(environment);
    ASSERT_FALSE(allocation) << item.name << "=" << item.value;
    EXPECT_EQ(allocation.error().text.rfind(std::string(item.name) + ": ", 0), 0U) << allocation.error().text;
    EXPECT_EQ(allocation.error().code, Errc::kInvalid);
  }
}

TEST(Allocation, NotInAJobOrOneOfManyTasks) {
  EXPECT_FALSE(in_slurm_job({}));
  EXPECT_FALSE(in_slurm_job({{"SLURM_JOB_ID", "12"}}));
  EXPECT_EQ(allocation_from_slurm({}).error().code, Errc::kNotFound);
  Environment environment = batch();
  environment["SLURM_STEP_NUM_TASKS"] = "4";
  auto allocation = allocation_from_slurm(environment);
  ASSERT_FALSE(allocation);
  EXPECT_EQ(allocation.error().code, Errc::kConflict);
  environment["SLURM_STEP_NUM_TASKS"] = "1";  // salloc with an interactive step
  EXPECT_TRUE(allocation_from_slurm(environment));
}

slurm_cli::JobText parsed(const std::string& text) {
  auto job = slurm_cli::parse_job_text(text, "12");
  EXPECT_TRUE(job) << job.error().text;
  return job ? *job : slurm_cli::JobText();
}

TEST(Allocation, ScontrolMakesItExact) {
  Environment environment = batch();
  environment["SLURM_GPUS"] = "3";
  auto allocation = allocation_from_slurm(environment);
  ASSERT_TRUE(allocation);
  // The node lines are those of `scontrol show job -d` of 22.05.8.
  const std::string text = R"(JobId=12 JobName=my, digits EndTime=1
   UserId=root(0) GroupId=root(0) MCS_label=N/A
   JobState=RUNNING Reason=None
   SubmitTime=1790000000 EndTime=1790003600 Deadline=N/A
   JOB_GRES=gpu:3
     Nodes=n1 CPU_IDs=0-3 Mem=0 GRES=gpu:a100:2(IDX:0,3)
     Nodes=n2 CPU_IDs=0-3 Mem=0 GRES=gpu:1(IDX:0),shard:8(IDX:1)
   MinCPUsNode=2
   Command=Nodes=n1 CPU_IDs=0 GRES=gpu:9
)";
  refine_from_scontrol(parsed(text), &*allocation);
  EXPECT_EQ(allocation->end_time_s, 1790003600);
  EXPECT_EQ(allocation->nodes[0].gpus, 2);
  EXPECT_EQ(allocation->nodes[1].gpus, 1);
  refine_from_scontrol(parsed(R"(JobId=12 JobName=x
   UserId=root(0)
   JobState=RUNNING
   EndTime=Unknown
     Nodes=n[1- CPU_IDs=0 GRES=gpu:9
)"),
                       &*allocation);
  EXPECT_EQ(allocation->end_time_s, 1790003600);
  EXPECT_EQ(allocation->nodes[0].gpus, 2);
}

TEST(Allocation, InAPlainStepOfOneTaskOnlyScontrolKnowsTheTasksOfTheJob) {
  Environment environment = batch();
  environment["SLURM_STEP_NUM_TASKS"] = environment["SLURM_NTASKS"] = environment["SLURM_TASKS_PER_NODE"] = "1";
  auto allocation = allocation_from_slurm(environment);
  ASSERT_TRUE(allocation) << allocation.error().text << ": one number, and two nodes";
  EXPECT_EQ(allocation->tasks, 0);
  const std::string text =
      "JobId=12 JobName=x\n   UserId=root(0)\n   JobState=RUNNING\n   NumNodes=2 NumCPUs=8 NumTasks=4 CPUs/Task=2\n";
  refine_from_scontrol(parsed(text), &*allocation);
  EXPECT_EQ(allocation->tasks, 4);
  auto of_batch = allocation_from_slurm(batch());
  of_batch->tasks = 0;
  refine_from_scontrol(parsed(text), &*of_batch);
  EXPECT_EQ(of_batch->tasks, 0) << "the batch script's environment is right";
}

TEST(Allocation, GpusOfTheEnvironmentAreReadInEachForm) {
  for (const char* gpus : {"2", "a100:2", "gpu:a100:2", "gpu=2", "gres/gpu:a100=1,gres/gpu:v100=1"}) {
    Environment environment = batch();
    environment["SLURM_GPUS_PER_NODE"] = gpus;
    const auto allocation = allocation_from_slurm(environment);
    ASSERT_TRUE(allocation) << gpus;
    EXPECT_EQ(allocation->nodes[0].gpus, 2) << gpus;
  }
}

TEST(Allocation, TimesOfScontrolAreLocal) {
  auto allocation = allocation_from_slurm(batch());
  refine_from_scontrol(parsed("JobId=12 JobName=x\n   UserId=root(0)\n   JobState=RUNNING\n"
                              "   RunTime=00:00:01 EndTime=2026-11-21T03:00:00 Deadline=N/A\n"),
                       &*allocation);
  struct tm fields = {};
  ::strptime("2026-11-21T03:00:00", "%Y-%m-%dT%H:%M:%S", &fields);
  fields.tm_isdst = -1;
  EXPECT_EQ(allocation->end_time_s, ::mktime(&fields));
}

}  // namespace
}  // namespace dl::plan
