// SPDX-License-Identifier: Apache-2.0
// What ./run measures where no machine of ours is large enough: one round of dlpolicyd, without Slurm, on made-up
// records.
//
//     round_once NODES RUNNING PENDING TENANTS SEED
//
// Nodes of 8 GPUs in switches of 16. RUNNING jobs of 1 to 8 GPUs fill them in turn, half of them lent; the PENDING ones
// are of all tenants, half of them more than their quota. Prints "VIEW DECIDE PLAN METRICS QUOTA MIB ACTIONS": the
// seconds until Slurm's records are a state (observe::view_cluster), until it is decided, until the changes in Slurm
// are known, and until metrics are written; the seconds that the rows of `dlctl quota` take beyond that; the most
// memory that the process had, and how many changes there are.
#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "slurm-plugin/observe/cluster_view.h"
#include "slurm-plugin/policy/decide.h"
#include "slurm-plugin/policy/quota_rows.h"
#include "slurm-plugin/policyd/job_counts.h"
#include "slurm-plugin/policyd/metrics.h"
#include "slurm-plugin/policyd/planner.h"
#include "tests/bench/lib/dice.h"

namespace dl::policyd {
namespace {

using bench::Dice;

constexpr int64_t kNow = 1'796'000'000;
constexpr int kGpus = 8, kSwitch = 16;

struct Size {
  int nodes, running, pending, tenants;
};

policy::ClusterState site_of(const Size& size) {
  policy::ClusterState state;
  state.types = {"a100"};
  for (int i = 0; i < size.tenants; ++i) {
    policy::Tenant tenant;
    tenant.name = fmt::format("t{}", i);
    tenant.quota.any = size.nodes * kGpus / size.tenants;
    state.tenants.push_back(std::move(tenant));
  }
  return state;
}

policy::JobLabel label_of(int tenant, int gpus, policy::Charge charge) {
  policy::JobLabel label;
  label.tenant = fmt::format("t{}", tenant);
  label.learners = LearnerRange{gpus, gpus};
  label.pausable = true;
  label.charge = charge;
  return label;
}

observe::JobRecord job_of(int64_t id, const policy::JobLabel& label) {
  observe::JobRecord job;
  job.id = id;
  job.user = "u" + label.tenant;
  job.name = "train";
  job.account = label.tenant;
  job.requeueable = true;
  job.phase = observe::JobPhase::kPending;
  job.submit_s = job.begin_s = kNow - 20'000 + id % 20'000;
  job.admin_comment = policy::format_label(label);
  if (label.charge == policy::Charge::kOwn) job.licenses = fmt::format("dl_{}:{}", label.tenant, label.learners.min);
  return job;
}

observe::Records records_of(const Size& size, Dice* dice) {
  observe::Records records;
  records.now_s = kNow;
  for (int i = 0; i < size.nodes; ++i) records.nodes.push_back({fmt::format("n{}", i + 1), "gpu:a100:8(S:0-1)", true});
  for (int i = 0; i < size.nodes; i += kSwitch)
    records.leaf_switches.push_back(
        {fmt::format("s{}", i), fmt::format("n[{}-{}]", i + 1, std::min(i + kSwitch, size.nodes))});
  int64_t id = 0;
  int node = 0, left = kGpus;
  for (int i = 0; i < size.running && node < size.nodes; ++i) {
    const int gpus = std::min(left, 1 << dice->from(0, 3));
    const bool own = i % 2 == 0;
    observe::JobRecord job = job_of(
        ++id, label_of(dice->from(0, size.tenants - 1), gpus, own ? policy::Charge::kOwn : policy::Charge::kBorrowed));
    job.phase = observe::JobPhase::kRunning;
    job.start_s = kNow - dice->from(100, 86'400);
    job.nodes = fmt::format("n{}", node + 1);
    job.comment = fmt::format("dl:PROCESSING attempt=1 step={} dir=/home/u/dl-{}", dice->from(1, 100'000), id);
    job.gres_by_node.push_back(fmt::format("gpu:a100:{}(IDX:{}-{})", gpus, kGpus - left, kGpus - left + gpus - 1));
    records.jobs.push_back(std::move(job));
    left -= gpus;
    if (left == 0) {
      ++node;
      left = kGpus;
    }
  }
  for (int i = 0; i < size.pending; ++i)
    records.jobs.push_back(job_of(++id, label_of(i % size.tenants, 1 << dice->from(0, 3), policy::Charge::kOwn)));
  return records;
}

double since(std::chrono::steady_clock::time_point* began) {
  const auto now = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(now - *began).count();
  *began = now;
  return seconds;
}

double peak_mib() {
  struct rusage used {};
  ::getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_maxrss) / 1024;
}

int run(const Size& size, uint64_t seed) {
  Dice dice(seed);
  const policy::ClusterState site = site_of(size);
  const observe::Records records = records_of(size, &dice);
  auto began = std::chrono::steady_clock::now();
  observe::ClusterView view = observe::view_cluster(site, records, {});
  if (const Status sound = policy::check(view.state); !sound) {
    std::fprintf(stderr, "round_once: %s\n", sound.error().text.c_str());
    return 1;
  }
  const double viewed = since(&began);
  const policy::Decision decision = policy::decide(&view.state);
  const double decided = since(&began);
  const std::vector<Action> actions = needed_actions(view, records, decision, policy::Grace{120, 30});
  const double planned = since(&began);
  JobCounts counts;
  counts.update(view.state, records);
  const std::string metrics = metrics_text(view, decision, Totals()) + counts.text();
  const double told = since(&began);
  const auto rows = policy::quota_rows(view.state);
  const double quota = since(&began);
  std::printf("%.6f %.6f %.6f %.6f %.6f %.1f %zu\n", viewed, decided, planned, told, quota, peak_mib(), actions.size());
  return metrics.empty() || rows.empty() ? 1 : 0;
}

}  // namespace
}  // namespace dl::policyd

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: round_once NODES RUNNING PENDING TENANTS SEED\n");
    return 2;
  }
  const auto number = [&](int i) { return std::atoi(argv[i]); };
  return dl::policyd::run({number(1), number(2), number(3), number(4)}, std::strtoull(argv[5], nullptr, 10));
}
