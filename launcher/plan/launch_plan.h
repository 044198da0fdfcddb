// SPDX-License-Identifier: Apache-2.0
// The launch plan: everything that is decided before the first process is started. make_plan() is pure (no I/O, no
// clock, no global): `dlrun --dry-run` prints the plan, the tests compare thousands of plans, and dlrun carries it out.
// What is known only after the agents have connected (address and port of rank 0, the run's id) is in RunFacts.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/contract/batch_split.h"
#include "common/contract/data_request.h"
#include "common/site/site_config.h"
#include "frameworks/catalogue.h"
#include "frameworks/learner_environment.h"
#include "launcher/bind/bind_mode.h"
#include "launcher/image/container.h"
#include "launcher/plan/allocation/allocation.h"
#include "launcher/plan/request.h"

namespace dl::plan {

// How the agents are started.
enum class LaunchMethod {
  kSrun,    // one srun, one task per learner
  kMpirun,  // one mpirun on this machine (frameworks with launch = "mpi", without Slurm)
  kDirect,  // dlrun starts argv once per learner, with DL_RANK in its environment
};
const char* launch_method_name(LaunchMethod method);  // "srun", "mpirun", "direct"

struct PlannedNode {
  std::string name;
  int learners = 0;   // processes on this node, servers included; at least 1
  int servers = 0;    // how many of these are servers
  int gpus = -1;      // free for this run; -1 = unknown
  std::string ranks;  // "0,1"; kept for Slurm jobs alone
  // GPUs are named by their position among the job's GPUs on this node.
  std::vector<int> taken;     // used by other runs of the job
  std::vector<int> own_gpus;  // used by the learners of this run
  bool narrowed = false;      // learners see only own_gpus, since the node has more
  std::string companion;      // Node::companion
};

struct PlannedLearner {
  int rank = 0;
  int node = 0;           // index in LaunchPlan::nodes = its node rank
  int local_rank = 0;     // dense from 0 on each node
  int cross_rank = 0;     // among the learners with the same local rank, in rank order, from 0
  std::vector<int> gpus;  // indices within those visible on the node; empty without GPUs
};

// The srun that starts the agents in one companion of the job (Node::companion).
struct CompanionStep {
  std::string job;                           // the companion
  std::string node_list;                     // its nodes that hold learners, as "n[5-6]"
  std::vector<std::string> argv;             // as LaunchPlan::argv
  std::string hostfile_path, hostfile_text;  // likewise
  std::string ranks;                         // of its tasks, in their order (common/contract/rank_list.h)
};

// What is fetched before the learners of an attempt start, on each node.
struct PlannedData {
  std::vector<dl::data::Source> sources;  // absolute paths, remotes and URLs; no names of the catalogue
  std::string cache;                      // the folder of caches on each node; each user has one in it
  uint64_t limit = 0;                     // bytes of the user's; 0: what the disk holds
  std::string folder;                     // what dl-data makes on each node: links to the data
  std::string dir;                        // DATA_DIR: `folder`, or the only source if it is read where it lies
};
// Where results and logs are stored at each end.
struct PlannedResults {
  std::string to;           // an absolute path or NAME:PATH, of this job alone
  bool checkpoint = false;  // the newest checkpoint, too
};

struct LaunchPlan {
  // Who
  std::string job_id;   // Slurm's number, "ARRAY_INDEX" of an array, or "local-..."
  std::string cluster;  // Slurm's name of the cluster; empty without Slurm
  std::string job_name;
  bool under_slurm = false;
  std::string framework;
  std::string version;                // may be empty
  std::string activate;               // shell words before the command, may be empty (catalogue.h)
  std::vector<std::string> metrics;   // expressions that find metrics in the output: the entry's, then the user's
  Environment framework_environment;  // set for learners where the user left it unset
  std::vector<std::string> families;  // of environment variables; "dl" is always added first
  std::string python_folder;          // of our Python package, as learners see it; empty: unset
  bool launcher_store = false;        // dlrun hosts the store of torch.distributed (catalogue.h)
  // Where
  std::vector<PlannedNode> nodes;        // those that hold learners, in Slurm's order
  std::vector<PlannedLearner> learners;  // index = rank; learners first, then parameter servers
  int servers = 0;                       // how many of `learners`, at its end, are parameter servers
  // The servers are an elastic pool: `servers` is MAX, the number of places at which one may run. They are no ranks of
  // the world that learners see, and come and go while it trains.
  std::optional<ServerRange> pool;
  bool first_decides = false;  // FamilyNeeds
  LearnerRange asked;          // as requested; min == max unless elastic
  int gpus_per_learner = 0;
  std::string gpu_type;      // may be empty
  int cpus_per_learner = 0;  // 0 = unknown
  std::string rank_placement;
  std::string node_list;         // Slurm jobs alone: the nodes in Slurm's short form, "n[1-3]"
  std::string tasks_per_node;    // Slurm jobs alone: ranks on each node, "2(x2),1"
  int ports = 0;                 // TCP ports that each agent holds for its learner
  bool hold_ports = true;        // held until the learner ends, else until it starts (FrameworkEntry)
  bool http_store = false;       // dlrun hosts Horovod's rendezvous (FamilyNeeds)
  std::vector<int> cross_sizes;  // index = local rank: how many learners have it
  bool peers = false;            // learners are told the address of every rank (FamilyNeeds)
  // What
  std::vector<std::string> command;  // argument vector of a learner
  image::Container container;        // where learners run, if it names an image
  bind::BindMode bind = bind::BindMode::kNone;
  std::string work_dir;                      // absolute
  std::string job_dir;                       // absolute
  std::optional<CheckpointSpec> checkpoint;  // its path made absolute
  std::optional<PlannedData> data;
  std::optional<PlannedResults> results;
  std::string data_program;         // dl-data, where one of the two is there
  std::optional<BatchRange> batch;  // as asked
  BatchSplit split;                 // of these learners; where there is a batch
  int restarts = 0;                 // restarts allowed inside the allocation
  Tier tier = Tier::kAuto;
  std::chrono::seconds grace{30};     // SIGTERM -> SIGKILL
  std::optional<int64_t> end_time_s;  // Unix time of the time limit
  int slurm_restart_count = 0;
  // How
  LaunchMethod method = LaunchMethod::kDirect;
  std::vector<std::string> argv;   // srun or mpirun with its options and the agent; for kDirect the agent alone
  std::vector<std::string> scrub;  // variables to remove from the environment of argv (inputs of srun)
  // If not empty, dlrun writes this text to hostfile_path (in job_dir) before it starts argv, which names it.
  std::string hostfile_path;
  std::string hostfile_text;
  // Where nodes of companions hold learners: argv starts the agents of the job's own nodes alone, whose ranks these
  // are, and each step here those of a companion.
  std::string own_ranks;
  std::vector<CompanionStep> companion_steps;
  std::string pmix_server;            // path of dl-pmix, started once on each node; empty: not used
  std::vector<std::string> warnings;  // one sentence each, for the user
  bool reads_stdin = false;           // learner 0 gets dlrun's standard input
  bool overcommit = false;            // more learners on a node than Slurm counted tasks for

  int world_size() const { return static_cast<int>(learners.size()); }  // all ranks: servers included
  int learner_count() const { return world_size() - servers; }
  // The job is over when the ranks below this number have ended. The other ranks serve them: they wait for ever, so
  // dlrun ends them.
  int deciding() const { return servers > 0 && first_decides ? 1 : learner_count(); }
  bool serves(int rank) const { return rank >= deciding(); }
  // The ranks of the learners' world on this node.
  int in_world(const PlannedNode& node) const { return pool ? node.learners - node.servers : node.learners; }
  // Whether a server of an elastic pool may run at this rank.
  bool is_place(int rank) const { return pool && rank >= learner_count(); }
};

struct PlanInput {
  Request request;
  Allocation allocation;
  const Catalogue* catalogue = nullptr;  // not owned; needed during the call alone
  SiteConfig site;
  Environment environment;           // the user's, for warnings about what stays
  std::vector<std::string> command;  // not empty
  std::string work_dir;              // absolute: where dlrun was called
  int run_number = 1;                // which dlrun of the job this is; each has its own job directory
  std::string user, home;            // replace %u and ~ in paths; may be empty
  unsigned uid = 0;
  std::vector<dl::data::Source> sources;  // of --data: names of the catalogue are resolved, paths absolute
  bool prefetched = false;                // the shared cache holds them already (dlctl data prefetch)
  std::string data_program;               // dl-data, where --data or --results is given
  image::Container container;             // the request's image, with the site's binds
  std::string python_folder;              // of our Python package, for learners outside an image; empty: unset
  std::string agent_path = "dl-agent";
  std::string mpi_plugin = "pmix";  // srun --mpi= if PMIx is needed and pmix_server is empty
  std::string pmix_server;          // path of dl-pmix if dlrun shall serve PMIx itself, else empty
  bool command_uses_mpi = false;    // the program is linked with MPI, whatever its framework
  bool as_root = false;             // mpirun needs --allow-run-as-root
  bool reads_stdin = false;         // dlrun was given a standard input (standard_files.h)
  bool debug = false;               // learner 0 has a debugger's terminal, and its output alone is shown
};

// kInvalid, kNotFound (framework, version, rank placement) or kConflict "needs 4 learners x 2 GPUs but the allocation
// has 6 GPUs on 3 nodes". An elastic request gets as many learners as the allocation holds within MIN:MAX.
Result<LaunchPlan> make_plan(const PlanInput& input);
// Sets plan->batch and plan->split for the plan's number of learners. dlrun makes a new plan before each attempt with
// another number. Both stay empty if the request names no batch. kConflict if the range has no batch for that many
// learners.
Status choose_batch(const Request& request, LaunchPlan* plan);
// kInvalid where several learners would read their program from standard input, which only learner 0 has.
Status check_program_input(const LaunchPlan& plan);
// Removes these nodes from input->allocation permanently. `plan` is what make_plan(*input) gave: its number of learners
// becomes the request if the request named none. kConflict if no node is left.
Status leave_out(const std::vector<std::string>& nodes, const LaunchPlan& plan, PlanInput* input);
// leave_out() and then make_plan(): a new plan without these nodes, in which spare nodes take their place or an elastic
// job has fewer learners. kConflict if no node is left; else the errors of make_plan().
Result<LaunchPlan> make_plan_without(const std::vector<std::string>& nodes, const LaunchPlan& plan, PlanInput* input);
// Adds the nodes of a companion to input->allocation and plans again. kConflict if the job has one of the nodes, or
// would have no more learners than in `plan`: *input is then as before. Else the errors of make_plan().
Result<LaunchPlan> make_plan_with(const std::vector<Node>& nodes, const LaunchPlan& plan, PlanInput* input);
// kConflict if only nodes of companions hold learners: a job does not go on there without a node of its own.
Status check_own_nodes(const LaunchPlan& plan);
// "n2 is left out; 2 learners on n[1,3]", or "n[2,4] are left out; ...".
std::string describe_without(const std::vector<std::string>& nodes, const LaunchPlan& plan);

// What is known only while the job runs.
struct RunFacts {
  std::string master_addr;      // numeric address of the host of rank 0; empty: its node name is shown
  int master_port = 0;          // held for rank 0; 0: not known yet, left unset
  int coordinator_port = 0;     // likewise, for JAX's coordinator
  int ras_port = 0;             // likewise, for NCCL's status service (RAS)
  std::string store_addr;       // where dlrun hosts the store, if it does
  int store_port = 0;           // 0: not known yet
  std::string http_store_addr;  // the same for Horovod's rendezvous
  int http_store_port = 0;
  std::string pool_addr;           // where dlrun hosts the directory of the elastic pool, if there is one
  int pool_port = 0;               // 0: not known yet
  std::vector<std::string> peers;  // "address:port" by rank, where the plan asks for them
  std::string run_id;              // env::kRunId
  int attempt = 1;                 // 1-based
  int restarts = 0;                // restarts done so far inside this allocation
};

// Paths within the job directory.
std::string log_dir(const LaunchPlan& plan, int attempt);                // JOB_DIR/logs/attempt-A
std::string learner_log(const LaunchPlan& plan, int attempt, int rank);  // JOB_DIR/logs/attempt-A/learner-R.log
std::string pool_secret(const LaunchPlan& plan);                         // JOB_DIR/pool.secret

// Precondition of all: 0 <= rank < plan.world_size().
LearnerContext learner_context(const LaunchPlan& plan, int rank, const RunFacts& facts);
// Changes a context of this plan to that of another rank; cheaper than learner_context().
void move_to_rank(const LaunchPlan& plan, int rank, LearnerContext* context);
// Turns *environment, which the learner inherits, into the learner's environment (frameworks/learner_environment.h).
// Variables that dlrun or the agent adds only when a learner starts are missing (DL_PROGRESS, DL_METRICS_FILE,
// DL_CHECKPOINT_LEASE, PMIX_*; ports as far as `facts` lacks them). Fails only for an unknown family, which make_plan()
// refuses.
Status add_learner_environment(const LaunchPlan& plan, int rank, const RunFacts& facts, Environment* environment);
// The same for all learners at once. *environment was constructed with the context of one learner and with the
// inherited variables after drop_launcher_variables().
Status add_job_environment(const LaunchPlan& plan, JobEnvironment* environment);

}  // namespace dl::plan
