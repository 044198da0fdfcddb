// SPDX-License-Identifier: Apache-2.0
// The part of job_submit_dl.so, as slurmctld calls it (loader.cpp), with job descriptions of many shapes.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "slurm-plugin/slurm_abi.h"
#include "tests/plugin/slurm_symbols.h"

namespace dl::test {
namespace {

using Init = int();
using Submit = int(job_desc_msg_t*, uint32_t, char**);
#ifdef DL_JOB_MODIFY_HAS_MESSAGE
using Modify = int(job_desc_msg_t*, job_record*, uint32_t, char**);
#else
using Modify = int(job_desc_msg_t*, job_record*, uint32_t);
#endif

const std::string kPrefix = "_SLURM_SPANK_OPTION_dl_dl_";

// A job description that owns what is in it, as slurmctld's does.
class Job {
 public:
  explicit Job(std::vector<std::string> spank_job_env, bool is_batch = true) {
    slurm_init_job_desc_msg(&desc);
    desc.het_job_offset = NO_VAL;  // as slurmctld does before it calls
    set_environment(&desc.spank_job_env, &desc.spank_job_env_size, std::move(spank_job_env));
    if (is_batch) abi::set_string(&desc.script, "#!/bin/sh\nsrun true\n");
    if (is_batch) set_job_environment({"PATH=/bin", "HOME=/root"});
  }
  void set_job_environment(std::vector<std::string> entries) {
    free_environment(&desc.environment, desc.env_size);
    set_environment(&desc.environment, &desc.env_size, std::move(entries));
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job() {
    for (char** field : {&desc.script, &desc.qos, &desc.partition, &desc.tres_per_job, &desc.tres_per_node,
                         &desc.tres_per_socket, &desc.tres_per_task, &desc.array_inx, &desc.cpus_per_tres,
                         &desc.mem_per_tres, &desc.account, &desc.licenses, &desc.admin_comment, &message})
      slurm_xfree(reinterpret_cast<void**>(field));
    free_environment(&desc.spank_job_env, desc.spank_job_env_size);
    free_environment(&desc.environment, desc.env_size);
  }
  std::string text() const { return abi::text_of(message); }
  std::string environment(const std::string& name) const {
    for (uint32_t i = 0; i < desc.env_size; ++i) {
      const std::string entry = desc.environment[i];
      if (entry.rfind(name + "=", 0) == 0) return entry.substr(name.size() + 1);
    }
    return "(none)";
  }
  job_desc_msg_t desc{};
  char* message = nullptr;

 private:
  static void set_environment(char*** list, uint32_t* size, std::vector<std::string> entries) {
    *list = static_cast<char**>(slurm_xcalloc(entries.size() + 1, sizeof(char*), true, false, "", 0, ""));
    *size = static_cast<uint32_t>(entries.size());
    for (size_t i = 0; i < entries.size(); ++i) (*list)[i] = slurm_xstrdup(entries[i].c_str());
  }
  static void free_environment(char*** list, uint32_t size) {
    for (uint32_t i = 0; *list != nullptr && i < size; ++i) slurm_xfree(reinterpret_cast<void**>(&(*list)[i]));
    slurm_xfree(reinterpret_cast<void**>(list));
  }
};

class JobSubmit : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    char name[] = "/tmp/dl-job-submit-XXXXXX";
    folder_ = ::mkdtemp(name);
    ::setenv("SLURM_CONF", (folder_ + "/slurm.conf").c_str(), 1);
    std::filesystem::create_directory(folder_ + "/frameworks.d");
    for (const char* framework : {"generic", "pytorch", "mpi"})
      std::filesystem::copy_file(source_folder() + "/frameworks/" + framework + "/" + framework + ".toml",
                                 folder_ + "/frameworks.d/" + framework + ".toml");
    configure("");
    plugin_ = load_plugin("job_submit.so");
    init_ = symbol<Init>(plugin_, "init");
    submit_ = symbol<Submit>(plugin_, "job_submit");
    modify_ = symbol<Modify>(plugin_, "job_modify");
    ASSERT_EQ(init_(), 0);
  }
  static void TearDownTestSuite() {
    symbol<DlPluginFini()>(plugin_, "fini")();
    std::filesystem::remove_all(folder_);
  }
  void SetUp() override { clear_log(); }

  static void configure(const std::string& more) {
    std::ofstream(folder_ + "/new") << "[frameworks]\ncatalogue = [\"" + folder_ +
                                           "/frameworks.d\"]\n[nodes]\ngpus_per_node = 2\n"
                                           "[tiers.guaranteed]\nqos = \"high\"\n[tiers.borrow]\nqos = \"low\"\n" +
                                           more;
    std::filesystem::rename(folder_ + "/new", folder_ + "/dl.toml");
  }
  // The plugin looks at its files once a second, and tells nobody.
  static void wait_for_the_next_look() { ::usleep(1100 * 1000); }
  static int submit(Job* job) { return submit_(&job->desc, 1000, &job->message); }
  static int modify(job_desc_msg_t* desc, uint32_t uid, char** message) {
#ifdef DL_JOB_MODIFY_HAS_MESSAGE
    return modify_(desc, nullptr, uid, message);
#else
    (void)message;
    return modify_(desc, nullptr, uid);
#endif
  }

  static std::string folder_;
  static void* plugin_;
  static Init* init_;
  static Submit* submit_;
  static Modify* modify_;
};
std::string JobSubmit::folder_;
void* JobSubmit::plugin_;
Init* JobSubmit::init_;
Submit* JobSubmit::submit_;
Modify* JobSubmit::modify_;

TEST_F(JobSubmit, says_what_it_is) {
  EXPECT_STREQ(symbol<const char>(plugin_, "plugin_type"), "job_submit/dl");
  EXPECT_EQ(*symbol<const unsigned int>(plugin_, "plugin_version"), unsigned{SLURM_VERSION_NUMBER});
}

TEST_F(JobSubmit, leaves_jobs_without_our_flags_alone) {
  for (bool batch : {true, false}) {
    Job job({"DL_X=1", "_SLURM_SPANK_OPTION_pyxis_container_image=x", "_SLURM_SPANK_OPTION_dl_dl_frameworks=x"}, batch);
    Job same({}, batch);
    EXPECT_EQ(submit(&job), SLURM_SUCCESS);
    EXPECT_EQ(job.text(), "");
    EXPECT_EQ(job.desc.num_tasks, NO_VAL);
    EXPECT_EQ(job.desc.requeue, NO_VAL16);
    EXPECT_EQ(job.desc.bitflags, same.desc.bitflags);
    EXPECT_EQ(job.desc.qos, nullptr);
    EXPECT_EQ(job.desc.env_size, same.desc.env_size);
  }
}

TEST_F(JobSubmit, makes_a_job_of_the_flags) {
  const long before = blocks_in_use();
  {
    Job job({kPrefix + "framework=pytorch", kPrefix + "learners=4", kPrefix + "gpus=1", kPrefix + "tier=borrow",
             kPrefix + "checkpoint=/ck,every=10m"});
    ASSERT_EQ(submit(&job), SLURM_SUCCESS) << job.text();
    EXPECT_EQ(job.text(),
              "dl: understood as pytorch, 4 learners x 1 GPU on 2 to 4 nodes, borrow tier, checkpoint every 10m");
    EXPECT_EQ(job.desc.num_tasks, 4U);
    EXPECT_NE(job.desc.bitflags & JOB_NTASKS_SET, 0U);
    EXPECT_EQ(job.desc.min_nodes, 2U);
    EXPECT_EQ(job.desc.max_nodes, 4U);
    EXPECT_NE(job.desc.bitflags & USE_MIN_NODES, 0U);
    EXPECT_EQ(job.desc.min_cpus, 4U);
    EXPECT_EQ(abi::text_of(job.desc.tres_per_task), std::string(abi::kGpuGres) + abi::kTaskCountSeparator + "1");
    EXPECT_EQ(job.desc.tres_per_node, nullptr);
    EXPECT_EQ(job.desc.requeue, 1);
    EXPECT_EQ(job.desc.open_mode, OPEN_MODE_APPEND);
    EXPECT_EQ(job.desc.warn_signal, SIGUSR2);
    EXPECT_EQ(job.desc.warn_time, 120);
    EXPECT_EQ(job.desc.warn_flags & KILL_JOB_BATCH, 0);
    EXPECT_STREQ(job.desc.qos, "low");
    EXPECT_EQ(job.environment("DL_SIGNAL"), "USR2@120");
    EXPECT_EQ(job.environment("HOME"), "/root");
  }
  EXPECT_EQ(blocks_in_use(), before) << "memory of Slurm's allocator was leaked";
}

TEST_F(JobSubmit, lets_a_job_find_no_other_request_than_it_announced) {
  const long before = blocks_in_use();
  const std::string inherited = "SLURM_SPANK_" + kPrefix;
  {
    // What --export-file brings, twice over, and forged carriers of the flags.
    Job job({kPrefix + "learners=1"});
    job.set_job_environment({"DL_LEARNERS=99", "DL_LEARNERS=98", kPrefix + "learners=97", inherited + "learners=96",
                             "DL_GPUS=4", kPrefix + "gpus=4", inherited + "gpus=4", "DL_LEARNERS_=9", "DL_TIER="});
    ASSERT_EQ(submit(&job), SLURM_SUCCESS) << job.text();
    std::string all;
    for (uint32_t i = 0; i < job.desc.env_size; ++i) all += std::string(job.desc.environment[i]) + "\n";
    EXPECT_EQ(all, "DL_LEARNERS=1\nDL_LEARNERS=1\n" + kPrefix + "learners=1\n" + inherited + "learners=1\n" +
                       "DL_GPUS=\nDL_GPUS=\nDL_GPUS=\nDL_LEARNERS_=9\nDL_TIER=\nDL_NODE_SIDE=awaited\n");
    EXPECT_EQ(job.text(),
              "dl: DL_LEARNERS=99 in the job's environment does not count: --dl-learners=1 was asked for\n"
              "dl: DL_LEARNERS=98 in the job's environment does not count: --dl-learners=1 was asked for\n"
              "dl: DL_GPUS=4 in the job's environment alone asks for nothing and is emptied; allowed: --dl-gpus=4\n"
              "dl: understood as generic, 1 learner, guaranteed tier");
    // Where --export lost the flags on the way to the node, they are there again.
    Job lost({kPrefix + "learners=1"});
    ASSERT_EQ(submit(&lost), SLURM_SUCCESS);
    EXPECT_EQ(lost.environment("DL_LEARNERS"), "1");
    EXPECT_EQ(lost.environment(inherited + "learners"), "1");
    EXPECT_EQ(lost.text(), "dl: understood as generic, 1 learner, guaranteed tier");
    // A job without flags.
    Job plain({});
    plain.set_job_environment({"DL_LEARNERS=99"});
    ASSERT_EQ(submit(&plain), SLURM_SUCCESS);
    EXPECT_EQ(plain.environment("DL_LEARNERS"), "");
  }
  EXPECT_EQ(blocks_in_use(), before) << "memory of Slurm's allocator was leaked";
}

TEST_F(JobSubmit, spreads_learners_evenly_and_refuses_what_contradicts_it) {
  Job job({kPrefix + "learners=4", kPrefix + "gpus=1", kPrefix + "placement=spread"});
  job.desc.min_nodes = job.desc.max_nodes = 2;
  ASSERT_EQ(submit(&job), SLURM_SUCCESS) << job.text();
  EXPECT_EQ(job.desc.ntasks_per_node, 2);
  EXPECT_EQ(job.desc.bitflags & USE_MIN_NODES, 0U);
  Job packed({kPrefix + "learners=4", kPrefix + "gpus=1", kPrefix + "placement=spread"});
  packed.desc.task_dist = SLURM_DIST_CYCLIC | SLURM_DIST_PACK_NODES;
  EXPECT_EQ(submit(&packed), EINVAL);
  EXPECT_EQ(packed.text(),
            "dl: --distribution=...,Pack conflicts with --dl-placement=spread: it asks for the opposite; leave one of "
            "them out");
}

TEST_F(JobSubmit, keeps_other_gres_beside_the_gpus_of_an_elastic_job) {
  Job job({kPrefix + "learners=2:8", kPrefix + "gpus=1"});
  abi::set_string(&job.desc.tres_per_node, "gres:lustre:1");
  ASSERT_EQ(submit(&job), SLURM_SUCCESS) << job.text();
  EXPECT_EQ(abi::text_of(job.desc.tres_per_node), std::string("gres:lustre:1,") + abi::kGpuGres + ":2");
  EXPECT_EQ(job.desc.min_nodes, 1U);
  EXPECT_EQ(job.desc.max_nodes, 4U);
  EXPECT_EQ(job.desc.num_tasks, NO_VAL);
  EXPECT_EQ(job.desc.pn_min_cpus, 2);
  EXPECT_EQ(job.environment("SLURM_NTASKS_PER_NODE"), "2");
}

TEST_F(JobSubmit, takes_the_tasks_that_sbatch_counts_by_nodes_for_no_word_of_the_users) {
  for (const bool per_core : {true, false}) {
    Job job({kPrefix + "learners=4"});
    job.desc.min_nodes = job.desc.max_nodes = job.desc.num_tasks = 2;
    (per_core ? job.desc.ntasks_per_core : job.desc.threads_per_core) = 1;
    ASSERT_EQ(submit(&job), SLURM_SUCCESS) << job.text();
    EXPECT_EQ(job.desc.num_tasks, 4U);
    EXPECT_EQ(job.desc.min_nodes, 2U);
  }
}

TEST_F(JobSubmit, refuses_in_one_line_that_starts_with_dl) {
  struct {
    std::vector<std::string> env;
    void (*also)(job_desc_msg_t*);
    const char* says;
  } const cases[] = {
      {{kPrefix + "framework=torch"}, nullptr, "dl: --dl-framework: 'torch' is not a known framework; known: "},
      {{kPrefix + "gpus=(null)"}, nullptr, "dl: --dl-gpus: '(null)' is not"},
      {{kPrefix + "gpus="}, nullptr, "dl: --dl-gpus: the value is empty"},
      {{kPrefix + "learners=4"},
       [](job_desc_msg_t* d) { d->num_tasks = 3; },
       "dl: --ntasks=3 conflicts with --dl-learners=4"},
      {{kPrefix + "gpus=1"},
       [](job_desc_msg_t* d) { abi::set_string(&d->tres_per_node, "gres:gpu:1"); },
       "dl: --gres or --gpus-per-node (gres:gpu:1) conflicts with --dl-gpus=1"},
      {{kPrefix + "checkpoint=/c"}, [](job_desc_msg_t* d) { d->requeue = 0; }, "dl: --no-requeue conflicts with"},
      {{kPrefix + "checkpoint=/c"},
       [](job_desc_msg_t* d) { abi::set_string(&d->array_inx, "1-4"); },
       "dl: --array=1-4"},
      {{kPrefix + "learners=2"},
       [](job_desc_msg_t* d) { d->het_job_offset = 0; },
       "dl: --dl-* flags are not available in het"},
      {{kPrefix + "tier=borrow"},
       [](job_desc_msg_t* d) { abi::set_string(&d->qos, "high"); },
       "dl: --qos=high conflicts"},
  };
  for (const auto& c : cases) {
    Job job(c.env);
    if (c.also != nullptr) c.also(&job.desc);
    EXPECT_NE(submit(&job), SLURM_SUCCESS);
    EXPECT_EQ(job.text().rfind(c.says, 0), 0U) << job.text();
    EXPECT_EQ(job.text().find('\n'), std::string::npos) << job.text();
  }
}

TEST_F(JobSubmit, adds_to_the_message_of_an_earlier_plugin) {
  Job job({kPrefix + "learners=1"});
  abi::set_string(&job.message, "lua: hello");
  ASSERT_EQ(submit(&job), SLURM_SUCCESS);
  EXPECT_EQ(job.text(), "lua: hello\ndl: understood as generic, 1 learner, guaranteed tier");
}

const char* const kTenants =
    "[nodes.types]\na100 = 4\n[quota]\noperators = [\"4711\"]\n"
    "[tenants.vision]\nquota = { a100 = 4 }\nborrow_limit = 8\n[tenants.nlp]\nquota = 2\nusers = [\"1000\"]\n";

TEST_F(JobSubmit, charges_gpu_jobs_to_tenants_with_and_without_our_flags) {
  configure(kTenants);
  wait_for_the_next_look();
  const long before = blocks_in_use();
  {
    Job plain({});
    abi::set_string(&plain.desc.tres_per_node, "gres:gpu:2");
    abi::set_string(&plain.desc.account, "VISION");
    abi::set_string(&plain.desc.licenses, "matlab:1");
    ASSERT_EQ(submit(&plain), SLURM_SUCCESS) << plain.text();
    EXPECT_STREQ(plain.desc.licenses, "matlab:1,dl_vision/a100:2");
    EXPECT_STREQ(plain.desc.account, "vision");
    EXPECT_STREQ(plain.desc.tres_per_node, "gres:gpu:2") << "the cluster has one type";
    EXPECT_STREQ(plain.desc.admin_comment,
                 "dl:1 tenant=vision tier=auto learners=1 gpus=2 nodes=1:1 pausable=0 back=requeue placement=pack "
                 "charge=own");
    EXPECT_EQ(plain.desc.min_nodes, 1U);
    EXPECT_EQ(plain.desc.max_nodes, 1U);
    EXPECT_NE(plain.text().find("2 GPUs of its own, or borrowed while its quota is in use"), std::string::npos);
    EXPECT_EQ(plain.desc.qos, nullptr) << "its own, in Slurm's default";
    Job large({kPrefix + "learners=3", kPrefix + "gpus=2"});
    abi::set_string(&large.desc.account, "vision");
    ASSERT_EQ(submit(&large), SLURM_SUCCESS) << large.text();
    EXPECT_STREQ(large.desc.licenses, "dl_vision/borrow:6");
    EXPECT_STREQ(large.desc.qos, "low") << "more than the quota: borrowed from the start";
    EXPECT_NE(large.text().find("\ndl: tenant vision: 6 GPUs borrowed, to be given back"), std::string::npos)
        << large.text();
    Job cpu({});
    abi::set_string(&cpu.desc.licenses, "matlab:1");
    EXPECT_EQ(submit(&cpu), SLURM_SUCCESS);
    EXPECT_EQ(cpu.desc.admin_comment, nullptr);
    EXPECT_STREQ(cpu.desc.licenses, "matlab:1");
    Job his({});
    abi::set_string(&his.desc.tres_per_job, "gres:gpu:1");
    abi::set_string(&his.desc.account, "nlp");
    his.desc.user_id = 1001;
    EXPECT_EQ(submit(&his), ESLURM_ACCESS_DENIED);
    EXPECT_EQ(his.text().rfind("dl: this user is not one of tenant 'nlp'", 0), 0U) << his.text();
    his.desc.user_id = 1000;
    EXPECT_EQ(submit(&his), SLURM_SUCCESS) << his.text();
  }
  EXPECT_EQ(blocks_in_use(), before) << "memory of Slurm's allocator was leaked";
  const struct {
    void (*ask)(job_desc_msg_t*);
    int code;
    const char* says;
  } cases[] = {
      {[](job_desc_msg_t* d) { abi::set_string(&d->tres_per_job, "gres:gpu:1"); }, ESLURM_ACCESS_DENIED,
       "dl: GPUs belong to tenants, and this job has no account"},
      {[](job_desc_msg_t* d) { abi::set_string(&d->licenses, "dl_vision/a100"); }, ESLURM_ACCESS_DENIED,
       "dl: --licenses=dl_vision/a100: names that begin with dl_"},
      {[](job_desc_msg_t* d) {
         abi::set_string(&d->account, "vision");
         abi::set_string(&d->tres_per_job, "gres:gpu:13");
       },
       ESLURM_ACCOUNTING_POLICY, "dl: 13 GPUs of type 'a100' exceed the quota of 4; tenant 'vision' may borrow 8 GPUs"},
      {[](job_desc_msg_t* d) {
         abi::set_string(&d->account, "vision");
         abi::set_string(&d->tres_per_job, "gres:gpu:1");
         d->het_job_offset = 1;
       },
       ESLURM_NOT_SUPPORTED, "dl: GPUs are charged to tenants, which a heterogeneous job"},
      {[](job_desc_msg_t* d) { d->shared = 0; }, ESLURM_ACCESS_DENIED, "dl: GPUs belong to tenants"},
      {[](job_desc_msg_t* d) { d->core_spec = 1; }, ESLURM_ACCESS_DENIED, "dl: GPUs belong to tenants"},
      {[](job_desc_msg_t* d) { d->shared = 2; }, ESLURM_NOT_SUPPORTED, "dl: --exclusive=user"},
  };
  if (&slurm_conf != nullptr) slurm_conf.conf_flags |= abi::kAllowsCoreSpec;
  for (const auto& c : cases) {
    Job job({});
    c.ask(&job.desc);
    EXPECT_EQ(submit(&job), c.code) << c.says;
    EXPECT_EQ(job.text().rfind(c.says, 0), 0U) << job.text();
    EXPECT_EQ(job.text().find('\n'), std::string::npos) << job.text();
  }
}

TEST_F(JobSubmit, lets_operators_change_what_users_may_not) {
  configure(kTenants);
  wait_for_the_next_look();
  job_desc_msg_t desc;
  slurm_init_job_desc_msg(&desc);
  char* message = nullptr;
  EXPECT_EQ(modify(&desc, 1000, &message), SLURM_SUCCESS) << "nothing of ours";
  char empty[] = "";
  desc.licenses = empty;
  EXPECT_EQ(modify(&desc, 1000, &message), ESLURM_ACCESS_DENIED);
  EXPECT_EQ(modify(&desc, 4711, &message), SLURM_SUCCESS);
  EXPECT_EQ(modify(&desc, 0, &message), SLURM_SUCCESS);
  slurm_init_job_desc_msg(&desc);
  desc.shared = 0;
  EXPECT_EQ(modify(&desc, 1000, &message), ESLURM_ACCESS_DENIED);
  slurm_init_job_desc_msg(&desc);
  desc.shared = 2;
  EXPECT_EQ(modify(&desc, 1000, &message), ESLURM_ACCESS_DENIED);
  slurm_init_job_desc_msg(&desc);
  desc.min_nodes = 4;
  EXPECT_EQ(modify(&desc, 1000, &message), ESLURM_ACCESS_DENIED);
  slurm_init_job_desc_msg(&desc);
  desc.begin_time = std::time(nullptr);
  EXPECT_EQ(modify(&desc, 0, &message), SLURM_SUCCESS);
  EXPECT_LE(desc.begin_time, std::time(nullptr)) << "root may let a job start at once";
  EXPECT_EQ(modify(&desc, 1000, &message), SLURM_SUCCESS);
  EXPECT_GT(desc.begin_time, std::time(nullptr)) << "dlpolicyd is to see it first";
  desc.begin_time = -1;  // slurmctld starts such a job at once
  EXPECT_EQ(modify(&desc, 1000, &message), SLURM_SUCCESS);
  EXPECT_GT(desc.begin_time, std::time(nullptr));
  slurm_xfree(reinterpret_cast<void**>(&message));
  configure("");
  wait_for_the_next_look();
  EXPECT_EQ(modify(&desc, 1000, &message), SLURM_SUCCESS) << "no tenants";
}

TEST_F(JobSubmit, limits_what_a_job_takes_beside_its_gpus) {
  configure(std::string("[quota]\nmax_cpus_per_gpu = 16\nmax_memory_per_gpu = \"64GiB\"\n") +
            "[nodes.types]\na100 = 4\n[tenants.vision]\nquota = { a100 = 4 }\n");
  wait_for_the_next_look();
  void (*const too_much[])(job_desc_msg_t*) = {
      [](job_desc_msg_t* d) { d->cpus_per_task = 17; },
      [](job_desc_msg_t* d) { d->cpus_per_task = 17, d->overcommit = 1, d->min_cpus = 1; },
      [](job_desc_msg_t* d) { d->min_cpus = 17; },
      [](job_desc_msg_t* d) { d->max_cpus = 17; },
      [](job_desc_msg_t* d) { d->pn_min_cpus = 17; },
      [](job_desc_msg_t* d) { abi::set_string(&d->cpus_per_tres, "gres:gpu:17"); },
      [](job_desc_msg_t* d) { abi::set_string(&d->cpus_per_tres, "gres:gpu:1K"); },
      [](job_desc_msg_t* d) { d->pn_min_memory = 0; },
      [](job_desc_msg_t* d) { d->pn_min_memory = 64 * 1024 + 1; },
      [](job_desc_msg_t* d) { d->pn_min_memory = MEM_PER_CPU | (64 * 1024 + 1); },
      [](job_desc_msg_t* d) { abi::set_string(&d->mem_per_tres, "gres/gpu:65537"); },
  };
  for (const auto& ask : too_much) {
    Job job({});
    abi::set_string(&job.desc.account, "vision");
    abi::set_string(&job.desc.tres_per_job, "gres:gpu:1");
    ask(&job.desc);
    EXPECT_EQ(submit(&job), ESLURM_ACCOUNTING_POLICY) << &ask - too_much;
    EXPECT_EQ(job.text().rfind("dl: the job asks for ", 0), 0U) << &ask - too_much << job.text();
    Job change({}, false);
    ask(&change.desc);
    char* message = nullptr;
    EXPECT_EQ(modify(&change.desc, 1000, &message), ESLURM_ACCESS_DENIED) << &ask - too_much;
    slurm_xfree(reinterpret_cast<void**>(&message));
  }
  Job plain({});
  abi::set_string(&plain.desc.account, "vision");
  abi::set_string(&plain.desc.tres_per_job, "gres:gpu:1");
  EXPECT_EQ(submit(&plain), SLURM_SUCCESS) << plain.text();
  configure("");
  wait_for_the_next_look();
}

TEST_F(JobSubmit, knows_srun_from_salloc) {
  Job salloc({kPrefix + "learners=2"}, false);
  EXPECT_EQ(submit(&salloc), SLURM_SUCCESS) << salloc.text();
  EXPECT_EQ(salloc.desc.requeue, NO_VAL16);
  Job srun({kPrefix + "learners=2", "DL_CLIENT=srun"}, false);
  EXPECT_NE(submit(&srun), SLURM_SUCCESS);
  Job with({kPrefix + "learners=2", "DL_CLIENT=srun"}, false);
  with.desc.num_tasks = 2;
  EXPECT_EQ(submit(&with), SLURM_SUCCESS) << with.text();
}

// What a forged environment may hold. Whatever the answer, it is a bounded line without control characters, and
// slurmctld lives.
TEST_F(JobSubmit, survives_hostile_environments) {
  std::string control;
  for (int c = 1; c < 256; ++c) control += static_cast<char>(c);
  const std::string values[] = {std::string(1000000, 'x'),
                                std::string(1000000, ','),
                                std::string(100000, ':'),
                                control,
                                "%s%s%s%n",
                                "'\"`$(reboot)`\"'",
                                "-1",
                                "99999999999999999999999",
                                "1:2:3",
                                "\n\n\n",
                                "../../../etc/passwd",
                                "pytorch\nroot",
                                ""};
  for (const char* flag : {"framework", "learners", "gpus", "checkpoint", "restarts", "tier"})
    for (const std::string& value : values) {
      Job job({kPrefix + flag + "=" + value});
      const int rc = submit(&job);
      EXPECT_LT(job.text().size(), 1024U);
      EXPECT_EQ(job.text().rfind("dl: ", 0), 0U);
      if (rc == SLURM_SUCCESS) continue;
      for (char c : job.text()) EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20) << flag;
    }
  std::vector<std::string> many(20000, "X=" + std::string(100, 'y'));
  many.push_back(kPrefix + "learners=3");
  many.push_back(kPrefix + "learners=2");
  many.push_back(kPrefix + "learners");
  many.emplace_back("");
  many.emplace_back("=");
  Job job(std::move(many));
  EXPECT_EQ(submit(&job), SLURM_SUCCESS);
  EXPECT_EQ(job.desc.num_tasks, 2U);
  Job none({});
  slurm_xfree(reinterpret_cast<void**>(&none.desc.spank_job_env));
  none.desc.spank_job_env_size = 7;  // as a broken client might send it
  EXPECT_EQ(submit(&none), SLURM_SUCCESS);
  Job hole({kPrefix + "learners=2", "b", "c"});
  slurm_xfree(reinterpret_cast<void**>(&hole.desc.spank_job_env[1]));
  EXPECT_EQ(submit(&hole), SLURM_SUCCESS);
}

TEST_F(JobSubmit, lets_no_user_move_a_job_into_a_tier) {
  job_desc_msg_t desc;
  slurm_init_job_desc_msg(&desc);
  char high[] = "high";
  char other[] = "other";
  char* message = nullptr;
  EXPECT_EQ(modify(&desc, 1000, &message), SLURM_SUCCESS);
  desc.qos = other;
  EXPECT_EQ(modify(&desc, 1000, &message), SLURM_SUCCESS);
  desc.qos = high;
  EXPECT_EQ(modify(&desc, 0, &message), SLURM_SUCCESS);
  EXPECT_EQ(modify(&desc, ::geteuid(), &message), SLURM_SUCCESS);
  EXPECT_EQ(message, nullptr);
  EXPECT_EQ(modify(&desc, 1000, &message), ESLURM_ACCESS_DENIED);
#ifdef DL_JOB_MODIFY_HAS_MESSAGE
  EXPECT_NE(abi::text_of(message).find("--dl-tier=guaranteed"), std::string::npos);
  slurm_xfree(reinterpret_cast<void**>(&message));
#endif
}

TEST_F(JobSubmit, reads_a_changed_configuration_and_keeps_the_old_one_if_it_is_broken) {
  const auto qos_of_a_job = [&] {
    Job job({kPrefix + "tier=borrow", kPrefix + "checkpoint=/ck"});
    EXPECT_EQ(submit(&job), SLURM_SUCCESS) << job.text();
    return abi::text_of(job.desc.qos);
  };
  EXPECT_EQ(qos_of_a_job(), "low");
  std::ofstream(folder_ + "/dl.toml") << "[tiers.borrow]\nqos = 3\n";
  wait_for_the_next_look();
  EXPECT_EQ(qos_of_a_job(), "low");
  ASSERT_EQ(logged_errors().size(), 1U);
  EXPECT_NE(logged_errors()[0].find("dl.toml:2: tiers.borrow.qos: 3 is not accepted"), std::string::npos);
  configure("[defaults]\nsignal_lead = 33\n");
  wait_for_the_next_look();
  Job job({kPrefix + "checkpoint=/ck"});
  ASSERT_EQ(submit(&job), SLURM_SUCCESS);
  EXPECT_EQ(job.desc.warn_time, 33);
  EXPECT_EQ(logged_errors().size(), 1U);
  EXPECT_EQ(logged_infos().size(), 1U);
}

// From 23.11 on `scontrol reconfigure` starts another slurmctld, and the one that runs goes on if that one fails.
TEST_F(JobSubmit, refuses_to_replace_a_running_controller_while_the_configuration_is_broken) {
  const auto start = [] {
    symbol<DlPluginFini()>(plugin_, "fini")();
    clear_log();
    return init_();
  };
  std::ofstream(folder_ + "/dl.toml") << "[tiers.borrow]\nqos = 3\n";
  ::setenv("SLURMCTLD_RECONF", "1", 1);
  // A slurmctld in the foreground has replaced itself: nobody is left to go on.
  EXPECT_EQ(start(), SLURM_SUCCESS);
  ::setenv("SLURMCTLD_RECONF_PARENT_FD", "7", 1);
  EXPECT_EQ(start(), SLURM_ERROR);
  ASSERT_EQ(logged_errors().size(), 2U);
  EXPECT_NE(logged_errors()[0].find("dl.toml:2: tiers.borrow.qos: 3 is not accepted"), std::string::npos);
  EXPECT_EQ(logged_errors()[1],
            "dl: the reconfigure is refused: the slurmctld that runs goes on with the configuration it has; mend the "
            "file, then reconfigure again");
  configure("");
  EXPECT_EQ(start(), SLURM_SUCCESS);
  EXPECT_EQ(logged_errors().size(), 0U);
  ::unsetenv("SLURMCTLD_RECONF");
  ::unsetenv("SLURMCTLD_RECONF_PARENT_FD");
}

// From 23.02 on, slurmctld calls from several threads at once.
TEST_F(JobSubmit, may_be_called_by_many_threads_while_the_configuration_changes) {
  const long before = blocks_in_use();
  std::atomic<bool> stop{false};
  std::atomic<long> wrong{0};
  std::atomic<long> done{0};
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      while (!stop) {
        const int learners = 1 + i % 4;
        Job job({kPrefix + "learners=" + std::to_string(learners), kPrefix + "gpus=1", kPrefix + "checkpoint=/ck"});
        if (submit(&job) != SLURM_SUCCESS || job.desc.num_tasks != static_cast<uint32_t>(learners)) ++wrong;
        ++done;
      }
    });
  for (int i = 0; i < 12; ++i) {
    if (i % 2 == 0)
      configure("[defaults]\nrestarts = " + std::to_string(i) + "\n");
    else
      std::ofstream(folder_ + "/dl.toml") << "[broken\n";
    ::usleep(250 * 1000);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(done, 100);
  EXPECT_EQ(blocks_in_use(), before);
  configure("");
}

}  // namespace
}  // namespace dl::test
