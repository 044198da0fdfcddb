// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/job_submit/gpu_share.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "common/base/parse.h"

namespace dl {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
// So that no product here overflows.
constexpr int64_t kMostCpus = int64_t{1} << 31;    // nodes, too
constexpr int64_t kMostMemory = int64_t{1} << 30;  // MiB

int64_t memory_of(const std::optional<int64_t>& asked) {
  return std::clamp<int64_t>(asked.value_or(0), 0, kMostMemory);
}

// A size that the job could have.
struct Size {
  int64_t nodes;
  int64_t gpus;
};

// What is asked for on each node, and what each node's GPUs are, may grow with the number of nodes or not: if the
// smallest and the largest size keep the limit, all do.
class Share {
 public:
  Share(const Submission& given, const GpuCount& gpus, const SiteConfig& site)
      : given_(given), gpus_(gpus), site_(site), node_gpus_(largest_node(site, gpus.type)) {}

  // A job that takes all GPUs of its nodes leaves none without CPUs or memory.
  Status check(const Size& size) const {
    if (size.gpus == size.nodes * node_gpus_) return {};
    DL_TRY(check_cpus(size));
    return check_memory(size);
  }
  Size smallest() const {
    if (gpus_.per_node > 0) return {gpus_.least / gpus_.per_node, gpus_.least};
    const int64_t needed = node_gpus_ > 0 ? (gpus_.least + node_gpus_ - 1) / node_gpus_ : 1;
    return {std::clamp(given_.min_nodes.value_or(1), needed, kMostCpus), gpus_.least};
  }
  // Each node has a GPU of the job, or all those of one task; Slurm may give it nodes on which it starts no task.
  Size largest() const {
    if (gpus_.per_node > 0) return {gpus_.most / gpus_.per_node, gpus_.most};
    const int64_t most = gpus_.most / gpus_.per_learner;
    return {std::max(smallest().nodes, std::min(given_.max_nodes.value_or(most), most)), gpus_.most};
  }

 private:
  int64_t cpus(const Size& size) const {
    const int64_t of_task = given_.cpus_per_task.value_or(1);
    // Slurm gives each node the CPUs of one task at least, also with --overcommit.
    const int64_t of_node = std::max(given_.cpus_per_node.value_or(0), of_task);
    int64_t all = std::max({given_.min_cpus.value_or(0), given_.max_cpus.value_or(0), size.nodes * of_node});
    if (given_.cpus_of_gpu) all = std::max(all, size.gpus * *given_.cpus_of_gpu);
    int64_t tasks = std::max(given_.tasks.value_or(1), size.nodes * given_.tasks_per_node.value_or(1));
    if (given_.tasks_per_gpu) tasks = std::max(tasks, size.gpus * *given_.tasks_per_gpu);
    if (!given_.overcommit) all = std::max(all, std::min(tasks, kMostCpus) * of_task);
    return std::min(all, kMostCpus);
  }

  Status check_cpus(const Size& size) const {
    const int64_t limit = site_.quota.max_cpus_per_gpu;
    const int64_t asked = cpus(size);
    if (limit == 0 || asked <= limit * size.gpus) return {};
    return refused(fmt::format("{} CPUs", asked), size, fmt::format("{} CPUs", limit), "-c, -n or --cpus-per-gpu");
  }

  Status check_memory(const Size& size) const {
    const auto limit = static_cast<int64_t>(site_.quota.max_memory_per_gpu / kMiB);
    if (limit == 0) return {};
    const std::string most = format_bytes(site_.quota.max_memory_per_gpu);
    const char* const options = "--mem, --mem-per-cpu or --mem-per-gpu";
    // To Slurm, no memory means all of it, on each node or for each CPU.
    const bool all = given_.memory_per_node == 0 || given_.memory_per_cpu == 0 || given_.memory_per_gpu == 0;
    if (all) return refused("all memory of its nodes", size, most, options);
    const int64_t asked =
        std::max({size.nodes * memory_of(given_.memory_per_node), cpus(size) * memory_of(given_.memory_per_cpu),
                  size.gpus * memory_of(given_.memory_per_gpu)});
    if (asked <= limit * size.gpus) return {};
    const auto shown = static_cast<uint64_t>(std::min(asked, kMostMemory) * kMiB);
    return refused(format_bytes(shown) + " of memory", size, most, options);
  }

  Status refused(const std::string& asked, const Size& size, const std::string& most, const char* options) const {
    return Error{
        Errc::kNoSpace,
        fmt::format("the job asks for {} with {} GPU{} on {} node{}, and would leave other GPUs there without; "
                    "allowed: {} for each GPU ({}{})",
                    asked, size.gpus, size.gpus == 1 ? "" : "s", size.nodes, size.nodes == 1 ? "" : "s", most, options,
                    size.nodes > 1 ? ", or -N for fewer nodes" : "")};
  }

  const Submission& given_;
  const GpuCount& gpus_;
  const SiteConfig& site_;
  const int64_t node_gpus_;  // all those of a node; 0: dl.toml does not say
};

}  // namespace

Status check_share(const Submission& given, const GpuCount& gpus, const SiteConfig& site) {
  if (gpus.none() || (site.quota.max_cpus_per_gpu == 0 && site.quota.max_memory_per_gpu == 0)) return {};
  const Share share(given, gpus, site);
  DL_TRY(share.check(share.smallest()));
  return share.check(share.largest());
}

}  // namespace dl
