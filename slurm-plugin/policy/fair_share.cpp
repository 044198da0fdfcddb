// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/fair_share.h"

#include <cmath>
#include <limits>

namespace dl::policy {
namespace {

constexpr double kLn2 = 0.693147180559945309;

}  // namespace

double decayed_use(double recent_gpu_s, double gpus, int64_t elapsed_s, int64_t half_life_s) {
  if (elapsed_s <= 0) return recent_gpu_s;
  if (half_life_s <= 0) return 0;
  const auto half_life = static_cast<double>(half_life_s);
  const double left = std::exp2(-static_cast<double>(elapsed_s) / half_life);
  // The integral of gpus * 2^(-t/half_life) over the elapsed time.
  return recent_gpu_s * left + gpus * half_life / kLn2 * (1 - left);
}

double use_since_start(const ClusterState& state, const Job& job) {
  if (!job.running || job.charge != Charge::kBorrowed) return 0;
  const int gpus = job.gpus();
  return decayed_use(0, (gpus - job.own_of(gpus)) * state.weight_of_type(state.type_held(job)),
                     state.now_s - job.start_s, state.half_life_s);
}

double fair_key(const ClusterState& state, const Ledger& ledger, int tenant, double more) {
  const Tenant& who = state.tenants[tenant];
  if (who.weight <= 0) return std::numeric_limits<double>::infinity();
  double gpus = ledger.borrowed_weighted(tenant) + more;
  if (state.half_life_s > 0) gpus += who.recent_gpu_s * kLn2 / static_cast<double>(state.half_life_s);
  return gpus / who.weight;
}

}  // namespace dl::policy
