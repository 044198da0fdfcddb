// SPDX-License-Identifier: Apache-2.0
// Parsers of what Slurm's commands (22.05 to 26.05) print about what a job may wait for: nodes, partitions, queues,
// priorities, limits. Records of scontrol's are read by slurm_cli/records.h. A field that is missing in the text keeps
// its default. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dl::ctl {

// Amounts of TRES: "cpu=4,mem=12052M,node=2,gres/gpu=4,gres/gpu:a100=4". -1: not named, or no limit ("N").
struct Amounts {
  int64_t cpus = -1, memory_mb = -1, nodes = -1, gpus = -1;
};
Amounts parse_amounts(std::string_view tres);
// "2 nodes, 4 CPUs, 2 GPUs"; amounts of -1 or 0 are left out, and memory unless `with_memory`.
std::string amounts_text(const Amounts& amounts, bool with_memory);

// How many GPUs a job asks for, in each form that sbatch has, and for how many nodes and tasks. A form that the job
// does not use is empty.
struct GpuRequest {
  std::string per_job, per_node, per_socket, per_task;  // "gres:gpu:2", "gres/gpu:a100=2"
  int64_t nodes = 0, tasks = 0;
  // The GPUs on all its nodes together; -1: none. For --gpus-per-socket the least number, since a node may have several
  // sockets.
  int64_t gpus() const;
};

// A line of `scontrol --oneliner --details show nodes`.
struct NodeLine {
  std::string name, state, reason, partitions;
  Amounts all, used;
  bool usable() const;  // jobs may be started there
};
std::vector<NodeLine> parse_nodes(const std::string& text);

// The nodes of one partition together.
struct Room {
  int nodes = 0, usable = 0, idle = 0;
  int64_t cpus = 0, cpus_free = 0, gpus = 0, gpus_free = 0;                      // sums over usable nodes
  int64_t node_cpus = 0, node_cpus_free = 0, node_gpus = 0, node_gpus_free = 0;  // maximum of one node
  int64_t gpus_in_all = 0;                                                       // also of nodes that are out
  std::vector<std::string> out;                                                  // "n2 is MIXED+DRAIN (bad disk)"
};
Room room_of(const std::vector<NodeLine>& nodes, const std::string& partition);

// `squeue -o kQueueFormat`: a line for each job.
constexpr const char* kQueueFormat = "%i|%T|%Q|%u|%D|%C|%b|%S|%e|%r";
struct QueueLine {
  std::string id, state, user, reason;
  int64_t priority = 0;
  int64_t nodes = 0, cpus = 0, gpus = 0;  // gpus: on all its nodes together
  std::optional<int64_t> start_s, end_s;  // Unix time; Slurm's estimates
};
// `squeue -O kQueueGpusFormat`: the forms in which a job may ask for GPUs. %b above is only one of them.
constexpr const char* kQueueGpusFormat =
    "JobArrayID:|,NumTasks:|,tres-per-job:|,tres-per-node:|,tres-per-socket:|,tres-per-task:|";
// gpus: the output for kQueueGpusFormat; empty if squeue failed.
std::vector<QueueLine> parse_queue(const std::string& text, const std::string& gpus = {});

// `sprio -o kPriorityFormat`: the parts of a priority, weighted.
constexpr const char* kPriorityFormat = "%Y|%S|%A|%B|%F|%J|%P|%Q|%N|%T";
struct PriorityParts {
  int64_t total = 0;
  std::vector<std::pair<std::string, int64_t>> parts;  // without those that are 0
};
std::optional<PriorityParts> parse_priority(const std::string& text);

// A limit of `scontrol show assoc_mgr`: "4(2)" is a limit of 4, of which 2 are used.
struct Limit {
  std::string whose;  // "QOS 'normal'", "account 'nlp'", "user 'ada' in account 'nlp'"
  int64_t limit = -1, used = -1;
  std::string name;  // which TRES of one kind: "matlab" of license/matlab; else empty
};
// The user and account whose use is wanted from limits that are per user or per account.
struct LimitsOf {
  std::string user_id, account;
};
// The limits called `key` ("GrpTRES", "MaxJobsPU", "MaxWallPJ") that are set, in the order of the text. tres: which
// TRES of the limit ("gres/gpu"; "license/": all licences; empty: all).
std::vector<Limit> parse_limits(const std::string& text, const std::string& key, const std::string& tres,
                                const LimitsOf& of);

}  // namespace dl::ctl
