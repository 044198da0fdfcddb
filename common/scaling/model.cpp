// SPDX-License-Identifier: Apache-2.0
#include "common/scaling/model.h"

#include <algorithm>
#include <array>

namespace dl::scaling {
namespace {

constexpr int kParts = 4;
constexpr int kMostLearners = 1'000'000;
constexpr int64_t kMostBatch = 100'000'000;
constexpr double kLeastError = 0.02;
// used if there are no more sizes than parts: then a fit is exact and shows no error
constexpr double kUntestedError = 0.1;
constexpr double kWish = 1e-3;  // weight of a wish beside that of a measured size
// A part that was not measured matters if at least this share of a predicted step is spent on it.
constexpr double kShare = 0.02;

using Row = std::array<double, kParts>;

bool in_bounds(const Size& size) {
  return size.nodes >= 1 && size.nodes <= size.learners && size.learners <= kMostLearners && size.passes >= 1 &&
         size.passes <= size.batch && size.batch <= kMostBatch;
}

// The factors of A, C, N and F.
Row row_of(const Size& size) {
  const double n = size.learners;
  const double moves = 2 * (n - 1) / n;
  const int64_t samples = (size.batch + size.learners - 1) / size.learners;
  return {static_cast<double>(size.passes), static_cast<double>(samples), size.nodes > 1 ? 0 : moves,
          size.nodes > 1 ? moves : 0};
}

// The equations `rows` x parts = values, each multiplied by its weight.
struct Equations {
  std::vector<Row> rows;
  std::vector<double> values;
  void add(const Row& row, double value, double weight) {
    Row weighted = row;
    for (double& factor : weighted) factor *= weight;
    rows.push_back(weighted);
    values.push_back(value * weight);
  }
  double error(const Row& parts) const {
    double sum = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      double off = -values[i];
      for (int part = 0; part < kParts; ++part) off += rows[i][part] * parts[part];
      sum += off * off;
    }
    return sum;
  }
};

// Solves the normal equations for the parts in `used` by Gaussian elimination with pivoting; the other parts are 0.
// None if there is no unique solution.
std::optional<Row> solve(const Equations& equations, unsigned used) {
  double matrix[kParts][kParts + 1] = {};
  for (int i = 0; i < kParts; ++i) {
    if ((used >> i & 1) == 0) {
      matrix[i][i] = 1;
      continue;
    }
    for (size_t row = 0; row < equations.rows.size(); ++row) {
      for (int j = 0; j < kParts; ++j)
        if ((used >> j & 1) != 0) matrix[i][j] += equations.rows[row][i] * equations.rows[row][j];
      matrix[i][kParts] += equations.rows[row][i] * equations.values[row];
    }
  }
  for (int column = 0; column < kParts; ++column) {
    int pivot = column;
    for (int row = column + 1; row < kParts; ++row)
      if (std::max(matrix[row][column], -matrix[row][column]) > std::max(matrix[pivot][column], -matrix[pivot][column]))
        pivot = row;
    const double largest = matrix[pivot][column];
    if (!(largest > 1e-30) && !(largest < -1e-30)) return std::nullopt;
    std::swap(matrix[pivot], matrix[column]);
    for (int row = 0; row < kParts; ++row) {
      if (row == column) continue;
      const double factor = matrix[row][column] / matrix[column][column];
      for (int j = column; j <= kParts; ++j) matrix[row][j] -= factor * matrix[column][j];
    }
  }
  Row parts{};
  for (int i = 0; i < kParts; ++i) parts[i] = matrix[i][kParts] / matrix[i][i];
  return parts;
}

// The parts that are not negative and have the least error.
Row least_squares(const Equations& equations) {
  Row best{};
  double least = equations.error(best);
  for (unsigned used = 1; used < 1U << kParts; ++used) {
    const auto parts = solve(equations, used);
    if (!parts || !std::all_of(parts->begin(), parts->end(), [](double part) { return part >= 0; })) continue;
    const double error = equations.error(*parts);
    if (error < least) {
      best = *parts;
      least = error;
    }
  }
  return best;
}

double sum_of(const Row& row, const double* parts) {
  double sum = 0;
  for (int part = 0; part < kParts; ++part) sum += row[part] * parts[part];
  return sum;
}

}  // namespace

bool sane(const Measured& measured) {
  return in_bounds(measured.size) && measured.step_s >= kShortestStep && measured.step_s <= kLongestStep &&
         measured.spread_s >= 0 && measured.spread_s <= kLongestStep && measured.steps >= 1;
}

void add(const Measured& measured, std::vector<Measured>* all) {
  if (!sane(measured)) return;
  const auto same =
      std::find_if(all->begin(), all->end(), [&](const Measured& other) { return other.size == measured.size; });
  if (same != all->end()) {
    if (measured.time_s >= same->time_s) *same = measured;
    return;
  }
  all->push_back(measured);
  if (all->size() <= kMostSizes) return;
  all->erase(std::min_element(all->begin(), all->end(),
                              [](const Measured& a, const Measured& b) { return a.time_s < b.time_s; }));
}

const char* confidence_name(Confidence confidence) {
  switch (confidence) {
    case Confidence::kMeasured:
      return "measured";
    case Confidence::kFitted:
      return "fitted";
    case Confidence::kGuessed:
      break;
  }
  return "guessed";
}

std::optional<Model> Model::fit(const std::vector<Measured>& measured) {
  Model model;
  for (const Measured& one : measured) add(one, &model.measured_);
  if (model.measured_.empty()) return std::nullopt;
  Equations equations;
  double per_sample = kLongestStep, shortest = kLongestStep;
  model.fewest_learners_ = kMostLearners;
  model.least_share_ = kMostBatch;
  bool size_varies[kParts] = {false, false, false, false};
  const Row first = row_of(model.measured_.front().size);
  for (const Measured& one : model.measured_) {
    const Row row = row_of(one.size);
    equations.add(row, one.step_s, 1 / one.step_s);
    per_sample = std::min(per_sample, one.step_s / row[1]);
    shortest = std::min(shortest, one.step_s);
    model.most_learners_ = std::max(model.most_learners_, one.size.learners);
    model.fewest_learners_ = std::min(model.fewest_learners_, one.size.learners);
    // A and C can be told apart if the sizes differ in the samples of a pass. N or F is measured if a size uses it.
    size_varies[0] = size_varies[1] = size_varies[0] || row[1] * first[0] != first[1] * row[0];
    model.least_share_ = std::min(model.least_share_, row[1] / row[0]);
    model.most_share_ = std::max(model.most_share_, row[1] / row[0]);
    for (int part = 2; part < kParts; ++part) size_varies[part] = size_varies[part] || row[part] > 0;
  }
  const double wishes[kParts] = {0, per_sample, shortest / 10, shortest / 10};
  const double scales[kParts] = {shortest, per_sample, shortest, shortest};
  for (int part = 0; part < kParts; ++part) {
    Row row{};
    row[part] = 1;
    double wish = wishes[part];
    // The link (N or F) that was not measured is assumed to be as slow as the other one.
    const int other = part == 2 ? 3 : part == 3 ? 2 : -1;
    if (other >= 0 && size_varies[other] && !size_varies[part]) {
      row[other] = -1;
      wish = 0;
    }
    equations.add(row, wish, kWish / scales[part]);
  }
  const Row parts = least_squares(equations);
  std::copy(parts.begin(), parts.end(), model.part_);
  model.error_ = kLeastError;
  // one learner does not communicate: that tells compute and communication apart
  const bool alone = model.fewest_learners_ == 1;
  for (const Measured& one : model.measured_) {
    const double off = sum_of(row_of(one.size), model.part_) / one.step_s - 1;
    model.error_ = std::max(model.error_, std::max(off, -off));
  }
  // A fit follows the errors of the measurements, the more so the fewer sizes there are for each of its parts.
  const auto sizes = static_cast<double>(model.measured_.size());
  const auto free =
      static_cast<double>(std::count_if(parts.begin(), parts.end(), [](double part) { return part > 0; }));
  model.error_ = sizes > free
                     ? std::min(1.0, model.error_ > kLeastError ? model.error_ * sizes / (sizes - free) : kLeastError)
                     : std::max(kUntestedError, std::min(1.0, model.error_));
  for (int part = 0; part < kParts; ++part)
    model.known_[part] = size_varies[part] && (part < 2 || alone || model.measured_.size() >= 3);
  return model;
}

Prediction Model::predict(const Size& size) const {
  Prediction prediction;
  const Row row = row_of(size);
  prediction.compute_s = row[0] * part_[0] + row[1] * part_[1];
  prediction.communication_s = row[2] * part_[2] + row[3] * part_[3];
  const auto found =
      std::find_if(measured_.begin(), measured_.end(), [&](const Measured& one) { return one.size == size; });
  double step = prediction.compute_s + prediction.communication_s;
  double factor = 1;  // low and high differ from the prediction by this factor
  if (found != measured_.end()) {
    prediction.confidence = Confidence::kMeasured;
    step = found->step_s;
    factor += std::max(kLeastError, std::min(1.0, found->spread_s / found->step_s));
  } else {
    const double whole = std::max(step, kShortestStep);
    // If a pass has as many samples as the measured ones, it does not matter how compute is divided between A and C.
    const double share = row[1] / row[0];
    bool known = known_[0] || (share >= least_share_ * 0.999 && share <= most_share_ * 1.001);
    for (int part = 2; part < kParts; ++part)
      if (!known_[part] && row[part] * part_[part] > kShare * whole) known = false;
    // Beyond the measured numbers of learners the error grows with each doubling.
    double far = 1;
    for (int64_t n = size.learners; n > 2 * int64_t{most_learners_}; n /= 2) far += 1;
    for (int64_t n = size.learners; 2 * n < fewest_learners_; n *= 2) far += 1;
    prediction.confidence = known ? Confidence::kFitted : Confidence::kGuessed;
    factor = known ? 1 + error_ * far : 2 * far;
  }
  step = std::clamp(step, kShortestStep, kLongestStep * 10);
  // The shares of compute and communication come from the fit; they are scaled to the predicted step.
  const double modelled = prediction.compute_s + prediction.communication_s;
  if (modelled > 0) {
    prediction.communication_s *= step / modelled;
    prediction.compute_s *= step / modelled;
  } else {
    prediction.compute_s = step;
  }
  prediction.step_s = step;
  prediction.samples_per_s = static_cast<double>(size.batch) / step;
  prediction.low = prediction.samples_per_s / factor;
  prediction.high = prediction.samples_per_s * factor;
  return prediction;
}

double efficiency(double noise, int64_t reference, int64_t batch) {
  if (!(noise >= 0) || !(noise < 1e18) || batch <= reference) return 1;
  return (noise + static_cast<double>(reference)) / (noise + static_cast<double>(batch));
}

std::optional<int> next_to_probe(const std::vector<Measured>& measured, int now, int fewest, int most) {
  const auto was_run = [&](int learners) {
    return std::any_of(measured.begin(), measured.end(),
                       [&](const Measured& one) { return sane(one) && one.size.learners == learners; });
  };
  const int larger = std::min(most, now > most / 2 ? most : 2 * now), smaller = std::max(fewest, now / 2);
  if (larger > now && !was_run(larger)) return larger;
  if (smaller < now && !was_run(smaller)) return smaller;
  return std::nullopt;
}

}  // namespace dl::scaling
