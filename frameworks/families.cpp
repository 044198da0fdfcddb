// SPDX-License-Identifier: Apache-2.0
// The variables of each family, as tables: a name, what happens if it is set already, and its value.
#include "frameworks/families.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/parse.h"
#include "common/contract/env_names.h"
#include "frameworks/family_table.h"

namespace dl {
namespace {

std::string num(int value) {
  return std::to_string(value);
}

// ---- roles: learners have the lowest ranks, then come the servers. Those of an elastic pool are no ranks of the
// world: their numbers begin where its ranks end.
int learners_of(const JobContext& c) {
  return c.world_size - c.servers;
}
bool is_server(const LearnerContext& c) {
  return c.rank >= learners_of(c);
}
bool has_roles(const JobContext& c) {
  return c.servers > 0 || !c.pool.empty();
}
int role_rank(const LearnerContext& c) {
  return is_server(c) ? c.rank - learners_of(c) : c.rank;
}
int role_size(const LearnerContext& c) {
  if (!is_server(c)) return learners_of(c);
  return c.pool.empty() ? c.servers : c.pool_places;
}
// Empty in a job without servers.
std::string role(const LearnerContext& c) {
  if (!has_roles(c)) return "";
  return is_server(c) ? "server" : "learner";
}

// Parameter servers have no batch.
bool has_batch(const LearnerContext& c) {
  return c.global_batch > 0 && !is_server(c);
}

std::string gpu_list(const LearnerContext& c) {
  std::string text;
  for (int i = 0; i < c.gpus_per_learner; ++i) {
    if (i > 0) text += ',';
    text += num(c.local_rank * c.gpus_per_learner + i);
  }
  return text;
}

std::string host_port(const std::string& host, int port) {
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + num(port);
}

// True for "10.0.0.1" and "fe80::1", but not for a name: on the node itself a name may resolve to another address.
bool is_numeric(const std::string& address) {
  return address.find(':') != std::string::npos ||
         (!address.empty() &&
          std::all_of(address.begin(), address.end(), [](char x) { return (x >= '0' && x <= '9') || x == '.'; }));
}

bool under_slurm(const JobContext& c) {
  // "12", or "12_3" for an element of an array.
  return !c.job_id.empty() &&
         std::all_of(c.job_id.begin(), c.job_id.end(), [](char x) { return (x >= '0' && x <= '9') || x == '_'; });
}

// ---- dl: our own names (common/contract/env_names.h). They are always replaced, also in a dlrun that runs inside a
// learner of another dlrun.
const Variable kDl[] = {
    {env::kRank, Kind::kIdentity, [](const LearnerContext& c) { return num(c.rank); }},
    {env::kWorldSize, Kind::kIdentity, [](const JobContext& c) { return num(c.world_size); }},
    {env::kLocalRank, Kind::kIdentity, [](const LearnerContext& c) { return num(c.local_rank); }},
    {env::kLocalWorldSize, Kind::kIdentity, [](const LearnerContext& c) { return num(c.local_world_size); }},
    {env::kNodeRank, Kind::kIdentity, [](const LearnerContext& c) { return num(c.node_rank); }},
    {env::kNumNodes, Kind::kIdentity, [](const JobContext& c) { return num(c.num_nodes); }},
    {env::kRole, Kind::kIdentity, role},
    {env::kRoleRank, Kind::kIdentity,
     [](const LearnerContext& c) { return has_roles(c) ? num(role_rank(c)) : std::string(); }},
    {env::kRoleSize, Kind::kIdentity,
     [](const LearnerContext& c) { return has_roles(c) ? num(role_size(c)) : std::string(); }},
    {env::kBatch, Kind::kIdentity, [](const JobContext& c) { return c.batch_range; }},
    {env::kGlobalBatch, Kind::kIdentity,
     [](const LearnerContext& c) { return has_batch(c) ? std::to_string(c.global_batch) : std::string(); }},
    {env::kLocalBatch, Kind::kIdentity,
     [](const LearnerContext& c) {
       if (!has_batch(c)) return std::string();
       return std::to_string(local_batch({c.global_batch, c.accumulation}, c.rank, learners_of(c)));
     }},
    {env::kAccumulation, Kind::kIdentity,
     [](const LearnerContext& c) { return has_batch(c) ? std::to_string(c.accumulation) : std::string(); }},
    {env::kLrScale, Kind::kIdentity, [](const LearnerContext& c) { return has_batch(c) ? c.lr_scale : std::string(); }},
    {env::kServers, Kind::kKnown, [](const JobContext& c) { return c.servers > 0 ? num(c.servers) : c.pool; }},
    {env::kPool, Kind::kKnown,
     [](const JobContext& c) { return c.pool_port > 0 ? host_port(c.pool_addr, c.pool_port) : std::string(); }},
    {env::kPoolSecret, Kind::kKnown, [](const JobContext& c) { return c.pool.empty() ? "" : c.pool_secret; }},
    // A server must see no GPU, because a framework takes memory on all GPUs that it sees.
    {"CUDA_VISIBLE_DEVICES", Kind::kKnown,
     [](const LearnerContext& c) { return std::string(is_server(c) ? "-1" : ""); }},
    {env::kLocalGpus, Kind::kIdentity, gpu_list},
    {env::kPorts, Kind::kIdentity,
     [](const LearnerContext& c) {
       std::vector<std::string> ports;
       for (const int port : c.ports) ports.push_back(num(port));
       return join(ports, ",");
     }},
    {env::kJobDir, Kind::kIdentity, [](const JobContext& c) { return c.job_dir; }},
    {env::kAttempt, Kind::kIdentity, [](const JobContext& c) { return num(c.attempt); }},
    {env::kRunId, Kind::kIdentity, [](const JobContext& c) { return c.run_id; }},
    {env::kCheckpointDir, Kind::kIdentity, [](const JobContext& c) { return c.checkpoint_dir; }},
};

// ---- torch: the variables that torch.distributed's env:// reads, and others that torchrun gives its workers, so that
// a script written for torchrun finds the same names. Source: pytorch torch/distributed/rendezvous.py,
// elastic/agent/server/local_elastic_agent.py.
const Variable kTorch[] = {
    {"MASTER_ADDR", Kind::kDefault,
     [](const JobContext& c) { return c.launcher_store && !c.store_addr.empty() ? c.store_addr : c.master_addr; }},
    {"MASTER_PORT", Kind::kDefault,
     [](const JobContext& c) {
       const int port = c.launcher_store ? c.store_port : c.master_port;
       return port > 0 ? num(port) : std::string();
     }},
    {"RANK", Kind::kIdentity, [](const LearnerContext& c) { return num(c.rank); }},
    {"WORLD_SIZE", Kind::kIdentity, [](const JobContext& c) { return num(c.world_size); }},
    {"LOCAL_RANK", Kind::kIdentity, [](const LearnerContext& c) { return num(c.local_rank); }},
    {"LOCAL_WORLD_SIZE", Kind::kIdentity, [](const LearnerContext& c) { return num(c.local_world_size); }},
    {"GROUP_RANK", Kind::kIdentity, [](const LearnerContext& c) { return num(c.node_rank); }},
    {"GROUP_WORLD_SIZE", Kind::kIdentity, [](const JobContext& c) { return num(c.num_nodes); }},
    {"ROLE_RANK", Kind::kIdentity, [](const LearnerContext& c) { return num(role_rank(c)); }},
    {"ROLE_WORLD_SIZE", Kind::kIdentity, [](const LearnerContext& c) { return num(role_size(c)); }},
    {"ROLE_NAME", Kind::kIdentity,
     [](const LearnerContext& c) { return has_roles(c) ? role(c) : std::string("default"); }},
    {"TORCHELASTIC_RESTART_COUNT", Kind::kIdentity, [](const JobContext& c) { return num(c.restarts); }},
    {"TORCHELASTIC_MAX_RESTARTS", Kind::kIdentity, [](const JobContext& c) { return num(c.max_restarts); }},
    // If this variable exists, Lightning takes the torch variables instead of guessing from SLURM_*.
    {"TORCHELASTIC_RUN_ID", Kind::kIdentity, [](const JobContext& c) { return c.run_id; }},
    // True: all ranks are clients of the store that dlrun hosts. False: rank 0 hosts the store, at the port that its
    // agent holds.
    {"TORCHELASTIC_USE_AGENT_STORE", Kind::kIdentity,
     [](const JobContext& c) { return std::string(c.launcher_store ? "True" : "False"); }},
    {"TORCHELASTIC_ERROR_FILE", Kind::kIdentity,
     [](const LearnerContext& c) {
       return c.log_dir.empty() ? std::string() : c.log_dir + "/learner-" + num(c.rank) + ".error.json";
     }},
    {"TORCH_NCCL_ASYNC_ERROR_HANDLING", Kind::kDefault, [](const JobContext&) { return std::string("1"); }},
    // torchrun sets 1 if several workers share a node. If the number of CPUs of a learner is known, that is better.
    {"OMP_NUM_THREADS", Kind::kDefault,
     [](const LearnerContext& c) {
       if (c.cpus_per_learner > 0) return num(c.cpus_per_learner);
       return c.local_world_size > 1 ? num(1) : std::string();
     }},
};

// ---- mpi: the names by which scripts and libraries find their rank before MPI_Init (scripts with mpi4py, DeepSpeed,
// TensorFlow's resolver). MPI itself takes rank and size from PMIx, never from these.
const Variable kMpi[] = {
    {"OMPI_COMM_WORLD_RANK", Kind::kIdentity, [](const LearnerContext& c) { return num(c.rank); }},
    {"OMPI_COMM_WORLD_SIZE", Kind::kIdentity, [](const JobContext& c) { return num(c.world_size); }},
    {"OMPI_COMM_WORLD_LOCAL_RANK", Kind::kIdentity, [](const LearnerContext& c) { return num(c.local_rank); }},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", Kind::kIdentity, [](const LearnerContext& c) { return num(c.local_world_size); }},
    {"OMPI_COMM_WORLD_NODE_RANK", Kind::kIdentity, [](const LearnerContext& c) { return num(c.local_rank); }},
    {"OMPI_UNIVERSE_SIZE", Kind::kIdentity, [](const JobContext& c) { return num(c.world_size); }},
    {"OMP_NUM_THREADS", Kind::kDefault,
     [](const JobContext& c) { return c.cpus_per_learner > 0 ? num(c.cpus_per_learner) : std::string(); }},
};

// ---- slurm: the numbers of the job step as they are for learners. They are only set in a Slurm job: outside one, they
// would make JAX, Lightning and TensorFlow look for a cluster that does not exist.
const Variable kSlurm[] = {
    // srun sets it to the name of the step.
    {"SLURM_JOB_NAME", Kind::kIdentity, [](const JobContext& c) { return c.job_name; }},
    {"SLURM_PROCID", Kind::kIdentity, [](const LearnerContext& c) { return num(c.rank); }},
    {"SLURM_LOCALID", Kind::kIdentity, [](const LearnerContext& c) { return num(c.local_rank); }},
    {"SLURM_NODEID", Kind::kIdentity, [](const LearnerContext& c) { return num(c.node_rank); }},
    {"SLURM_NTASKS", Kind::kIdentity, [](const JobContext& c) { return num(c.world_size); }},
    {"SLURM_NPROCS", Kind::kIdentity, [](const JobContext& c) { return num(c.world_size); }},
    {"SLURM_NNODES", Kind::kIdentity, [](const JobContext& c) { return num(c.num_nodes); }},
    {"SLURM_STEP_NUM_TASKS", Kind::kIdentity, [](const JobContext& c) { return num(c.world_size); }},
    {"SLURM_STEP_NUM_NODES", Kind::kIdentity, [](const JobContext& c) { return num(c.num_nodes); }},
    // Without it Lightning refuses to run under Slurm with more than one task.
    {"SLURM_NTASKS_PER_NODE", Kind::kIdentity, [](const LearnerContext& c) { return num(c.local_world_size); }},
    {"SLURM_STEP_NODELIST", Kind::kKnown, [](const JobContext& c) { return c.node_list; }},
    {"SLURM_TASKS_PER_NODE", Kind::kKnown, [](const JobContext& c) { return c.tasks_per_node; }},
    {"SLURM_STEP_TASKS_PER_NODE", Kind::kKnown, [](const JobContext& c) { return c.tasks_per_node; }},
    {"SLURM_GTIDS", Kind::kKnown, [](const LearnerContext& c) { return c.node_ranks; }},
};

// ---- jax: the variables that jax.distributed.initialize() reads. It takes rank and number of processes from its
// arguments or from the cluster that it detects (Slurm, or family jax_ids); JAX_PROCESS_ID and JAX_NUM_PROCESSES are
// for scripts that pass them on, as under Kubeflow. Source: jax jax/_src/distributed.py, jax/_src/clusters/.
const Variable kJax[] = {
    {"JAX_COORDINATOR_ADDRESS", Kind::kDefault,
     [](const JobContext& c) {
       return c.coordinator_port > 0 ? host_port(c.master_addr, c.coordinator_port) : std::string();
     }},
    // By default JAX would bind to every address of the node, which requires IPv6.
    {"JAX_COORDINATOR_BIND_ADDRESS", Kind::kDefault,
     [](const JobContext& c) {
       const bool known = c.coordinator_port > 0 && is_numeric(c.master_addr);
       return known ? host_port(c.master_addr, c.coordinator_port) : std::string();
     },
     "JAX_COORDINATOR_ADDRESS"},
    // For scripts that compose the address themselves.
    {"JAX_COORDINATOR_PORT", Kind::kDefault,
     [](const JobContext& c) { return c.coordinator_port > 0 ? num(c.coordinator_port) : std::string(); },
     "JAX_COORDINATOR_ADDRESS"},
    // Without it JAX would use one GPU for each process: the one whose number is the local rank.
    {"JAX_LOCAL_DEVICE_IDS", Kind::kDefault, gpu_list},
    {"JAX_NUM_PROCESSES", Kind::kIdentity, [](const JobContext& c) { return num(c.world_size); }},
    {"JAX_PROCESS_ID", Kind::kIdentity, [](const LearnerContext& c) { return num(c.rank); }},
};

// ---- jax_ids: outside Slurm, the names by which JAX recognises Open MPI's mpirun, so that initialize() without
// arguments works there, too. JAX only checks that the first one exists, since JAX_COORDINATOR_ADDRESS is set.
const Variable kJaxIds[] = {
    {"OMPI_MCA_orte_hnp_uri", Kind::kDefault,
     [](const JobContext& c) {
       return c.coordinator_port > 0 ? "0.0;tcp://" + host_port(c.master_addr, c.coordinator_port) : std::string();
     }},
    {"OMPI_COMM_WORLD_SIZE", Kind::kIdentity, [](const JobContext& c) { return num(c.world_size); }},
    {"OMPI_COMM_WORLD_RANK", Kind::kIdentity, [](const LearnerContext& c) { return num(c.rank); }},
    {"OMPI_COMM_WORLD_LOCAL_RANK", Kind::kIdentity, [](const LearnerContext& c) { return num(c.local_rank); }},
};

// ---- tensorflow: TF_CONFIG. Without servers each learner is a worker, and worker 0 is the chief of a
// MultiWorkerMirroredStrategy. With servers learner 0 is the chief, which coordinates a ParameterServerStrategy; the
// other learners are its workers, and the servers its parameter servers ("ps").
std::string task_list(const JobContext& c, int begin, int end) {
  std::string text;
  for (int i = begin; i < end && i < static_cast<int>(c.peers.size()); ++i)
    text.append(text.empty() ? "\"" : ", \"").append(c.peers[static_cast<size_t>(i)]).append("\"");
  return "[" + text + "]";
}
const Variable kTensorflow[] = {
    {"TF_CONFIG", Kind::kIdentity,
     [](const LearnerContext& c) {
       std::string cluster, type = "worker";
       int index = c.rank;
       if (c.servers == 0) {
         cluster = R"("worker": )" + task_list(c, 0, c.world_size);
       } else {
         cluster = R"("chief": )" + task_list(c, 0, 1) + R"(, "worker": )" + task_list(c, 1, learners_of(c)) +
                   R"(, "ps": )" + task_list(c, learners_of(c), c.world_size);
         type = is_server(c) ? "ps" : c.rank == 0 ? "chief" : "worker";
         index = is_server(c) ? role_rank(c) : std::max(0, c.rank - 1);
       }
       return R"({"cluster": {)" + cluster + R"(}, "task": {"type": ")" + type + R"(", "index": )" + num(index) + "}}";
     }},
};

// ---- horovod: the variables that horovodrun gives its workers with the gloo controller, whose rendezvous dlrun hosts;
// servers take no part. Ranks and address are set together: with the address alone all learners would be rank 0.
// Source: horovod horovod/common/gloo/gloo_context.cc, horovod/runner/gloo_run.py.
std::string of_learner(const LearnerContext& c, int value) {
  return is_server(c) ? std::string() : num(value);
}
const Variable kHorovod[] = {
    {"HOROVOD_RANK", Kind::kIdentity, [](const LearnerContext& c) { return of_learner(c, c.rank); }},
    {"HOROVOD_SIZE", Kind::kIdentity, [](const LearnerContext& c) { return of_learner(c, learners_of(c)); }},
    {"HOROVOD_LOCAL_RANK", Kind::kIdentity, [](const LearnerContext& c) { return of_learner(c, c.local_rank); }},
    {"HOROVOD_LOCAL_SIZE", Kind::kIdentity,
     [](const LearnerContext& c) { return of_learner(c, c.local_world_size - c.local_servers); }},
    {"HOROVOD_CROSS_RANK", Kind::kIdentity, [](const LearnerContext& c) { return of_learner(c, c.cross_rank); }},
    {"HOROVOD_CROSS_SIZE", Kind::kIdentity, [](const LearnerContext& c) { return of_learner(c, c.cross_size); }},
    {"HOROVOD_HOSTNAME", Kind::kIdentity, [](const LearnerContext& c) { return c.node_name; }},
    {"HOROVOD_GLOO_RENDEZVOUS_ADDR", Kind::kIdentity,
     [](const LearnerContext& c) { return is_server(c) ? std::string() : c.http_store_addr; }},
    {"HOROVOD_GLOO_RENDEZVOUS_PORT", Kind::kIdentity,
     [](const LearnerContext& c) { return c.http_store_port > 0 ? of_learner(c, c.http_store_port) : std::string(); }},
    {"HOROVOD_CONTROLLER", Kind::kDefault, [](const JobContext&) { return std::string("gloo"); }},
    {"HOROVOD_CPU_OPERATIONS", Kind::kDefault, [](const JobContext&) { return std::string("gloo"); }},
    {"HOROVOD_GLOO_IFACE", Kind::kDefault, [](const LearnerContext& c) { return c.interface; }},
};

// ---- peers: for learners that connect to one another themselves.
const Variable kPeers[] = {
    {env::kPeers, Kind::kIdentity, [](const JobContext& c) { return join(c.peers, ","); }},
};

// ---- nccl: for programs that call NCCL themselves. If this is set, ncclGetUniqueId() gives all ranks the same id,
// which names an address of rank 0: NCCL listens there, at the port that the agent of rank 0 holds until then. It is a
// family of its own, since a framework with communicators of its own (torch) would create all of them at this address.
// Source: NCCL src/bootstrap.cc.
const Variable kNccl[] = {
    {"NCCL_COMM_ID", Kind::kDefault, [](const JobContext& c) { return c.peers.front(); }},
};

// ---- threads: for programs of one process that would otherwise use every core that they see.
const Variable kThreads[] = {
    {"OMP_NUM_THREADS", Kind::kDefault,
     [](const JobContext& c) { return c.cpus_per_learner > 0 ? num(c.cpus_per_learner) : std::string(); }},
    {"LOKY_MAX_CPU_COUNT", Kind::kDefault,  // for joblib's n_jobs=-1
     [](const JobContext& c) { return c.cpus_per_learner > 0 ? num(c.cpus_per_learner) : std::string(); }},
};

// ---- network: the interface that leads to the other learners. Without these Gloo takes the interface to whose address
// the host's name resolves, and NCCL the first one that it finds. NCCL still sends its data over InfiniBand if there is
// any; UCX_NET_DEVICES is not set, because it would keep UCX from InfiniBand. NCCL_RAS_ADDR: with its default two jobs
// on a node would share one status service.
const Variable kNetwork[] = {
    {"GLOO_SOCKET_IFNAME", Kind::kDefault, [](const LearnerContext& c) { return c.interface; }},
    {"TP_SOCKET_IFNAME", Kind::kDefault, [](const LearnerContext& c) { return c.interface; }},
    // "=" means exactly this name, not all that begin with it.
    {"NCCL_SOCKET_IFNAME", Kind::kDefault,
     [](const LearnerContext& c) { return c.interface.empty() ? std::string() : "=" + c.interface; }},
    {"NCCL_RAS_ADDR", Kind::kDefault,
     [](const JobContext& c) { return c.ras_port > 0 ? "localhost:" + num(c.ras_port) : std::string(); }},
};

// ---- ffdl: the names that FfDL gave its learners, so that its examples run unchanged (reference: FfDL's
// learner/envvars.go).
const Variable kFfdl[] = {
    {"LEARNER_ID", Kind::kIdentity,  // FfDL counts from 1
     [](const LearnerContext& c) { return is_server(c) ? std::string() : num(c.rank + 1); }},
    {"NUM_LEARNERS", Kind::kIdentity, [](const JobContext& c) { return num(learners_of(c)); }},
    {"LEARNER_NAME_PREFIX", Kind::kDefault, [](const JobContext&) { return std::string("learner"); }},
    // FfDL writes it as a floating-point number.
    {"GPU_COUNT", Kind::kIdentity, [](const LearnerContext& c) { return num(c.gpus_per_learner) + ".000000"; }},
    {"JOB_STATE_DIR", Kind::kDefault, [](const JobContext& c) { return c.job_dir; }},
    {"MODEL_DIR", Kind::kDefault, [](const JobContext& c) { return c.work_dir; }},
    {"LOG_DIR", Kind::kDefault, [](const JobContext& c) { return c.log_dir; }},
    {"DATA_DIR", Kind::kDefault, [](const JobContext& c) { return c.data_dir.empty() ? c.work_dir : c.data_dir; }},
    {"RESULT_DIR", Kind::kDefault,
     [](const JobContext& c) {
       if (!c.result_dir.empty()) return c.result_dir;
       return c.job_dir.empty() ? std::string() : c.job_dir + "/results";
     }},
    {"RESULT_BUCKET_DIR", Kind::kDefault,
     [](const JobContext& c) {
       if (!c.result_dir.empty()) return c.result_dir;
       return c.job_dir.empty() ? std::string() : c.job_dir + "/results";
     }},
    {"CHECKPOINT_DIR", Kind::kDefault, [](const JobContext& c) { return c.checkpoint_dir; }},
    {"TRAINING_ID", Kind::kDefault, [](const JobContext& c) { return c.job_id; }},
    {"TRAINING_COMMAND", Kind::kDefault,
     [](const JobContext& c) {
       std::string folded = c.command;  // FfDL joins the lines of a command, too
       std::replace(folded.begin(), folded.end(), '\n', ' ');
       return folded;
     }},
};

// ---- THE table. To add a family, add a list above and a row here.
template <size_t N>
constexpr Family family(const char* name, const Variable (&variables)[N], bool (*applies)(const JobContext&) = nullptr,
                        FamilyNeeds needs = {}) {
  return Family{name, variables, N, applies, needs};
}
constexpr Family also_alone(Family family) {
  family.alone = true;
  return family;
}
bool outside_slurm(const JobContext& c) {
  return !under_slurm(c);
}
// If the peers are not known (in a plain srun), TF_CONFIG may be the user's own and is left alone.
bool peers_known(const JobContext& c) {
  return !c.peers.empty();
}
const Family kFamilies[] = {
    family("dl", kDl),
    also_alone(family("ffdl", kFfdl)),
    family("horovod", kHorovod, nullptr, {0, false, false, true}),
    family("jax", kJax),
    family("jax_ids", kJaxIds, outside_slurm),
    family("mpi", kMpi),
    family("nccl", kNccl, peers_known, {1, true}),
    also_alone(family("network", kNetwork)),
    family("peers", kPeers, peers_known, {1, true}),
    also_alone(family("slurm", kSlurm, under_slurm)),
    family("tensorflow", kTensorflow, peers_known, {1, true, true}),
    family("threads", kThreads),
    family("torch", kTorch),
};

}  // namespace

const Family* find_family(const std::string& name) {
  for (const Family& row : kFamilies) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

void add_variable(const Variable& variable, const LearnerContext& context, Environment* env) {
  auto found = env->find(variable.name);
  if (found != env->end() && variable.kind == Kind::kDefault) return;
  std::string value = variable.value(context);
  if (!value.empty()) {
    (*env)[variable.name] = std::move(value);
  } else if (found != env->end() && variable.kind == Kind::kIdentity) {
    env->erase(found);  // the identity that another launcher set must not survive
  }
}

Result<std::vector<const Variable*>> choose_variables(const std::string& name, const JobContext& context,
                                                      const Environment& env) {
  const Family* family = find_family(name);
  if (family == nullptr) {
    std::string known;
    for (const std::string& other : family_names()) known += (known.empty() ? "" : ", ") + other;
    return Error{Errc::kNotFound, "'" + name + "' is not an environment family; known: " + known};
  }
  std::vector<const Variable*> wanted;
  if (family->applies != nullptr && !family->applies(context)) return wanted;
  for (size_t i = 0; i < family->count; ++i) {
    const Variable& variable = family->variables[i];
    if (variable.unless == nullptr || env.count(variable.unless) == 0) wanted.push_back(&variable);
  }
  return wanted;
}

// A PyTorch without libuv (Debian 13's) cannot be a client of a store that another process hosts: it asks for libuv
// there whatever USE_LIBUV says (_create_c10d_store() in torch/distributed/rendezvous.py). has_users_store() therefore
// reads USE_LIBUV as torch does.
void forget_empty_store(Environment* env) {
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT"})
    if (const auto found = env->find(name); found != env->end() && found->second.empty()) env->erase(found);
}

bool has_users_store(const Environment& env) {
  const auto libuv = env.find("USE_LIBUV");
  const bool without_libuv = libuv != env.end() && libuv->second != "1";
  return env.count("MASTER_ADDR") != 0 || env.count("MASTER_PORT") != 0 || without_libuv;
}

bool may_differ(const std::string& name) {
  static const std::set<std::string> kNames = [] {
    std::set<std::string> names;
    for (const Family& row : kFamilies)
      for (size_t i = 0; i < row.count; ++i)
        if (row.variables[i].of_learner != nullptr) names.insert(row.variables[i].name);
    return names;
  }();
  return kNames.count(name) != 0;
}

Status add_family(const std::string& name, const LearnerContext& context, Environment* env) {
  forget_empty_store(env);
  DL_TRY_ASSIGN(const std::vector<const Variable*> wanted, choose_variables(name, context, *env));
  LearnerContext seen = context;
  if (has_users_store(*env)) seen.launcher_store = false;
  for (const Variable* variable : wanted) add_variable(*variable, seen, env);
  return {};
}

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const Family& row : kFamilies) names.emplace_back(row.name);
  return names;
}

}  // namespace dl
