// SPDX-License-Identifier: Apache-2.0
// What ./run measures: one policy::decide() on a made-up cluster.
//
//     decide_once KIND JOBS GPUS SEED    prints the seconds that the decision took, and what it was
//
// Nodes have 8 GPUs, of two types; a tenant for each 50 GPUs. About half of the jobs run, the others wait. KIND:
// `claims`: every other tenant holds everything and the rest claim their own, so that victims are searched for again
// and again; `lend`: half of the GPUs are free and nobody owns any; `mixed`: every tenant runs and waits, and some
// claim; `guaranteed`: the same, but whoever waits may not borrow, so that victims are searched for within tenants.
//
// Many claims: all GPUs are held by jobs of one GPU each, lent to tenants that own nothing, and as many GPUs as there
// are are claimed by who owns them. `ones`: by jobs of one GPU; `eights`: of a whole node; `tenth`: by jobs of one GPU,
// but only a tenth of the GPUs; `protected`: as ones, but nobody may be asked yet; `own`: guaranteed jobs of one GPU
// claim from their own tenants; `hopeless`: as eights, but one job on each node cannot be paused; `odd`: by jobs of
// one GPU, but a tenth of the GPUs, by learners of 3 and of 2, which do not fill nodes evenly; `odd-half`: the same,
// half of the GPUs.
#include <fmt/core.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "slurm-plugin/policy/decide.h"
#include "slurm-plugin/policy/placement.h"
#include "tests/bench/lib/dice.h"

namespace dl::policy {
namespace {

using bench::Dice;

struct Kind {
  const char* name;
  double filled;     // part of the GPUs that running jobs hold
  bool half_borrow;  // running jobs are those of every other tenant
  Tier waiting;      // of the jobs that wait
  bool whole_quota;  // quotas make up the whole cluster; else nobody owns anything
};
constexpr Kind kKinds[] = {
    {"claims", 1.0, true, Tier::kAuto, true},
    {"lend", 0.5, false, Tier::kBorrow, false},
    {"mixed", 1.0, false, Tier::kAuto, true},
    {"guaranteed", 1.0, false, Tier::kGuaranteed, true},
};

ClusterState cluster(int gpus, bool quotas) {
  ClusterState state;
  state.now_s = 1'000'000;
  state.patience_s = 3600;
  state.types = {"a100", "h100"};
  for (int i = 0; i < gpus / 8; ++i) {
    Node node;
    node.name = fmt::format("n{}", i);
    node.type = i % 2;
    node.gpus = 8;
    node.leaf_switch = i / 16;
    state.nodes.push_back(std::move(node));
  }
  const int tenants = std::max(4, gpus / 50);
  for (int i = 0; i < tenants; ++i) {
    Tenant tenant;
    tenant.name = fmt::format("t{}", i);
    tenant.group = i % 4;
    if (quotas) tenant.quota.by_type = {gpus / 2 / tenants, gpus / 2 / tenants};
    tenant.weight = 1 + i % 3;
    state.tenants.push_back(std::move(tenant));
  }
  return state;
}

// About `gpus` GPUs, in learners of 1 to 8.
Job random_job(Dice* dice, const ClusterState& state, int64_t id, int gpus) {
  Job job;
  job.id = id;
  job.tenant = dice->from(0, static_cast<int>(state.tenants.size()) - 1);
  job.type = dice->from(0, 2) - 1;
  while (job.gpus_per_learner < 8 && job.gpus_per_learner * 2 <= gpus && dice->from(0, 3) > 0)
    job.gpus_per_learner *= 2;
  job.max_learners = std::max(1, gpus / job.gpus_per_learner);
  job.min_learners = dice->from(0, 3) == 0 ? (job.max_learners + 1) / 2 : job.max_learners;
  job.submit_s = state.now_s - dice->from(0, 7200);
  return job;
}

ClusterState make(const Kind& kind, int jobs, int gpus, uint64_t seed) {
  Dice dice(seed);
  ClusterState state = cluster(gpus, kind.whole_quota);
  FreeGpus free(state);
  // Such sizes that about half of the jobs hold all GPUs.
  const int most_gpus = 4 * gpus / jobs;
  int held = 0;
  while (static_cast<int>(state.jobs.size()) < jobs) {
    Job job = random_job(&dice, state, static_cast<int64_t>(state.jobs.size()) + 1, dice.from(1, most_gpus));
    const bool run = static_cast<int>(state.jobs.size()) < 2 * jobs / 3 && held < kind.filled * gpus;
    if (!run) {
      job.tier = kind.waiting;
      if (kind.half_borrow) job.tenant |= 1;
      job.tenant %= static_cast<int>(state.tenants.size());
      state.jobs.push_back(std::move(job));
      continue;
    }
    if (kind.half_borrow) job.tenant &= ~1;
    const int type = job.type == kAnyType ? dice.from(0, 1) : job.type;
    auto parts = place(job.placement, free, type, job.gpus_per_learner, job.max_learners);
    // Fill what is left with small ones.
    if (!parts) {
      job.type = free.total(0) > 0 ? 0 : 1;
      job.gpus_per_learner = job.max_learners = job.min_learners = 1;
      parts = place(job.placement, free, job.type, 1, 1);
    }
    if (!parts) {
      held = gpus;
      continue;
    }
    free.take(*parts, job.gpus_per_learner);
    job.parts = std::move(*parts);
    job.running = true;
    job.start_s = state.now_s - dice.from(0, 86400);
    job.checkpoint_s = state.now_s - dice.from(0, 3600);
    held += job.gpus();
    state.jobs.push_back(std::move(job));
  }
  for (const Move& move : charge(state)) carry_out(move, &state.jobs[move.job]);
  return state;
}

ClusterState make_many(const std::string& kind, int gpus, uint64_t seed) {
  Dice dice(seed);
  ClusterState state = cluster(gpus, true);
  const int tenants = static_cast<int>(state.tenants.size());
  const bool own = kind == "own";
  for (int i = 0; i < tenants; ++i) {
    state.tenants[i].quota = GpuCounts{{}, i % 2 == 1 ? 2 * (gpus / tenants) : 0};
    state.tenants[i].lend.reset();
  }
  const int owners = tenants / 2;
  int64_t id = 0;
  const auto add = [&](int tenant) -> Job& {
    Job job;
    job.id = ++id;
    job.tenant = tenant;
    job.submit_s = state.now_s - 20'000 + id;
    state.jobs.push_back(job);
    return state.jobs.back();
  };
  for (size_t node = 0; node < state.nodes.size(); ++node) {
    for (int i = 0; i < state.nodes[node].gpus; ++i) {
      const int which = dice.from(0, owners - 1);
      Job& job = add(own ? static_cast<int>(state.jobs.size()) * owners / gpus * 2 + 1 : 2 * which);
      job.running = true;
      job.parts = {Part{static_cast<int>(node), 1}};
      job.charge = own ? Charge::kOwn : Charge::kBorrowed;
      job.start_s = state.now_s - dice.from(1000, 86400);
      job.checkpoint_s = state.now_s - dice.from(0, 3600);
      if (kind == "protected") job.min_run_s = 100'000;
      if (kind == "hopeless" && i == 0) job.pausable = false;
    }
  }
  const int size = kind == "eights" || kind == "hopeless" ? 8 : 1;
  const bool odd = kind == "odd" || kind == "odd-half";
  const int claims = odd ? gpus / (kind == "odd" ? 25 : 5) : gpus / size / (kind == "tenth" ? 10 : 1);
  for (int i = 0; i < claims; ++i) {
    Job& job = add(2 * (i % owners) + 1);
    job.gpus_per_learner = odd ? 2 + i % 2 : size;
    if (own) job.tier = Tier::kGuaranteed;
  }
  for (const Move& move : charge(state)) carry_out(move, &state.jobs[move.job]);
  return state;
}

int measure(const ClusterState& state) {
  if (const Status status = check(state); !status) {
    std::fprintf(stderr, "decide_once: %s\n", status.error().text.c_str());
    return 1;
  }
  const auto begin = std::chrono::steady_clock::now();
  const Decision decision = decide(state);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  size_t victims = 0;
  for (const Reclaim& reclaim : decision.reclaims) victims += reclaim.set.victims.size();
  std::printf("%.6f %zu %zu %zu\n", seconds, decision.starts.size(), decision.reclaims.size(), victims);
  return 0;
}

int run(int argc, char** argv) {
  if (argc != 5) return 2;
  for (const char* kind : {"ones", "tenth", "eights", "protected", "own", "hopeless", "odd", "odd-half"}) {
    if (std::string(argv[1]) == kind)
      return measure(make_many(kind, std::atoi(argv[3]), std::strtoull(argv[4], nullptr, 10)));
  }
  for (const Kind& kind : kKinds) {
    if (std::string(argv[1]) != kind.name) continue;
    const ClusterState state = make(kind, std::atoi(argv[2]), std::atoi(argv[3]), std::strtoull(argv[4], nullptr, 10));
    return measure(state);
  }
  return 2;
}

}  // namespace
}  // namespace dl::policy

int main(int argc, char** argv) {
  const int status = dl::policy::run(argc, argv);
  if (status == 2)
    std::fprintf(
        stderr,
        "usage: decide_once claims|lend|mixed|guaranteed|ones|tenth|eights|protected|own|hopeless|odd|odd-half "
        "JOBS GPUS SEED\n");
  return status;
}
