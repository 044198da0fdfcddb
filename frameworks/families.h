// SPDX-License-Identifier: Apache-2.0
// Environment families: sets of variables that frameworks read, computed from the place of a learner in its job. The
// table in families.cpp has one row for each family. Pure.
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
  int servers = 0;  // the last so many of the world_size ranks are parameter servers
  int num_nodes = 1;
  std::string master_addr = "127.0.0.1";  // numeric address of the host of rank 0
  int master_port = 0;
  // Held for rank 0 beside master_port, on master_addr: for another service that it hosts (JAX's coordinator), and for
  // NCCL's status service, whose number is the same on all nodes. 0 = unknown.
  int coordinator_port = 0, ras_port = 0;
  std::vector<std::string> peers;  // "address:port" by rank, of each learner's first held port; empty unless a family
                                   // asks (FamilyNeeds): with 10,000 learners it is long
  // torch.distributed's store is hosted by dlrun, at this address; else by rank 0 at master_addr:master_port.
  bool launcher_store = false;
  std::string store_addr;
  int store_port = 0;  // 0 = not known yet
  // Horovod's rendezvous is hosted by dlrun, at this address.
  std::string http_store_addr;
  int http_store_port = 0;   // 0 = not known yet
  int cpus_per_learner = 0;  // 0 = unknown
  std::string job_id;        // Slurm's, or "local-..." without Slurm
  std::string job_name;
  // The learners' step in Slurm's short forms; empty = unknown, or not in a Slurm job.
  std::string node_list;       // "n[1-3]"
  std::string tasks_per_node;  // learners on each node of it: "2(x2),1"
  std::string run_id;          // env::kRunId
  int attempt = 1, restarts = 0, max_restarts = 0;
  // The batch of the learners; global_batch 0: the job has no --dl-batch. The others as learners find them.
  std::string batch_range, lr_scale;
  int64_t global_batch = 0, accumulation = 1;
  std::string job_dir;               // absolute
  std::string log_dir;               // absolute
  std::string work_dir;              // where the command is run
  std::string checkpoint_dir;        // absolute, or empty
  std::string data_dir, result_dir;  // absolute; default to work_dir and job_dir/results
  std::string command;               // the command line, joined by blanks
};

// The values of one learner. All indices are 0-based.
struct LearnerContext : JobContext {
  int rank = 0;
  int local_rank = 0, local_world_size = 1;
  int node_rank = 0;
  std::vector<int> ports;  // held for this learner on its node
  std::string interface;   // network interface that leads to the others; empty = unknown
  // Among the learners with the same local rank, in the order of their ranks; of a server 0 of 0.
  int cross_rank = 0, cross_size = 0;
  int local_servers = 0;  // of local_world_size
  std::string node_name;
  int gpus_per_learner = 0;  // of a server 0
  std::string node_ranks;    // ranks on this node: "0,1"; empty = unknown, or not in a Slurm job
};

// Fills in what the learners find of their batch.
void describe_batch(const BatchRange& range, const BatchSplit& split, JobContext* context);

using Environment = std::map<std::string, std::string>;

// Adds the variables of `family` that are not in `env` yet, so that values which the user has set stay. Only the
// variables that identify a learner (RANK, WORLD_SIZE, LOCAL_RANK, LEARNER_ID, SLURM_PROCID, all of "dl", ...) replace
// what is there: inherited from a shell they would be wrong for all learners but one. A variable whose value is unknown
// (no checkpoint directory, no port yet) is left unset. A variable that is of use only together with another (the
// address to bind, beside the address to connect to) is left alone where the user has set that other one. A MASTER_ADDR
// or MASTER_PORT of the user's means a store of the user's, whatever launcher_store says; an empty one counts as unset.
// Families: "dl" (always added first by the caller) and those of the table in families.cpp, which dl-frameworks(7)
// describes; "slurm" gives nothing if job_id is not a Slurm job's. kNotFound with the known names for any other.
Status add_family(const std::string& family, const LearnerContext& context, Environment* env);
std::vector<std::string> family_names();

// The same for all learners of one job, faster: values that are the same for all learners are computed once, for the
// first learner; for the others only those that may differ. `first` is borrowed and outlives the object.
class JobEnvironment {
 public:
  // inherited: by every learner.
  JobEnvironment(const LearnerContext& first, Environment inherited);
  ~JobEnvironment();
  JobEnvironment(const JobEnvironment&) = delete;
  JobEnvironment& operator=(const JobEnvironment&) = delete;

  // Each does what add_family() does; they take effect in the order of the calls.
  Status add(const std::string& family);
  void add_default(const std::string& name, const std::string& value);  // where it is unset
  // A text of a catalogue entry, with its placeholders filled for each learner (placeholders.h). One that differs
  // between learners replaces what is inherited, any other does not.
  void add_filled(const std::string& name, const std::string& text);
  void set(const std::string& name, const std::string& value);

  // What the first learner finds.
  const Environment& first() const { return first_; }
  // The names whose values may differ between learners, sorted. All other variables have the first learner's value.
  const std::vector<std::string>& names() const { return names_; }
  // The value of names()[name] for another learner of the job; nothing if it is unset there.
  std::optional<std::string> value_of(size_t name, const LearnerContext& other) const;

 private:
  struct Step;
  struct Name;
  void note(const std::string& name, Step step);

  const LearnerContext* context_;
  Environment first_;
  std::vector<std::string> names_;
  std::vector<Name> its_;  // of each of names_
};

// What the families need from the launcher beyond where a learner stands. Unknown names need nothing.
struct FamilyNeeds {
  int ports = 0;       // held for each learner
  bool peers = false;  // LearnerContext::peers
  // In a job with servers, only learner 0 decides when the job is over: the other learners serve it, and would wait for
  // ever.
  bool first_decides = false;
  bool http_store = false;  // LearnerContext::http_store_addr: without it these learners must not start
};
FamilyNeeds family_needs(const std::vector<std::string>& families);

}  // namespace dl
