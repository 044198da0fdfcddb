// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/votes.h"

#include <algorithm>
#include <cstdlib>

namespace dl::supervise {
namespace {

// changes: not empty.
int middle_of(std::vector<int> changes) {
  std::sort(changes.begin(), changes.end());
  const int below = changes[(changes.size() - 1) / 2], above = changes[changes.size() / 2];
  if (below > 0) return below;
  return std::min(above, 0);
}

bool has_finished(const Learner& learner) {
  return learner.ended && learner.state == record::JobState::kCompleted;
}

std::string reason_near(const std::vector<std::optional<Vote>>& votes, int change) {
  const Vote* nearest = nullptr;
  for (const auto& vote : votes) {
    if (!vote || vote->reason.empty()) continue;
    if (nearest == nullptr || std::abs(vote->change - change) < std::abs(nearest->change - change)) nearest = &*vote;
  }
  return nearest == nullptr ? "" : nearest->reason;
}

}  // namespace

std::optional<JobVote> job_vote(const std::vector<std::optional<Vote>>& votes, const LearnerRange& range) {
  JobVote job;
  job.learners = static_cast<int>(votes.size());
  std::vector<int> changes;
  changes.reserve(votes.size());
  for (const auto& vote : votes) {
    changes.push_back(vote ? vote->change : 0);
    if (vote) ++job.voted;
  }
  if (job.voted == 0) return std::nullopt;
  job.change = middle_of(std::move(changes));
  job.wanted = std::clamp(job.learners + job.change, range.min, std::max(range.min, range.max));
  job.reason = reason_near(votes, job.change);
  return job;
}

void Votes::cast(int rank, const Vote& vote, int64_t now_ms) {
  if (rank < 0 || static_cast<size_t>(rank) >= cast_.size() || !check_vote(vote.change, vote.reason)) return;
  cast_[static_cast<size_t>(rank)] = {vote, now_ms};
}

std::optional<JobVote> Votes::of_job(const std::vector<Learner>& learners, int deciding, const LearnerRange& range,
                                     int64_t now_ms) const {
  std::vector<std::optional<Vote>> votes;
  for (size_t rank = 0; rank < static_cast<size_t>(std::max(0, deciding)); ++rank) {
    const bool counts = rank < cast_.size() && rank < learners.size() && !has_finished(learners[rank]) &&
                        now_ms - cast_[rank].at_ms < kVoteLastsMs;
    votes.push_back(counts ? cast_[rank].vote : std::nullopt);
  }
  return job_vote(votes, range);
}

}  // namespace dl::supervise
