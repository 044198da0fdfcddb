// SPDX-License-Identifier: Apache-2.0
// Random clusters over many rounds: what is decided is carried out, victims take their time to go, jobs come and end,
// patience runs out. Then nothing new happens, and it has to come to rest with every promise kept.
//
// DL_POLICY_ROUNDS=N tries N clusters instead of the few that a unit test has time for: 20000 are 1.4 million states.
// DL_POLICY_ROUNDS_FROM=N begins at the Nth, to look at one again.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>
#include <tuple>

#include "tests/unit/policy_support.h"

namespace dl::policy {
namespace {

using testing::carry_out;
using testing::Dice;
using testing::random_state;

constexpr int kStates = 4000;
constexpr int kBusyRounds = 12;
constexpr int kQuietRounds = 60;
constexpr int kRoundsToKeep = 6;  // a promise: victims go within three rounds
constexpr int64_t kRoundS = 60;

int states_to_try() {
  const char* asked = std::getenv("DL_POLICY_ROUNDS");
  const int states = asked != nullptr ? std::atoi(asked) : 0;
  return states > 0 ? states : kStates;
}

int first_state() {
  const char* asked = std::getenv("DL_POLICY_ROUNDS_FROM");
  return asked != nullptr ? std::atoi(asked) : 0;
}

// An oracle of its own for the quotas of groups: every GPU that a tenant holds as own is given to a quota that it may
// use, and moved to another one where somebody else needs that (an augmenting path), until all have one.
class Seats {
 public:
  explicit Seats(const ClusterState& state) : state_(state) {}

  bool seat_all(const Ledger& ledger) {
    for (size_t tenant = 0; tenant < state_.tenants.size(); ++tenant)
      for (int type = 0; type < state_.type_count(); ++type)
        for (int i = 0; i < ledger.own(static_cast<int>(tenant), type); ++i) {
          std::set<Pool> tried;
          if (!seat({static_cast<int>(tenant), type}, &tried)) return false;
        }
    return true;
  }

 private:
  using Who = std::pair<int, int>;          // tenant and type
  using Pool = std::tuple<bool, int, int>;  // of a group, whose, and its type or -1 for any
  const GpuCounts& quota_of(const Pool& pool) const {
    return std::get<0>(pool) ? state_.groups[std::get<1>(pool)].quota : state_.tenants[std::get<1>(pool)].quota;
  }
  int size_of(const Pool& pool) const {
    const int type = std::get<2>(pool);
    return type < 0 ? quota_of(pool).any : quota_of(pool).of(type);
  }
  bool seat(const Who& who, std::set<Pool>* tried) {
    std::vector<Pool> pools = {{false, who.first, who.second}, {false, who.first, -1}};
    for (const int group : groups_of(state_, who.first)) {
      if (state_.quota_of(group) == nullptr) continue;
      pools.emplace_back(true, group, who.second);
      pools.emplace_back(true, group, -1);
    }
    for (const Pool& pool : pools) {
      if (!tried->insert(pool).second) continue;
      std::vector<Who>& there = seated_[pool];
      if (static_cast<int>(there.size()) < size_of(pool)) {
        there.push_back(who);
        return true;
      }
      for (size_t i = 0; i < there.size(); ++i) {
        if (!seat(there[i], tried)) continue;
        seated_[pool][i] = who;
        return true;
      }
    }
    return false;
  }

  const ClusterState& state_;
  std::map<Pool, std::vector<Who>> seated_;
};

// Nobody holds more as own than the quotas give: its tenant's, and its groups'.
bool is_own(const ClusterState& state, const Ledger& ledger) {
  return Seats(state).seat_all(ledger);
}

class World {
 public:
  World(uint64_t seed, bool exact) : dice_(seed), state_(random_state(&dice_)) {
    state_.patience_s = dice_.one_in(4) ? 0 : dice_.from(1, 40) * kRoundS;
    if (!exact) state_.search_budget = dice_.from(0, 5);
    for (Job& job : state_.jobs) {
      if (!dice_.one_in(4)) job.limit_s = dice_.from(10, 100) * kRoundS;
      if (dice_.one_in(2)) continue;
      job.max_learners += dice_.from(1, 3);
    }
    if (dice_.one_in(3)) testing::add_groups(&dice_, &state_);
    if (dice_.one_in(3)) testing::add_nice(&dice_, &state_);
    state_.balance = dice_.one_in(3);
    for (const Job& job : state_.jobs) next_id_ = std::max(next_id_, job.id + 1);
  }

  ::testing::AssertionResult live() {
    for (round_ = 0; round_ < kBusyRounds; ++round_) {
      if (auto fine = decide_and_do(); !fine) return fine;
      happen();
    }
    const int before = done_;
    int quiet = 0;  // rounds in which nobody was asked to yield
    for (; round_ < kBusyRounds + kQuietRounds; ++round_) {
      const int asked = promises_ - loans_;
      if (auto fine = decide_and_do(); !fine) return fine;
      quiet = promises_ - loans_ == asked && (state_.balance || leaves_.empty()) ? quiet + 1 : 0;
      pass_time();
    }
    // Longer than any minimum run time. Jobs may still start: whom a reservation holds up changes with time. Beside
    // those that start borrowers may be balanced anew; the number of all that is done bounds that.
    if (quiet < 12 || done_ - before > 6 * static_cast<int>(state_.jobs.size()))
      return ::testing::AssertionFailure() << "it does not come to rest";
    // A promise of the last rounds may still wait for its victims: a job may be lent GPUs late, when nothing is
    // reserved any more, and be asked for them by a tenant that has less.
    for (const auto& [index, since] : promised_since_)
      if (round_ - since > kRoundsToKeep)
        return ::testing::AssertionFailure()
               << "job " << state_.jobs[index].id << " was promised a place for ever, since round " << since;
    return ::testing::AssertionSuccess();
  }

  int promises() const { return promises_; }
  int loans() const { return loans_; }
  int shared() const { return shared_; }
  int stops() const { return stops_; }

 private:
  ::testing::AssertionResult decide_and_do() {
    if (const Status status = check(state_); !status)
      return ::testing::AssertionFailure() << "round " << round_ << ": " << status.error().text;
    const Decision decision = decide(state_);
    if (round_ % 4 == 0 && !same_without_reasons(decision))
      return ::testing::AssertionFailure() << "round " << round_ << ": where less is told, something else is decided";
    if (auto kept = promises_kept(decision); !kept) return kept;
    if (auto fair = nobody_takes_in_turn(decision); !fair) return fair;
    done_ += static_cast<int>(decision.moves.size() + decision.starts.size() + decision.reclaims.size());
    for (const Waiting& waiting : decision.waiting)
      loans_ += waiting.lent && !state_.jobs[waiting.job].promised ? 1 : 0;
    carry_out(&state_, decision, false);
    for (size_t i = 0; i < state_.jobs.size(); ++i) {
      if (state_.jobs[i].promised) {
        promised_since_.emplace(static_cast<int>(i), round_);
      } else {
        promised_since_.erase(static_cast<int>(i));
      }
    }
    for (const Start& start : decision.starts) {
      gone_for_.erase(start.job);
      for_nobody_.erase(start.job);
    }
    for (const Reclaim& reclaim : decision.reclaims) {
      ++promises_;
      for (const Victim& victim : reclaim.set.victims) {
        Job& job = state_.jobs[victim.job];
        if (leaves_.count(victim.job) != 0) ++shared_;
        leaves_.emplace(victim.job, round_ + dice_.from(1, 3));
        if (job.yields_to == kNobody) job.yields_to = state_.jobs[reclaim.claimant].id;
        job.yields_until_learners = victim.learners_left;
      }
    }
    if (auto room = nothing_idles(decision); !room) return room;
    return within_limits();
  }

  bool same_without_reasons(const Decision& all) const {
    const Decision less = decide(state_, Tell::kWhatFollows);
    const auto same_parts = [](const auto& a, const auto& b) { return a.type == b.type && a.parts == b.parts; };
    const auto follows = [](const Waiting& waiting) {
      return waiting.reason == Reason::kVictimsLeaving || waiting.reason == Reason::kVictimsProtected;
    };
    auto told = less.waiting.begin();
    for (const Waiting& waiting : all.waiting) {
      if (!state_.balance && !follows(waiting)) continue;  // balance needs to know of all
      if (told == less.waiting.end() || told->job != waiting.job || told->reason != waiting.reason ||
          told->lent != waiting.lent || told->seconds != waiting.seconds || !(told->parts == waiting.parts))
        return false;
      ++told;
    }
    if (told != less.waiting.end()) return false;
    return std::equal(all.moves.begin(), all.moves.end(), less.moves.begin(), less.moves.end(),
                      [](const Move& a, const Move& b) {
                        return a.job == b.job && a.to == b.to && a.own_part == b.own_part;
                      }) &&
           std::equal(all.starts.begin(), all.starts.end(), less.starts.begin(), less.starts.end(),
                      [&](const Start& a, const Start& b) {
                        return a.job == b.job && a.charge == b.charge && a.own_part == b.own_part && same_parts(a, b);
                      }) &&
           std::equal(all.reclaims.begin(), all.reclaims.end(), less.reclaims.begin(), less.reclaims.end(),
                      [&](const Reclaim& a, const Reclaim& b) {
                        return a.claimant == b.claimant && a.set.lost_gpu_s() == b.set.lost_gpu_s() && same_parts(a, b);
                      });
  }

  // A claim that was promised a place starts, or waits on for those that leave, without asking anybody else.
  ::testing::AssertionResult promises_kept(const Decision& decision) {
    for (const Waiting& waiting : decision.waiting) {
      const Job& job = state_.jobs[waiting.job];
      // What was promised as a loan is kept from all that borrow, but a claim may need it.
      if (!job.promised || (job.charge == Charge::kBorrowed && !waiting.lent)) continue;
      if (waiting.reason != Reason::kVictimsLeaving)
        return ::testing::AssertionFailure()
               << "round " << round_ << ": job " << job.id << " was promised a place and waits with reason "
               << static_cast<int>(waiting.reason);
      // A guaranteed one may wait a round more, until jobs of its tenant are charged anew.
      if (leaves_.empty() && ++for_nobody_[waiting.job] > 2)
        return ::testing::AssertionFailure() << "round " << round_ << ": job " << job.id << " waits for nobody";
    }
    for (const Start& start : decision.starts)
      if (state_.jobs[start.job].promised && start.charge != state_.jobs[start.job].charge &&
          start.charge != Charge::kOwn)
        return ::testing::AssertionFailure() << "round " << round_ << ": a promise was lent";
    for (const Reclaim& reclaim : decision.reclaims)
      if (state_.jobs[reclaim.claimant].promised && state_.jobs[reclaim.claimant].charge == Charge::kOwn)
        return ::testing::AssertionFailure() << "round " << round_ << ": job " << state_.jobs[reclaim.claimant].id
                                             << " was promised a place and asks for more";
    return ::testing::AssertionSuccess();
  }

  // While nothing new happens.
  ::testing::AssertionResult nobody_takes_in_turn(const Decision& decision) {
    for (const Reclaim& reclaim : decision.reclaims) {
      for (const Victim& victim : reclaim.set.victims) {
        if (took_.count({victim.job, reclaim.claimant}) != 0)
          return ::testing::AssertionFailure() << "round " << round_ << ": jobs " << victim.job << " and "
                                               << reclaim.claimant << " take from one another";
        took_.insert({reclaim.claimant, victim.job});
      }
    }
    return ::testing::AssertionSuccess();
  }

  // No job waits that could start beside all that is kept for others, on its tenant's own quota or lent; but a claim,
  // which takes back rather than borrow GPUs of another type, and, of those that could be own, those behind one
  // of their tenant that has waited too long, or that is guaranteed and has just made jobs of the tenant leave the
  // quota.
  ::testing::AssertionResult nothing_idles(const Decision& decision) const {
    FreeGpus free(state_);
    Ledger ledger(state_);
    std::set<int> behind;  // tenants
    std::set<int> moved;   // of which a job has left the quota, or a part of it
    for (const Move& move : decision.moves)
      if (move.to == Charge::kBorrowed) moved.insert(state_.jobs[move.job].tenant);
    for (const Start& start : decision.starts) {
      const Job& job = state_.jobs[start.job];
      // What a guaranteed one made others leave may be more than it took, where their groups own something: it is
      // theirs again with the next decision.
      if (start.charge == Charge::kBorrowed || (job.tier == Tier::kGuaranteed && moved.count(job.tenant) != 0))
        behind.insert(job.tenant);
    }
    std::set<int> asks;  // jobs for which others were asked to yield just now
    for (const Reclaim& reclaim : decision.reclaims) asks.insert(reclaim.claimant);
    for (const Waiting& waiting : decision.waiting) {
      const Job& job = state_.jobs[waiting.job];
      const bool claims = waiting.reason == Reason::kVictimsLeaving || waiting.reason == Reason::kVictimsProtected;
      for (const Part& part : waiting.parts)
        free.add(part.node, -std::min(free.on(part.node), part.learners * job.gpus_per_learner));
      if (claims && !waiting.parts.empty())
        ledger.add(job.tenant, state_.nodes[waiting.parts.front().node].type, waiting.asked, Charge::kOwn);
      const bool impatient = state_.patience_s > 0 && state_.now_s - job.submit_s >= state_.patience_s;
      // Whether it is lent to is decided last.
      const bool until_now = !claims || (waiting.lent && asks.count(waiting.job) != 0);
      if ((until_now && impatient && could_be_own(state_, job)) || job.tier == Tier::kGuaranteed)
        behind.insert(job.tenant);
    }
    for (const Waiting& waiting : decision.waiting) {
      const Job& job = state_.jobs[waiting.job];
      const int gpus = job.min_learners * job.gpus_per_learner;
      if (behind.count(job.tenant) != 0) continue;
      for (int type = 0; type < state_.type_count(); ++type) {
        if ((job.type != kAnyType && job.type != type) || free.slots(type, job.gpus_per_learner) < job.min_learners)
          continue;
        const bool may_be_lent = waiting.reserved_for < 0 && !waiting.kept_for && job.tier != Tier::kGuaranteed;
        // What exceeds the quota counts against the limit; what is within it, its tenant keeps from nobody.
        const int part = job.tier == Tier::kAuto ? ledger.own_part(job.tenant, type, gpus) : 0;
        Ledger beside = ledger;
        beside.add(job.tenant, type, part, Charge::kOwn);
        if (may_be_lent && ledger.within_borrow_limit(job.tenant, gpus - part) && beside.lendable(type, gpus - part))
          return ::testing::AssertionFailure() << "round " << round_ << ": job " << job.id << " could borrow";
        if (job.tier != Tier::kBorrow && ledger.fits_own(job.tenant, type, gpus))
          return ::testing::AssertionFailure() << "round " << round_ << ": own job " << job.id << " could run";
      }
    }
    return ::testing::AssertionSuccess();
  }

  ::testing::AssertionResult within_limits() const {
    const Ledger ledger(state_);
    if (!is_own(state_, ledger))
      return ::testing::AssertionFailure() << "round " << round_ << ": more is held as own than there is quota";
    return ::testing::AssertionSuccess();
  }

  void pass_time() {
    state_.now_s += kRoundS;
    for (auto it = leaves_.begin(); it != leaves_.end();) {
      if (it->second > round_) {
        ++it;
        continue;
      }
      leave(it->first);
      it = leaves_.erase(it);
    }
    for (size_t i = 0; i < state_.jobs.size(); ++i) {
      Job& job = state_.jobs[i];
      if (job.running && job.pausable && dice_.one_in(5)) job.checkpoint_s = state_.now_s;
      // It went for a claim that waits no more.
      const auto gone = gone_for_.find(static_cast<int>(i));
      if (gone == gone_for_.end() || waits(gone->second)) continue;
      job.yields_to = kNobody;
      gone_for_.erase(gone);
    }
  }

  bool waits(int64_t id) const {
    return std::any_of(state_.jobs.begin(), state_.jobs.end(),
                       [id](const Job& job) { return job.id == id && !job.running && job.tenant >= 0; });
  }

  void leave(int index) {
    Job& job = state_.jobs[index];
    ++stops_;
    job.parts = parts_after_shrink(job.parts, job.yields_until_learners);
    job.running = !job.parts.empty();
    job.checkpoint_s = job.start_s = state_.now_s;
    if (job.running) {
      job.yields_to = kNobody;
      job.min_run_s = 0;
    } else {
      if (job.idle) job.submit_s = state_.now_s;
      gone_for_[index] = job.yields_to;
    }
    job.idle = false;
  }

  // Jobs end and come.
  void happen() {
    pass_time();
    took_.clear();
    for (size_t i = 0; i < state_.jobs.size(); ++i) {
      Job& job = state_.jobs[i];
      if (!job.running || leaves_.count(static_cast<int>(i)) != 0 || !dice_.one_in(20)) continue;
      job.running = false;  // and comes back as another one
      job.parts.clear();
      job.id = next_id_++;
      job.submit_s = state_.now_s;
      job.idle = false;
    }
  }

  Dice dice_;
  ClusterState state_;
  int64_t next_id_ = 1;
  int round_ = 0;
  int done_ = 0;
  int promises_ = 0;
  int loans_ = 0;   // for which others had to go
  int shared_ = 0;  // victims asked for more than one claim
  int stops_ = 0;
  std::map<int, int> leaves_;          // victims that were asked: in which round they go
  std::map<int, int64_t> gone_for_;    // those that have gone, and the id of their claimant
  std::map<int, int> promised_since_;  // by job: the round
  std::map<int, int> for_nobody_;      // rounds that claims waited although nobody was leaving
  std::set<std::pair<int, int>> took_;
};

TEST(PolicyRounds, keep_every_promise_and_come_to_rest) {
  const int states = states_to_try();
  int64_t promises = 0;
  int64_t loans = 0;
  int64_t shared = 0;
  int64_t stops = 0;
  for (int seed = first_state(); seed < states; ++seed) {
    World world(static_cast<uint64_t>(seed) + 10'000'000, seed % 2 == 0);
    ASSERT_TRUE(world.live()) << "seed " << seed;
    promises += world.promises();
    loans += world.loans();
    shared += world.shared();
    stops += world.stops();
  }
  if (first_state() > 0) return;
  EXPECT_GT(promises, states / 5);
  EXPECT_GT(loans, states / 400);
  EXPECT_GT(shared, states / 200);
  EXPECT_GT(stops, states / 5);
}

}  // namespace
}  // namespace dl::policy
