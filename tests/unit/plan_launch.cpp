// SPDX-License-Identifier: Apache-2.0
// What a plan says in particular cases; whole plans are compared in tests/plan.
#include <gtest/gtest.h>

#include <cstdlib>

#include "launcher/plan/launch_plan.h"
#include "launcher/plan/print.h"

namespace dl::plan {
namespace {

const Catalogue& catalogue() {
  static const Catalogue loaded = [] {
    const char* dir = std::getenv("top_srcdir");  // NOLINT(concurrency-mt-unsafe)
    const std::string base = std::string(dir != nullptr ? dir : ".") + "/frameworks/";
    auto result = Catalogue::load({base + "generic", base + "mpi", base + "pytorch"});
    return result ? std::move(result).value() : Catalogue();
  }();
  return loaded;
}

PlanInput input(int learners, int gpus, std::vector<Node> nodes) {
  PlanInput in;
  in.catalogue = &catalogue();
  in.request.framework.name = "pytorch";
  in.request.learners = LearnerRange{learners, learners};
  in.request.gpus = GpuRequest{"", gpus};
  in.allocation.source = Allocation::Source::kSlurm;
  in.allocation.job_id = "12";
  in.allocation.submit_dir = "/home/ada";
  in.allocation.nodes = std::move(nodes);
  in.command = {"python3", "train.py"};
  in.work_dir = "/home/ada";
  return in;
}

std::string error_of(const PlanInput& in) {
  auto plan = make_plan(in);
  return plan ? "no error" : plan.error().text;
}

bool has(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

const char kAllowed[] =
    "; allowed: fewer learners, fewer GPUs for each (--gpus), or a job with more of them (sbatch --dl-gpus or --gpus)";

TEST(LaunchPlan, TooFewGpusAreSaidInNumbers) {
  EXPECT_EQ(error_of(input(4, 2, {{"n1", 2, 4, 2}, {"n2", 2, 4, 2}, {"n3", 2, 4, 2}})),
            std::string("needs 4 learners x 2 GPUs but the allocation has 6 GPUs on 3 nodes") + kAllowed);
  EXPECT_EQ(error_of(input(3, 2, {{"n1", 2, 4, 3}, {"n2", 2, 4, 3}})),
            std::string("needs 3 learners x 2 GPUs but the allocation has 6 GPUs on 2 nodes, which hold no more than 2 "
                        "whole learners") +
                kAllowed);
  EXPECT_EQ(error_of(input(1, 1, {{"n1", 1, 1, 0}})),
            std::string("needs 1 learner x 1 GPU but the allocation has 0 GPUs on 1 node") + kAllowed);
}

TEST(LaunchPlan, LearnerZeroHasTheStandardInputThatDlrunWasGiven) {
  PlanInput in = input(2, 1, {{"n1", 2, 4, 2}});
  in.command = {"echo", "--input=none"};
  EXPECT_TRUE(has(make_plan(in)->argv, "--input=none"));
  in.reads_stdin = true;
  const auto plan = make_plan(in);
  EXPECT_TRUE(has(plan->argv, "--input=0"));
  EXPECT_FALSE(has(plan->argv, "--input=none"));
  EXPECT_TRUE(plan->reads_stdin);
}

TEST(LaunchPlan, AProgramThatOnlyLearnerZeroWouldReadIsRefused) {
  using Words = std::vector<std::string>;
  for (const Words& command : {Words{"python3", "-"},
                               {"/usr/bin/python3.11", "-u", "-", "--lr", "1"},
                               {"python"},
                               {"bash"},
                               {"/bin/sh", "-ex"},
                               {"bash", "-s", "--", "3"},
                               {"bash", "-l"}}) {
    PlanInput in = input(2, 1, {{"n1", 2, 4, 2}});
    in.command = command;
    EXPECT_TRUE(make_plan(in)) << command[0] << ": it has no input anyway";
    in.reads_stdin = true;
    EXPECT_NE(error_of(in).find(
                  "' reads its program from standard input, which learner 0 alone has, so the other 1 would run "
                  "nothing; allowed: "),
              std::string::npos)
        << command[0] << error_of(in);
    in.request.learners = LearnerRange{1, 1};
    EXPECT_TRUE(make_plan(in)) << command[0];
  }
  for (const Words& command : {Words{"python3", "train.py", "-"},
                               {"python3", "-m", "train"},
                               {"python3", "-c", "1"},
                               {"bash", "-c", "cat"},
                               {"bash", "run.sh"},
                               {"cat", "-"},
                               {"python3", "-W", "ignore", "t.py"},
                               {"bash", "--login", "run.sh"}}) {
    PlanInput in = input(2, 1, {{"n1", 2, 4, 2}});
    in.command = command;
    in.reads_stdin = true;
    EXPECT_TRUE(make_plan(in)) << command[1];
  }
}

TEST(LaunchPlan, EachAllocationOfAJobHasAnSrunOfItsOwn) {
  PlanInput in = input(1, 1, {{"n1", 2, 4, 2}});
  in.request.learners = LearnerRange{1, 6};
  const auto alone = make_plan(in);
  ASSERT_TRUE(alone);
  EXPECT_TRUE(alone->companion_steps.empty());
  EXPECT_EQ(alone->own_ranks, "");
  std::vector<Node> added(2);
  added[0] = {"n5", 2, 4, 2};
  added[1] = {"n6", 1, 4, 1};
  for (Node& node : added) node.companion = "13";
  const auto larger = make_plan_with(added, *alone, &in);
  ASSERT_TRUE(larger) << larger.error().text;
  EXPECT_EQ(larger->learner_count(), 5);
  EXPECT_EQ(larger->own_ranks, "0-1");
  EXPECT_TRUE(has(larger->argv, "--ntasks=2"));
  EXPECT_FALSE(has(larger->argv, "--jobid=13"));
  ASSERT_EQ(larger->companion_steps.size(), 1U);
  const CompanionStep& step = larger->companion_steps[0];
  EXPECT_EQ(step.job, "13");
  EXPECT_EQ(step.ranks, "2-4");
  EXPECT_EQ(step.node_list, "n[5-6]");
  EXPECT_TRUE(has(step.argv, "--jobid=13"));
  EXPECT_TRUE(has(step.argv, "--ntasks=3"));
  EXPECT_EQ(step.hostfile_text, "n5\nn5\nn6\n");
  EXPECT_NE(step.hostfile_path, larger->hostfile_path);
  EXPECT_EQ(larger->node_list, "n[1,5-6]");

  const auto again = make_plan_with(added, *larger, &in);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().text, "the job has node n5 already");
  ASSERT_TRUE(make_plan_without({"n5", "n6"}, *larger, &in));
  EXPECT_EQ(make_plan(in)->learner_count(), 2);
  EXPECT_FALSE(make_plan_without({"n1"}, *larger, &in)) << "no node of its own is left";

  PlanInput full = input(2, 1, {{"n1", 2, 4, 2}});
  const auto plan = make_plan(full);
  const auto no_more = make_plan_with(added, *plan, &full);
  ASSERT_FALSE(no_more);
  EXPECT_EQ(full.allocation.nodes.size(), 1U) << "it is as before";
}

// A debugger's prompt is a line without an end, which srun would keep to itself.
TEST(LaunchPlan, OfSeveralLearnersADebuggersPromptIsShownAtOnce) {
  PlanInput in = input(2, 1, {{"n1", 2, 4, 2}});
  EXPECT_FALSE(has(make_plan(in)->argv, "--unbuffered"));
  in.debug = true;
  EXPECT_TRUE(has(make_plan(in)->argv, "--unbuffered"));
}

TEST(LaunchPlan, AutoIsALearnerForEachGpu) {
  PlanInput in = input(1, 1, {{"n1", 1, 4, 4}, {"n2", 1, 4, 2}});
  in.request.learners.reset();
  in.request.learners_by_gpus = true;
  in.request.gpus.reset();
  auto plan = make_plan(in);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->learner_count(), 6);
  EXPECT_EQ(plan->gpus_per_learner, 1);
  EXPECT_EQ(plan->nodes[1].learners, 2);
  in.request.gpus = GpuRequest{"", 2};
  EXPECT_EQ(make_plan(in)->learner_count(), 3);
  in.request.gpus = GpuRequest{"", 8};
  EXPECT_EQ(error_of(in),
            "--learners auto: no node has 8 GPUs, as --gpus asks for each learner; there are 6 GPUs on 2 nodes");
  in.request.gpus.reset();
  in.allocation.nodes = {{"n1", 3, 4, 0}};
  in.allocation.tasks = 3;
  plan = make_plan(in);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->learner_count(), 3);
  ASSERT_FALSE(plan->warnings.empty());
  EXPECT_EQ(plan->warnings[0],
            "--learners auto: there are no GPUs here, so 3 learners are started, as the job has tasks");
  in.allocation.nodes = {{"n1", 3, 4, -1}};
  EXPECT_NE(make_plan(in)->warnings.at(0).find("it is not known how many GPUs there are here, so 3"),
            std::string::npos);
  in.allocation.nodes = {{"n1", 3, 4, 4}};
  in.request.gpus = GpuRequest{"", 0};
  EXPECT_NE(make_plan(in)->warnings.at(0).find("the learners are to have no GPUs, so 3"), std::string::npos);
}

TEST(LaunchPlan, UnknownNamesAreRefusedWithTheKnown) {
  PlanInput in = input(1, 0, {{"n1", 1, 1, 0}});
  in.request.framework.name = "torch";
  EXPECT_EQ(error_of(in),
            "--framework: 'torch' is not a known framework; known: generic, mpi, pytorch; did you mean 'pytorch'?");
  in.request.framework_from = "DL_FRAMEWORK";
  EXPECT_EQ(error_of(in).rfind("DL_FRAMEWORK: 'torch' is not a known framework; ", 0), 0U);
  in.request.framework.name = "pytorch";
  in.request.rank_placement = "random";
  EXPECT_EQ(error_of(in), "--placement: 'random' is not a rank placement policy; known: block, cyclic");
  in.request.rank_placement = "block";
  in.command.clear();
  EXPECT_EQ(error_of(in), "no command is given; needed: dlrun [options] -- COMMAND [arguments]");
}

TEST(LaunchPlan, ElasticTakesWhatTheAllocationHolds) {
  PlanInput in = input(1, 1, {{"n1", 2, 2, 2}, {"n2", 2, 2, 2}});
  in.request.learners = LearnerRange{2, 8};
  EXPECT_EQ(make_plan(in)->world_size(), 4);
  in.request.learners = LearnerRange{2, 3};
  EXPECT_EQ(make_plan(in)->world_size(), 3);
  in.request.learners = LearnerRange{5, 8};
  EXPECT_EQ(error_of(in), std::string("needs 5 learners x 1 GPU but the allocation has 4 GPUs on 2 nodes") + kAllowed);
}

TEST(LaunchPlan, ASingleLearnerHostsItsOwnStore) {
  PlanInput in = input(1, 2, {{"n1", 2, 4, 2}});
  EXPECT_FALSE(make_plan(in)->launcher_store);
  in.request.gpus = GpuRequest{"", 1};
  in.request.learners = LearnerRange{1, 2};
  EXPECT_TRUE(make_plan(in)->launcher_store);
  in.allocation.nodes = {{"n1", 1, 4, 1}};
  EXPECT_FALSE(make_plan(in)->launcher_store);
}

TEST(LaunchPlan, WithoutALostNode) {
  PlanInput spare = input(2, 0, {{"n1", 1, 1, 0}, {"n2", 1, 1, 0}, {"n3", 1, 1, 0}});
  auto plan = make_plan(spare);
  ASSERT_TRUE(plan) << plan.error().text;
  auto rest = make_plan_without({"n2"}, *plan, &spare);
  ASSERT_TRUE(rest) << rest.error().text;
  EXPECT_EQ(rest->nodes[1].name, "n3");
  EXPECT_FALSE(rest->overcommit);
  EXPECT_TRUE(has(rest->argv, "--nodelist=n[1,3]"));
  EXPECT_EQ(describe_without({"n2"}, *rest), "n2 is left out; 2 learners on n[1,3]");
  // A second one: the learners share the CPUs of one.
  auto crowded = make_plan_without({"n1"}, *rest, &spare);
  ASSERT_TRUE(crowded) << crowded.error().text;
  EXPECT_TRUE(crowded->overcommit);
  EXPECT_EQ(crowded->world_size(), 2);
  EXPECT_FALSE(make_plan_without({"n3"}, *crowded, &spare));

  PlanInput elastic = input(1, 1, {{"n1", 2, 2, 2}, {"n2", 2, 2, 2}});
  elastic.request.learners = LearnerRange{2, 4};
  plan = make_plan(elastic);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->world_size(), 4);
  rest = make_plan_without({"n2", "n9"}, *plan, &elastic);
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->world_size(), 2);
  EXPECT_EQ(describe_without({"n2", "n9"}, *rest), "n[2,9] are left out; 2 learners on n1");

  // As many learners as tasks: as there were at first.
  PlanInput implied = input(1, 1, {{"n1", 2, 2, 2}, {"n2", 2, 2, 2}});
  implied.request.learners.reset();
  implied.allocation.tasks = 4;
  plan = make_plan(implied);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->world_size(), 4);
  EXPECT_FALSE(make_plan_without({"n1"}, *plan, &implied));
}

TEST(LaunchPlan, MoreLearnersThanTasksOvercommitCpusButNeverGpus) {
  const PlanInput in = input(8, 1, {{"n1", 1, 1, 4}, {"n2", 1, 1, 4}});
  auto plan = make_plan(in);
  ASSERT_TRUE(plan) << plan.error().text;
  EXPECT_TRUE(has(plan->argv, "--overcommit"));
  EXPECT_EQ(plan->nodes[1].learners, 4);
  ASSERT_EQ(plan->warnings.size(), 1U);
  EXPECT_EQ(plan->warnings[0], "8 learners share 2 CPUs; ask for more with --cpus-per-task or --cpus-per-gpu");
}

TEST(LaunchPlan, WithoutAGpuRequestTheNodesGpusAreShared) {
  PlanInput in = input(4, 0, {{"n1", 2, 2, 4}, {"n2", 2, 2, 4}});
  in.request.gpus.reset();
  auto plan = make_plan(in);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->gpus_per_learner, 2);
  EXPECT_EQ(plan->learners[1].gpus, (std::vector<int>{2, 3}));
  in.allocation.nodes[1].gpus = 3;  // no even share
  EXPECT_EQ(make_plan(in)->gpus_per_learner, 0);
}

TEST(LaunchPlan, SrunIsToldEachHostWhereItCouldChoose) {
  auto plan = make_plan(input(3, 1, {{"n1", 2, 2, 2}, {"n2", 2, 2, 2}}));
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->hostfile_path, "/home/ada/dl-12/hostfile");
  EXPECT_EQ(plan->hostfile_text, "n1\nn1\nn2\n");
  EXPECT_TRUE(has(plan->argv, "--distribution=arbitrary"));
  EXPECT_TRUE(has(plan->argv, "--nodelist=/home/ada/dl-12/hostfile"));
  // From 23.11 on srun refuses a number of nodes beside a map of hosts: "--nodes is incompatible with
  // --distribution=arbitrary". The file names the nodes already.
  EXPECT_FALSE(has(plan->argv, "--nodes=2"));
}

TEST(LaunchPlan, SrunIsToldTheNumberOfNodesWhereItsOwnLayoutIsRight) {
  EXPECT_TRUE(has(make_plan(input(2, 1, {{"n1", 2, 2, 2}}))->argv, "--nodes=1"));
  EXPECT_TRUE(has(make_plan(input(2, 1, {{"n1", 2, 1, 1}, {"n2", 2, 1, 1}}))->argv, "--nodes=2"));
}

TEST(LaunchPlan, FewerNodesThanAllocatedAreNamed) {
  auto plan = make_plan(input(2, 1, {{"n1", 2, 2, 2}, {"n2", 2, 2, 2}}));
  ASSERT_TRUE(plan);
  EXPECT_TRUE(has(plan->argv, "--nodelist=n1"));
  EXPECT_EQ(plan->warnings[0], "1 of 2 nodes gets no learner: n2");
}

TEST(LaunchPlan, PathsAreAbsoluteAndRelativeOnesToTheRightPlace) {
  PlanInput in = input(1, 0, {{"n1", 1, 1, 0}});
  in.work_dir = "/scratch/run";
  in.request.checkpoint = CheckpointSpec{"../ck/", std::nullopt, 50, 3};
  auto plan = make_plan(in);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->checkpoint->path, "/scratch/ck");
  EXPECT_EQ(plan->job_dir, "/home/ada/dl-12");  // beside the script that was submitted
  in.site.job_dir = "/jobs/%j/x-%j";
  in.request.metrics = {"events:runs/%j", "loss=%{FLOAT:loss}"};
  EXPECT_EQ(make_plan(in)->job_dir, "/jobs/12/x-12");
  EXPECT_EQ(make_plan(in)->metrics, (std::vector<std::string>{"events:runs/12", "loss=%{FLOAT:loss}"}));
  Environment environment;
  ASSERT_TRUE(add_learner_environment(*plan, 0, RunFacts{}, &environment));
  EXPECT_EQ(environment.at("DL_CHECKPOINT_DIR"), "/scratch/ck");
  EXPECT_EQ(environment.at("DL_CHECKPOINT"), "/scratch/ck,every=50steps,keep=3");
}

TEST(LaunchPlan, ACheckpointThatLearnersCouldNotReadIsRefusedBeforeTheyStart) {
  PlanInput in = input(1, 0, {{"n1", 1, 1, 0}});
  in.request.checkpoint = CheckpointSpec{};
  in.request.checkpoint->path = "ck";
  in.work_dir = "/home/lr=0.1,b `x` %j $y";
  EXPECT_TRUE(make_plan(in));
  in.work_dir = "/home/new\nline";
  EXPECT_NE(error_of(in).find("--checkpoint: '/home/new\\x0aline/ck' holds a control character"), std::string::npos)
      << error_of(in);
}

TEST(LaunchPlan, WithoutSlurmDirectOrThroughMpirun) {
  PlanInput in = input(2, 0, {});
  in.allocation = local_allocation("ws", 8, -1, "local-20261121-030000-7", "/home/ada");
  in.agent_path = "/opt/dl-agent";
  auto plan = make_plan(in);
  ASSERT_TRUE(plan) << plan.error().text;
  EXPECT_EQ(plan->method, LaunchMethod::kDirect);
  EXPECT_EQ(plan->argv, (std::vector<std::string>{"/opt/dl-agent"}));
  EXPECT_EQ(plan->job_dir, "/home/ada/dl-local-20261121-030000-7");
  EXPECT_EQ(plan->cpus_per_learner, 4);
  EXPECT_TRUE(plan->scrub.empty());
  in.request.framework.name = "mpi";
  in.as_root = true;
  plan = make_plan(in);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->method, LaunchMethod::kMpirun);
  EXPECT_EQ(plan->argv, (std::vector<std::string>{"mpirun", "-n", "2", "--oversubscribe", "--bind-to", "none",
                                                  "--allow-run-as-root", "/opt/dl-agent"}));
}

TEST(LaunchPlan, UserEnvironmentStaysAndIsWarnedOf) {
  PlanInput in = input(2, 0, {{"n1", 2, 2, 0}});
  in.environment = {{"MASTER_PORT", "29500"}, {"OMP_NUM_THREADS", "7"}};
  auto plan = make_plan(in);
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->warnings.size(), 1U);
  EXPECT_EQ(plan->warnings[0],
            "MASTER_PORT=29500 is set in your environment and stays; unset it to have one chosen for each run");
  Environment environment = in.environment;
  RunFacts facts;
  facts.master_addr = "10.0.0.1";
  facts.master_port = 4711;
  ASSERT_TRUE(add_learner_environment(*plan, 1, facts, &environment));
  EXPECT_EQ(environment.at("MASTER_PORT"), "29500");
  EXPECT_EQ(environment.at("MASTER_ADDR"), "10.0.0.1");
  EXPECT_EQ(environment.at("OMP_NUM_THREADS"), "7");
  EXPECT_EQ(environment.at("RANK"), "1");
}

// As `export MASTER_ADDR=$master` leaves it in a script where that is set nowhere.
TEST(LaunchPlan, AnEmptyAddressOfTheUsersIsNone) {
  PlanInput in = input(2, 0, {{"n1", 2, 2, 0}});
  in.environment = {{"MASTER_ADDR", ""}, {"MASTER_PORT", ""}};
  auto plan = make_plan(in);
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->warnings.empty());
  RunFacts facts;
  facts.store_addr = "10.0.0.1";
  facts.store_port = 4711;
  for (const int rank : {0, 1}) {
    Environment environment = in.environment;
    ASSERT_TRUE(add_learner_environment(*plan, rank, facts, &environment));
    EXPECT_EQ(environment.at("MASTER_ADDR"), "10.0.0.1");
    EXPECT_EQ(environment.at("MASTER_PORT"), "4711");
  }
}

TEST(LaunchPlan, JsonOfHostileTextIsStillJson) {
  PlanInput in = input(1, 0, {{"n1", 1, 1, 0}});
  in.command = {"x", "\xff\xfe\"\n"};
  in.allocation.job_name = "\x1b[31m\"";
  auto plan = make_plan(in);
  ASSERT_TRUE(plan);
  const std::string json = plan_json(*plan, RunFacts{}, {});
  EXPECT_EQ(json.find('\x1b'), std::string::npos);
  EXPECT_EQ(plan_text(*plan, RunFacts{}, {}).find('\x1b'), std::string::npos);
}

// Every family for every learner by itself, as its agent does it, against what is made for all of them at once.
TEST(LaunchPlan, TheEnvironmentsOfAllLearnersTogetherAreThoseOfEach) {
  PlanInput in = input(5, 2, {{"n1", 4, 4, 4}, {"n2", 4, 4, 4}, {"n3", 4, 4, 4}});
  in.request.servers = {3, 3};
  in.request.checkpoint = CheckpointSpec{};
  in.request.checkpoint->path = "ckpt";
  auto plan = make_plan(in);
  ASSERT_TRUE(plan) << plan.error().text;
  plan->families = family_names();
  plan->framework_environment = {{"OMP_NUM_THREADS", ""}, {"GLOO_SOCKET_IFNAME", "eth7"}, {"X", "y"}};
  RunFacts facts;
  facts.coordinator_port = facts.http_store_port = 4711;
  facts.peers = {"a:1", "b:1"};
  for (const Environment& inherited : std::vector<Environment>{
           {},
           {{"RANK", "3"}, {"LOCAL_RANK", ""}, {"OMP_NUM_THREADS", "4"}, {"CUDA_VISIBLE_DEVICES", "0,1"}},
           {{"MASTER_ADDR", "x"}, {"HOROVOD_RANK", "0"}, {"GPU_COUNT", "2.000000"}, {"SLURM_GTIDS", "9"}},
           {{"JAX_COORDINATOR_ADDRESS", "x"}, {"DL_ROLE", "y"}, {"X", "z"}, {"NCCL_SOCKET_IFNAME", ""}}}) {
    const LearnerContext first = learner_context(*plan, 0, facts);
    JobEnvironment job(first, inherited);
    ASSERT_TRUE(add_job_environment(*plan, &job));
    LearnerContext other = first;
    for (int rank = 0; rank < plan->world_size(); ++rank) {
      move_to_rank(*plan, rank, &other);
      Environment together = job.first();
      for (size_t i = 0; i < job.names().size(); ++i) {
        together.erase(job.names()[i]);
        if (const auto value = job.value_of(i, other)) together[job.names()[i]] = *value;
      }
      Environment alone = inherited;
      const LearnerContext its = learner_context(*plan, rank, facts);
      ASSERT_TRUE(add_family("dl", its, &alone));
      alone["DL_CHECKPOINT"] = format_checkpoint(*plan->checkpoint);
      for (const auto& item : plan->framework_environment) alone.insert(item);
      for (const std::string& family : plan->families) ASSERT_TRUE(add_family(family, its, &alone));
      alone.emplace("PYTHONUNBUFFERED", "1");
      EXPECT_EQ(together, alone) << "rank " << rank;
    }
  }
}

TEST(LaunchPlan, ServersStandWherePlacesAreLeftAndElseBesideLearners) {
  // A job on CPUs: Slurm counted six tasks.
  PlanInput in = input(4, 0, {{"n1", 4, 4, 0}, {"n2", 2, 2, 0}});
  in.request.servers = {2, 2};
  auto plan = make_plan(in);
  ASSERT_TRUE(plan) << plan.error().text;
  EXPECT_EQ(plan->world_size(), 6);
  EXPECT_EQ(plan->learner_count(), 4);
  EXPECT_EQ(plan->learners[4].node, 1);
  EXPECT_EQ(plan->learners[5].node, 1);
  EXPECT_FALSE(has(plan->argv, "--overcommit"));
  EXPECT_EQ(plan->hostfile_text, "n1\nn1\nn1\nn1\nn2\nn2\n");
  EXPECT_TRUE(plan->serves(4));
  EXPECT_FALSE(plan->serves(3));
  const LearnerContext third = learner_context(*plan, 2, RunFacts());
  EXPECT_EQ(third.cross_rank, 0);
  EXPECT_EQ(third.cross_size, 1) << "the others stand first on n1 and n2";
  EXPECT_EQ(third.node_name, "n1");
  EXPECT_EQ(learner_context(*plan, 4, RunFacts()).cross_size, 0) << "a server";
  EXPECT_EQ(learner_context(*plan, 4, RunFacts()).local_servers, 2);
  // With GPUs, tasks are learners: the servers share their CPUs, and take no GPU.
  in = input(2, 2, {{"n1", 2, 1, 2}, {"n2", 2, 1, 2}});
  in.request.servers = {3, 3};
  plan = make_plan(in);
  ASSERT_TRUE(plan) << plan.error().text;
  EXPECT_EQ(plan->learners[2].node, 0);
  EXPECT_EQ(plan->learners[3].node, 1);
  EXPECT_EQ(plan->learners[4].node, 0);
  EXPECT_EQ(plan->learners[4].local_rank, 2);
  EXPECT_TRUE(plan->learners[4].gpus.empty());
  EXPECT_TRUE(has(plan->argv, "--overcommit"));
  EXPECT_EQ(learner_context(*plan, 4, RunFacts()).gpus_per_learner, 0);
  EXPECT_EQ(learner_context(*plan, 1, RunFacts()).gpus_per_learner, 2);
  EXPECT_NE(plan_text(*plan, RunFacts(), {}).find("2 x 2 GPUs and 3 parameter servers on 2 nodes"), std::string::npos);
  // An elastic job on CPUs leaves them their tasks.
  in = input(1, 0, {{"n1", 4, 4, 0}});
  in.request.learners = LearnerRange{1, 8};
  in.request.servers = {1, 1};
  plan = make_plan(in);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->learner_count(), 3);
  EXPECT_EQ(plan->world_size(), 4);
}

TEST(LaunchPlan, ServersOfAPoolAreNoRanksOfTheWorld) {
  PlanInput in = input(6, 0, {{"n0", 4, 4, 0}, {"n1", 4, 4, 0}, {"n2", 4, 4, 0}});
  in.request.servers = {1, 2, true};
  auto plan = make_plan(in);
  ASSERT_TRUE(plan) << plan.error().text;
  ASSERT_EQ(plan->nodes.size(), 3U);
  EXPECT_EQ(plan->nodes[2].servers, 2) << "n2 has no learner";
  EXPECT_EQ(plan->world_size(), 8);
  EXPECT_FALSE(plan->is_place(5));
  EXPECT_TRUE(plan->is_place(6));
  RunFacts facts;
  facts.pool_addr = "10.0.0.1";
  facts.pool_port = 4711;
  Environment learner, server;
  ASSERT_TRUE(add_learner_environment(*plan, 5, facts, &learner));
  ASSERT_TRUE(add_learner_environment(*plan, 7, facts, &server));
  EXPECT_EQ(learner["DL_WORLD_SIZE"], "6");
  EXPECT_EQ(learner["DL_NUM_NODES"], "2");
  EXPECT_EQ(learner["DL_NODE_RANK"], "1");
  EXPECT_EQ(learner["DL_LOCAL_WORLD_SIZE"], "2");
  EXPECT_EQ(plan->node_list, "n[0-1]");
  EXPECT_EQ(plan->tasks_per_node, "4,2");
  EXPECT_EQ(learner["DL_ROLE"] + learner["DL_ROLE_RANK"] + "/" + learner["DL_ROLE_SIZE"], "learner5/6");
  EXPECT_EQ(server["DL_ROLE"] + server["DL_ROLE_RANK"] + "/" + server["DL_ROLE_SIZE"], "server1/2");
  EXPECT_EQ(server["DL_RANK"], "7");
  EXPECT_EQ(server["DL_WORLD_SIZE"], "6");
  EXPECT_EQ(server["CUDA_VISIBLE_DEVICES"], "-1");
  for (Environment* its : {&learner, &server}) {
    EXPECT_EQ((*its)["DL_SERVERS"], "1:2");
    EXPECT_EQ((*its)["DL_POOL"], "10.0.0.1:4711");
    EXPECT_EQ((*its)["DL_POOL_SECRET"], plan->job_dir + "/pool.secret");
  }
  EXPECT_NE(plan_text(*plan, RunFacts(), {}).find("6 and 1 to 2 parameter servers on 3 nodes"), std::string::npos);
  EXPECT_NE(plan_json(*plan, RunFacts(), {}).find(R"("pool")"), std::string::npos);
}

TEST(LaunchPlan, AWorldWhoseSizeCannotChangeHasNoPool) {
  PlanInput in = input(2, 0, {{"n1", 4, 4, 0}});
  in.request.servers = {1, 2, true};
  in.command_uses_mpi = true;
  EXPECT_EQ(error_of(in),
            "--servers 1:2: servers that come and go cannot be ranks of an MPI world, and this program is one of MPI, "
            "which only dlrun's own PMIx servers leave them out of; allowed: --servers N, or pmix = \"dlrun\" in "
            "dl.toml, where dl-pmix is installed");
  in.pmix_server = "/opt/dl-pmix";
  const auto plan = make_plan(in);
  ASSERT_TRUE(plan) << plan.error().text;
  EXPECT_EQ(plan->learner_count(), 2);
  EXPECT_EQ(plan->pmix_server, "/opt/dl-pmix");
  in.allocation.source = Allocation::Source::kLocal;
  EXPECT_EQ(error_of(in),
            "--servers 1:2: servers that come and go cannot be ranks of an MPI world, and this program is one of MPI, "
            "which mpirun starts outside of Slurm; allowed: --servers N, or a Slurm job");
}

TEST(LaunchPlan, ServersBesideDifferentNumbersOfGpusAreRefused) {
  PlanInput in = input(3, 1, {{"n1", 2, 2, 2}, {"n2", 2, 1, 1}});
  in.request.servers = {1, 1};
  EXPECT_EQ(error_of(in),
            "parameter servers need nodes that give the same number of GPUs, but n1 gives 2 and n2 1; allowed: another "
            "number of learners, or --nodes with --ntasks-per-node");
}

}  // namespace
}  // namespace dl::plan
