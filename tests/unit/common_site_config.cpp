// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "common/site/site_config.h"

namespace dl {
namespace {

TEST(SiteConfig, reads_every_key) {
  auto got = parse_site_config(R"(
    [defaults]
    framework = "pytorch"
    tier = "borrow"
    cpus_per_gpu = 8
    cpus_per_learner = 2
    restarts = 3
    signal_lead = "5m"
    [nodes]
    gpus_per_node = 4
    [nodes.types]
    a100 = 8
    h100 = 4
    [tiers]
    locked = false
    [tiers.guaranteed]
    qos = "normal"
    [tiers.borrow]
    partition = "scavenge,idle"
    [frameworks]
    catalogue = ["/opt/a", "/opt/b"]
    [launcher]
    job_dir = "/scratch/%u/%x/dl-%j"
    grace = 45
    loop_guard = 4
    pmix = "slurm"
    [elastic]
    sizes = "optimiser"
    interval = "90s"
    grow = "in-place"
    admission = "drop"
    drop_after = "30s"
    [metrics]
    max_jobs = 500
    [idle]
    after = "1h"
    below = 10
    lend = true
    [image]
    runtime = "apptainer"
    bind = ["/scratch"]
  )",
                               "dl.toml");
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->framework, "pytorch");
  EXPECT_EQ(got->tier, Tier::kBorrow);
  EXPECT_EQ(got->cpus_per_gpu, 8);
  EXPECT_EQ(got->cpus_per_learner, 2);
  EXPECT_EQ(got->restarts, 3);
  EXPECT_EQ(got->signal_lead.count(), 300);
  EXPECT_EQ(got->gpus_per_node, 4);
  EXPECT_EQ(got->gpus_per_node_by_type.at("a100"), 8);
  EXPECT_EQ(got->gpus_per_node_by_type.at("h100"), 4);
  EXPECT_FALSE(got->tiers_locked);
  EXPECT_EQ(got->idle.after.count(), 3600);
  EXPECT_TRUE(got->elastic.optimise);
  EXPECT_EQ(got->elastic.interval.count(), 90);
  EXPECT_TRUE(got->elastic.in_place);
  EXPECT_TRUE(got->elastic.drop);
  EXPECT_EQ(got->elastic.drop_after.count(), 30);
  EXPECT_EQ(got->metrics.max_jobs, 500);
  EXPECT_EQ(got->idle.below, 10);
  EXPECT_TRUE(got->idle.lend);
  EXPECT_EQ(got->guaranteed.qos, "normal");
  EXPECT_EQ(got->guaranteed.partition, "");
  EXPECT_EQ(got->borrow.partition, "scavenge,idle");
  EXPECT_EQ(got->catalogue, (std::vector<std::string>{"/opt/a", "/opt/b"}));
  EXPECT_EQ(got->job_dir, "/scratch/%u/%x/dl-%j");
  EXPECT_EQ(got->grace.count(), 45);
  EXPECT_EQ(got->loop_guard, 4);
  EXPECT_EQ(got->pmix, "slurm");
  EXPECT_EQ(got->image_runtime, "apptainer");
  EXPECT_EQ(got->image_binds, (std::vector<std::string>{"/scratch"}));
}

TEST(SiteConfig, that_is_empty_gives_the_defaults_and_the_catalogue_beside_the_file) {
  auto got = parse_site_config("", "/conf/dl.toml");
  ASSERT_TRUE(got);
  EXPECT_EQ(got->framework, "generic");
  EXPECT_EQ(got->tier, Tier::kAuto);
  EXPECT_EQ(got->signal_lead.count(), 120);
  EXPECT_EQ(got->gpus_per_node, 0);
  EXPECT_EQ(got->job_dir, "dl-%j");
  ASSERT_EQ(got->catalogue.size(), 2U);
  EXPECT_EQ(got->catalogue[1], "/conf/frameworks.d");
}

struct BadConfig {
  const char* text;
  const char* place_and_key;  // how the message begins
  const char* says;           // what else it holds
};

class BadConfigs : public testing::TestWithParam<BadConfig> {};

TEST_P(BadConfigs, are_refused_with_file_line_key_and_what_is_allowed) {
  auto got = parse_site_config(GetParam().text, "dl.toml");
  ASSERT_FALSE(got) << GetParam().text;
  EXPECT_EQ(got.error().text.rfind(GetParam().place_and_key, 0), 0U) << got.error().text;
  EXPECT_NE(got.error().text.find(GetParam().says), std::string::npos) << got.error().text;
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadConfigs,
    testing::Values(
        BadConfig{"[defaults]\nframwork = \"x\"", "dl.toml:2: defaults.framwork: unknown key", "framework, tier"},
        BadConfig{"x = 1", "dl.toml:1: x: unknown key", "[defaults], [nodes], [tiers], [frameworks], [launcher]"},
        BadConfig{"[nodez]", "dl.toml:1: nodez: unknown key", "[nodes]"},
        BadConfig{"\n\n[tiers.lend]\nqos=\"x\"", "dl.toml:3: tiers.lend: unknown key",
                  "locked, [tiers.guaranteed], [tiers.borrow]"},
        BadConfig{"defaults = 1", "dl.toml:1: defaults: 1 is not accepted", "a table: [defaults]"},
        BadConfig{"[[defaults]]", "dl.toml:1: defaults: an array", "a table"},
        BadConfig{"[defaults]\nframework = \"../x\"", "dl.toml:2: defaults.framework: '../x'", "allowed"},
        BadConfig{"[defaults]\nframework = 1", "dl.toml:2: defaults.framework: 1 is not", "in quotes"},
        BadConfig{"[defaults]\ntier = \"free\"", "dl.toml:2: defaults.tier: 'free'", "\"auto\", \"guaranteed\""},
        BadConfig{"[defaults]\ncpus_per_gpu = -1", "dl.toml:2: defaults.cpus_per_gpu: -1", "from 0 to 65000"},
        BadConfig{"[defaults]\ncpus_per_gpu = 1.5", "dl.toml:2: defaults.cpus_per_gpu:", "a whole number"},
        BadConfig{"[defaults]\ncpus_per_gpu = \"8\"", "dl.toml:2: defaults.cpus_per_gpu: '8'", "a whole number"},
        BadConfig{"[defaults]\ncpus_per_learner = 0", "dl.toml:2: defaults.cpus_per_learner: 0", "from 1"},
        BadConfig{"[defaults]\nrestarts = 1001", "dl.toml:2: defaults.restarts: 1001", "from 0 to 1000"},
        BadConfig{"[defaults]\nrestarts = true", "dl.toml:2: defaults.restarts: true", "a whole number"},
        BadConfig{"[defaults]\nsignal_lead = \"soon\"", "dl.toml:2: defaults.signal_lead: 'soon'", "\"30s\""},
        BadConfig{"[defaults]\nsignal_lead = 65001", "dl.toml:2: defaults.signal_lead: 65001", "18h"},
        BadConfig{"[defaults]\nsignal_lead = -1", "dl.toml:2: defaults.signal_lead: -1", "0s"},
        BadConfig{"[nodes]\ngpus_per_node = 1025", "dl.toml:2: nodes.gpus_per_node: 1025", "1024"},
        BadConfig{"[nodes.types]\na100 = 0", "dl.toml:2: nodes.types.a100: 0", "from 1"},
        BadConfig{"[nodes.types]\n\"a b\" = 1", "dl.toml:2: nodes.types.a b: unknown key", "*"},
        BadConfig{"[tiers.borrow]\nqos = \"a\"\npartition = \"b\"",
                  "dl.toml:2: tiers.borrow.qos: the tier names both a qos and", "one of the two"},
        BadConfig{"[tiers]\nlocked = 1", "dl.toml:2: tiers.locked: 1", "true, false"},
        BadConfig{"[tiers.borrow]\nqos = \"a b\"", "dl.toml:2: tiers.borrow.qos: 'a b'", "QOS"},
        BadConfig{"[tiers.borrow]\npartition = \"a,,b\"", "dl.toml:2: tiers.borrow.partition: 'a,,b'", "commas"},
        BadConfig{"[frameworks]\ncatalogue = \"/x\"", "dl.toml:2: frameworks.catalogue: '/x'", "array"},
        BadConfig{"[frameworks]\ncatalogue = []", "dl.toml:2: frameworks.catalogue: an array", "1 to 16"},
        BadConfig{"[frameworks]\ncatalogue = [\"rel\"]", "dl.toml:2: frameworks.catalogue: 'rel'", "absolute"},
        BadConfig{"[launcher]\njob_dir = \"dl\"", "dl.toml:2: launcher.job_dir: 'dl'", "%j"},
        BadConfig{"[launcher]\njob_dir = \"%j-%s\"", "dl.toml:2: launcher.job_dir: '%j-%s'", "no % besides"},
        BadConfig{"[launcher]\njob_dir = \"%A/%a-%j\"", "dl.toml:2: launcher.job_dir: '%A/%a-%j'", "no % besides"},
        BadConfig{"[launcher]\njob_dir = \"%u/%x\"", "dl.toml:2: launcher.job_dir: '%u/%x'", "%j"},
        BadConfig{"[launcher]\njob_dir = \"%j%\"", "dl.toml:2: launcher.job_dir: '%j%'", "no % besides"},
        BadConfig{"[launcher]\nlog_limit = 1000", "dl.toml:2: launcher.log_limit: 1000", "0 for no limit, or from 8"},
        BadConfig{"[launcher]\nlog_limit = \"2TiB\"", "dl.toml:2: launcher.log_limit: '2TiB'", "to 1"},
        BadConfig{"[launcher]\nlog_limit = -1", "dl.toml:2: launcher.log_limit: -1", "in bytes or as"},
        BadConfig{"[launcher]\njob_dir_mode = 700", "dl.toml:2: launcher.job_dir_mode: 700", "0700"},
        BadConfig{"[launcher]\njob_dir_mode = \"0770\"", "dl.toml:2: launcher.job_dir_mode: '0770'", "owner alone"},
        BadConfig{"[launcher]\njob_dir_mode = \"0500\"", "dl.toml:2: launcher.job_dir_mode: '0500'", "owner alone"},
        BadConfig{"[launcher]\njob_dir_mode = \"u=rwx\"", "dl.toml:2: launcher.job_dir_mode: 'u=rwx'", "0700"},
        BadConfig{"[launcher]\njob_dir_mode = \"7777\"", "dl.toml:2: launcher.job_dir_mode: '7777'", "0700"},
        BadConfig{"[network]\nenforce = true", "dl.toml:2: network.enforce: true", "\"nftables\", \"off\""},
        BadConfig{"[network]\nallow = [\"host\"]", "dl.toml:2: network.allow: 'host'", "10.1.0.0/16"},
        BadConfig{"[network]\nnames = [\"ib\"]", "dl.toml:2: network.names: 'ib'", "%n-ib"},
        BadConfig{"[tenants.a]\nquota = 1\nnetwork = \"none\"", "dl.toml:3: tenants.a.network: 'none'", "\"job\""},
        BadConfig{"[tenants.a]\nquota = 1\nimage_digests = 1", "dl.toml:3: tenants.a.image_digests: 1", "true, false"},
        BadConfig{"[launcher]\ngrace = 0", "dl.toml:2: launcher.grace: 0", "from 1s to 1h"},
        BadConfig{"[launcher]\nagent_timeout = 0", "dl.toml:2: launcher.agent_timeout: 0", "from 1s to "},
        BadConfig{"[idle]\nbelow = 0", "dl.toml:2: idle.below: 0", "from 1"},
        BadConfig{"[elastic]\nsizes = \"best\"", "dl.toml:2: elastic.sizes", "\"policy\", \"optimiser\""},
        BadConfig{"[elastic]\ngrow = true", "dl.toml:2: elastic.grow", "\"queue\", \"in-place\""},
        BadConfig{"[elastic]\nadmission = \"refuse\"", "dl.toml:2: elastic.admission", "\"hold\", \"drop\""},
        BadConfig{"[elastic]\ndrop_after = \"0s\"", "dl.toml:2: elastic.drop_after", "1s"},
        BadConfig{"[elastic]\ninterval = \"1s\"", "dl.toml:2: elastic.interval", "10s"},
        BadConfig{"[metrics]\nmax_jobs = 10001", "dl.toml:2: metrics.max_jobs: 10001", "from 0 to 10000"},
        BadConfig{"[idle]\nafter = \"soon\"", "dl.toml:2: idle.after", "365d"},
        BadConfig{"[idle]\nlends = true", "dl.toml:2: idle.lends: unknown key", "after, below, lend"},
        BadConfig{"[launcher]\npmix = \"none\"", "dl.toml:2: launcher.pmix: 'none'", "\"dlrun\", \"slurm\""},
        BadConfig{"[launcher]\nloop_guard = 0", "dl.toml:2: launcher.loop_guard: 0", "from 1"},
        BadConfig{"[image]\nruntime = \"docker\"", "dl.toml:2: image.runtime: 'docker'", "\"charliecloud\""},
        BadConfig{"[image]\nbind = [\"rel\"]", "dl.toml:2: image.bind: 'rel'", "absolute"},
        BadConfig{"failure = 1", "dl.toml:1: failure: is not accepted", "[[failure]]"},
        BadConfig{"[failure]\npattern = \"x\"", "dl.toml:1: failure: is not accepted", "[[failure]]"},
        BadConfig{"[[failure]]\nclass = \"gpu\"", "dl.toml:1: failure: needs a pattern", "a class"},
        BadConfig{"[[failure]]\npattern = \"x\"\n", "dl.toml:1: failure: needs a pattern", "a class"},
        BadConfig{"[[failure]]\npattern = \"(\"", "dl.toml:2: failure.pattern: '('", "regular expression"},
        BadConfig{"[[failure]]\npattern = \"a{2}\"", "dl.toml:2: failure.pattern: 'a{2}'", "no intervals"},
        BadConfig{"[[failure]]\npattern = \"\"", "dl.toml:2: failure.pattern: ''", "1 to 200"},
        BadConfig{"[[failure]]\npattern = 7", "dl.toml:2: failure.pattern:", "in quotes"},
        BadConfig{"[[failure]]\nclass = \"a b\"", "dl.toml:2: failure.class: 'a b'", "letters"},
        BadConfig{"[[failure]]\nanswer = \"retry\"", "dl.toml:2: failure.answer: 'retry'", "\"requeue\""},
        BadConfig{"[[failure]]\nfault = \"his\"", "dl.toml:2: failure.fault: 'his'", "\"ours\""},
        BadConfig{"[[failure]]\nbudget = -1", "dl.toml:2: failure.budget: '-1'", "from 0 to 1000"},
        BadConfig{"[[failure]]\npattern = \"x\"\nclass = \"y\"\n\n[[failure]]\nfoo = 1",
                  "dl.toml:6: failure.foo: unknown key", "pattern, class, answer"},
        BadConfig{"[nodes.types]\na100 = 8\n[nodes.counts]\nh100 = 2",
                  "dl.toml:4: nodes.counts.h100: GPU type 'h100' is", "not in [nodes.types]; allowed: a100"},
        BadConfig{"[nodes.counts]\nany = 2", "dl.toml:2: nodes.counts.any: 'any' is not a GPU type", "other than any"},
        BadConfig{"[nodes.counts]\na100 = -1", "dl.toml:2: nodes.counts.a100: -1", "from 0"},
        BadConfig{"[quota]\nmin_runn = 1", "dl.toml:2: quota.min_runn: unknown key", "min_run, grace, half_life"},
        BadConfig{"[quota]\nmin_run = \"soon\"", "dl.toml:2: quota.min_run: 'soon'", "\"10m\""},
        BadConfig{"[quota]\ngrace = \"2h\"", "dl.toml:2: quota.grace: '2h'", "from 0s to 1h"},
        BadConfig{"[quota]\nhalf_life = 0", "dl.toml:2: quota.half_life: 0", "from 1s"},
        BadConfig{"[quota]\nmost_unsaved = \"400d\"", "dl.toml:2: quota.most_unsaved: ", "365d"},
        BadConfig{"[quota]\nmost_restart = -1", "dl.toml:2: quota.most_restart: -1", "0s"},
        BadConfig{"[quota]\npatience = -1", "dl.toml:2: quota.patience: -1", "0s"},
        BadConfig{"[quota]\nrequire_pausable = \"yes\"", "dl.toml:2: quota.require_pausable: 'yes'", "true, false"},
        BadConfig{"[quota]\nmax_cpus_per_gpu = -1", "dl.toml:2: quota.max_cpus_per_gpu: -1", "0"},
        BadConfig{"[quota]\nmax_memory_per_gpu = 5", "dl.toml:2: quota.max_memory_per_gpu: 5", "0 for no limit"},
        BadConfig{"[quota]\noperators = \"root\"", "dl.toml:2: quota.operators: 'root'", "array"},
        BadConfig{"[quota]\noperators = [\"a b\"]", "dl.toml:2: quota.operators: 'a b'", "names of users"},
        BadConfig{"[quota]\ncpu_partitions = []", "dl.toml:2: quota.cpu_partitions: an array", "names of partitions"},
        BadConfig{"[quota.type_weights]\na100 = \"2\"", "dl.toml:2: quota.type_weights.a100: '2'", "a number from 0"},
        BadConfig{"[quota.type_weights]\na100 = nan", "dl.toml:2: quota.type_weights.a100:", "a number from 0"},
        BadConfig{"[quota.type_weights]\nborrow = 2", "dl.toml:2: quota.type_weights.borrow: 'borrow' is", "GPU type"},
        BadConfig{"tenants = 1", "dl.toml:1: tenants: 1 is not accepted", "[tenants.NAME]"},
        BadConfig{"[[tenants]]\nname = \"x\"", "dl.toml:1: tenants: an array", "[tenants.NAME]"},
        BadConfig{"[tenants]\nvision = 8", "dl.toml:2: tenants.vision: 8 is not accepted", "[tenants.NAME]"},
        BadConfig{"[tenants.\"a b\"]\nquota = 1", "dl.toml:1: tenants.a b: is not the name of an account", "letters"},
        BadConfig{"[tenants.\"\"]\nquota = 1", "dl.toml:1: tenants.: is not the name of an account", "letters"},
        BadConfig{"[tenants.Nlp]\nquota = 1\n[tenants.nlp]\nquota = 1",
                  "dl.toml:3: tenants.nlp: is tenant 'Nlp' once more", "lower case"},
        BadConfig{"[tenants.a]\nquota = 1\n[tenants.a]\nquota = 1", "dl.toml:3: ", ""},
        BadConfig{"[tenants.a]\nweight = 1", "dl.toml:1: tenants.a: has no quota", "{ any = 4, a100 = 8 }"},
        BadConfig{"[tenants.a]\nqouta = 1", "dl.toml:2: tenants.a.qouta: unknown key", "quota, lend, borrow_limit"},
        BadConfig{"[tenants.a]\nquota = -1", "dl.toml:2: tenants.a.quota: -1", "from 0 to 1000000"},
        BadConfig{"[tenants.a]\nquota = 1000001", "dl.toml:2: tenants.a.quota: 1000001", "from 0 to 1000000"},
        BadConfig{"[tenants.a]\nquota = 1.5", "dl.toml:2: tenants.a.quota: a value", "a whole number of GPUs"},
        BadConfig{"[tenants.a]\nquota = \"8\"", "dl.toml:2: tenants.a.quota: '8'", "or a table"},
        BadConfig{"[tenants.a]\nquota = {}", "dl.toml:2: tenants.a.quota: a table", "{ any = 4, a100 = 8 }"},
        BadConfig{"[tenants.a]\nquota = { a100 = \"x\" }", "dl.toml:2: tenants.a.quota: a100: 'x'", "a whole number"},
        BadConfig{"[tenants.a]\nquota = { \"a 1\" = 2 }", "dl.toml:2: tenants.a.quota: 'a 1' is not a GPU type",
                  "letters"},
        BadConfig{"[tenants.a]\nquota = { borrow = 2 }", "dl.toml:2: tenants.a.quota: 'borrow' is not a GPU type",
                  "other than"},
        BadConfig{"[nodes.types]\na100 = 8\n[tenants.a]\nquota = { a10 = 2 }",
                  "dl.toml:4: tenants.a.quota: GPU type 'a10' is not in [nodes.types]", "allowed: a100"},
        BadConfig{"[tenants.a]\nquota = 4\nlend = 5", "dl.toml:1: tenants.a: lends 5 GPUs of any type of a quota of 4",
                  "at most the quota"},
        BadConfig{"[tenants.a]\nquota = { a100 = 4 }\nlend = { a100 = 5 }",
                  "dl.toml:1: tenants.a: lends 5 GPUs of type 'a100' of a quota of 4", "at most the quota"},
        BadConfig{"[tenants.a]\nquota = { a100 = 4 }\nlend = 2", "dl.toml:1: tenants.a: lends 2 GPUs of any type",
                  "given by type"},
        BadConfig{"[tenants.a]\nquota = 4\nborrow_limit = -1", "dl.toml:3: tenants.a.borrow_limit: -1", "from 0"},
        BadConfig{"[tenants.a]\nquota = 4\nweight = -1", "dl.toml:3: tenants.a.weight: -1", "from 0 to 1000000"},
        BadConfig{"[tenants.a]\nquota = 4\nweight = inf", "dl.toml:3: tenants.a.weight:", "a number"},
        BadConfig{"[tenants.a]\nquota = 4\ngroup = 1", "dl.toml:3: tenants.a.group: 1", "the name of a group"},
        BadConfig{"[tenants.a]\nquota = 4\nmax_job_gpus = 0", "dl.toml:3: tenants.a.max_job_gpus: 0", "from 1"},
        BadConfig{"[tenants.a]\nquota = 4\nmax_user_gpus = 0", "dl.toml:3: tenants.a.max_user_gpus: 0", "from 1"},
        BadConfig{"[tenants.a]\nquota = 4\nmax_user_gpus = -1", "dl.toml:3: tenants.a.max_user_gpus: -1", "from 1"},
        BadConfig{"[tenants.a]\nquota = 4\nmax_user_gpus = \"8\"", "dl.toml:3: tenants.a.max_user_gpus: '8'", "from 1"},
        BadConfig{"[tenants.a]\nquota = 4\nmax_user_gpus = 2.5", "dl.toml:3: tenants.a.max_user_gpus: a value",
                  "from 1"},
        BadConfig{"[tenants.a]\nquota = 4\nmax_user_gpus = { a100 = 2 }",
                  "dl.toml:3: tenants.a.max_user_gpus:", "from 1"},
        BadConfig{"[tenants.a]\nquota = 4\nmax_user_gpus = 99999999999",
                  "dl.toml:3: tenants.a.max_user_gpus: 99999999999", "from 1"},
        BadConfig{"[tenants.a]\nquota = 4\nmax_users_gpus = 2", "dl.toml:3:", "max_user_gpus"},
        BadConfig{"[tenants.a]\nquota = 4\nframeworks = \"x\"", "dl.toml:3: tenants.a.frameworks: 'x'", "array"},
        BadConfig{"[tenants.a]\nquota = 4\nimages = [\"rel/*\"]", "dl.toml:3: tenants.a.images: 'rel/*'", "absolute"},
        BadConfig{"[tenants.a]\nquota = 4\nimages = [\"/a/../*\"]", "dl.toml:3: tenants.a.images: '/a/../*'",
                  "without '..'"},
        BadConfig{"[tenants.a]\nquota = 4\nusers = [7]", "dl.toml:3: tenants.a.users: 7", "names of users"},
        BadConfig{"[tenants.a]\nquota = 4\ndefault_tier = \"free\"", "dl.toml:3: tenants.a.default_tier: 'free'",
                  "\"auto\""},
        BadConfig{"[defaults\n", "dl.toml:1: ", ""}, BadConfig{"a = ", "dl.toml:1: ", ""},
        BadConfig{"[defaults]\nframework = \"x\"\nframework = \"y\"", "dl.toml:3: ", "framework"},
        BadConfig{"\x01", "dl.toml:1: ", ""}, BadConfig{"a = \"\xff\xfe\"", "dl.toml:1: ", ""}));

TEST(SiteConfig, that_is_too_deep_too_wide_or_too_long_is_refused) {
  EXPECT_FALSE(parse_site_config("a = " + std::string(1000, '['), "dl.toml"));
  EXPECT_FALSE(parse_site_config("# " + std::string(4000, 'x'), "dl.toml"));
  std::string comment = "# comment\n";
  std::string big;
  while (big.size() < 1024U * 1024U) big += comment;
  EXPECT_TRUE(parse_site_config(big.substr(0, 1024U * 1024U - 5), "dl.toml"));
  EXPECT_FALSE(parse_site_config(big + comment, "dl.toml"));
}

TEST(SiteConfig, reads_tenants_by_name_and_what_quotas_mean) {
  auto got = parse_site_config(R"(
    [nodes]
    counts = { a100 = 4, h100 = 2 }
    types = { a100 = 8, h100 = 4 }
    [launcher]
    job_dir_mode = "0750"
    log_limit = "64MiB"
    [network]
    enforce = "nftables"
    allow = ["10.0.0.5", "fd00::/8"]
    names = ["%n-ib"]
    [quota]
    min_run = "1m"
    grace = 30
    half_life = "1d"
    patience = 0
    most_unsaved = "30m"
    most_restart = "2m"
    require_pausable = true
    operators = ["dlpolicy", "4711"]
    cpu_partitions = ["cpu"]
    max_cpus_per_gpu = 16
    max_memory_per_gpu = "64GiB"
    type_weights = { h100 = 2.5, a100 = 1 }
    [tenants.vision]
    quota = { any = 4, a100 = 8 }
    lend = { a100 = 2 }
    borrow_limit = 16
    weight = 2.5
    group = "dept-a"
    max_job_gpus = 16
    max_user_gpus = 8
    frameworks = ["pytorch", "jax"]
    images = ["/images/*"]
    image_digests = true
    network = "job"
    users = ["alice"]
    default_tier = "borrow"
    [tenants.Nlp]
    quota = 0
  )",
                               "dl.toml");
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->node_counts.at("a100"), 4);
  EXPECT_EQ(got->job_dir_mode, 0750U);
  EXPECT_EQ(got->log_limit, 64U << 20);
  EXPECT_TRUE(got->network.enforced);
  EXPECT_EQ(got->network.allow, (std::vector<std::string>{"10.0.0.5", "fd00::/8"}));
  EXPECT_EQ(got->network.names, (std::vector<std::string>{"%n-ib"}));
  EXPECT_TRUE(got->tenants[1].network_job && got->tenants[1].image_digests);
  EXPECT_FALSE(got->tenants[0].network_job || got->tenants[0].image_digests);
  EXPECT_EQ(got->quota.min_run.count(), 60);
  EXPECT_EQ(got->quota.grace.count(), 30);
  EXPECT_EQ(got->quota.half_life.count(), 86400);
  EXPECT_EQ(got->quota.patience.count(), 0);
  EXPECT_EQ(got->quota.most_unsaved.count(), 1800);
  EXPECT_EQ(got->quota.most_restart.count(), 120);
  EXPECT_TRUE(got->quota.require_pausable);
  EXPECT_EQ(got->quota.operators, (std::vector<std::string>{"dlpolicy", "4711"}));
  EXPECT_EQ(got->quota.cpu_partitions, (std::vector<std::string>{"cpu"}));
  EXPECT_EQ(got->quota.max_cpus_per_gpu, 16);
  EXPECT_EQ(got->quota.max_memory_per_gpu, uint64_t{64} << 30);
  EXPECT_EQ(got->quota.type_weights.at("h100"), 2.5);
  EXPECT_EQ(got->quota.type_weights.at("a100"), 1);
  ASSERT_EQ(got->tenants.size(), 2U);
  const SiteTenant& nlp = got->tenants[0];
  EXPECT_EQ(nlp.name, "Nlp");
  EXPECT_EQ(nlp.quota.total(), 0);
  EXPECT_FALSE(nlp.lend || nlp.borrow_limit || nlp.max_job_gpus || nlp.max_user_gpus || nlp.default_tier);
  EXPECT_EQ(nlp.weight, 1);
  const SiteTenant& vision = got->tenants[1];
  EXPECT_EQ(vision.quota.any, 4);
  EXPECT_EQ(vision.quota.of("a100"), 8);
  EXPECT_EQ(vision.quota.of("h100"), 0);
  EXPECT_EQ(vision.quota.total(), 12);
  EXPECT_EQ(vision.lend->total(), 2);
  EXPECT_EQ(vision.borrow_limit, 16);
  EXPECT_EQ(vision.weight, 2.5);
  EXPECT_EQ(vision.group, "dept-a");
  EXPECT_EQ(vision.max_job_gpus, 16);
  EXPECT_EQ(vision.max_user_gpus, 8);
  EXPECT_EQ(vision.frameworks, (std::vector<std::string>{"pytorch", "jax"}));
  EXPECT_EQ(vision.images, (std::vector<std::string>{"/images/*"}));
  EXPECT_EQ(vision.users, (std::vector<std::string>{"alice"}));
  EXPECT_EQ(vision.default_tier, Tier::kBorrow);
  EXPECT_EQ(find_tenant(got->tenants, "VISION"), 1);
  EXPECT_EQ(find_tenant(got->tenants, "visio"), -1);
  EXPECT_EQ(find_tenant(got->tenants, ""), -1);
}

TEST(SiteConfig, refuses_more_tenants_than_slurmctld_should_hold) {
  std::string text;
  for (size_t i = 0; i < kMaxTenants; ++i) text += "[tenants.t" + std::to_string(i) + "]\nquota = 1\n";
  EXPECT_TRUE(parse_site_config(text, "dl.toml"));
  EXPECT_FALSE(parse_site_config(text + "[tenants.more]\nquota = 1\n", "dl.toml"));
}

// Each quota is allowed; added up as numbers of 32 bits they would be negative.
TEST(SiteConfig, refuses_quotas_that_are_too_many_gpus_together) {
  std::string text = "[tenant_groups.all]\nquota = { a100 = 1000000, h100 = 1000000 }\n";
  for (int i = 0; i < 999; ++i)
    text += "[tenants.t" + std::to_string(i) + "]\nquota = { a100 = 1000000, h100 = 1000000, l40 = 1000000 }\n";
  const auto config = parse_site_config(text, "dl.toml");
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().text,
            "dl.toml: all quotas of [tenants] and [tenant_groups] are 2999000000 GPUs together; allowed: up to "
            "1000000000");
}

TEST(SiteConfig, takes_rows_for_failures_in_order) {
  auto got = parse_site_config(
      "[[failure]]\npattern = \"mlx5.*[0-9]+ timed out \\\\{\"\nclass = \"fabric\"\nanswer = \"exclude\"\n"
      "[[failure]]\npattern = \"licence\"\nclass = \"exit\"\nfault = \"yours\"\nbudget = 0\n",
      "dl.toml");
  ASSERT_TRUE(got) << got.error().text;
  ASSERT_EQ(got->failures.size(), 2U);
  EXPECT_EQ(got->failures[0].name, "fabric");
  EXPECT_EQ(got->failures[0].pattern, "mlx5.*[0-9]+ timed out \\{");
  EXPECT_EQ(got->failures[0].answer, Answer::kExclude);
  EXPECT_FALSE(got->failures[0].fault);
  EXPECT_FALSE(got->failures[1].answer);
  EXPECT_EQ(got->failures[1].fault, Fault::kYours);
  EXPECT_EQ(got->failures[1].budget, 0);
  std::string many;
  for (size_t i = 0; i <= kMaxFailureRows; ++i) many += "[[failure]]\npattern = \"x\"\nclass = \"y\"\n";
  EXPECT_FALSE(parse_site_config(many, "dl.toml"));
}

char probe;

// slurmctld's threads have stacks of 1 MiB; a quarter of that must do.
TEST(SiteConfig, of_hostile_depth_is_refused_on_a_small_stack) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's frames are several times larger";
#endif
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 256 * 1024), 0);
  auto body = [](void*) -> void* {
    std::string dotted = "a";
    while (dotted.size() < 1000) dotted += ".a";
    const std::string brackets(2000, '[');
    const bool refused = !parse_site_config("[" + dotted + "]\n" + dotted + " = 1\n", "dl.toml") &&
                         !parse_site_config("a = " + brackets, "dl.toml") &&
                         !parse_site_config("a = {" + dotted + " = {" + dotted.substr(0, 900) + " = 1}}", "dl.toml");
    return refused ? &probe : nullptr;
  };
  pthread_t thread{};
  ASSERT_EQ(pthread_create(&thread, &attributes, body, nullptr), 0);
  void* result = nullptr;
  pthread_join(thread, &result);
  pthread_attr_destroy(&attributes);
  EXPECT_NE(result, nullptr);
}

class SiteConfigFile : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(::mkdtemp(folder_), nullptr); }
  void TearDown() override {
    ::unlink(path().c_str());
    ::rmdir(folder_);
  }
  std::string path() const { return std::string(folder_) + "/dl.toml"; }
  char folder_[32] = "/tmp/dl-site-config-XXXXXX";
};

TEST_F(SiteConfigFile, that_is_missing_gives_the_defaults) {
  auto got = load_site_config(path());
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->framework, "generic");
  EXPECT_EQ(got->catalogue.at(1), std::string(folder_) + "/frameworks.d");
}

TEST_F(SiteConfigFile, is_named_in_messages) {
  std::ofstream(path()) << "[defaults]\nrestarts = -1\n";
  auto got = load_site_config(path());
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().text.rfind(path() + ":2: defaults.restarts:", 0), 0U) << got.error().text;
}

TEST_F(SiteConfigFile, that_is_not_a_regular_file_is_refused_without_waiting) {
  EXPECT_FALSE(load_site_config("/dev/zero"));
  EXPECT_FALSE(load_site_config(folder_));
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  EXPECT_FALSE(load_site_config(path()));
}

TEST_F(SiteConfigFile, of_more_than_a_mebibyte_is_refused) {
  std::ofstream(path()) << std::string(1024 * 1024 + 1, '\n');
  EXPECT_FALSE(load_site_config(path()));
}

TEST(SiteConfigPath, is_the_users_only_where_the_environment_is_trusted) {
  ::setenv("DL_CONFIG", "/own/dl.toml", 1);
  ::setenv("SLURM_CONF", "/cluster/etc/slurm.conf", 1);
  EXPECT_EQ(default_site_config_path(true), "/own/dl.toml");
  EXPECT_EQ(default_site_config_path(false), "/cluster/etc/dl.toml");
  ::unsetenv("DL_CONFIG");
  EXPECT_EQ(default_site_config_path(true), "/cluster/etc/dl.toml");
  EXPECT_FALSE(slurm_conf_is_handed_out());
  // What slurmctld hands out lies alone.
  ::unsetenv("SLURM_CONF");
  const std::string compiled_in = default_site_config_path(true);
  for (const char* copy : {"/var/spool/slurmd/conf-cache/slurm.conf", "/run/slurm/conf/slurm.conf"}) {
    ::setenv("SLURM_CONF", copy, 1);
    EXPECT_TRUE(slurm_conf_is_handed_out()) << copy;
    EXPECT_EQ(default_site_config_path(true), compiled_in) << copy;
  }
  ::unsetenv("SLURM_CONF");
  EXPECT_EQ(default_site_config_path(true).substr(default_site_config_path(true).size() - 8), "/dl.toml");
}

}  // namespace
}  // namespace dl
