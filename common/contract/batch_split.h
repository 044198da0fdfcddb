// SPDX-License-Identifier: Apache-2.0
// Decides which global batch a number of learners trains with, and how it is divided: over the passes (forward and
// backward) of a train step, and over the learners. Pure: all rooms get the same answer. dlckpt/batch.py divides in the
// same way.
//
// The batch. A job that asked for MIN:MAX and for LEAST learners or more is meant to train with
//     target = MIN x learners / LEAST
// so that a learner's part stays as large as it was with the fewest learners. The batch is the allowed one that is
// nearest to the target (the smaller of two that are equally near) among those that divide evenly over learners and
// passes. If there is none, it is taken from those that divide evenly over learners; if there is none of these either,
// from all allowed ones: then the first learners have one sample more.
//
// Passes. With micro=N a learner computes at most N samples at once, so a train step takes
//     accumulation = ceil(batch / (learners x N))
// passes, or a few more where that makes them even (at most twice as many). A learner has a sample in each pass, even
// if its passes must have one sample more than micro=1 allows for that.
//
// The learning rate is multiplied, with S = batch / MIN, by 1 (none), S (linear), sqrt(S) (sqrt), or the gain of
// AdaScale: (noise / MIN + 1) / (noise / batch + 1), which is from 1 to S; noise is the gradient noise scale in samples
// (trace of the covariance of one sample's gradient over the square of the mean gradient's norm). As long as the
// program has not reported the noise, the gain is 1.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/result.h"
#include "common/contract/batch_range.h"

namespace dl {

struct BatchSplit {
  int64_t batch = 0;         // samples of one train step, of all learners together
  int64_t accumulation = 1;  // passes of a train step
};

// Preconditions of all functions: learners and least are from 1 to kMaxLearners, and least <= learners. The target lies
// within the range.
int64_t batch_target(const BatchRange& range, int least, int learners);

// The batch nearest to `target`, which may be any number, such as one that an optimiser has chosen. kConflict if the
// largest batch has fewer samples than there are learners.
Result<BatchSplit> split_batch(const BatchRange& range, int learners, int64_t target);

// The split for a job that asked for `least` learners or more and now has `learners`, which may be fewer: split_batch()
// of batch_target(). kConflict as split_batch().
Result<BatchSplit> split_of_job(const BatchRange& range, int least, int learners);

// The size of part `number` when `total` is divided into `parts` whose sizes differ by at most one; the larger ones
// come first.
int64_t part_size(int64_t total, int64_t number, int64_t parts);

// The samples that a learner computes in one train step, in all passes together.
int64_t local_batch(const BatchSplit& split, int rank, int learners);

// noise < 0, or not finite, means that the noise is not known.
double lr_scale(const BatchRange& range, int64_t batch, double noise = -1);
std::string format_lr_scale(double scale);  // with nine significant digits at most: "2", "1.41421356"

}  // namespace dl
