// SPDX-License-Identifier: Apache-2.0
// What Slurm's commands print of the things that a waiting job waits for, taken apart: nodes, partitions, queues,
// priorities, limits, licences. Of 22.05 to 26.05; what is not there stays at its default. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dl::ctl {

// The words KEY=VALUE of one line, such as `scontrol --oneliner` prints. A value ends where the next word that holds
// '=' begins, so those of Reason= may hold blanks.
class Words {
 public:
  explicit Words(std::string_view line);
  // Empty if it is not there, or "(null)", "N/A", "n/s" or "None".
  std::string value(std::string_view key) const;

 private:
  std::vector<std::pair<std::string, std::string>> words_;
};

// "cpu=4,mem=12052M,node=2,gres/gpu=4,gres/gpu:a100=4"; -1: not named, or without limit ("N").
struct Amounts {
  int64_t cpus = -1, memory_mb = -1, nodes = -1, gpus = -1;
};
Amounts parse_amounts(std::string_view tres);
// "2 nodes, 4 CPUs, 2 GPUs"; what is -1 or 0 is left out. Memory only if `with_memory`.
std::string amounts_text(const Amounts& amounts, bool with_memory);

// A line of `scontrol --oneliner show nodes`.
struct NodeLine {
  std::string name, state, reason, partitions;
  Amounts all, used;
  bool usable() const;  // something may start there
};
std::vector<NodeLine> parse_nodes(const std::string& text);

// The nodes of one partition together.
struct Room {
  int nodes = 0, usable = 0, idle = 0;
  int64_t cpus = 0, cpus_free = 0, gpus = 0, gpus_free = 0;                      // of usable nodes
  int64_t node_cpus = 0, node_cpus_free = 0, node_gpus = 0, node_gpus_free = 0;  // the most that one node has
  std::vector<std::string> out;                                                  // "n2 is MIXED+DRAIN (bad disk)"
};
Room room_of(const std::vector<NodeLine>& nodes, const std::string& partition);

// `squeue -o kQueueFormat`: a line for each job.
constexpr const char* kQueueFormat = "%i|%T|%Q|%u|%D|%C|%b|%S|%e|%r";
struct QueueLine {
  std::string id, state, user, reason;
  int64_t priority = 0;
  int64_t nodes = 0, cpus = 0, gpus = 0;  // gpus: of all its nodes
  std::optional<int64_t> start_s, end_s;  // since the epoch; estimates of Slurm's
};
std::vector<QueueLine> parse_queue(const std::string& text);

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
  std::string name;  // which of several that are counted alike: "matlab" of license/matlab; or empty
};
// Whose use counts, of the limits for each user and for each account.
struct LimitsOf {
  std::string user_id, account;
};
// The limits called `key` ("GrpTRES", "MaxJobsPU", "MaxWallPJ") that are set, in the order of the text; of those of
// TRES the one of `tres` ("gres/gpu"; "license/": all of that kind; empty: all).
std::vector<Limit> parse_limits(const std::string& text, const std::string& key, const std::string& tres,
                                const LimitsOf& of);

// `scontrol --oneliner show licenses`.
struct Licence {
  std::string name;
  int64_t total = 0, used = 0, free = 0;
};
std::vector<Licence> parse_licences(const std::string& text);

}  // namespace dl::ctl
