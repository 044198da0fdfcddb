// SPDX-License-Identifier: Apache-2.0
// Predicts how long a train step of a job takes with other learners, batches and nodes, by a model that is fitted to
// the train steps that the job really ran. Pure; safe to call from any thread; needs no libm.
//
// The formula, in seconds, with n learners on k nodes, a global batch of b samples and p passes (gradient
// accumulation):
//
//   step = p x A + C x ceil(b / n) + x(n) x (k > 1 ? F : N)          x(n) = 2 (n - 1) / n
//
//   A      compute: the cost of a pass, however few samples it has (launches, optimiser, loader)
//   C      compute: the cost of a sample
//   N, F   communication: moving the gradients once over the links of a node, or over the network between nodes.
//          F >= N is not assumed: what was measured counts
//   x(n)   how often a ring all-reduce moves the gradients, from 0 for one learner to nearly 2
//
// The formula has no overlap: a program that communicates while it computes gets a smaller N or F. It is the formula of
// Pollux (OSDI 2021, 3.2) with gamma = 1, and with the message volume of a ring in place of its linear term.
//
// The fit. A, C, N, F >= 0 minimise the sum of squared *relative* errors over the measured sizes, where each size
// counts once however long it ran. Four weak "wishes" are added, which decide only the parts that were not measured: A
// = 0; C = what the fastest measured learner needs for a sample if all of its time is compute; N and F = a tenth of the
// smallest measured step each, or as slow as the other one if that was measured. All 16 choices of which of the four
// are zero are tried, so the answer is the exact minimum.
//
// Wrong measurements do limited harm. sane() says which ones count, and one is kept for each size. The predictions are
// finite and positive, and a speed never grows faster than the number of learners at the same samples for each learner:
// a program that reports false times moves its own curve within these bounds, and nothing else.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace dl::scaling {

constexpr double kShortestStep = 1e-6, kLongestStep = 1e6;  // seconds
constexpr int kMostSizes = 256;                             // sizes that are kept of a job

struct Size {
  int learners = 1;
  int nodes = 1;
  int64_t batch = 1;   // global batch; a job without a known batch counts one sample for each learner
  int64_t passes = 1;  // passes of one train step
  bool operator==(const Size& other) const {
    return learners == other.learners && nodes == other.nodes && batch == other.batch && passes == other.passes;
  }
};

struct Measured {
  Size size;
  double step_s = 0;    // duration of its train steps; supervise/straggler.h says how it is averaged
  double spread_s = 0;  // the median absolute deviation of the durations
  int64_t steps = 0;    // number of train steps seen
  int64_t time_s = 0;   // Unix time of the newest train step
};

// Whether all numbers are within bounds: 1 <= nodes <= learners <= 1,000,000, passes <= batch <= 10^8, a step from
// kShortestStep to kLongestStep, a spread from 0 to kLongestStep, steps >= 1.
bool sane(const Measured& measured);

// Adds a measurement; it replaces an older one of the same size. One that is not sane() is ignored; beyond kMostSizes
// the oldest is dropped.
void add(const Measured& measured, std::vector<Measured>* all);

// How far a prediction can be trusted.
enum class Confidence {
  kMeasured,  // exactly this size was run
  kFitted,    // each part of the formula that matters here was measured at other sizes
  kGuessed,   // a part that matters was never measured: low and high are far apart
};
const char* confidence_name(Confidence confidence);  // "measured", "fitted", "guessed"

struct Prediction {
  double step_s = 0;
  double samples_per_s = 0;
  double low = 0, high = 0;  // of samples_per_s: 0 < low <= samples_per_s <= high
  double compute_s = 0, communication_s = 0;
  Confidence confidence = Confidence::kGuessed;
};

class Model {
 public:
  // None if no measurement is sane().
  static std::optional<Model> fit(const std::vector<Measured>& measured);

  // Precondition: `size` is within the bounds of sane().
  Prediction predict(const Size& size) const;

  double per_pass_s() const { return part_[0]; }
  double per_sample_s() const { return part_[1]; }
  double on_node_s() const { return part_[2]; }
  double between_nodes_s() const { return part_[3]; }
  // The relative error to expect of a fitted size: the largest relative error at a measured size x sizes / (sizes -
  // parts), from 0.02 to 1; at least 0.1 if there are no more sizes than parts.
  double error() const { return error_; }
  const std::vector<Measured>& measured() const { return measured_; }

 private:
  std::vector<Measured> measured_;
  double part_[4] = {0, 0, 0, 0};
  double error_ = 0;
  bool known_[4] = {false, false, false, false};  // true: measured; false: only a wish decides the part
  double least_share_ = 0, most_share_ = 0;       // samples of a learner in one pass, among the measured sizes
  int most_learners_ = 1, fewest_learners_ = 1;
};

// Statistical efficiency of a batch, against the reference batch (Pollux, OSDI 2021, 3.1): (noise + reference) / (noise
// + batch), at most 1; noise is the gradient noise scale in samples. 1 if it is not known (negative, or not finite).
double efficiency(double noise, int64_t reference, int64_t batch);

// The number of learners (from fewest to most) that should be measured next: half or twice the present number, the
// larger one first, if it was not measured yet. None if both were.
std::optional<int> next_to_probe(const std::vector<Measured>& measured, int now, int fewest, int most);

}  // namespace dl::scaling
