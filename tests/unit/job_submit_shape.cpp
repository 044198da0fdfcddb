// SPDX-License-Identifier: Apache-2.0
// From flags, and what the user told Slurm besides, to the shape of the job.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "slurm-plugin/job_submit/gpu_count.h"
#include "slurm-plugin/job_submit/modify_guard.h"
#include "slurm-plugin/job_submit/script_look.h"
#include "slurm-plugin/job_submit/shape.h"
#include "slurm-plugin/options.h"

namespace dl {
namespace {

const Catalogue& catalogue() {
  static const Catalogue loaded = [] {
    const char* top = std::getenv("top_srcdir");
    const std::string frameworks = std::string(top == nullptr ? ".." : top) + "/frameworks/";
    auto got = Catalogue::load({frameworks + "generic", frameworks + "mpi", frameworks + "pytorch"});
    return got ? *got : Catalogue();
  }();
  return loaded;
}

SiteConfig site() {
  SiteConfig config;
  config.gpus_per_node = 2;
  config.gpus_per_node_by_type["a100"] = 8;
  config.guaranteed.qos = "high";
  config.borrow.partition = "spare";
  return config;
}

// "learners=4 gpus=1" -> the request of --dl-learners=4 --dl-gpus=1
JobRequest request_of(const std::string& words) {
  JobRequest request;
  for (size_t start = 0; start < words.size();) {
    const size_t end = std::min(words.find(' ', start), words.size());
    const std::string word = words.substr(start, end - start);
    start = end + 1;
    const size_t equals = word.find('=');
    for (const Option& option : kOptions)
      if (option.name == "dl-" + word.substr(0, equals)) {
        Status read = read_option(option, word.substr(equals + 1), &request);
        EXPECT_TRUE(read) << read.error().text;
      }
  }
  return request;
}

Submission batch() {
  Submission given;
  given.batch = true;
  return given;
}

Result<Shape> shape(const std::string& words, const Submission& given = batch(), const SiteConfig& config = site()) {
  return shape_job(request_of(words), given, config, catalogue());
}

TEST(Shape, says_what_the_job_became) {
  auto got = shape("framework=pytorch learners=4 gpus=1 checkpoint=/ck,every=10m tier=borrow");
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->message,
            "dl: understood as pytorch, 4 learners x 1 GPU on 2 to 4 nodes, borrow tier, checkpoint every 10m");
}

TEST(Shape, of_a_tier_needs_slurmdbd_for_its_qos) {
  EXPECT_TRUE(check_qos("", false));
  EXPECT_TRUE(check_qos("high", true));
  const Status ignored = check_qos("high", false);
  ASSERT_FALSE(ignored);
  EXPECT_EQ(ignored.error().code, Errc::kUnsupported);
  EXPECT_NE(ignored.error().text.find("QOS 'high' in dl.toml, which Slurm ignores without slurmdbd"),
            std::string::npos);
}

TEST(Shape, says_that_a_script_without_a_launcher_leaves_learners_idle) {
  Submission alone = batch();
  alone.one_process = true;
  auto got = shape("learners=4 gpus=1", alone);
  ASSERT_TRUE(got);
  EXPECT_NE(
      got->message.find("\ndl: the script calls neither dlrun nor srun, so it runs once, on the first node, and what "
                        "4 learners were to use stays idle; start them with: dlrun -- COMMAND"),
      std::string::npos)
      << got->message;
  Submission counted = alone;
  counted.tasks = 3;
  EXPECT_NE(shape("gpus=1", counted)->message.find("what 3 learners were to use stays idle"), std::string::npos);
  EXPECT_EQ(shape("learners=1 gpus=1", alone)->message.find("neither"), std::string::npos) << "one process is all";
  EXPECT_EQ(shape("learners=4 gpus=1")->message.find("neither"), std::string::npos);
}

TEST(ScriptLook, finds_what_starts_tasks) {
  for (const char* script :
       {"#!/bin/bash\nexec dlrun -- python3 train.py\n", "#!/bin/sh\n  srun hostname", "x=1; /usr/bin/srun ./a.out\n",
        "time mpirun -n 4 ./a.out", "#!/bin/bash\npython3 -m torch.distributed.run train.py", "(dlrun -- ./x) &",
        "./run.sh --fast", "source env\n", ". ./env\n", "bash train\n", "$LAUNCHER python3 x.py", "exec $CMD", "\"$@\"",
        "#!/bin/sh\nout=`srun hostname`\n", "set -e\r\nsrun hostname\r\n"})
    EXPECT_TRUE(may_start_tasks(script)) << script;
  for (const char* script : {"", "#!/bin/bash\n#SBATCH --dl-learners=4\npython3 train.py\n",
                             "#!/bin/bash\n# srun is not needed\npython3 x.py",
                             "python3 train.py --data $HOME/srun_data\n", "python3 dlrun.py\n"})
    EXPECT_FALSE(may_start_tasks(script)) << script;
  EXPECT_TRUE(may_start_tasks(std::string(1000, '\n') + "srun x"));
  EXPECT_FALSE(may_start_tasks(std::string(300 << 10, '\n') + "srun x")) << "a bounded look";
}

TEST(Shape, gives_each_learner_a_task_with_its_gpus) {
  auto got = shape("learners=3 gpus=1");
  ASSERT_TRUE(got);
  EXPECT_EQ(got->tasks, 3U);
  EXPECT_EQ(got->gpus_per_task, 1);
  EXPECT_EQ(got->gpus_per_node, 0);
  EXPECT_EQ(got->min_nodes, 2U);  // two on one node, one on the other
  EXPECT_EQ(got->max_nodes, 3U);  // or where there is room
  EXPECT_TRUE(got->few_nodes);
  EXPECT_EQ(got->min_cpus, 3U);
  EXPECT_FALSE(got->requeue);
  EXPECT_EQ(got->message, "dl: understood as generic, 3 learners x 1 GPU on 2 to 3 nodes, guaranteed tier");
}

TEST(Shape, uses_what_the_site_says_of_a_type_of_gpu) {
  auto got = shape("learners=3 gpus=a100:4");
  ASSERT_TRUE(got);
  EXPECT_EQ(got->gpu_type, "a100");
  EXPECT_EQ(got->min_nodes, 2U);
  EXPECT_EQ(got->message,
            "dl: understood as generic, 3 learners x 4 a100 GPUs (12 in all) on 2 to 3 nodes, guaranteed tier");
  auto unknown = shape("learners=3 gpus=h100:4");
  ASSERT_TRUE(unknown);
  EXPECT_FALSE(unknown->min_nodes);  // left to Slurm
}

TEST(Shape, leaves_the_nodes_to_slurm_if_the_site_does_not_say_what_a_node_has) {
  SiteConfig config = site();
  config.gpus_per_node = 0;
  auto got = shape("learners=8 gpus=1", batch(), config);
  ASSERT_TRUE(got);
  EXPECT_FALSE(got->min_nodes);
  EXPECT_EQ(got->tasks, 8U);
  EXPECT_EQ(got->message, "dl: understood as generic, 8 learners x 1 GPU, guaranteed tier");
}

TEST(Shape, of_a_cpu_job_has_no_gpus) {
  SiteConfig config = site();
  config.cpus_per_learner = 4;
  auto got = shape("framework=mpi learners=8 gpus=0", batch(), config);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->gpus_per_task, 0);
  EXPECT_FALSE(got->min_nodes);
  EXPECT_EQ(got->tasks, 8U);
  EXPECT_EQ(got->cpus_per_task, 4);
  EXPECT_EQ(got->min_cpus, 32U);
  EXPECT_EQ(got->message, "dl: understood as mpi, 8 learners on CPUs, guaranteed tier");
}

TEST(Shape, gives_cpus_with_gpus_unless_the_user_did) {
  SiteConfig config = site();
  config.cpus_per_gpu = 8;
  EXPECT_EQ(shape("learners=2 gpus=2", batch(), config)->cpus_per_task, 16);
  Submission given = batch();
  given.cpus_per_task = 3;
  EXPECT_FALSE(shape("learners=2 gpus=2", given, config)->cpus_per_task);
  EXPECT_EQ(shape("learners=2 gpus=2", given, config)->min_cpus, 6U);
  given = batch();
  given.cpus_per_gpu = true;
  EXPECT_FALSE(shape("learners=2 gpus=2", given, config)->cpus_per_task);
}

TEST(Shape, of_an_elastic_job_leaves_slurm_a_range_of_nodes) {
  auto got = shape("learners=2:8 gpus=1");
  ASSERT_TRUE(got);
  EXPECT_FALSE(got->tasks);
  EXPECT_EQ(got->min_nodes, 1U);
  EXPECT_EQ(got->max_nodes, 4U);
  EXPECT_EQ(got->gpus_per_node, 2);
  EXPECT_EQ(got->gpus_per_task, 0);
  EXPECT_EQ(got->cpus_per_node, 2);
  EXPECT_EQ(got->message, "dl: understood as generic, 2 to 8 learners x 1 GPU on 1 to 4 nodes, guaranteed tier");
}

TEST(Shape, spreads_by_naming_the_number_of_nodes) {
  auto got = shape("learners=4 gpus=1 placement=spread");
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->min_nodes, 4U);
  EXPECT_EQ(got->max_nodes, 4U);
  EXPECT_EQ(got->fewest_nodes, 2U);
  EXPECT_FALSE(got->few_nodes);
  EXPECT_FALSE(got->exact_tasks_on_node) << "one on each follows";
  EXPECT_EQ(got->message, "dl: understood as generic, 4 learners x 1 GPU on 4 nodes, guaranteed tier");
  SiteConfig config = site();
  config.node_counts = {{"a100", 3}, {"h100", 2}};
  got = shape("learners=6 gpus=a100:1 placement=spread", batch(), config);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->min_nodes, 3U) << "as many as there are of the type";
  EXPECT_EQ(got->max_nodes, 3U);
  EXPECT_EQ(got->exact_tasks_on_node, 2);
  EXPECT_EQ(got->fewest_nodes, 0U) << "not whole on fewer";
  got = shape("learners=7 gpus=a100:1 placement=spread", batch(), config);
  EXPECT_EQ(got->min_nodes, 3U);
  EXPECT_FALSE(got->exact_tasks_on_node) << "Slurm would start nine";
  EXPECT_EQ(shape("learners=3 gpus=0 placement=spread")->min_nodes, 3U) << "also of a CPU job";
  got = shape("learners=2:8 gpus=1 placement=spread");
  EXPECT_EQ(got->min_nodes, 2U) << "an elastic job has one on each node, too";
  EXPECT_EQ(got->max_nodes, 8U);
  EXPECT_EQ(got->gpus_per_node, 1);
}

TEST(Shape, leaves_the_number_of_nodes_to_the_user) {
  for (const char* placement : {"pack", "spread"}) {
    Submission given = batch();
    given.min_nodes = given.max_nodes = 2;
    auto got = shape(std::string("learners=4 gpus=1 placement=") + placement, given);
    ASSERT_TRUE(got) << got.error().text;
    EXPECT_FALSE(got->min_nodes) << placement;
    EXPECT_FALSE(got->few_nodes);
    EXPECT_EQ(got->fewest_nodes, 0U) << "they are not ours to change";
    EXPECT_EQ(got->exact_tasks_on_node.has_value(), got->placement == Placement::kSpread) << "evenly";
    given = batch();
    given.tasks_per_node = 2;
    got = shape(std::string("learners=4 gpus=1 placement=") + placement, given);
    ASSERT_TRUE(got) << got.error().text;
    EXPECT_EQ(got->min_nodes, 2U);
    EXPECT_EQ(got->max_nodes, 2U);
    EXPECT_FALSE(got->exact_tasks_on_node);
  }
  Submission whole = batch();
  whole.exclusive = true;
  EXPECT_EQ(shape("learners=2 gpus=1", whole)->max_nodes, 1U) << "each further node would be paid for";
}

TEST(Shape, takes_slurms_own_flags_for_the_placement_before_the_sites_default) {
  SiteConfig config = site();
  EXPECT_EQ(shape("learners=4 gpus=1")->placement, Placement::kPack);
  config.placement = Placement::kSpread;
  EXPECT_EQ(shape("learners=4 gpus=1", batch(), config)->placement, Placement::kSpread);
  EXPECT_EQ(shape("learners=4 gpus=1 placement=pack", batch(), config)->placement, Placement::kPack);
  Submission given = batch();
  given.use_min_nodes = true;
  EXPECT_EQ(shape("learners=4 gpus=1", given, config)->placement, Placement::kPack);
  given = batch();
  given.spread_job = true;
  EXPECT_EQ(shape("learners=4 gpus=1", given)->placement, Placement::kSpread);
}

// Whatever number of nodes Slurm chooses, the learners that fit are within the range.
TEST(Shape, tells_when_an_elastic_job_cannot_have_all_of_its_range) {
  const auto got = shape("learners=5:9 gpus=1");
  ASSERT_TRUE(got);
  EXPECT_NE(got->message.find("\ndl: --dl-learners=5:9 becomes 6 to 8: an elastic job has the same number of learners, "
                              "here 2, on each node"),
            std::string::npos)
      << got->message;
  EXPECT_EQ(shape("learners=4:8 gpus=1")->message.find("becomes"), std::string::npos);
}

TEST(Shape, of_a_job_that_no_node_count_can_hold_is_refused) {
  SiteConfig config = site();
  config.node_counts = {{"a100", 3}};
  config.gpus_per_node_by_type = {{"a100", 2}};
  SiteConfig types = config;
  types.node_counts["h100"] = 1;
  types.gpus_per_node_by_type["h100"] = 2;
  types.gpus_per_node = 0;
  const auto large = shape("learners=1 gpus=3", batch(), types);
  ASSERT_FALSE(large);
  EXPECT_NE(large.error().text.find("--dl-gpus=3: no node has as many GPUs"), std::string::npos) << large.error().text;
  const auto refused = shape("learners=7 gpus=1", batch(), config);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text.find("--dl-learners=7: all nodes together have GPUs for 6 learners with 1 GPU each"),
            std::string::npos)
      << refused.error().text;
  EXPECT_FALSE(shape("learners=4 gpus=2", batch(), config));
  EXPECT_TRUE(shape("learners=6 gpus=1", batch(), config));
  EXPECT_TRUE(shape("learners=3:9 gpus=2", batch(), config)) << "it can start with its fewest";
  EXPECT_TRUE(shape("learners=7 gpus=v100:1", batch(), config)) << "dl.toml does not list that type";
  EXPECT_TRUE(shape("learners=7 gpus=0", batch(), config));
}

TEST(Shape, blames_the_flag_that_was_given) {
  Submission given = batch();
  given.tasks = 3;
  given.tasks_per_node = 3;
  EXPECT_NE(shape("learners=4", given)
                .error()
                .text.find("--ntasks-per-node=3 on 1 node makes 3 tasks, which conflicts with --dl-learners=4"),
            std::string::npos);
  given.tasks_per_node.reset();
  EXPECT_NE(shape("learners=4", given).error().text.find("--ntasks=3 conflicts with --dl-learners=4"),
            std::string::npos);
}

TEST(Shape, of_an_elastic_job_stays_within_its_range) {
  for (int gpus : {1, 2, 3, 4, 8})
    for (int min = 1; min <= 20; ++min)
      for (int max = min + 1; max <= 40; ++max) {
        auto got =
            shape("learners=" + std::to_string(min) + ":" + std::to_string(max) + " gpus=a100:" + std::to_string(gpus));
        ASSERT_TRUE(got);
        const int per_node = got->gpus_per_node / gpus;
        ASSERT_GE(per_node, 1);
        ASSERT_LE(got->gpus_per_node, 8);
        ASSERT_LE(*got->min_nodes, *got->max_nodes);
        ASSERT_GE(static_cast<int>(*got->min_nodes) * per_node, min);
        ASSERT_LE(static_cast<int>(*got->max_nodes) * per_node, max);
      }
}

TEST(Shape, tells_the_batches_of_an_elastic_job) {
  auto got = shape("learners=1:4 gpus=1 batch=16:66:4,rule=linear", batch());
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_NE(got->message.find(", global batch 16 to 64"), std::string::npos) << got->message;
  got = shape("learners=2 gpus=1 batch=64:64", batch());
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_NE(got->message.find(", global batch 64"), std::string::npos) << got->message;
  EXPECT_FALSE(shape("learners=1:80 gpus=1 batch=16:64", batch()));
}

TEST(Shape, of_an_elastic_job_starts_at_its_lower_end_where_nodes_are_unknown) {
  SiteConfig config = site();
  config.gpus_per_node = 0;
  auto got = shape("learners=2:8 gpus=1", batch(), config);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->tasks, 2U);
  EXPECT_EQ(got->message, "dl: understood as generic, 2 learners x 1 GPU (elastic up to 8), guaranteed tier");
  Submission given = batch();
  given.tasks = 5;
  EXPECT_FALSE(shape("learners=2:8 gpus=1", given)->tasks);
  EXPECT_EQ(shape("learners=2:8 gpus=1", given)->gpus_per_task, 1);
}

TEST(Shape, of_a_pausable_batch_job_is_requeued_appends_and_is_warned) {
  auto got = shape("checkpoint=/ck");
  ASSERT_TRUE(got);
  EXPECT_TRUE(got->requeue);
  EXPECT_TRUE(got->append);
  EXPECT_EQ(got->signal_lead.count(), 120);
  EXPECT_EQ(got->message, "dl: understood as generic, 1 learner, guaranteed tier, checkpoint when paused");
}

TEST(Shape, of_an_interactive_job_is_never_requeued) {
  Submission given;
  auto got = shape("checkpoint=/ck", given);
  ASSERT_TRUE(got);
  EXPECT_FALSE(got->requeue);
  EXPECT_FALSE(got->append);
  EXPECT_EQ(got->signal_lead.count(), 0);
}

TEST(Shape, keeps_what_the_user_said_of_output_signal_and_time) {
  Submission given = batch();
  given.open_mode = true;
  given.signal = true;
  auto got = shape("checkpoint=/ck", given);
  EXPECT_FALSE(got->append);
  EXPECT_EQ(got->signal_lead.count(), 0);
  given = batch();
  given.time_limit = std::chrono::minutes(1);
  EXPECT_EQ(shape("checkpoint=/ck", given)->signal_lead.count(), 15);  // not at once
  given.time_limit = std::chrono::minutes(600);
  EXPECT_EQ(shape("checkpoint=/ck", given)->signal_lead.count(), 120);
}

TEST(Shape, maps_the_tier_to_what_the_site_says) {
  auto high = shape("learners=1");
  EXPECT_EQ(high->qos, "high");
  EXPECT_EQ(high->partition, "");
  auto spare = shape("tier=borrow checkpoint=/ck");
  EXPECT_EQ(spare->qos, "");
  EXPECT_EQ(spare->partition, "spare");
  SiteConfig config = site();
  config.tier = Tier::kBorrow;
  EXPECT_EQ(shape("tier=auto", batch(), config)->partition, "spare");
  EXPECT_EQ(shape("tier=guaranteed", batch(), config)->qos, "high");
}

TEST(Shape, keeps_the_users_qos_and_partition_unless_a_tier_was_asked_for) {
  Submission given = batch();
  given.qos = "mine";
  auto got = shape("learners=1", given);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->qos, "");
  EXPECT_EQ(got->message, "dl: understood as generic, 1 learner");
  given.qos = "high";
  EXPECT_TRUE(shape("tier=guaranteed", given));
}

TEST(Shape, warns_of_borrowing_without_a_checkpoint) {
  EXPECT_NE(shape("tier=borrow")->message.find("\ndl: without --dl-checkpoint"), std::string::npos);
  EXPECT_EQ(shape("tier=borrow checkpoint=/ck")->message.find('\n'), std::string::npos);
}

TEST(Shape, takes_the_learners_from_slurms_options_if_the_flag_is_missing) {
  Submission given = batch();
  given.min_nodes = given.max_nodes = 2;
  given.tasks_per_node = 2;
  EXPECT_EQ(shape("gpus=1", given)->tasks, 4U);
  given.tasks_per_node.reset();
  EXPECT_EQ(shape("gpus=1", given)->tasks, 2U);
  given = batch();
  given.tasks = 3;
  EXPECT_FALSE(shape("gpus=1", given)->tasks);
  EXPECT_EQ(shape("gpus=1", given)->min_nodes, 2U);
}

TEST(Shape, takes_an_array_one_after_another_with_one_checkpoint_directory) {
  for (const char* one : {"5", "0-9%1", "1,2,3%1", ""}) {
    Submission given = batch();
    given.array = one;
    EXPECT_TRUE(shape("checkpoint=/ck", given)) << one;
  }
  Submission given = batch();
  given.array = "0-9";
  EXPECT_TRUE(shape("learners=1", given));
}

struct Conflict {
  const char* name;
  const char* flags;
  std::function<void(Submission*)> also;
  Errc code;
  const char* says;
};
// For the names that GoogleTest prints.
void PrintTo(const Conflict& c, std::ostream* out) {
  *out << c.name;
}

class Conflicts : public testing::TestWithParam<Conflict> {};

TEST_P(Conflicts, are_refused_with_both_sides_named) {
  Submission given = batch();
  if (GetParam().also) GetParam().also(&given);
  auto got = shape(GetParam().flags, given);
  ASSERT_FALSE(got) << GetParam().name;
  EXPECT_EQ(got.error().code, GetParam().code) << got.error().text;
  EXPECT_EQ(got.error().text.rfind(GetParam().says, 0), 0U) << got.error().text;
}

INSTANTIATE_TEST_SUITE_P(
    Table, Conflicts,
    testing::Values(
        Conflict{"ntasks", "learners=4", [](Submission* s) { s->tasks = 3; }, Errc::kConflict,
                 "--ntasks=3 conflicts with --dl-learners=4: "},
        Conflict{"ntasks outside the range", "learners=2:4", [](Submission* s) { s->tasks = 5; }, Errc::kConflict,
                 "--ntasks=5 conflicts with --dl-learners=2:4: "},
        Conflict{"gres", "gpus=1", [](Submission* s) { s->tres_per_node = "gres:gpu:2"; }, Errc::kConflict,
                 "--gres or --gpus-per-node (gres:gpu:2) conflicts with --dl-gpus=1: "},
        Conflict{"gres, new syntax", "gpus=0",
                 [](Submission* s) { s->tres_per_node = "gres/lustre:1,gres/gpu:a100=2"; }, Errc::kConflict,
                 "--gres or --gpus-per-node (gres/lustre:1,gres/gpu:a100=2) conflicts with --dl-gpus=0"},
        Conflict{"gpus", "gpus=1", [](Submission* s) { s->tres_per_job = "gres:gpu:2"; }, Errc::kConflict, "--gpus ("},
        Conflict{"gpus per task", "gpus=1", [](Submission* s) { s->tres_per_task = "gres:gpu"; }, Errc::kConflict,
                 "--gpus-per-task ("},
        Conflict{"gpus per socket", "gpus=1", [](Submission* s) { s->tres_per_socket = "gpu:1"; }, Errc::kConflict,
                 "--gpus-per-socket ("},
        Conflict{"ntasks per gpu", "gpus=1", [](Submission* s) { s->tasks_per_gpu = 2; }, Errc::kConflict,
                 "--ntasks-per-gpu=2 conflicts with --dl-gpus=1: "},
        Conflict{"too many gpus", "gpus=3", nullptr, Errc::kConflict, "--dl-gpus=3: a node has 2 such GPUs"},
        Conflict{"too many gpus of a type", "gpus=a100:9", nullptr, Errc::kConflict, "--dl-gpus=9: a node has 8 such"},
        Conflict{"more nodes than learners", "learners=2 gpus=1",
                 [](Submission* s) { s->min_nodes = s->max_nodes = 3; }, Errc::kConflict,
                 "--nodes=3 conflicts with --dl-learners=2: "},
        Conflict{"too few nodes", "learners=4 gpus=1", [](Submission* s) { s->min_nodes = s->max_nodes = 1; },
                 Errc::kConflict, "--nodes=1 conflicts with 4 learners x 1 GPU: they need at least 2 nodes"},
        Conflict{"too many on a node", "learners=4 gpus=1", [](Submission* s) { s->tasks_per_node = 3; },
                 Errc::kConflict,
                 "--ntasks-per-node=3 conflicts with --dl-gpus=1: a node has 2 GPUs, enough for 2 learners"},
        Conflict{"too few in all", "learners=4 gpus=1",
                 [](Submission* s) {
                   s->tasks_per_node = 1;
                   s->min_nodes = s->max_nodes = 2;
                 },
                 Errc::kConflict, "--nodes=2 conflicts with 4 learners x 1 GPU: they need at least 4 nodes"},
        Conflict{"spread and packed", "learners=4 gpus=1 placement=spread",
                 [](Submission* s) { s->use_min_nodes = true; }, Errc::kConflict,
                 "--use-min-nodes conflicts with --dl-placement=spread: "},
        Conflict{"spread with packed tasks", "learners=4 gpus=1 placement=spread",
                 [](Submission* s) { s->pack_tasks = true; }, Errc::kConflict,
                 "--distribution=...,Pack conflicts with --dl-placement=spread: "},
        Conflict{"packed and spread", "learners=4 gpus=1 placement=pack", [](Submission* s) { s->spread_job = true; },
                 Errc::kConflict, "--spread-job conflicts with --dl-placement=pack: "},
        Conflict{"packed with spread tasks", "learners=4 gpus=1 placement=pack",
                 [](Submission* s) { s->pack_tasks = false; }, Errc::kConflict,
                 "--distribution=...,NoPack conflicts with --dl-placement=pack: "},
        Conflict{"nodes with a range", "learners=2:4 gpus=1", [](Submission* s) { s->min_nodes = s->max_nodes = 2; },
                 Errc::kConflict, "--nodes or --ntasks-per-node conflicts with the range --dl-learners=2:4: "},
        Conflict{"no requeue", "checkpoint=/ck", [](Submission* s) { s->requeue = false; }, Errc::kConflict,
                 "--no-requeue conflicts with --dl-checkpoint: "},
        Conflict{"array", "checkpoint=/ck", [](Submission* s) { s->array = "0-9"; }, Errc::kConflict,
                 "--array=0-9 conflicts with --dl-checkpoint: "},
        Conflict{"array, two at a time", "checkpoint=/ck", [](Submission* s) { s->array = "0,1%2"; }, Errc::kConflict,
                 "--array=0,1%2 conflicts with --dl-checkpoint: "},
        Conflict{"index of no array on the node", "checkpoint=/ck,local=/tmp/%a", nullptr, Errc::kConflict,
                 "--dl-checkpoint: '/tmp/%a': '%a' is the index in a job array, and this job is none; allowed: %j"},
        Conflict{"index of no array in metrics", "metrics=events:tb-%a", nullptr, Errc::kConflict,
                 "--dl-metrics: 'tb-%a': '%a' is the index in a job array, and this job is none; allowed: %j"},
        Conflict{"heterogeneous", "learners=2", [](Submission* s) { s->heterogeneous = true; }, Errc::kUnsupported,
                 "--dl-* flags are not available in heterogeneous jobs"},
        Conflict{"qos", "tier=guaranteed", [](Submission* s) { s->qos = "low"; }, Errc::kConflict,
                 "--qos=low conflicts with --dl-tier=guaranteed, which means --qos=high here"},
        Conflict{"partition", "tier=borrow", [](Submission* s) { s->partition = "gpu"; }, Errc::kConflict,
                 "--partition=gpu conflicts with --dl-tier=borrow, which means --partition=spare here"},
        Conflict{"srun without ntasks", "learners=2",
                 [](Submission* s) {
                   s->batch = false;
                   s->srun = true;
                 },
                 Errc::kConflict, "srun starts as many tasks as --ntasks says; allowed: --ntasks=2"},
        Conflict{"framework", "framework=torch", nullptr, Errc::kNotFound,
                 "--dl-framework: 'torch' is not a known framework"}));

TEST(Shape, refuses_a_tier_that_the_site_did_not_set_up) {
  SiteConfig config;
  auto got = shape("tier=borrow", batch(), config);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Errc::kUnsupported);
  auto fine = shape("tier=guaranteed", batch(), config);
  ASSERT_TRUE(fine);
  EXPECT_EQ(fine->message, "dl: understood as generic, 1 learner, guaranteed tier");
}

TEST(Gres, that_ask_for_gpus_are_recognised_in_old_and_new_syntax) {
  for (const char* yes : {"gpu", "gpu:2", "gres:gpu", "gres:gpu:a100:2", "gres/gpu:2", "gres/gpu=2", "lustre,gpu:1"})
    EXPECT_TRUE(asks_for_gpus(yes)) << yes;
  for (const char* no : {"", "gpus", "shard:1", "gres:mps:2", "gres/lustre:gpu", "craynetwork:1", ",,"})
    EXPECT_FALSE(asks_for_gpus(no)) << no;
}

Change change(const std::string& qos, const std::string& partition) {
  Change wanted;
  wanted.qos = qos;
  wanted.partition = partition;
  return wanted;
}

TEST(ModifyGuard, keeps_users_from_a_tiers_qos_and_partition) {
  const SiteConfig config = site();
  EXPECT_TRUE(check_change(config, {}));
  EXPECT_TRUE(check_change(config, change("other", "gpu,cpu")));
  Status qos = check_change(config, change("high", ""));
  ASSERT_FALSE(qos);
  EXPECT_EQ(qos.error().code, Errc::kDenied);
  EXPECT_NE(qos.error().text.find("--dl-tier=guaranteed"), std::string::npos);
  EXPECT_FALSE(check_change(config, change("", "gpu,spare")));
  SiteConfig open = site();
  open.tiers_locked = false;
  EXPECT_TRUE(check_change(open, change("high", "spare")));
}

TEST(Servers, are_tasks_of_their_own_on_cpus_and_none_beside_gpus) {
  auto got = shape("learners=4 servers=2 gpus=0");
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->tasks, 6U);
  EXPECT_EQ(got->min_cpus, 6U);
  EXPECT_NE(got->message.find("4 learners on CPUs and 2 parameter servers"), std::string::npos) << got->message;
  got = shape("learners=4 servers=2 gpus=1");
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->tasks, 4U);
  got = shape("learners=4 servers=1:3 gpus=0");
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->tasks, 7U) << "a place for each server that may come";
  EXPECT_NE(got->message.find("4 learners on CPUs and 1 to 3 parameter servers"), std::string::npos) << got->message;
  got = shape("servers=2");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().text.rfind("--dl-servers=2 says nothing of the learners", 0), 0U) << got.error().text;
}

}  // namespace
}  // namespace dl
