// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/job_submit/gpu_count.h"

#include <fmt/core.h>
#include <strings.h>

#include <algorithm>
#include <optional>

#include "common/base/parse.h"

namespace dl {
namespace {

constexpr int64_t kMaxCount = int64_t{1} << 32;  // two such numbers can be multiplied without overflow

bool same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::strncasecmp(a.data(), b.data(), a.size()) == 0;
}

// One request in a list of GRES: [gres:|gres/]NAME[:TYPE][:COUNT]; '=' may stand for ':'.
struct Gres {
  std::string prefix;  // "gres:", "gres/" or empty
  std::string name, type;
  std::optional<std::string> count;  // as written, including the separator before it
};

bool is_count(std::string_view text) {
  return !text.empty() && text.front() >= '0' && text.front() <= '9' &&
         text.find_first_not_of("0123456789") >= text.size() - 1 &&  // only digits, or digits and one unit
         (text.back() <= '9' || std::string_view("kKmMgGtTpP").find(text.back()) != std::string_view::npos);
}

Gres read_gres(std::string_view field) {
  Gres gres;
  for (const char* prefix : {"gres:", "gres/"})
    if (same(field.substr(0, 5), prefix)) {
      gres.prefix = field.substr(0, 5);
      field.remove_prefix(5);
    }
  const size_t end = field.find_first_of(":=");
  gres.name = field.substr(0, end);
  if (end == std::string_view::npos) return gres;
  const std::string_view rest = field.substr(end);
  const size_t last = rest.find_last_of(":=");
  if (is_count(rest.substr(last + 1))) {
    gres.count = std::string(rest.substr(last));
    gres.type = last > 0 ? rest.substr(1, last - 1) : "";
  } else {
    gres.type = rest.substr(1);
  }
  return gres;
}

struct Asked {
  int64_t count = 0;
  std::string type;
};

Result<Asked> gpus_in(const std::string& tres, const char* flag) {
  Asked sum;
  bool first = true;
  for (const std::string& field : split(tres, ',')) {
    const Gres gres = read_gres(trim(field));
    for (const char* part : {"shard", "mps"})
      if (same(gres.name, part))
        return Error{
            Errc::kUnsupported,
            fmt::format("{}={}: parts of GPUs are not counted by quotas; allowed: whole GPUs", flag, printable(tres))};
    if (!same(gres.name, "gpu")) continue;
    int64_t count = 1;
    if (gres.count) {
      const auto number = parse_int(std::string_view(*gres.count).substr(1), 0, kMaxQuotaGpus);
      if (!number)
        return Error{Errc::kInvalid,
                     fmt::format("{}={}: the number of GPUs is not accepted; allowed: a whole number from 0 to {}",
                                 flag, printable(tres), kMaxQuotaGpus)};
      count = *number;
    }
    if (!gres.type.empty() && !is_plain_name(gres.type))
      return Error{Errc::kInvalid, fmt::format("{}={}: '{}' is not a GPU type; allowed: gpu[:TYPE][:N]", flag,
                                               printable(tres), printable(gres.type))};
    if (count == 0) continue;
    if (!first && gres.type != sum.type)
      return Error{Errc::kConflict, fmt::format("{}={} asks for GPUs of several types; allowed: one type for each job",
                                                flag, printable(tres))};
    sum.type = gres.type;
    sum.count = std::min(kMaxCount, sum.count + count);
    first = false;
  }
  return sum;
}

// The range of the number of nodes that a job can get.
struct NodeRange {
  int64_t least = 1;
  int64_t most = 1;
  int64_t pinned = 0;
};

Result<NodeRange> nodes_of(const Submission& given, const std::string& what) {
  NodeRange nodes;
  const int64_t tasks = given.tasks.value_or(1);
  if (given.max_nodes) {
    nodes.most = *given.max_nodes;
    nodes.least = std::min(nodes.most, given.min_nodes.value_or(1));
    return nodes;
  }
  int64_t wanted = given.min_nodes.value_or(1);
  if (given.tasks && given.tasks_per_node)
    wanted = std::max(wanted, (tasks + *given.tasks_per_node - 1) / *given.tasks_per_node);
  const bool fits = given.tasks_per_node ? true : tasks <= wanted;
  if (!fits)
    return Error{
        Errc::kConflict,
        fmt::format("{} gives GPUs to each node, and {} tasks may get 1 to {} nodes: their number of GPUs cannot "
                    "be charged; allowed: --nodes=N, --ntasks-per-node=N, or --gpus=N instead",
                    what, tasks, tasks)};
  nodes.least = nodes.most = nodes.pinned = wanted;
  return nodes;
}

bool without_gpus(const std::string& partitions, const SiteConfig& site) {
  if (partitions.empty()) return false;
  for (const std::string& partition : split(partitions, ','))
    if (std::find(site.quota.cpu_partitions.begin(), site.quota.cpu_partitions.end(), partition) ==
        site.quota.cpu_partitions.end())
      return false;
  return true;
}

// How many tasks Slurm counts on a node where it gave whole cores, of `threads` CPUs each, to `tasks` tasks. Slurm
// divides the CPUs by the tasks, and the cores by the quotient (_build_tasks_per_node_sock() in select/cons_tres, from
// 24.11.1 on).
int64_t tasks_seen(int64_t tasks, int64_t cpus_per_task, int64_t threads) {
  const int64_t cores = (tasks * cpus_per_task + threads - 1) / threads;
  const int64_t cpus_of_each = std::max<int64_t>(1, cores * threads / tasks);
  if (cpus_of_each <= threads) return cores * (threads / cpus_of_each);
  const int64_t cores_of_each = cpus_of_each / threads;
  return (cores + cores_of_each - 1) / cores_of_each;
}

// True if Slurm, when it counts the tasks of --ntasks, cannot place further tasks, up to --ntasks-per-node, on CPUs
// that these tasks leave over, whatever the machine. CPUs that a site's defaults add to a job (DefCpuPerGPU,
// MaxMemPerCPU) are not known here; once the job runs, dlpolicyd charges it for the GPUs that it really holds.
bool leaves_no_tasks(const Submission& given) {
  constexpr int64_t kMostLooked = 256;  // tasks on one node; no node has so many GPUs
  if (given.enforce_binding || given.cpus_per_gpu || given.overcommit) return false;
  if (given.tasks_per_core.value_or(1) > 1 || *given.tasks_per_node > kMostLooked) return false;
  const int64_t cpus = given.cpus_per_task.value_or(1);
  for (int64_t tasks = 1; tasks < *given.tasks_per_node; ++tasks)
    for (const int64_t threads : {1, 2, 4, 8})
      if (tasks_seen(tasks, cpus, threads) > tasks) return false;
  return true;
}

class Counter {
 public:
  Counter(const Submission& given, const SiteConfig& site, const GpuRule& rule)
      : given_(given), site_(site), rule_(rule) {}

  Result<GpuCount> count() {
    DL_TRY_ASSIGN(const Asked job, read(given_.tres_per_job, "--gpus"));
    DL_TRY_ASSIGN(const Asked node, read(given_.tres_per_node, "--gres"));
    DL_TRY_ASSIGN(const Asked task, read(given_.tres_per_task, "--gpus-per-task"));
    DL_TRY_ASSIGN(const Asked socket, read(given_.tres_per_socket, "--gpus-per-socket"));
    if (job.count > 0) {
      take(job.count, job.count, 1);  // Slurm refuses other GPU options that contradict this number
    } else {
      if (node.count > 0) DL_TRY(by_node(node.count, "--gres=gpu"));
      if (socket.count > 0) DL_TRY(by_socket(socket.count));
      if (task.count > 0) DL_TRY(by_task(task.count));
      if (none() && given_.tasks_per_gpu) DL_TRY(by_tasks_per_gpu());
    }
    if (given_.keeps_others_off && !without_gpus(given_.partition, site_))
      return Error{
          Errc::kUnsupported,
          "--exclusive=user, =mcs and =topo keep other users off GPUs of the node that nobody is charged for; allowed: "
          "--exclusive, which is charged for whole nodes, no --exclusive, or a --partition that dl.toml lists in "
          "[quota] "
          "cpu_partitions"};
    if (given_.exclusive && !without_gpus(given_.partition, site_)) DL_TRY(whole_nodes());
    if (count_.most > kMaxQuotaGpus)
      return Error{Errc::kInvalid,
                   fmt::format("the job asks for {} GPUs; allowed: up to {}", count_.most, kMaxQuotaGpus)};
    return count_;
  }

 private:
  bool none() const { return count_.most == 0; }

  Result<Asked> read(const std::string& tres, const char* flag) {
    DL_TRY_ASSIGN(Asked asked, gpus_in(tres, flag));
    if (asked.count == 0 || asked.type.empty()) return asked;
    if (!count_.type.empty() && count_.type != asked.type)
      return Error{Errc::kConflict,
                   fmt::format("the job asks for GPUs of the types '{}' and '{}'; allowed: one type for "
                               "each job",
                               count_.type, asked.type)};
    count_.type = asked.type;
    return asked;
  }

  // A job that asks for GPUs in several ways gets what satisfies all of them; the largest number is an upper bound.
  void take(int64_t least, int64_t most, int64_t per_learner) {
    if (most <= count_.most) return;
    count_.least = least;
    count_.most = most;
    count_.per_learner = per_learner;
    count_.per_node = 0;
  }

  Status by_node(int64_t gpus, const std::string& what) {
    DL_TRY_ASSIGN(const NodeRange nodes, nodes_of(given_, what));
    count_.pinned_nodes = nodes.pinned;
    if (gpus * nodes.most <= count_.most) return {};
    take(gpus * nodes.least, gpus * nodes.most, gpus);
    count_.per_node = gpus;
    return {};
  }

  Status by_socket(int64_t gpus) {
    if (!given_.sockets_per_node)
      return Error{Errc::kConflict,
                   "--gpus-per-socket needs --sockets-per-node for its number of GPUs to be charged; "
                   "allowed: also --gpus-per-node=N"};
    return by_node(gpus * *given_.sockets_per_node, "--gpus-per-socket");
  }

  Status by_task(int64_t gpus) {
    int64_t tasks = given_.tasks.value_or(0);
    if (tasks == 0) {
      DL_TRY_ASSIGN(const NodeRange nodes, nodes_of(given_, "--gpus-per-task"));
      count_.pinned_nodes = nodes.pinned;
      tasks = nodes.most * given_.tasks_per_node.value_or(1);
    } else if (given_.tasks_per_node && !(rule_.ntasks_is_the_number && leaves_no_tasks(given_))) {
      // Slurm starts this many tasks on each node, whatever --ntasks says: -n5 -N2 --ntasks-per-node=3 gets six.
      DL_TRY_ASSIGN(const NodeRange nodes, nodes_of(given_, "--gpus-per-task"));
      count_.pinned_nodes = nodes.pinned;
      tasks = std::max(tasks, nodes.most * *given_.tasks_per_node);
    }
    take(gpus * tasks, gpus * tasks, gpus);
    return {};
  }

  Status by_tasks_per_gpu() {
    if (!given_.tasks)
      return Error{Errc::kConflict,
                   fmt::format("--ntasks-per-gpu={} alone does not say how many GPUs; allowed: --ntasks=N or "
                               "--gpus=N with it",
                               *given_.tasks_per_gpu)};
    const int64_t gpus = (*given_.tasks + *given_.tasks_per_gpu - 1) / *given_.tasks_per_gpu;
    take(gpus, gpus, 1);
    return {};
  }

  // Slurm gives an exclusive job all GPUs of its nodes, even if it asked for fewer or for none.
  Status whole_nodes() {
    const int64_t gpus = largest_node(site_, count_.type);
    if (gpus == 0)
      return Error{Errc::kUnsupported,
                   "--exclusive or --core-spec takes all GPUs of a node, and [nodes] of dl.toml does not say how many "
                   "these are; allowed: a job without it"};
    const int64_t asked = std::max<int64_t>(gpus, count_.per_node);
    count_ = GpuCount{0, 0, 1, 0, count_.type, 0};
    return by_node(asked, "--exclusive");
  }

  const Submission& given_;
  const SiteConfig& site_;
  const GpuRule& rule_;
  GpuCount count_;
};

}  // namespace

Result<GpuCount> count_gpus(const Submission& given, const SiteConfig& site, const GpuRule& rule) {
  return Counter(given, site, rule).count();
}

int64_t largest_node(const SiteConfig& site, const std::string& type) {
  const auto typed = site.gpus_per_node_by_type.find(type);
  if (typed != site.gpus_per_node_by_type.end()) return typed->second;
  int64_t largest = site.gpus_per_node;
  for (const auto& [name, gpus] : site.gpus_per_node_by_type) largest = std::max<int64_t>(largest, gpus);
  return largest;
}

std::optional<int64_t> count_of_gpu(const std::string& tres) {
  std::optional<int64_t> most;
  for (const std::string& field : split(tres, ',')) {
    const Gres gres = read_gres(trim(field));
    if (!same(gres.name, "gpu")) continue;
    int64_t count = kMaxCount;
    if (gres.count)
      if (const auto plain = parse_int(std::string_view(*gres.count).substr(1), 0, kMaxCount)) count = *plain;
    most = std::max(most.value_or(0), count);
  }
  return most;
}

bool asks_for_gpus(const std::string& tres) {
  for (const std::string& field : split(tres, ','))
    if (same(read_gres(trim(field)).name, "gpu")) return true;
  return false;
}

std::string with_gpu_type(const std::string& tres, const std::string& type) {
  std::string text;
  for (const std::string& field : split(tres, ',')) {
    const Gres gres = read_gres(trim(field));
    if (!text.empty()) text += ',';
    if (same(gres.name, "gpu") && gres.type.empty())
      text += fmt::format("{}{}:{}{}", gres.prefix, gres.name, type, gres.count.value_or(""));
    else
      text += field;
  }
  return text;
}

}  // namespace dl
