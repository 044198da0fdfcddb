// SPDX-License-Identifier: Apache-2.0
// Environment families: sets of variables that frameworks read, computed from a learner's rank and its job. The table
// in families.cpp has one row for each family. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/contract/batch_split.h"

namespace dl {

// The values that are the same for all learners of a job.
struct JobContext {
  int world_size = 1;
  int servers = 0;  // how many of the world_size ranks, the last ones, are parameter servers
  // The elastic pool of parameter servers, which are no ranks of the world: as asked for, "MIN:MAX"; empty: there is
  // none.
  std::string pool;
  int pool_places = 0;      // MAX: how many servers there may be at once, numbered from world_size on
  std::string pool_addr;    // where dlrun hosts its directory
  int pool_port = 0;        // 0: not known yet, left unset
  std::string pool_secret;  // the file of its secret
  int num_nodes = 1;
  std::string master_addr = "127.0.0.1";  // numeric address of the host of rank 0
  int master_port = 0;
  // Ports held for rank 0 beside master_port, on master_addr: for another service that it hosts (JAX's coordinator),
  // and for NCCL's status service, whose port is the same on all nodes. 0 = unknown.
  int coordinator_port = 0, ras_port = 0;
  // "address:port" by rank, of each learner's first held port. Empty unless a family asks for it (FamilyNeeds), since
  // with 10,000 learners it is long.
  std::vector<std::string> peers;
  // true: dlrun hosts torch.distributed's store, at store_addr; false: rank 0 hosts it, at master_addr:master_port.
  bool launcher_store = false;
  std::string store_addr;
  int store_port = 0;  // 0 = not known yet
  // The address of Horovod's rendezvous, which dlrun hosts.
  std::string http_store_addr;
  int http_store_port = 0;   // 0 = not known yet
  int cpus_per_learner = 0;  // 0 = unknown
  std::string job_id;        // Slurm's id, or "local-..." without Slurm
  std::string job_name;
  // The nodes and tasks of the learners' step in Slurm's short forms; empty = unknown, or not in a Slurm job.
  std::string node_list;       // "n[1-3]"
  std::string tasks_per_node;  // learners on each of these nodes: "2(x2),1"
  std::string run_id;          // env::kRunId
  int attempt = 1, restarts = 0, max_restarts = 0;
  // The batch of the learners, as their variables have it. global_batch 0: the job has no --dl-batch.
  std::string batch_range, lr_scale;
  int64_t global_batch = 0, accumulation = 1;
  std::string job_dir;               // absolute
  std::string log_dir;               // absolute
  std::string work_dir;              // directory in which the command runs
  std::string checkpoint_dir;        // absolute, or empty
  std::string data_dir, result_dir;  // absolute; by default work_dir and job_dir/results
  std::string command;               // the words of the command, joined by blanks
};

// The values of one learner. All indices are 0-based.
struct LearnerContext : JobContext {
  int rank = 0;
  int local_rank = 0, local_world_size = 1;
  int node_rank = 0;
  std::vector<int> ports;  // ports that the agent holds for this learner on its node
  std::string interface;   // network interface that leads to the other learners; empty = unknown
  // Rank and number among the learners with the same local rank, ordered by rank; for a server 0 of 0.
  int cross_rank = 0, cross_size = 0;
  int local_servers = 0;  // number of servers among the local_world_size ranks
  std::string node_name;
  int gpus_per_learner = 0;  // 0 for a server
  std::string node_ranks;    // ranks on this node: "0,1"; empty = unknown, or not in a Slurm job
};

// Sets the batch that the learners find in their environment.
void describe_batch(const BatchRange& range, const BatchSplit& split, JobContext* context);

using Environment = std::map<std::string, std::string>;

// Adds the variables of `family` that are not in `env` yet, so that values which the user has set stay. Only the
// variables that identify a learner (RANK, WORLD_SIZE, LOCAL_RANK, LEARNER_ID, SLURM_PROCID, all of "dl", ...) replace
// values that are there: inherited from a shell these would be wrong for all learners but one. A variable whose value
// is unknown (no checkpoint directory, no port yet) is left unset. A variable that only makes sense together with
// another one (the address to bind, beside the address to connect to) is left alone if the user has set that other one.
// If the user has set MASTER_ADDR or MASTER_PORT, the store is the user's, whatever launcher_store says; an empty one
// counts as unset. Families: "dl" (the caller always adds it first) and those of the table in families.cpp, which
// dl-frameworks(7) describes; "slurm" gives nothing if job_id is not that of a Slurm job. kNotFound with the known
// names for any other.
Status add_family(const std::string& family, const LearnerContext& context, Environment* env);
std::vector<std::string> family_names();

// Does the same for all learners of one job, faster: values that are the same for all learners are computed once, for
// the first learner; only those that may differ are computed for the others. `first` is borrowed and outlives the
// object.
class JobEnvironment {
 public:
  // `inherited` is what every learner inherits.
  JobEnvironment(const LearnerContext& first, Environment inherited);
  ~JobEnvironment();
  JobEnvironment(const JobEnvironment&) = delete;
  JobEnvironment& operator=(const JobEnvironment&) = delete;

  // Each of these does what add_family() does; they take effect in the order of the calls.
  Status add(const std::string& family);
  void add_default(const std::string& name, const std::string& value);  // sets it if it is unset
  // Adds a text of a catalogue entry, with its placeholders filled for each learner (placeholders.h). If the text
  // differs between learners, it replaces an inherited value; otherwise it does not.
  void add_filled(const std::string& name, const std::string& text);
  void set(const std::string& name, const std::string& value);

  // The environment of the first learner.
  const Environment& first() const { return first_; }
  // The names whose values may differ between learners, sorted. All other variables have the first learner's value.
  const std::vector<std::string>& names() const { return names_; }
  // The value of names()[name] for another learner of the job; none if it is unset there.
  std::optional<std::string> value_of(size_t name, const LearnerContext& other) const;

 private:
  struct Step;
  struct Name;
  void note(const std::string& name, Step step);

  const LearnerContext* context_;
  Environment first_;
  std::vector<std::string> names_;
  std::vector<Name> its_;  // in the order of names_
};

// What the families need from the launcher, apart from ranks. Unknown families need nothing.
struct FamilyNeeds {
  int ports = 0;       // number of ports to hold for each learner
  bool peers = false;  // LearnerContext::peers
  // In a job with servers only learner 0 decides when the job is over: the other learners serve it, and would wait for
  // ever.
  bool first_decides = false;
  bool http_store = false;  // LearnerContext::http_store_addr; without it these learners must not start
};
FamilyNeeds family_needs(const std::vector<std::string>& families);
// Those of these families that a learner gets which is told no rank (dlrun --alone), in their order.
std::vector<std::string> families_alone(const std::vector<std::string>& families);

}  // namespace dl
