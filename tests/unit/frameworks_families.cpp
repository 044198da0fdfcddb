// SPDX-License-Identifier: Apache-2.0
// Vectors: where a learner stands -> what it finds.
#include "frameworks/families.h"

#include <gtest/gtest.h>

namespace dl {
namespace {

LearnerContext third_of_four() {
  LearnerContext c;
  c.rank = 2, c.world_size = 4;
  c.local_rank = 0, c.local_world_size = 2;
  c.node_rank = 1, c.num_nodes = 2;
  c.master_addr = "10.0.0.1", c.master_port = 41234;
  c.coordinator_port = 41235, c.ras_port = 41236, c.interface = "eth1";
  c.node_list = "n[1-2]", c.tasks_per_node = "2(x2)", c.node_ranks = "2,3";
  c.gpus_per_learner = 2, c.cpus_per_learner = 3;
  c.job_id = "12", c.run_id = "12.1.0", c.attempt = 2, c.restarts = 1, c.max_restarts = 3;
  c.job_dir = "/j", c.log_dir = "/j/logs/attempt-2", c.work_dir = "/w", c.checkpoint_dir = "/c";
  c.command = "python3 train.py\n--lr 1";
  return c;
}

Environment family(const std::string& name, const LearnerContext& context, Environment env = {}) {
  const Status status = add_family(name, context, &env);
  EXPECT_TRUE(status) << name;
  return env;
}

TEST(Families, Dl) {
  const Environment expected{{"DL_RANK", "2"},         {"DL_WORLD_SIZE", "4"},     {"DL_LOCAL_RANK", "0"},
                             {"DL_NODE_RANK", "1"},    {"DL_NUM_NODES", "2"},      {"DL_LOCAL_WORLD_SIZE", "2"},
                             {"DL_LOCAL_GPUS", "0,1"}, {"DL_JOB_DIR", "/j"},       {"DL_ATTEMPT", "2"},
                             {"DL_RUN_ID", "12.1.0"},  {"DL_CHECKPOINT_DIR", "/c"}};
  EXPECT_EQ(family("dl", third_of_four()), expected);
}

TEST(Families, DlTellsEachLearnerItsPartOfTheBatch) {
  LearnerContext c = third_of_four();
  c.servers = 1;  // three learners, and rank 3 serves
  describe_batch({10, 20, 1, BatchRule::kSqrt, 2}, {20, 4}, &c);
  int64_t sum = 0;
  for (c.rank = 0; c.rank < 3; ++c.rank) {
    const Environment env = family("dl", c);
    EXPECT_EQ(env.at("DL_BATCH"), "10:20,rule=sqrt,micro=2");
    EXPECT_EQ(env.at("DL_GLOBAL_BATCH"), "20");
    EXPECT_EQ(env.at("DL_ACCUMULATION"), "4");
    EXPECT_EQ(env.at("DL_LR_SCALE"), "1.41421356");
    sum += std::stoi(env.at("DL_LOCAL_BATCH"));
  }
  EXPECT_EQ(sum, 20);
  const Environment server = family("dl", c, {{"DL_LOCAL_BATCH", "5"}, {"DL_LR_SCALE", "3"}});
  for (const char* name : {"DL_GLOBAL_BATCH", "DL_LOCAL_BATCH", "DL_ACCUMULATION", "DL_LR_SCALE"})
    EXPECT_EQ(server.count(name), 0U) << name;
  c = third_of_four();
  EXPECT_EQ(family("dl", c, {{"DL_GLOBAL_BATCH", "64"}}).count("DL_GLOBAL_BATCH"), 0U) << "of another job";
}

TEST(Families, TorchWithTheStoreOfTheLauncher) {
  LearnerContext c = third_of_four();
  c.launcher_store = true, c.store_addr = "10.0.0.9", c.store_port = 5555;
  Environment env = family("torch", c);
  EXPECT_EQ(env.at("MASTER_ADDR"), "10.0.0.9");
  EXPECT_EQ(env.at("MASTER_PORT"), "5555");
  EXPECT_EQ(env.at("TORCHELASTIC_USE_AGENT_STORE"), "True");
  // Either of the user's own means that rank 0 hosts: the other is that of rank 0.
  env = family("torch", c, {{"MASTER_PORT", "29500"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  EXPECT_EQ(env.at("MASTER_ADDR"), "10.0.0.1");
  EXPECT_EQ(env.at("MASTER_PORT"), "29500");
  EXPECT_EQ(env.at("TORCHELASTIC_USE_AGENT_STORE"), "False");
  env = family("torch", c, {{"MASTER_ADDR", "host"}});
  EXPECT_EQ(env.at("MASTER_ADDR"), "host");
  EXPECT_EQ(env.at("MASTER_PORT"), "41234");
  EXPECT_EQ(env.at("TORCHELASTIC_USE_AGENT_STORE"), "False");
  // So does a PyTorch without libuv, which is no client of a store that dlrun hosts.
  env = family("torch", c, {{"USE_LIBUV", "0"}});
  EXPECT_EQ(env.at("MASTER_ADDR"), "10.0.0.1");
  EXPECT_EQ(env.at("MASTER_PORT"), "41234");
  EXPECT_EQ(env.at("TORCHELASTIC_USE_AGENT_STORE"), "False");
  EXPECT_EQ(family("torch", c, {{"USE_LIBUV", "1"}}).at("TORCHELASTIC_USE_AGENT_STORE"), "True");
  c.store_addr.clear(), c.store_port = 0;  // not known yet
  env = family("torch", c);
  EXPECT_EQ(env.at("MASTER_ADDR"), "10.0.0.1");
  EXPECT_EQ(env.count("MASTER_PORT"), 0U);
}

TEST(Families, Torch) {
  const Environment expected{{"MASTER_ADDR", "10.0.0.1"},
                             {"MASTER_PORT", "41234"},
                             {"RANK", "2"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "0"},
                             {"LOCAL_WORLD_SIZE", "2"},
                             {"GROUP_RANK", "1"},
                             {"GROUP_WORLD_SIZE", "2"},
                             {"ROLE_RANK", "2"},
                             {"ROLE_WORLD_SIZE", "4"},
                             {"ROLE_NAME", "default"},
                             {"TORCHELASTIC_RESTART_COUNT", "1"},
                             {"TORCHELASTIC_MAX_RESTARTS", "3"},
                             {"TORCHELASTIC_RUN_ID", "12.1.0"},
                             {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                             {"TORCHELASTIC_ERROR_FILE", "/j/logs/attempt-2/learner-2.error.json"},
                             {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                             {"OMP_NUM_THREADS", "3"}};
  EXPECT_EQ(family("torch", third_of_four()), expected);
}

TEST(Families, FfdlCountsFromOneAndWritesFloats) {
  const Environment expected{{"LEARNER_ID", "3"},
                             {"NUM_LEARNERS", "4"},
                             {"LEARNER_NAME_PREFIX", "learner"},
                             {"GPU_COUNT", "2.000000"},
                             {"JOB_STATE_DIR", "/j"},
                             {"MODEL_DIR", "/w"},
                             {"LOG_DIR", "/j/logs/attempt-2"},
                             {"DATA_DIR", "/w"},
                             {"RESULT_DIR", "/j/results"},
                             {"RESULT_BUCKET_DIR", "/j/results"},
                             {"CHECKPOINT_DIR", "/c"},
                             {"TRAINING_ID", "12"},
                             {"TRAINING_COMMAND", "python3 train.py --lr 1"}};
  EXPECT_EQ(family("ffdl", third_of_four()), expected);
}

TEST(Families, SlurmNumbersAreThoseOfLearnersAndOnlyInAJob) {
  LearnerContext c = third_of_four();
  const Environment env = family("slurm", c, {{"SLURM_PROCID", "0"}, {"SLURM_JOB_ID", "12"}});
  EXPECT_EQ(env.at("SLURM_PROCID"), "2");
  EXPECT_EQ(env.at("SLURM_NTASKS"), "4");
  EXPECT_EQ(env.at("SLURM_LOCALID"), "0");
  EXPECT_EQ(env.at("SLURM_JOB_ID"), "12");
  c.job_id = "local-20261121-030000-7";
  EXPECT_EQ(family("slurm", c), Environment());
}

TEST(Families, SlurmListsAreTheLearnersWhereKnownAndElseSlurmsOwnStay) {
  LearnerContext c = third_of_four();
  const Environment slurms{{"SLURM_STEP_NODELIST", "n[7-9]"}, {"SLURM_GTIDS", "9"}};
  Environment env = family("slurm", c, slurms);
  EXPECT_EQ(env.at("SLURM_STEP_NODELIST"), "n[1-2]");
  EXPECT_EQ(env.at("SLURM_TASKS_PER_NODE"), "2(x2)");
  EXPECT_EQ(env.at("SLURM_STEP_TASKS_PER_NODE"), "2(x2)");
  EXPECT_EQ(env.at("SLURM_GTIDS"), "2,3");
  c.node_list = c.tasks_per_node = c.node_ranks = "";
  env = family("slurm", c, slurms);
  EXPECT_EQ(env.at("SLURM_STEP_NODELIST"), "n[7-9]");
  EXPECT_EQ(env.at("SLURM_GTIDS"), "9");
  EXPECT_EQ(env.count("SLURM_TASKS_PER_NODE"), 0U);
}

TEST(Families, Jax) {
  LearnerContext c = third_of_four();
  const Environment expected{{"JAX_COORDINATOR_ADDRESS", "10.0.0.1:41235"},
                             {"JAX_COORDINATOR_BIND_ADDRESS", "10.0.0.1:41235"},
                             {"JAX_COORDINATOR_PORT", "41235"},
                             {"JAX_LOCAL_DEVICE_IDS", "0,1"},
                             {"JAX_NUM_PROCESSES", "4"},
                             {"JAX_PROCESS_ID", "2"}};
  EXPECT_EQ(family("jax", c), expected);
  c.master_addr = "fe80::1";
  EXPECT_EQ(family("jax", c).at("JAX_COORDINATOR_ADDRESS"), "[fe80::1]:41235");
  c.master_addr = "n1";  // may be 127.0.1.1 on n1 itself
  EXPECT_EQ(family("jax", c).count("JAX_COORDINATOR_BIND_ADDRESS"), 0U);
  c.coordinator_port = 0, c.gpus_per_learner = 0;
  EXPECT_EQ(family("jax", c), (Environment{{"JAX_NUM_PROCESSES", "4"}, {"JAX_PROCESS_ID", "2"}}));
}

TEST(Families, NoAddressToBindBesideACoordinatorOfTheUsers) {
  const Environment env = family("jax", third_of_four(), {{"JAX_COORDINATOR_ADDRESS", "far:1"}});
  EXPECT_EQ(env.at("JAX_COORDINATOR_ADDRESS"), "far:1");
  EXPECT_EQ(env.count("JAX_COORDINATOR_BIND_ADDRESS"), 0U);
  EXPECT_EQ(env.count("JAX_COORDINATOR_PORT"), 0U);
}

TEST(Families, JaxIdsOutsideSlurmAlone) {
  LearnerContext c = third_of_four();
  EXPECT_EQ(family("jax_ids", c), Environment());
  c.job_id = "local-20261121-030000-7";
  const Environment expected{{"OMPI_MCA_orte_hnp_uri", "0.0;tcp://10.0.0.1:41235"},
                             {"OMPI_COMM_WORLD_RANK", "2"},
                             {"OMPI_COMM_WORLD_SIZE", "4"},
                             {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}};
  EXPECT_EQ(family("jax_ids", c), expected);
}

TEST(Families, TensorflowListsWorkersByRankAndLeavesTheUsersAloneWhereNoneAreKnown) {
  LearnerContext c = third_of_four();
  const Environment users{{"TF_CONFIG", "{}"}};
  EXPECT_EQ(family("tensorflow", c, users), users);
  c.peers = {"10.0.0.1:1", "10.0.0.1:2", "[fe80::2]:3", "10.0.0.2:4"};
  EXPECT_EQ(family("tensorflow", c, users).at("TF_CONFIG"),
            R"({"cluster": {"worker": ["10.0.0.1:1", "10.0.0.1:2", "[fe80::2]:3", "10.0.0.2:4"]}, )"
            R"("task": {"type": "worker", "index": 2}})");
}

TEST(Families, ServersComeLastHaveNoGpuAndAreNoLearners) {
  LearnerContext c = third_of_four();
  c.peers = {"a:1", "b:2", "c:3", "d:4"};
  c.servers = 1;
  const Environment taken{{"DL_ROLE", "x"}, {"CUDA_VISIBLE_DEVICES", "0,1"}, {"DL_SERVERS", "7"}};
  Environment env = family("dl", c, taken);
  EXPECT_EQ(env.at("DL_ROLE") + env.at("DL_ROLE_RANK") + env.at("DL_ROLE_SIZE") + env.at("DL_SERVERS"), "learner231");
  EXPECT_EQ(env.at("CUDA_VISIBLE_DEVICES"), "0,1") << "a learner's stay";
  EXPECT_EQ(env.at("DL_WORLD_SIZE"), "4");
  EXPECT_EQ(family("ffdl", c).at("NUM_LEARNERS"), "3");
  EXPECT_EQ(family("torch", c).at("ROLE_NAME"), "learner");
  EXPECT_EQ(family("tensorflow", c).at("TF_CONFIG"),
            R"({"cluster": {"chief": ["a:1"], "worker": ["b:2", "c:3"], "ps": ["d:4"]}, )"
            R"("task": {"type": "worker", "index": 1}})");
  c.servers = 2;
  c.gpus_per_learner = 0;
  env = family("dl", c, taken);
  EXPECT_EQ(env.at("DL_ROLE") + env.at("DL_ROLE_RANK") + env.at("DL_ROLE_SIZE") + env.at("DL_SERVERS"), "server022");
  EXPECT_EQ(env.at("CUDA_VISIBLE_DEVICES"), "-1");
  EXPECT_EQ(env.count("DL_LOCAL_GPUS"), 0U);
  EXPECT_EQ(family("ffdl", c).count("LEARNER_ID"), 0U);
  EXPECT_EQ(family("torch", c).at("ROLE_RANK") + family("torch", c).at("RANK"), "02");
  EXPECT_EQ(family("tensorflow", c).at("TF_CONFIG"),
            R"({"cluster": {"chief": ["a:1"], "worker": ["b:2"], "ps": ["c:3", "d:4"]}, )"
            R"("task": {"type": "ps", "index": 0}})");
  c.rank = 0;
  EXPECT_NE(family("tensorflow", c).at("TF_CONFIG").find(R"("task": {"type": "chief", "index": 0})"),
            std::string::npos);
  // Without servers a nested job's learner is no server of the job around it.
  c.servers = 0;
  env = family("dl", c, taken);
  EXPECT_EQ(env.count("DL_ROLE"), 0U);
  EXPECT_TRUE(family_needs({"tensorflow", "torch"}).first_decides);
  EXPECT_FALSE(family_needs({"peers"}).first_decides);
}

TEST(Families, PeersAndOwnPorts) {
  LearnerContext c = third_of_four();
  EXPECT_EQ(family("peers", c), Environment());
  EXPECT_EQ(family("dl", c, {{"DL_PORTS", "7"}}).count("DL_PORTS"), 0U);
  c.peers = {"10.0.0.1:1", "10.0.0.1:2"};
  c.ports = {3, 4};
  EXPECT_EQ(family("peers", c).at("DL_PEERS"), "10.0.0.1:1,10.0.0.1:2");
  EXPECT_EQ(family("dl", c).at("DL_PORTS"), "3,4");
}

TEST(Families, NcclMeetsAtTheHeldPortOfRankZero) {
  LearnerContext c = third_of_four();
  EXPECT_EQ(family("nccl", c), Environment());
  c.peers = {"10.0.0.1:1", "10.0.0.1:2", "10.0.0.2:3", "10.0.0.2:4"};
  EXPECT_EQ(family("nccl", c), (Environment{{"NCCL_COMM_ID", "10.0.0.1:1"}}));
  EXPECT_EQ(family("nccl", c, {{"NCCL_COMM_ID", "h:5"}}).at("NCCL_COMM_ID"), "h:5");
  EXPECT_EQ(family_needs({"nccl"}).ports, 1);
  EXPECT_TRUE(family_needs({"nccl"}).peers);
}

TEST(Families, NetworkNamesTheInterfaceIfKnown) {
  LearnerContext c = third_of_four();
  const Environment expected{{"GLOO_SOCKET_IFNAME", "eth1"},
                             {"TP_SOCKET_IFNAME", "eth1"},
                             {"NCCL_SOCKET_IFNAME", "=eth1"},
                             {"NCCL_RAS_ADDR", "localhost:41236"}};
  EXPECT_EQ(family("network", c), expected);
  EXPECT_EQ(family("network", c, {{"NCCL_SOCKET_IFNAME", "ib0"}}).at("NCCL_SOCKET_IFNAME"), "ib0");
  c.interface = "", c.ras_port = 0;
  EXPECT_EQ(family("network", c), Environment());
}

TEST(Families, ThreadsAreTheLearnersCpus) {
  LearnerContext c = third_of_four();
  EXPECT_EQ(family("threads", c), (Environment{{"OMP_NUM_THREADS", "3"}, {"LOKY_MAX_CPU_COUNT", "3"}}));
  c.cpus_per_learner = 0;
  EXPECT_EQ(family("threads", c), Environment());
}

TEST(Families, SomeNeedPortsAndPeers) {
  EXPECT_EQ(family_needs({"torch", "jax", "nonsense"}).ports, 0);
  EXPECT_FALSE(family_needs({"torch", "jax"}).peers);
  EXPECT_EQ(family_needs({"torch", "tensorflow"}).ports, 1);
  EXPECT_TRUE(family_needs({"peers"}).peers);
}

TEST(Families, HorovodAsFromHorovodrun) {
  LearnerContext c = third_of_four();
  c.http_store_addr = "10.0.0.9", c.http_store_port = 5555;
  c.cross_rank = 1, c.cross_size = 2, c.node_name = "n2";
  const Environment expected{{"HOROVOD_RANK", "2"},
                             {"HOROVOD_SIZE", "4"},
                             {"HOROVOD_LOCAL_RANK", "0"},
                             {"HOROVOD_LOCAL_SIZE", "2"},
                             {"HOROVOD_CROSS_RANK", "1"},
                             {"HOROVOD_CROSS_SIZE", "2"},
                             {"HOROVOD_HOSTNAME", "n2"},
                             {"HOROVOD_GLOO_RENDEZVOUS_ADDR", "10.0.0.9"},
                             {"HOROVOD_GLOO_RENDEZVOUS_PORT", "5555"},
                             {"HOROVOD_GLOO_IFACE", "eth1"},
                             {"HOROVOD_CONTROLLER", "gloo"},
                             {"HOROVOD_CPU_OPERATIONS", "gloo"}};
  EXPECT_EQ(family("horovod", c), expected);
  EXPECT_TRUE(family_needs({"slurm", "horovod"}).http_store);
  EXPECT_FALSE(family_needs({"torch", "jax"}).http_store);
  // Of three learners and a server beside them, the server takes no part; what it inherits would make it a rank.
  c.servers = 1, c.local_servers = 1;
  EXPECT_EQ(family("horovod", c).at("HOROVOD_SIZE"), "3");
  EXPECT_EQ(family("horovod", c).at("HOROVOD_LOCAL_SIZE"), "1");
  c.rank = 3;
  const Environment server = family("horovod", c, {{"HOROVOD_RANK", "0"}, {"HOROVOD_GLOO_RENDEZVOUS_ADDR", "x"}});
  EXPECT_EQ(server.count("HOROVOD_RANK") + server.count("HOROVOD_GLOO_RENDEZVOUS_ADDR"), 0U);
}

TEST(Families, MpiGivesRanksBeforeInit) {
  const Environment env = family("mpi", third_of_four());
  EXPECT_EQ(env.at("OMPI_COMM_WORLD_RANK"), "2");
  EXPECT_EQ(env.at("OMPI_COMM_WORLD_LOCAL_SIZE"), "2");
}

TEST(Families, WhatTheUserSetStaysButIdentitiesAreReplaced) {
  const Environment env = family("torch", third_of_four(),
                                 {{"MASTER_PORT", "29500"}, {"OMP_NUM_THREADS", "8"}, {"RANK", "0"}, {"HOME", "/h"}});
  EXPECT_EQ(env.at("MASTER_PORT"), "29500");
  EXPECT_EQ(env.at("OMP_NUM_THREADS"), "8");
  EXPECT_EQ(env.at("RANK"), "2");
  EXPECT_EQ(env.at("HOME"), "/h");
  EXPECT_EQ(family("ffdl", third_of_four(), {{"DATA_DIR", "/data"}}).at("DATA_DIR"), "/data");
}

TEST(Families, UnknownValuesAreLeftUnset) {
  LearnerContext c;
  c.job_id = "local-1";
  c.work_dir = "/w";
  const Environment torch = family("torch", c);
  EXPECT_EQ(torch.count("MASTER_PORT"), 0U);
  EXPECT_EQ(torch.count("TORCHELASTIC_ERROR_FILE"), 0U);
  EXPECT_EQ(torch.count("OMP_NUM_THREADS"), 0U);
  c.local_world_size = 2;
  EXPECT_EQ(family("torch", c).at("OMP_NUM_THREADS"), "1");  // as torchrun
  // A stale identity goes, even where ours is unknown.
  EXPECT_EQ(family("dl", c, {{"DL_CHECKPOINT_DIR", "/stale"}}).count("DL_CHECKPOINT_DIR"), 0U);
  EXPECT_EQ(family("ffdl", c, {{"CHECKPOINT_DIR", "/mine"}}).at("CHECKPOINT_DIR"), "/mine");
}

TEST(Families, UnknownFamilyNamesTheKnown) {
  Environment env;
  const Status status = add_family("caffe", LearnerContext(), &env);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::kNotFound);
  EXPECT_EQ(
      status.error().text,
      "'caffe' is not an environment family; known: dl, ffdl, horovod, jax, jax_ids, mpi, nccl, network, peers, slurm, "
      "tensorflow, threads, torch");
  EXPECT_EQ(family_names(), (std::vector<std::string>{"dl", "ffdl", "horovod", "jax", "jax_ids", "mpi", "nccl",
                                                      "network", "peers", "slurm", "tensorflow", "threads", "torch"}));
}

}  // namespace
}  // namespace dl
