// SPDX-License-Identifier: Apache-2.0
// Names of the environment variables that carry the request from the plugin to dlrun, and from dlrun to its agents and
// learners. The request travels in the environment, not in shared types, so that the versions of both sides may differ.
// The values are written as users write those of the flags.
#pragma once

namespace dl::env {

// The request: set by spank_dl.so in the batch step, in salloc's shell and in srun tasks; read by dlrun.
constexpr const char* kFramework = "DL_FRAMEWORK";  // NAME[:VERSION]
constexpr const char* kLearners = "DL_LEARNERS";    // N or MIN:MAX
// N parameter servers, or MIN:MAX for an elastic pool of them; learners and servers have the variable, too
constexpr const char* kServers = "DL_SERVERS";
constexpr const char* kGpus = "DL_GPUS";              // [TYPE:]N per learner
constexpr const char* kBatch = "DL_BATCH";            // MIN:MAX[:MULTIPLE],... (batch_range.h); learners have it, too
constexpr const char* kCheckpoint = "DL_CHECKPOINT";  // PATH[,every=..][,keep=..]... (request_values.h)
constexpr const char* kRestarts = "DL_RESTARTS";      // N
constexpr const char* kPreflight = "DL_PREFLIGHT";    // off, quick, full
constexpr const char* kHangTimeout = "DL_HANG_TIMEOUT";  // TIME
constexpr const char* kMetrics = "DL_METRICS";           // expressions that find metrics in logs (metric_patterns.h)
constexpr const char* kImage = "DL_IMAGE";               // PATH of a container image
constexpr const char* kData = "DL_DATA";                 // SRC[,to=..]... or FILE.toml (data_request.h)
constexpr const char* kResults = "DL_RESULTS";           // DEST[,checkpoint] (data_request.h)
constexpr const char* kNodePlacement = "DL_PLACEMENT";   // pack, spread
constexpr const char* kPmix = "DL_PMIX";  // which PMIx server serves MPI learners, dlrun or slurm; only set by hand
// With "0" a rendezvous serves connections of any user; only set by hand.
constexpr const char* kCheckConnections = "DL_CHECK_CONNECTIONS";
constexpr const char* kBind = "DL_BIND";  // none, cores, numa; only set by hand
constexpr const char* kTier = "DL_TIER";  // auto, guaranteed, borrow

// The site's dl.toml if it is not beside slurm.conf. Users may set it; spank_dl.so sets it from its argument config=.
constexpr const char* kConfig = "DL_CONFIG";

// job_submit_dl.so sets it in the environment of a batch job with --dl-* flags, and spank_dl.so takes it away on the
// node; where it is still there, spank_dl.so does not run on that node.
constexpr const char* kNodeSide = "DL_NODE_SIDE";
constexpr const char* kNodeSideAwaited = "awaited";

// The environment of each learner. The agent sets these; a value that is known replaces one that is inherited
// (frameworks/families.h).
constexpr const char* kRank = "DL_RANK";                        // 0-based
constexpr const char* kWorldSize = "DL_WORLD_SIZE";             // number of learners, parameter servers included
constexpr const char* kLocalRank = "DL_LOCAL_RANK";             // 0-based on its node
constexpr const char* kLocalWorldSize = "DL_LOCAL_WORLD_SIZE";  // learners on its node
constexpr const char* kNodeRank = "DL_NODE_RANK";               // 0-based index of its node
constexpr const char* kNumNodes = "DL_NUM_NODES";
// "learner" or "server"; this one and the next two are set in a job with servers
constexpr const char* kRole = "DL_ROLE";
constexpr const char* kRoleRank = "DL_ROLE_RANK";  // 0-based index among the ranks of its role
constexpr const char* kRoleSize = "DL_ROLE_SIZE";  // number of ranks of its role
// Set for learners, not for servers, in a job with DL_BATCH (batch_split.h):
constexpr const char* kGlobalBatch = "DL_GLOBAL_BATCH";   // samples of a train step, of all learners together
constexpr const char* kLocalBatch = "DL_LOCAL_BATCH";     // this learner's samples of a train step
constexpr const char* kAccumulation = "DL_ACCUMULATION";  // passes in which it computes them
constexpr const char* kLrScale = "DL_LR_SCALE";           // the factor for its learning rate: "1.41421356"
constexpr const char* kLocalGpus = "DL_LOCAL_GPUS";       // "2,3": its GPUs, counted within those visible on its node
constexpr const char* kPorts = "DL_PORTS";                // "40001,40002": TCP ports held for it on its node
constexpr const char* kPeers = "DL_PEERS";  // "10.0.0.1:40001,...": first held port of each learner, by rank
// Where the directory of an elastic pool listens, and the file of its secret (dlpool.h). dlrun sets them where the job
// has such a pool (kServers); a program that opens a directory of its own sets them for its members and clients.
constexpr const char* kPool = "DL_POOL";  // HOST:PORT
constexpr const char* kPoolSecret = "DL_POOL_SECRET";
constexpr const char* kJobDir = "DL_JOB_DIR";     // absolute path of the job directory
constexpr const char* kAttempt = "DL_ATTEMPT";    // 1-based count of starts of this job's learners
constexpr const char* kRunId = "DL_RUN_ID";       // unique for each start of the learners: 1..64 of [A-Za-z0-9._-]
constexpr const char* kProgress = "DL_PROGRESS";  // path of the progress page (progress_page.h)
// Absolute path of the file to which dl.metric() and dl_metric() append. Learner 0 alone has it.
constexpr const char* kMetricsFile = "DL_METRICS_FILE";
constexpr const char* kCheckpointDir = "DL_CHECKPOINT_DIR";  // absolute path, without the options
constexpr const char* kLease = "DL_CHECKPOINT_LEASE";        // token of dlrun's lease on the checkpoint directory

// What spank_dl.so has added for a plain srun task (given_variables.h).
constexpr const char* kGiven = "DL_GIVEN";

// dlrun sets these for its agents.
constexpr const char* kControl = "DL_CONTROL";           // host:port of dlrun
constexpr const char* kSecret = "DL_CONTROL_SECRET";     // 32 hex digits; removed before the learner starts
constexpr const char* kControlRank = "DL_CONTROL_RANK";  // the agent's rank, or the name of the variable that holds it
// Of a job that has several allocations. In the first, the ranks of the tasks of this srun, by the task's number, which
// is in the variable that kControlRank names (rank_list.h). In the other, which of the starts of agents this is: while
// agents of the next attempt come, those of the present one still run. Unset: the task's number is the rank; 0.
constexpr const char* kControlRanks = "DL_CONTROL_RANKS";
constexpr const char* kControlStart = "DL_CONTROL_START";

constexpr const char* kPmixServer = "DL_CONTROL_PMIX";  // path of dl-pmix if each node shall run one; else unset
// How many of the first ranks that one is for; unset: all. Agents of other ranks, servers of a pool, start none.
constexpr const char* kPmixRanks = "DL_CONTROL_PMIX_RANKS";
constexpr const char* kHoldPorts = "DL_CONTROL_PORTS";  // how many ports the agent holds for its learner; unset = 0

// "1": the job has a checkpoint directory and may be requeued. If dlrun is lost, an agent requeues it.
constexpr const char* kMayRequeue = "DL_CONTROL_REQUEUE";
// The value of that variable for an agent in a companion, which does not look after the job that dlrun runs in.
constexpr const char* kNeverRequeue = "never";

// "job": the tenant's jobs may connect to their own nodes alone (dl.toml, network). job_submit_dl.so puts it into the
// environment that Slurm keeps for prolog and epilog; Slurm adds the prefix SPANK_ there.
constexpr const char* kNetwork = "DL_NETWORK";
constexpr const char* kNetworkInProlog = "SPANK_DL_NETWORK";

}  // namespace dl::env
