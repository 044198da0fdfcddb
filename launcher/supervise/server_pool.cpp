// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/server_pool.h"

#include <unistd.h>

#include <utility>
#include <vector>

#include "launcher/pool/secret.h"

namespace dl::supervise {

Status ServerPool::open(const plan::LaunchPlan& plan, const std::string& endpoint, plan::RunFacts* facts) {
  close();
  DL_TRY_ASSIGN(const auto at, protocol::parse_endpoint(endpoint));
  pool::DirectorySettings settings;
  settings.listen = at.first;
  DL_TRY_ASSIGN(settings.secret, pool::random_secret());
  asked_ = *plan.pool;
  settings.rule.min = asked_.min;
  settings.rule.max = asked_.max;
  // Without it the directory would send nobody away. What it says is read from its facts, as often as dlrun looks.
  settings.size = [](int /*wanted*/, int /*present*/) {};
  secret_file_ = plan::pool_secret(plan);
  DL_TRY(pool::write_secret(secret_file_, settings.secret));
  DL_TRY_ASSIGN(directory_, pool::Directory::open(std::move(settings)));
  facts->pool_addr = at.first;
  facts->pool_port = directory_->port();
  std::vector<int> nodes;
  for (size_t rank = static_cast<size_t>(plan.learner_count()); rank < plan.learners.size(); ++rank)
    nodes.push_back(plan.learners[rank].node);
  lost_state_ = {};
  places_ = ServerPlaces(std::move(nodes), asked_.min);
  return {};
}

// A directory waits a moment for its members to end, which dlrun's loop must not.
void ServerPool::close() {
  if (!directory_) return;
  ::unlink(secret_file_.c_str());
  calls_.post([last = std::shared_ptr<pool::Directory>(std::move(directory_))]() mutable { last.reset(); }, [] {});
}

ServerPlaces::Pool ServerPool::now() const {
  const pool::DirectoryFacts facts = this->facts();
  return {facts.members, facts.leaving, facts.wanted};
}

protocol::PoolStatus ServerPool::status() const {
  if (!directory_) return {};
  const pool::DirectoryFacts facts = directory_->facts();
  return {asked_.min, asked_.max, facts.members, facts.wanted, facts.unsettled};
}

}  // namespace dl::supervise
