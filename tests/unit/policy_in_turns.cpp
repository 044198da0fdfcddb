// SPDX-License-Identifier: Apache-2.0
// Guaranteed claims to which jobs of their own tenant yield, alone and beside other claims: their victims beside every
// set of victims that the rules allow, in every order in which the claims could be served.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>
#include <utility>

#include "slurm-plugin/policy/round.h"
#include "tests/unit/policy_support.h"

namespace dl::policy {
namespace {

using testing::add_job;
using testing::add_running;
using testing::add_tenant;
using testing::asked_of;
using testing::cluster;
using testing::Dice;
using testing::mixed_claims;

// By job, the learners that victims keep.
using Left = std::map<int, int>;
// Lost by jobs that stop, by jobs that shrink, and GPUs taken from these.
using Lost = std::array<int64_t, 3>;

Lost loss_of(const ClusterState& state, const Left& left) {
  Lost loss{};
  for (const auto& [index, keeps] : left) {
    const Job& job = state.jobs[index];
    loss[keeps == 0 ? 0 : 1] += lost_if_paused(state, job);
    if (keeps > 0) loss[2] += (job.learners() - keeps) * job.gpus_per_learner;
  }
  return loss;
}

// Tries every node for every learner. `free`: by node.
bool all_placed(const std::vector<int>& sizes, size_t next, std::vector<int>* free) {
  if (next == sizes.size()) return true;
  std::set<int> tried;  // nodes with as many free GPUs are alike
  for (int& here : *free) {
    if (here < sizes[next] || !tried.insert(here).second) continue;
    here -= sizes[next];
    const bool placed = all_placed(sizes, next + 1, free);
    here += sizes[next];
    if (placed) return true;
  }
  return false;
}

// Everything that could be done for the claims of a decision that wait for victims.
class EveryOrder {
 public:
  // `state`: as charge() has it, and `decision` for it: what it starts within quotas stays.
  EveryOrder(const ClusterState& state, const ChargedBefore& so_far, const Decision& decision)
      : state_(state), round_(state, so_far, Tell::kAll) {
    for (const Start& start : decision.starts)
      if (start.charge == Charge::kOwn) round_.start(start.job, start.charge, start.type, start.parts);
    std::set<int> tenants;
    for (const Waiting& waiting : decision.waiting) {
      if (waiting.reason != Reason::kVictimsLeaving) continue;
      claims_.push_back(waiting.job);
      if (round_.is_guaranteed(waiting.job)) tenants.insert(state.jobs[waiting.job].tenant);
    }
    types_.assign(claims_.size(), kAnyType);
    for (size_t i = 0; i < state.jobs.size(); ++i) {
      const Job& job = state.jobs[i];
      if (!job.running || !job.pausable) continue;
      const bool own = tenants.count(job.tenant) != 0 && job.tier != Tier::kGuaranteed;
      if (job.charge == Charge::kBorrowed || own) candidates_.push_back(static_cast<int>(i));
      if (own) own_.insert(static_cast<int>(i));
    }
  }

  size_t candidates() const { return candidates_.size(); }
  size_t claims() const { return claims_.size(); }
  bool any() const { return any_; }
  const Lost& best() const { return best_; }

  void try_all() {
    Left left;
    try_from(0, &left);
  }

 private:
  // What each holds and has left, as claims are served.
  struct Books {
    Ledger held;
    Ledger after;
    OwnTenant own;
    std::vector<int> left;
  };
  enum class From { kNobody, kBorrowers, kOwnTenant, kBoth };

  void try_from(size_t i, Left* left) {
    if (any_ && !(loss_of(state_, *left) < best_)) return;
    if (i == candidates_.size()) {
      chosen_.assign(left->begin(), left->end());
      if (!serve_rest(Books{round_.ledger, round_.after_asked, round_.own_tenant, round_.learners}, 0, 0)) return;
      any_ = true;
      best_ = loss_of(state_, *left);
      return;
    }
    try_from(i + 1, left);
    const Job& job = state_.jobs[candidates_[i]];
    for (int keeps = 0; keeps < job.learners(); ++keeps) {
      if (keeps != 0 && keeps < job.min_learners) continue;
      (*left)[candidates_[i]] = keeps;
      try_from(i + 1, left);
      left->erase(candidates_[i]);
    }
  }

  // `served`, `given`: a bit for each claim, and for each of chosen_.
  bool serve_rest(const Books& books, unsigned served, unsigned given) {
    if (served + 1 == 1U << claims_.size()) return given + 1 == 1U << chosen_.size();
    for (size_t claim = 0; claim < claims_.size(); ++claim) {
      if ((served >> claim & 1U) != 0) continue;
      for (int type = 0; type < state_.type_count(); ++type) {
        const From from =
            may_use(state_.jobs[claims_[claim]], type) ? from_whom(books, served, claim, type) : From::kNobody;
        if (from == From::kNobody) continue;
        for (unsigned some = 0; some < 1U << chosen_.size(); ++some)
          if ((some & given) == 0 && serve(books, served, given, claim, type, from, some)) return true;
      }
    }
    return false;
  }

  bool serve(const Books& books, unsigned served, unsigned given, size_t claim, int type, From from, unsigned some) {
    for (size_t k = 0; k < chosen_.size(); ++k)
      if ((some >> k & 1U) != 0 && !may_ask(books, claim, type, from, chosen_[k])) return false;
    if (!serves(books, served, claim, type, from, some)) return false;
    for (size_t k = 0; k < chosen_.size(); ++k)
      if ((some >> k & 1U) != 0 && serves(books, served, claim, type, from, some & ~(1U << k))) return false;
    Books next = books;
    for (const auto& [job, keeps] : those(some)) leave(&next, job, keeps);
    const Job& job = state_.jobs[claims_[claim]];
    const int gpus = round_.asked(claims_[claim]);
    const bool guaranteed = job.tier == Tier::kGuaranteed;
    if (guaranteed)
      next.own.displace(OwnTenant::When::kLater,
                        next.own.displaced(OwnTenant::When::kLater, job.tenant, type, gpus, next.left));
    next.own.hold(guaranteed ? OwnTenant::When::kLater : OwnTenant::When::kNow, job.tenant, type, gpus);
    next.held.add(job.tenant, type, gpus, Charge::kOwn);
    next.after.add(job.tenant, type, gpus, Charge::kOwn);
    types_[claim] = type;
    return serve_rest(next, served | 1U << claim, given | some);
  }

  static void leave(Books* books, int job, int keeps) {
    books->own.give_up(&books->after, job, books->left[job], keeps);
    books->left[job] = keeps;
  }

  Left those(unsigned some) const {
    Left left;
    for (size_t k = 0; k < chosen_.size(); ++k)
      if ((some >> k & 1U) != 0) left.insert(chosen_[k]);
    return left;
  }

  bool serves(const Books& books, unsigned served, size_t claim, int type, From from, unsigned some) {
    const Left left = those(some);
    if (!room(books, served, claim, type, left)) return false;
    return from == From::kBorrowers || quota_holds(books, claim, type, left, from == From::kOwnTenant);
  }

  // Do the claims that were served fit beside this one, with `more` gone?
  bool room(const Books& books, unsigned served, size_t claim, int type, const Left& more) const {
    FreeGpus free = round_.free;
    for (const int index : candidates_) {
      const Job& job = state_.jobs[index];
      const auto asked = more.find(index);
      free.give(job.parts, job.gpus_per_learner);
      free.take(parts_after_shrink(job.parts, asked == more.end() ? books.left[index] : asked->second),
                job.gpus_per_learner);
    }
    std::vector<int> sizes;
    for (size_t i = 0; i < claims_.size(); ++i) {
      const Job& job = state_.jobs[claims_[i]];
      if (i == claim || ((served >> i & 1U) != 0 && types_[i] == type))
        sizes.insert(sizes.end(), static_cast<size_t>(job.min_learners), job.gpus_per_learner);
    }
    std::sort(sizes.rbegin(), sizes.rend());
    std::vector<int> on_nodes;
    for (const int node : free.nodes_of(type)) on_nodes.push_back(free.on(node));
    return all_placed(sizes, 0, &on_nodes);
  }

  // What is then left of the tenant's other jobs beyond its quota is borrowed, if it may be.
  bool quota_holds(const Books& books, size_t claim, int type, const Left& more, bool may_recharge) const {
    Books then = books;
    for (const auto& [job, keeps] : more) leave(&then, job, keeps);
    const Job& job = state_.jobs[claims_[claim]];
    const auto beyond =
        then.own.displaced(OwnTenant::When::kLater, job.tenant, type, round_.asked(claims_[claim]), then.left);
    const auto waiting = then.own.to_be_recharged(job.tenant);
    if (beyond.empty() && then.own.gpus_of(waiting, then.left) == 0) return true;
    if (!may_recharge) return false;
    if (then.own.all_borrowed_so_far(beyond) && then.own.all_borrowed_so_far(waiting)) return true;
    const int more_borrowed = then.own.gpus_of(beyond, then.left) + then.own.gpus_of(waiting, then.left);
    return then.after.within_borrow_limit(job.tenant, more_borrowed) &&
           then.own.lent_beside(&then.after, job, type, beyond, then.left);
  }

  // The learners that are its tenant's own stay, unless it cannot run with as few.
  bool yields_as_borrower(int index, int keeps) const {
    const Job& job = state_.jobs[index];
    const int own = job.own_of(job.gpus()) / job.gpus_per_learner;
    return job.charge == Charge::kBorrowed && (keeps == 0 ? own < job.min_learners : keeps >= own);
  }

  bool may_ask(const Books& books, size_t claim, int type, From from, const std::pair<int, int>& victim) const {
    const Job& job = state_.jobs[victim.first];
    if (victim.second >= books.left[victim.first]) return false;
    const bool own = own_.count(victim.first) != 0 && job.tenant == state_.jobs[claims_[claim]].tenant;
    if (own && from != From::kBorrowers) return true;
    return from != From::kOwnTenant && state_.type_held(job) == type && yields_as_borrower(victim.first, victim.second);
  }

  // A claim that the quota holds takes from borrowers, if all of those make room for it. Else a guaranteed one takes
  // from its own tenant; also from borrowers if that is not enough.
  From from_whom(const Books& books, unsigned served, size_t claim, int type) {
    const Job& job = state_.jobs[claims_[claim]];
    Left borrowers;
    Left own;
    for (const int index : candidates_) {
      for (int keeps = 0; keeps < books.left[index]; ++keeps) {
        if ((keeps != 0 && keeps < state_.jobs[index].min_learners) || !yields_as_borrower(index, keeps)) continue;
        borrowers.emplace(index, keeps);
        break;
      }
      if (own_.count(index) != 0 && state_.jobs[index].tenant == job.tenant && books.left[index] > 0) own[index] = 0;
    }
    const auto fits = [&](int t) { return books.held.fits_own(job.tenant, t, round_.asked(claims_[claim])); };
    const auto could_hold = [&](int t) { return books.own.could_hold(job.tenant, t, round_.asked(claims_[claim])); };
    bool own_are_enough = false;
    for (int t = 0; t < state_.type_count(); ++t) {
      if (!may_use(job, t)) continue;
      if (fits(t) && room(books, served, claim, t, borrowers)) return fits(type) ? From::kBorrowers : From::kNobody;
    }
    if (job.tier != Tier::kGuaranteed || !could_hold(type)) return From::kNobody;
    for (int t = 0; t < state_.type_count(); ++t) {
      if (!may_use(job, t) || !could_hold(t) || !room(books, served, claim, t, own) ||
          !quota_holds(books, claim, t, own, true))
        continue;
      if (t == type) return From::kOwnTenant;
      own_are_enough = true;
    }
    return own_are_enough ? From::kNobody : From::kBoth;
  }

  const ClusterState& state_;
  Round round_;
  std::vector<int> claims_;
  std::vector<int> candidates_;
  std::set<int> own_;                        // of those: jobs of tenants with guaranteed claims
  std::vector<std::pair<int, int>> chosen_;  // of the set that is tried: jobs, and the learners that each keeps
  std::vector<int> types_;                   // by claim that was served
  bool any_ = false;
  Lost best_{};
};

struct Met {
  int compared = 0;
  int by_quota = 0;     // not among these: some guaranteed claims, all of which the quota holds
  int alone = 0;        // one guaranteed claim
  int several = 0;      // guaranteed claims of one or several tenants, and no others
  int with_others = 0;  // beside claims that take from borrowers
  int with_shrinks = 0;
  int any_type = 0;
  int even_less = 0;  // claims that need one another's victims, as none could be served before the others
};

::testing::AssertionResult least_loss(const ClusterState& state, Met* met) {
  const Decision decision = decide(state);
  int within = 0;
  int waiting_claims = 0;
  bool guaranteed = false;
  for (const Waiting& waiting : decision.waiting) {
    within += waiting.within_tenant;
    if (waiting.reason != Reason::kVictimsLeaving) continue;
    ++waiting_claims;
    guaranteed = guaranteed || state.jobs[waiting.job].tier == Tier::kGuaranteed;
  }
  const bool compared = within > 0 || (guaranteed && waiting_claims > 1 && met->by_quota < 500);
  if (!compared || decision.reclaims.empty()) return ::testing::AssertionSuccess();
  // Who is charged as borrowed for a job that starts just now is another matter.
  const bool beside = std::any_of(decision.starts.begin(), decision.starts.end(), [&](const Start& start) {
    return state.jobs[start.job].tier == Tier::kGuaranteed && !decision.moves.empty();
  });
  if (beside) return ::testing::AssertionSuccess();
  const std::vector<Move> moves = charge(state);
  const ChargedBefore so_far(state, moves);
  ClusterState charged = state;
  for (const Move& move : moves) carry_out(move, &charged.jobs[move.job]);
  EveryOrder every(charged, so_far, decision);
  if (every.candidates() > 7) return ::testing::AssertionSuccess();
  every.try_all();
  const Left asked = asked_of(decision);
  const Lost ours = loss_of(state, asked);
  const auto told = [](const Lost& loss) { return ::testing::PrintToString(loss); };
  if (every.any() && every.best() < ours)
    return ::testing::AssertionFailure() << told(ours) << " where " << told(every.best()) << " do";
  if (within == 0) {
    ++met->by_quota;
    return ::testing::AssertionSuccess();
  }
  met->even_less += !every.any() || ours < every.best();
  ++met->compared;
  ++(every.claims() == 1                             ? met->alone
     : static_cast<size_t>(within) == every.claims() ? met->several
                                                     : met->with_others);
  for (const auto& [job, left] : asked) met->with_shrinks += left > 0;
  for (const Waiting& waiting : decision.waiting)
    met->any_type += waiting.within_tenant && state.type_count() > 1 && state.jobs[waiting.job].type == kAnyType;
  return ::testing::AssertionSuccess();
}

// The first claim would take the small job. The second needs the large one, whose GPUs are enough for both.
TEST(PolicyInTurns, a_job_of_the_tenant_that_a_later_guaranteed_claim_makes_needless_is_put_back) {
  ClusterState state = cluster(2, 4);
  add_tenant(&state, "a", 8);
  add_running(&state, 0, {{0, 1}}, Charge::kOwn).checkpoint_s = state.now_s;
  add_running(&state, 0, {{0, 3}}, Charge::kOwn).pausable = false;
  add_running(&state, 0, {{1, 4}}, Charge::kOwn).checkpoint_s = state.now_s - 100;
  add_job(&state, 0, 1).tier = Tier::kGuaranteed;
  add_job(&state, 0, 1, 2).tier = Tier::kGuaranteed;
  const Decision decision = decide(state);
  EXPECT_EQ(asked_of(decision), (Left{{2, 0}}));
  EXPECT_EQ(decision.waiting.size(), 2U);
}

// a's guaranteed claim stops a job of a whose GPUs are enough for b's claim as well, which would else take back its
// own.
TEST(PolicyInTurns, what_a_guaranteed_claim_leaves_over_spares_a_borrower) {
  ClusterState state = cluster(2, 8);
  add_tenant(&state, "a", 8);
  add_tenant(&state, "b", 8);
  add_tenant(&state, "c", 0);
  add_running(&state, 0, {{0, 8}}, Charge::kOwn);
  add_running(&state, 2, {{1, 2}}, Charge::kBorrowed);
  add_running(&state, 2, {{1, 6}}, Charge::kBorrowed).pausable = false;
  add_job(&state, 1, 2);
  add_job(&state, 0, 4).tier = Tier::kGuaranteed;
  const Decision decision = decide(state);
  EXPECT_EQ(asked_of(decision), (Left{{0, 0}}));
  EXPECT_EQ(decision.waiting.size(), 2U);
}

// If the claim for any type came first, it would share the first one's victim; the other one would then no longer fit
// the quota beside the job that is its tenant's own, which can be charged as borrowed instead.
TEST(PolicyInTurns, guaranteed_claims_that_the_quota_holds_share_a_borrower_of_one_type) {
  ClusterState state = cluster(3, 4);
  state.types.push_back("k80");
  state.nodes[1].type = state.nodes[2].type = 1;
  add_tenant(&state, "a", 0).quota.by_type = {4, 6};
  add_tenant(&state, "b", 0);
  add_running(&state, 0, {{1, 4}}, Charge::kOwn).type = 1;
  add_running(&state, 1, {{2, 4}}, Charge::kBorrowed).type = 1;
  add_running(&state, 1, {{0, 4}}, Charge::kBorrowed);
  Job& first = add_job(&state, 0, 2);
  first.type = 1;
  first.tier = Tier::kGuaranteed;
  Job& second = add_job(&state, 0, 1);
  second.type = kAnyType;
  second.tier = Tier::kGuaranteed;
  const Decision decision = decide(state);
  EXPECT_EQ(asked_of(decision), (Left{{1, 0}}));
  EXPECT_EQ(decision.waiting.size(), 2U);
}

TEST(PolicyInTurns, loss_is_the_least_that_any_order_and_any_set_have) {
  Met met;
  for (int seed = 0; met.compared < 3000; ++seed) {
    Dice dice(static_cast<uint64_t>(seed) + 60'000'000);
    ASSERT_TRUE(least_loss(mixed_claims(&dice), &met)) << "seed " << seed;
  }
  EXPECT_GT(met.by_quota, 300);
  EXPECT_GT(met.alone, 300);
  EXPECT_GT(met.several, 200);
  EXPECT_GT(met.with_others, 300);
  EXPECT_GT(met.with_shrinks, 300);
  EXPECT_GT(met.any_type, 300);
  EXPECT_LT(met.even_less, met.compared / 20);
}

// What the tenant may not borrow, or others do not lend, has to be given up.
TEST(PolicyInTurns, loss_is_the_least_where_borrowing_is_limited) {
  Met met;
  for (int seed = 0; met.compared < 3000; ++seed) {
    Dice dice(static_cast<uint64_t>(seed) + 61'000'000);
    ClusterState state = mixed_claims(&dice);
    for (Tenant& tenant : state.tenants) {
      if (tenant.name.find("owner") != 0) continue;
      if (dice.one_in(2)) tenant.borrow_limit = dice.from(0, 4);
      if (!dice.one_in(3)) continue;
      tenant.lend = GpuCounts{};
      for (const int quota : tenant.quota.by_type) tenant.lend->by_type.push_back(dice.from(0, quota));
    }
    for (Job& job : state.jobs)
      if (!job.running && dice.one_in(2)) job.tier = Tier::kGuaranteed;
    ASSERT_TRUE(least_loss(state, &met)) << "seed " << seed;
  }
  EXPECT_GT(met.alone, 300);
  EXPECT_GT(met.several, 200);
  EXPECT_GT(met.with_others, 300);
  EXPECT_LT(met.even_less, met.compared / 20);
}

}  // namespace
}  // namespace dl::policy
