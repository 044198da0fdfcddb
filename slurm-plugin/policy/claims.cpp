// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/claim_service.h"

#include <algorithm>
#include <utility>

#include "slurm-plugin/policy/balance.h"

namespace dl::policy {
namespace {

// Over the claims, while some of them get GPUs of another type. Each time the loss is less, so that it ends anyway.
constexpr int kMostPasses = 8;

std::vector<int> own_gpus(const Round& round) {
  std::vector<int> own(round.learners.size());
  for (size_t i = round.state.first_running; i < own.size(); ++i) {
    const Job& job = round.state.jobs[i];
    if (job.running) own[i] = job.own_of(round.learners[i] * job.gpus_per_learner);
  }
  return own;
}

// Who was asked to shrink, and has not gone yet, may be asked for more: it pauses anyway.
bool takes_back_from(const Job& job) {
  return job.running && job.charge == Charge::kBorrowed && job.pausable &&
         (job.yields_to == kNobody || job.yields_until_learners > 0);
}

}  // namespace

ClaimService::ClaimService(Round* round)
    : round_(*round),
      space_(&round->free),
      so_far_{round->learners, own_gpus(*round)},
      left_asked_(round->learners),
      before_{so_far_},
      planned_(round->state.jobs.size()),
      budget_(round->state.search_budget),
      turn_steps_(kStepsInTurns * round->state.search_budget),
      borrowers_(round->state, space_, so_far_, planned_, takeable_, protected_, &budget_) {
  std::set<int64_t> yielded_to(round_.yielded_to.begin(), round_.yielded_to.end());  // ids
  promised_.resize(round_.state.jobs.size());
  for (size_t i = round_.state.first_running; i < so_far_.left.size(); ++i) {
    const Job& job = round_.state.jobs[i];
    if (!job.running) continue;
    if (job.yields_to != kNobody) yielded_to.insert(job.yields_to);
    if (job.yields_to != kNobody) {
      leaving_for_.insert(job.yields_to);
      so_far_.left[i] = job.yields_until_learners;
      round_.leave(static_cast<int>(i), job.learners(), so_far_.left[i]);
      space_.give_up(Space::When::kLater, job.parts, job.yields_until_learners, job.gpus_per_learner);
    }
    before_.left[i] = left_asked_[i] = so_far_.left[i];
    if (takes_back_from(job)) (may_be_asked(job) ? takeable_ : protected_).push_back(static_cast<int>(i));
  }
  if (yielded_to.empty() && round_.nobody_promised) return;
  // A filter with one bit for all ids that are equal modulo 64: it rules out most waiting jobs without a search in the
  // set.
  const auto bit = [](int64_t id) { return uint64_t{1} << (static_cast<uint64_t>(id) % 64); };
  uint64_t bits = 0;
  for (const int64_t id : yielded_to) bits |= bit(id);
  for (const int index : round_.queue) {
    const Asked& asked = round_.asks[index];
    const bool awaits =
        (bits & bit(asked.id)) != 0 && yielded_to.count(asked.id) != 0 && !is_loan(round_.state.jobs[index]);
    promised_[index] = asked.promised || awaits ? 1 : 0;
  }
}

void ClaimService::serve() {
  const bool in_order = !round_.some_guaranteed && !round_.some_borrow;
  const std::vector<int> order = in_order ? round_.queue : order_of_claims(round_.state, round_.queue);
  std::vector<char> done(round_.state.jobs.size());
  // First what was promised, so that nothing else is decided about it: at the smallest size, and larger where that is
  // left once the last of them has its own.
  smallest_ = true;
  serve_promised(order, &done);
  for (const size_t start : cut_short_) grow(&round_.decision.starts[start]);
  smallest_ = false;
  // A job that has waited too long for its tenant's quota is not passed by the tenant's smaller ones any more, but by
  // those that were promised a place.
  std::vector<char>& head_waits = round_.head_waits;
  for (int pass = 1;; ++pass) {
    for (const int index : order) {
      if (done[index] != 0 || is_promised(index) || head_waits[round_.asks[index].tenant]) continue;
      const Job& job = round_.state.jobs[index];
      if (!round_.users.allows(job)) continue;
      done[index] = claim(index) ? 1 : 0;
      // A loan has its place already.
      if (!done[index] && round_.impatient(job) && could_be_own(round_.state, job) && !is_loan(job))
        head_waits[job.tenant] = 1;
    }
    if (!take_together(pass < kMostPasses)) {
      // What these leave over may spare others' victims.
      if (take_within_tenants()) take_together(false);
      if (pass == kMostPasses || !take_in_turns()) break;
    }
    // Quotas have room where they had none, and other borrowers are left.
    for (auto& jobs_without_hope : hopeless_) jobs_without_hope.clear();
    borrowers_.changed();
  }
  round_.queue.erase(
      std::remove_if(round_.queue.begin(), round_.queue.end(), [&](int index) { return done[index] != 0; }),
      round_.queue.end());
}

void ClaimService::serve_promised(const std::vector<int>& order, std::vector<char>* done) {
  std::vector<int> promised;
  for (const int index : order)
    if (is_promised(index)) promised.push_back(index);
  if (promised.empty()) return;
  std::vector<Aside> asides;
  Ledger later = round_.after;
  // Guaranteed ones last: they may need quota of jobs that are charged as borrowed once they start.
  for (const bool guaranteed : {false, true}) {
    for (const int index : promised)
      if (round_.is_guaranteed(index) == guaranteed) set_aside(index, &later, &asides);
  }
  // The oldest has what is free first, of all that were promised GPUs of one node.
  for (const Aside& aside : asides) space_.release(aside.kept);
  for (const Aside& aside : asides) (*done)[aside.index] = start_where_promised(aside, &later) ? 1 : 0;
  for (Aside& aside : asides)
    if ((*done)[aside.index] == 0) aside.kept = keep(aside);
  for (const Aside& aside : asides)
    if ((*done)[aside.index] == 0) (*done)[aside.index] = start_promised(aside, &later) ? 1 : 0;
  for (const Aside& aside : asides) {
    if ((*done)[aside.index] != 0) continue;
    wait_promised(aside);
    (*done)[aside.index] = 1;
  }
  // Of these it is not known where they were promised a place, or it is not there any more.
  for (const int index : promised) {
    if ((*done)[index] != 0 || !round_.users.allows(round_.state.jobs[index])) continue;
    (*done)[index] = claim(index) ? 1 : 0;
  }
}

void ClaimService::set_aside(int index, Ledger* later, std::vector<Aside>* asides) {
  const Job& job = round_.state.jobs[index];
  if (job.promised_parts.empty() || !round_.users.allows(job)) return;
  if (!space_.holds(Space::When::kLater, job.promised_parts, job.gpus_per_learner)) return;
  const int type = round_.state.nodes[job.promised_parts.front().node].type;
  if (!later->fits_own(job.tenant, type, round_.asked(index)) && !round_.is_guaranteed(index)) return;
  later->add(job.tenant, type, round_.asked(index), Charge::kOwn);
  hold_for(index, type, +1);
  asides->push_back(Aside{index, type, space_.keep(Space::When::kLater, job.promised_parts, job.gpus_per_learner)});
}

Space::Kept ClaimService::keep(const Aside& aside) {
  return space_.keep(Space::When::kLater, aside.kept.parts, aside.kept.gpus_per_learner);
}

bool ClaimService::start_where_promised(const Aside& aside, Ledger* later) {
  const Job& job = round_.state.jobs[aside.index];
  const int asked = round_.asked(aside.index);
  if (!space_.holds(Space::When::kNow, aside.kept.parts, job.gpus_per_learner) ||
      !round_.ledger.fits_own(job.tenant, aside.type, asked) || !later->fits_own(job.tenant, aside.type, 0))
    return false;
  hold_for(aside.index, aside.type, -1);
  if (job.elastic()) cut_short_.push_back(round_.decision.starts.size());
  start(aside.index, aside.type, aside.kept.parts);
  return true;
}

// On the GPUs that it was promised, or on others, but not at the cost of another's promise: of another type only what
// quotas hold beside all of those.
bool ClaimService::start_promised(const Aside& aside, Ledger* later) {
  const Job& job = round_.state.jobs[aside.index];
  const int asked = round_.asked(aside.index);
  space_.release(aside.kept);
  hold_for(aside.index, aside.type, -1);
  later->add(job.tenant, aside.type, -asked, Charge::kOwn);
  const auto allowed = [&](int type) { return type == aside.type || later->fits_own(job.tenant, type, asked); };
  const bool fits = later->fits_own(job.tenant, aside.type, asked);
  if ((fits && start_on_free(aside.index, allowed)) ||
      (round_.is_guaranteed(aside.index) && start_beside_own_tenant(aside.index, allowed))) {
    later->add(job.tenant, round_.decision.starts.back().type, asked, Charge::kOwn);
    return true;
  }
  later->add(job.tenant, aside.type, asked, Charge::kOwn);
  keep(aside);
  hold_for(aside.index, aside.type, +1);
  return false;
}

void ClaimService::wait_promised(const Aside& aside) {
  const Job& job = round_.state.jobs[aside.index];
  hold_for(aside.index, aside.type, -1);
  const bool fits = round_.ledger.fits_own(job.tenant, aside.type, round_.asked(aside.index));
  hold_quota(aside.index, aside.type);
  Waiting& waiting = round_.wait(aside.index, Reason::kVictimsLeaving);
  waiting.parts = aside.kept.parts;
  waiting.kept_for = true;
  waiting.free = round_.free.total(aside.type);
  waiting.within_tenant = !fits;
}

// Until it is decided whether the claim starts now: a guaranteed one leaves to others of its tenant what is promised.
void ClaimService::hold_for(int index, int type, int sign) {
  const Job& job = round_.state.jobs[index];
  round_.users.hold(job, sign * round_.asked(index));
  if (!round_.is_guaranteed(index)) round_.own_tenant.hold(When::kNow, job.tenant, type, sign * round_.asked(index));
}

// A claim that waits will be its tenant's own. Guaranteed ones do not take the quota from it before it runs. Returns
// what will leave the quota for it.
std::vector<Leaving> ClaimService::hold_quota(int index, int type) {
  const Job& job = round_.state.jobs[index];
  std::vector<Leaving> displaced;
  if (round_.is_guaranteed(index))
    displaced = round_.own_tenant.displaced(When::kLater, job.tenant, type, round_.asked(index), so_far_.left);
  round_.own_tenant.displace(When::kLater, displaced);
  count_quota(index, type, +1);
  return displaced;
}

void ClaimService::count_quota(int index, int type, int sign) {
  const Job& job = round_.state.jobs[index];
  const int gpus = sign * round_.asked(index);
  round_.count(job.tenant, type, gpus, 0);
  round_.own_tenant.hold(round_.is_guaranteed(index) ? When::kLater : When::kNow, job.tenant, type, gpus);
}

// It does not wait any more, or for something else.
void ClaimService::release_quota(int index, int type, const std::vector<Leaving>& displaced) {
  count_quota(index, type, -1);
  std::vector<Leaving> back = displaced;
  for (Leaving& leaving : back) leaving.gpus = -leaving.gpus;
  round_.own_tenant.displace(When::kLater, back);
}

bool ClaimService::fits_quota(const Job& job) const {
  for (int type = 0; type < round_.state.type_count(); ++type)
    if (may_use(job, type) && learners_for(job, round_.ledger.own_left(job.tenant, type)) > 0) return true;
  return false;
}

Displaced serve_claims(Round* round) {
  ClaimService(round).serve();
  return Displaced{round->own_tenant.all_out(OwnTenant::When::kNow),
                   round->own_tenant.all_out(OwnTenant::When::kLater)};
}

}  // namespace dl::policy
