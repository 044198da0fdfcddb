// SPDX-License-Identifier: Apache-2.0
// Which global batch a number of learners trains with, and how it is divided: over the passes (forward and backward) of
// a train step, and over the learners. Pure, and the same wherever it is asked; dlckpt/batch.py divides alike.
//
// The batch. A job that asked for MIN:MAX and for LEAST learners or more is meant to train with
//     target = MIN x learners / LEAST
// so that a learner's part stays as large as it was with the fewest. The batch is the allowed one that is nearest to
// that (of two, the smaller) among those that divide evenly over learners and passes; if there is none, among those
// that divide evenly over learners; if there is none, among all: then the first learners have one sample more.
//
// Passes. With micro=N a learner computes at most N samples at once, so a train step takes
//     accumulation = ceil(batch / (learners x N))
// passes, or a few more where that makes them even (at most twice as many). A learner has a sample in each pass, even
// if micro=1 must be exceeded by one for that.
//
// The learning rate is multiplied, with S = batch / MIN, by 1 (none), S (linear), sqrt(S) (sqrt), or the gain of
// AdaScale: (noise / MIN + 1) / (noise / batch + 1), which is from 1 to S; noise is the gradient noise scale in samples
// (trace of the covariance of one sample's gradient over the square of the mean gradient's norm). As long as the
// program has not reported it, the gain is 1.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"
#include "common/contract/batch_range.h"

namespace dl {

struct BatchSplit {
  int64_t batch = 0;         // samples of a train step, of all learners together
  int64_t accumulation = 1;  // passes of a train step
};

// Preconditions of all: learners and least from 1 to kMaxLearners, least <= learners; what is in range stays in range.
int64_t batch_target(const BatchRange& range, int least, int learners);

// kConflict if the largest batch has fewer samples than there are learners. Any target is taken, such as one that an
// optimiser has chosen.
Result<BatchSplit> split_batch(const BatchRange& range, int learners, int64_t target);

// What a job trains with that asked for `least` learners or more and has `learners`, which may be fewer than that:
// split_batch() of batch_target(). kConflict as split_batch().
Result<BatchSplit> split_of_job(const BatchRange& range, int least, int learners);

// The size of part `number` of `parts`, when `total` is divided so that the sizes differ by at most one and the first
// parts have the larger ones.
int64_t part_size(int64_t total, int64_t number, int64_t parts);

// What a learner computes in one train step, all passes together.
int64_t local_batch(const BatchSplit& split, int rank, int learners);

// noise < 0, or not finite: not known.
double lr_scale(const BatchRange& range, int64_t batch, double noise = -1);
std::string format_lr_scale(double scale);  // as few digits as say it exactly to nine places: "2", "1.41421356"

}  // namespace dl
