// SPDX-License-Identifier: Apache-2.0
// dlpolicyd resizes running jobs through the queue: what it reads of their speeds, what it tells them, and that worlds
// in which jobs come and go come to rest.
#include "slurm-plugin/policyd/resizing.h"

#include <gtest/gtest.h>

#include <fmt/core.h>

#include <cmath>
#include <csignal>
#include <map>
#include <set>

#include "common/scaling/scale_hint.h"
#include "slurm-plugin/observe/sizes_now.h"
#include "slurm-plugin/policy/sizes/why_size.h"
#include "slurm-plugin/policy/tokens.h"
#include "slurm-plugin/policyd/planner.h"
#include "slurm-plugin/policyd/report.h"
#include "tests/unit/policy_support.h"
#include "tests/unit/policyd_support.h"

namespace dl::policyd::testing {
namespace {

using observe::ClusterView;
using observe::JobPhase;
using observe::JobRecord;
using observe::Records;
using policy::Charge;

policy::JobLabel elastic_label(const std::string& tenant, int least, int most) {
  policy::JobLabel its = label(tenant, least, Charge::kOwn);
  its.learners = LearnerRange{least, most};
  its.min_nodes = least;
  its.max_nodes = most;
  return its;
}

std::string comment_of(const ScaleHint& hint, int now, int wanted = 0) {
  return "dl:PROCESSING attempt=1 scale=" + format_scale_hint(hint, now) +
         (wanted > 0 ? " vote=" + std::to_string(wanted) : "") + " dir=/x/dl-1";
}

ClusterView view_of(const Records& records, const policy::ClusterState& site, bool chosen = true) {
  observe::ViewOptions options;
  options.min_run_s = 0;
  options.grace_s = 60;
  options.chosen_sizes = chosen;
  return observe::view_cluster(site, records, options);
}

TEST(ScaleHintTest, IsReadBackAsItWasWritten) {
  ScaleHint hint;
  hint.restart_s = 12;
  hint.noise = 640;
  for (int n = 1; n <= 12; ++n) hint.sizes.push_back({n, n, 0.25 / n});
  const std::string text = format_scale_hint(hint, 4);
  EXPECT_LE(text.size(), 160U) << text;
  const ScaleHint read =
      scale_hint_in("mine | dl:PROCESSING attempt=2 step=7 scale=" + text + " dir=/a scale=9:;9/9:9");
  EXPECT_EQ(read.restart_s, 12);
  EXPECT_EQ(read.noise, 640);
  ASSERT_EQ(read.sizes.size(), kMostScaleSizes);
  EXPECT_EQ(read.sizes.front().learners, 1);
  EXPECT_NEAR(read.sizes.front().step_s, 0.25, 1e-4);
  EXPECT_EQ(format_scale_hint(ScaleHint{}, 1), "");
}

TEST(ScaleHintTest, WhatCannotBeReadSaysNothing) {
  for (const char* text : {"", ";", ":;", "x:;1/1:5", "-1:;1/1:5", ":nan;1/1:5", ":;0/1:5", ":;1/2:5", ":;1/1:0",
                           ":;1/1:inf", ":;1/1:1e300", ":;1/1", ":;1/1:5,", ":;99999999999/1:5", ":;1/1:5;", "1;1/1:5",
                           ":;1/1:5,2/1:5,3/1:5,4/1:5,5/1:5,6/1:5,7/1:5,8/1:5,9/1:5"})
    EXPECT_TRUE(parse_scale_hint(text).sizes.empty()) << text;
  EXPECT_EQ(parse_scale_hint(":;1/1:5").restart_s, -1);
  EXPECT_TRUE(scale_hint_in("dl:RUNNING dir=/x scale=1:;1/1:5").sizes.empty()) << "a path";
}

TEST(SizesNowTest, SpeedsFollowWhatWasMeasuredAndSizesReachHalfAndTwice) {
  Records records = cluster(8, 1);
  add_running(&records, 1, elastic_label("vision", 1, 8), "n[1-2]", {1, 1}).comment =
      comment_of({5, -1, {{2, 2, 0.5}}}, 2);
  ClusterView view = view_of(records, site(8));
  auto speeds = observe::sizes_now(records, &view);
  ASSERT_EQ(speeds.size(), 1U);
  ASSERT_EQ(speeds[0].speeds.size(), 4U) << "1 to 4 of 1 to 8";
  EXPECT_TRUE(policy::check(view.state, speeds));
  EXPECT_NEAR(speeds[0].speeds[1].speed, 2 / 0.5, 0.1);
  EXPECT_EQ(view.state.jobs[0].restart_s, 5 + observe::kRequeueS);
  // With 4 learners it was slower.
  records.jobs[0].comment = comment_of({5, -1, {{2, 2, 0.5}, {4, 4, 1.5}}}, 2);
  view = view_of(records, site(8));
  speeds = observe::sizes_now(records, &view);
  ASSERT_EQ(speeds[0].speeds.size(), 8U);
  EXPECT_LT(speeds[0].speeds[3].speed, speeds[0].speeds[1].speed);
}

TEST(SizesNowTest, WhatCannotBeResizedOrIsNotKnownIsLeftOut) {
  const auto known = [](const policy::JobLabel& its, const std::string& comment) {
    Records records = cluster(4, 1);
    add_running(&records, 1, its, "n[1-2]", {1, 1}).comment = comment;
    ClusterView view = view_of(records, site(4));
    return observe::sizes_now(records, &view).size();
  };
  const std::string comment = comment_of({5, -1, {{2, 2, 0.5}}}, 2);
  EXPECT_EQ(known(elastic_label("vision", 1, 4), comment), 1U);
  EXPECT_EQ(known(elastic_label("vision", 1, 4), "dl:PROCESSING attempt=1 dir=/x"), 0U);
  EXPECT_EQ(known(label("vision", 2, Charge::kOwn), comment), 0U);
  policy::JobLabel fixed = elastic_label("vision", 1, 4);
  fixed.min_nodes = fixed.max_nodes = 2;
  EXPECT_EQ(known(fixed, comment), 0U) << "its number of nodes is fixed";
  policy::JobLabel ends = elastic_label("vision", 1, 4);
  ends.pausable = false;
  ends.back = policy::GiveBack::kEnd;
  EXPECT_EQ(known(ends, comment), 0U);
}

// The new number of learners of the only job that is resized; 0: none is.
int resized_to(const Records& records, int nodes) {
  Resizing resizing;
  ClusterView view = view_of(records, site(nodes));
  const NewSizes sizes = resizing.decide(records, &view, 60);
  return sizes.resizes.size() == 1 ? policy::learners_of(sizes.resizes[0].parts) : 0;
}

TEST(SizesNowTest, AJobIsMovedToWhatItsLearnersVoteFor) {
  Records records = cluster(8, 1);
  JobRecord& job = add_running(&records, 1, elastic_label("vision", 1, 8), "n[1-4]", {1, 1, 1, 1});
  const auto with = [&](const std::string& words) {
    job.comment = "dl:PROCESSING attempt=1 scale=5:;4/4:500" + words + " dir=/x/dl-1";
    return resized_to(records, 8);
  };
  EXPECT_EQ(with(" vote=4"), 0) << "it is there";
  EXPECT_EQ(with(" vote=6"), 6);
  EXPECT_EQ(with(" vote=2"), 2) << "what it does not need it gives up, though nobody waits";
  EXPECT_EQ(with(" vote=100"), 8) << "the range counts";
}

TEST(SizesNowTest, AVoteCountsWhateverWasMeasuredAndAlsoWhereNothingWas) {
  Records records = cluster(8, 1);
  JobRecord& job = add_running(&records, 1, elastic_label("vision", 1, 8), "n[1-2]", {1, 1});
  for (const char* measured : {"", " scale=5:;2/2:500,4/4:4000"}) {
    job.comment = std::string("dl:PROCESSING attempt=1") + measured + " vote=4 dir=/x/dl-1";
    ClusterView view = view_of(records, site(8));
    const auto speeds = observe::sizes_now(records, &view);
    ASSERT_EQ(speeds.size(), 1U);
    EXPECT_TRUE(policy::check(view.state, speeds));
    ASSERT_EQ(speeds[0].speeds.size(), 8U);
    for (int n = 1; n <= 4; ++n) EXPECT_EQ(speeds[0].speeds[static_cast<size_t>(n) - 1].speed, n);
    EXPECT_EQ(speeds[0].speeds[7].speed, 2) << "beyond it each learner costs";
  }
}

TEST(SizesNowTest, VotesThatCannotBeAreBounded) {
  Records records = cluster(4, 1);
  policy::JobLabel its = elastic_label("vision", 1, kMaxLearners);
  add_running(&records, 1, its, "n[1-2]", {1, 1}).comment = "dl:PROCESSING attempt=1 vote=100000 dir=/x";
  ClusterView view = view_of(records, site(4));
  const auto speeds = observe::sizes_now(records, &view);
  ASSERT_EQ(speeds.size(), 1U);
  EXPECT_TRUE(policy::check(view.state, speeds));
  EXPECT_LE(speeds[0].speeds.size(), static_cast<size_t>(policy::elastic::kMostPointsOfJob));
}

TEST(ResizeOrderTest, AJobThatDoesNotObeyKeepsTheSizeThatItHas) {
  Records records = cluster(4, 1);
  policy::JobLabel its = elastic_label("vision", 1, 4);
  its.yields = policy::Yield{1, kNow - 30, 4};
  its.size = policy::ChosenSize{4, kNow - 900};
  add_running(&records, 1, its, "n[1-2]", {1, 1});
  const ClusterView view = view_of(records, site(4));
  const auto actions = needed_actions(view, records, policy::decide(view.state), {60, 5});
  ASSERT_EQ(actions.size(), 1U);
  EXPECT_EQ(actions[0].kind, ActionKind::kWithdraw);
  ASSERT_TRUE(actions[0].update.admin_comment);
  const auto after = policy::parse_label(*actions[0].update.admin_comment);
  ASSERT_TRUE(after);
  EXPECT_FALSE(after->yields);
  EXPECT_EQ(after->size, (policy::ChosenSize{2, kNow - 900}));
}

TEST(ResizeLabelTest, IsReadBackAndOlderLabelsStayAsTheyAre) {
  policy::JobLabel its = elastic_label("vision", 1, 4);
  EXPECT_EQ(policy::format_label(its).find("size="), std::string::npos);
  its.size = policy::ChosenSize{3, kNow};
  const auto read = policy::parse_label(policy::format_label(its));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->size, its.size);
  EXPECT_FALSE(policy::parse_label(policy::format_label(elastic_label("vision", 1, 4)) + " size=0@1"));
  EXPECT_FALSE(policy::parse_label(policy::format_label(elastic_label("vision", 1, 4)) + " size=3"));
}

// A job as it really is: how long its train steps take, and what it has measured.
struct Truth {
  double serial = 0;
  int64_t ends_s = 0;  // when it ends
  std::set<int> measured;
  int64_t saved_s = 0;    // it was asked, and is in the queue from then on; 0: not asked
  int64_t changed_s = 0;  // when its size changed last
  int learners = 0;
  int wanted = 0;  // what its learners vote for; 0: they do not
  // Without a batch each learner counts a sample for each train step, so a step of the same length is a linear
  // speed-up.
  double step_s(int n) const { return 0.2 * (1 + serial * (n - 1)); }
};

// A small cluster with one GPU on each node, as slurmctld and dlrun treat it.
class World {
 public:
  // voting: the learners of each second job vote for a size, whatever its train steps say.
  World(uint64_t seed, bool rigid, bool voting = false)
      : dice_(seed), rigid_(rigid), voting_(voting), nodes_(dice_.from(3, 8)) {
    records_ = cluster(nodes_, 1);
    site_ = site(0);
    const int own = dice_.from(1, nodes_);
    site_.tenants[0].quota.any = own;
    site_.tenants[1].quota.any = nodes_ - own;
  }

  void submit(int64_t ends_s) {
    const int64_t id = ++last_;
    const int least = dice_.from(1, 2);
    const int most = rigid_ ? least : std::min(nodes_, least + dice_.from(0, 5));
    const std::string tenant = dice_.one_in(2) ? "vision" : "nlp";
    policy::JobLabel its = elastic_label(tenant, least, most);
    JobRecord& job = add_pending(&records_, id, its);
    job.submit_s = job.begin_s = records_.now_s;
    job.min_nodes = static_cast<uint32_t>(least);
    job.max_nodes = static_cast<uint32_t>(most);
    job.node_gpus = 1;
    ranges_[id] = Range{least, most, least, false};
    Truth& truth = truths_[id];
    truth.serial = 0.25 * dice_.from(0, 4);
    truth.ends_s = ends_s;
    if (voting_ && dice_.one_in(2)) truth.wanted = dice_.from(least, most);
  }

  // One round of dlpolicyd, then five seconds of Slurm.
  void round(bool sizes) {
    ClusterView view = view_of(records_, site_, sizes);
    const policy::ClusterState state = view.state;
    const Status sound = policy::check(view.state);
    ASSERT_TRUE(sound) << sound.error().text;
    const NewSizes decided =
        sizes ? resizing_.decide(records_, &view, 120) : NewSizes{policy::decide(&view.state), {}, {}};
    const std::vector<Action> actions = needed_actions(view, records_, decided.decision, {60, 5}, decided.resizes);
    plans_.push_back(as_text(actions));
    for (const Action& action : actions) carry_out(action);
    records_.now_s += 5;
    end_jobs();
    start_jobs();
    measure();
  }

  int64_t now_s() const { return records_.now_s; }
  int resizes() const { return resizes_; }
  int64_t last_resize_s() const { return last_resize_s_; }
  const std::vector<std::string>& plans() const { return plans_; }
  std::string sizes() const {
    std::string text;
    for (const auto& [id, truth] : truths_) text += fmt::format(" {}:{}", id, truth.learners);
    return text;
  }
  // The last ones that are not empty.
  std::string last_plans() const {
    std::string text;
    for (size_t i = plans_.size() < 80 ? 0 : plans_.size() - 80; i < plans_.size(); ++i)
      if (!plans_[i].empty()) text += fmt::format("\nround {}:\n{}", i, plans_[i]);
    for (const JobRecord& job : records_.jobs) text += "\n" + job.admin_comment + " | " + job.comment;
    return text;
  }

 private:
  JobRecord* find(int64_t id) {
    for (JobRecord& job : records_.jobs)
      if (job.id == id) return &job;
    return nullptr;
  }

  void carry_out(const Action& action) {
    JobRecord* job = find(action.job);
    ASSERT_TRUE(job != nullptr);
    const observe::JobUpdate& update = action.update;
    if (update.licenses) job->licenses = *update.licenses;
    if (update.admin_comment) job->admin_comment = *update.admin_comment;
    if (update.begin_s) job->begin_s = *update.begin_s;
    if (update.site_factor) job->site_factor = *update.site_factor;
    if (job->phase == JobPhase::kPending) set_nodes(update, job);
    if (action.kind == ActionKind::kResize) {
      Truth& truth = truths_[action.job];
      ASSERT_TRUE(action.signal);
      ASSERT_GE(records_.now_s - truth.changed_s, 120) << "resized too soon";
      ++resizes_;
      last_resize_s_ = records_.now_s;
    }
    // dlrun saves, and puts the job back.
    if (action.signal || action.requeue) back(job);
  }

  // What an operator's change does in slurmctld.
  void set_nodes(const observe::JobUpdate& update, JobRecord* job) {
    Range& range = ranges_[job->id];
    const int least = update.min_nodes ? static_cast<int>(*update.min_nodes) : range.least;
    const int most = update.max_nodes ? static_cast<int>(*update.max_nodes) : range.most;
    ASSERT_LE(least, most) << "refused";
    range.changed |= least != range.least || most != range.most;
    range.least = least;
    range.most = most;
    if (update.min_nodes) range.cpus = std::max(update.cpus_of_nodes ? 1 : range.cpus, least);
    job->min_nodes = static_cast<uint32_t>(least);
    if (job->max_nodes != 0) job->max_nodes = static_cast<uint32_t>(most);
  }

  void back(JobRecord* job) {
    job->max_nodes = 0;  // as 22.05 reports it from then on
    job->phase = JobPhase::kPending;
    job->nodes.clear();
    job->gres_by_node.clear();
    job->submit_s = records_.now_s;
    job->begin_s = records_.now_s + 120;
    job->start_s = 0;
    truths_[job->id].learners = 0;
  }

  void end_jobs() {
    for (size_t i = records_.jobs.size(); i-- > 0;) {
      const JobRecord& job = records_.jobs[i];
      if (job.phase != JobPhase::kRunning || truths_[job.id].ends_s > records_.now_s) continue;
      truths_.erase(job.id);
      records_.jobs.erase(records_.jobs.begin() + static_cast<int64_t>(i));
    }
  }

  void start_jobs() {
    std::set<std::string> free;
    for (const observe::NodeRecord& node : records_.nodes) free.insert(node.name);
    std::map<std::string, int> held;
    std::vector<JobRecord*> waiting;
    for (JobRecord& job : records_.jobs) {
      if (job.phase == JobPhase::kPending) {
        if (job.begin_s <= records_.now_s) waiting.push_back(&job);
        continue;
      }
      for (const std::string& node : nodes_of_[job.id]) free.erase(node);
      for (const policy::Licence& one : policy::parse_licences(job.licenses)) held[one.name] += one.count;
    }
    std::map<std::string, int> there;
    for (const policy::Licence& one : policy::token_totals(site_)) there[one.name] = one.count;
    std::sort(waiting.begin(), waiting.end(), [](const JobRecord* a, const JobRecord* b) {
      return a->site_factor != b->site_factor ? a->site_factor > b->site_factor : a->submit_s < b->submit_s;
    });
    for (JobRecord* job : waiting) {
      const auto its = policy::parse_label(job->admin_comment);
      const Range& range = ranges_[job->id];
      if (!its || static_cast<int>(free.size()) < range.least) continue;
      const int count = range.changed ? range.least : std::min(range.most, static_cast<int>(free.size()));
      if (count < range.cpus) continue;  // a node has one CPU
      const std::vector<policy::Licence> wants = policy::parse_licences(job->licenses);
      const bool may = std::all_of(wants.begin(), wants.end(), [&](const policy::Licence& one) {
        return held[one.name] + one.count <= there[one.name];
      });
      if (!may) continue;
      for (const policy::Licence& one : wants) held[one.name] += one.count;
      start(job, count, &free);
    }
  }

  void start(JobRecord* job, int count, std::set<std::string>* free) {
    job->phase = JobPhase::kRunning;
    job->start_s = records_.now_s;
    job->comment = "dl:PROCESSING attempt=1 dir=/x";
    job->nodes.clear();
    job->gres_by_node.clear();
    nodes_of_[job->id].clear();
    for (int i = 0; i < count; ++i) {
      job->nodes += (i > 0 ? "," : "") + *free->begin();
      job->gres_by_node.emplace_back("gpu:a100:1(IDX:0)");
      nodes_of_[job->id].push_back(*free->begin());
      free->erase(free->begin());
    }
    truths_[job->id].learners = count;
    truths_[job->id].changed_s = records_.now_s;
  }

  // dlrun knows after 30 s how long a train step takes.
  void measure() {
    for (JobRecord& job : records_.jobs) {
      Truth& truth = truths_[job.id];
      if (job.phase != JobPhase::kRunning || records_.now_s - job.start_s < 30) continue;
      truth.measured.insert(truth.learners);
      ScaleHint hint;
      hint.restart_s = 4;
      for (const int n : truth.measured) hint.sizes.push_back({n, n, truth.step_s(n)});
      job.comment = comment_of(hint, truth.learners, truth.wanted);
    }
  }

  policy::testing::Dice dice_;
  bool rigid_, voting_;
  int nodes_;
  Records records_;
  policy::ClusterState site_;
  Resizing resizing_;
  // Numbers of nodes and CPUs, as slurmctld has them. Of a range that an operator changed it takes the fewest.
  struct Range {
    int least = 1, most = 1, cpus = 1;
    bool changed = false;
  };
  int64_t last_ = 0;
  std::map<int64_t, Truth> truths_;
  std::map<int64_t, Range> ranges_;
  std::map<int64_t, std::vector<std::string>> nodes_of_;
  std::vector<std::string> plans_;
  int resizes_ = 0;
  int64_t last_resize_s_ = 0;
};

constexpr int kRounds = 1000;  // of 5 s: 83 minutes

void come_to_rest(bool voting) {
  int resizes = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    World world(seed, false, voting);
    const int64_t begin_s = world.now_s();
    policy::testing::Dice dice(seed + 1000);
    const int jobs = dice.from(1, 4);
    for (int i = 0; i < jobs; ++i) world.submit(begin_s + (dice.one_in(3) ? 600 * dice.from(1, 3) : 1'000'000));
    for (int round = 0; round < kRounds; ++round) {
      world.round(true);
      if (::testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << " round " << round;
    }
    // The last of the jobs that end ends after half an hour; what follows takes a few resizes of each job.
    EXPECT_LE(world.last_resize_s(), begin_s + 4000)
        << "seed " << seed << ": does not rest:" << world.sizes() << world.last_plans();
    EXPECT_LE(world.resizes(), 12 * jobs) << "seed " << seed;
    resizes += world.resizes();
  }
  EXPECT_GT(resizes, voting ? 30 : 60);
}

TEST(ResizingWorlds, SixtyComeToRest) {
  come_to_rest(false);
}

TEST(ResizingWorlds, SixtyInWhichLearnersVoteComeToRest) {
  come_to_rest(true);
}

TEST(ResizingWorlds, WhereNoJobCanVaryThePlansAreThoseWithoutIt) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    World with(seed, true);
    World without(seed, true);
    for (World* world : {&with, &without}) {
      policy::testing::Dice dice(seed + 2000);
      for (int i = 0; i < 6; ++i) world->submit(world->now_s() + 60 * dice.from(1, 20));
      for (int round = 0; round < 200; ++round) world->round(world == &with);
    }
    EXPECT_EQ(with.resizes(), 0);
    EXPECT_EQ(with.plans(), without.plans()) << seed;
  }
}

TEST(WhySizeTest, SaysWhyAJobHasItsSize) {
  Records records = cluster(4, 1);
  add_running(&records, 1, elastic_label("vision", 1, 4), "n[1-2]", {1, 1});
  const auto why = [&](double with_four_s) {
    records.jobs[0].comment =
        comment_of({5, -1, {{1, 1, 0.5}, {2, 2, 0.5}, {3, 3, (0.5 + with_four_s) / 2}, {4, 4, with_four_s}}}, 2);
    ClusterView view = view_of(records, site(4));
    const auto speeds = observe::sizes_now(records, &view);
    policy::SizeOptions options;
    options.each_s = 300;
    return policy::why_size(&view.state, speeds, options, 0);
  };
  EXPECT_NE(why(0.5).find("it is about to start again with"), std::string::npos) << why(0.5);
  EXPECT_NE(why(1.5).find("which is not worth a restart"), std::string::npos) << why(1.5);
  // It ran with 8 learners, and has just come back with 2.
  records.jobs[0].comment = comment_of({5, -1, {{8, 8, 0.5}}}, 2);
  ClusterView grown = view_of(records, site(4));
  const std::string text = policy::why_size(&grown.state, observe::sizes_now(records, &grown), {}, 0);
  EXPECT_NE(text.find("its speed at this size is not known yet"), std::string::npos) << text;
  records.jobs[0].start_s = kNow - 100;
  EXPECT_NE(why(0.5).find("is resized in 200 s at the earliest"), std::string::npos) << why(0.5);
  records.jobs[0].comment = "dl:PROCESSING attempt=1 dir=/x";
  ClusterView view = view_of(records, site(4));
  EXPECT_NE(policy::why_size(&view.state, {}, {}, 0).find("nothing is known of its speed yet"), std::string::npos);
  // Its learners vote.
  const auto voting = [&](int wanted) {
    records.jobs[0].start_s = kNow - 1000;
    records.jobs[0].comment = "dl:PROCESSING attempt=1 vote=" + std::to_string(wanted) + " dir=/x";
    ClusterView seen = view_of(records, site(4));
    const auto speeds = observe::sizes_now(records, &seen);
    return policy::why_size(&seen.state, speeds, {}, 0);
  };
  EXPECT_NE(voting(2).find("as many as its learners vote for"), std::string::npos) << voting(2);
  EXPECT_NE(voting(4).find("start again with 4, since its learners vote for 4"), std::string::npos) << voting(4);
}

}  // namespace
}  // namespace dl::policyd::testing
