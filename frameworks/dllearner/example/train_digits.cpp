// SPDX-License-Identifier: Apache-2.0
// Trains a network of one hidden layer on 1,797 handwritten digits, on any number of learners, with the same batches
// whatever their number: each takes its part of every batch, and libdllearner averages the gradients, bucket by bucket
// while backward goes on. With a checkpoint (dlrun --checkpoint) it can be paused and resumed on another number.
// With --servers N there are N parameter servers beside the learners, in the mode that is named last.
//
//   c++ -std=c++17 -O2 train_digits.cpp $(pkg-config --cflags --libs dllearner dlckpt) -o train_digits
//   dlrun --framework dllearner --learners 4 -- ./train_digits digits.txt [TRAIN_STEPS [DELAY_MS]]
//   dlrun --framework dllearner --learners 2 --servers 1 -- ./train_digits digits.txt 500 0 sync|async|bounded
//   sbatch --dl-framework=dllearner --dl-learners=4 --dl-gpus=0 --wrap 'dlrun -- ./train_digits digits.txt'
#include <dlckpt.h>
#include <dllearner.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kPixels = 64, kHidden = 48, kDigits = 10;
constexpr int kTrained = 1500;  // the other digits are for testing
constexpr int kBatch = 60;
constexpr float kRate = 0.1F, kMomentum = 0.9F;

struct Digit {
  std::array<float, kPixels> pixels;
  int label;
};

[[noreturn]] void stop(const std::string& text) {
  std::fprintf(stderr, "train_digits: %s\n", text.c_str());
  std::_Exit(1);  // dlrun ends the other learners
}
void check(int rc) {
  if (rc != DLLEARNER_OK) stop(dllearner_error());
}

std::vector<Digit> read_digits(const char* path) {
  std::ifstream file(path);
  std::vector<Digit> digits;
  for (std::string line; std::getline(file, line);) {
    if (line.size() != kPixels + 1 || line[0] < '0' || line[0] > '9')
      stop(std::string(path) + ": line " + std::to_string(digits.size() + 1) + " is not a line of digits");
    Digit digit{};
    digit.label = line[0] - '0';
    for (size_t i = 0; i < kPixels; ++i) digit.pixels[i] = static_cast<float>(line[i + 1] - 'a') / 16;
    digits.push_back(digit);
  }
  if (digits.size() <= kTrained)
    stop(std::string(path) + ": has " + std::to_string(digits.size()) +
         " lines of digits, or is missing; needed: more than " + std::to_string(kTrained));
  return digits;
}

// The four parameters lie one behind the other in memory, and so do their gradients: buckets need no copies then.
constexpr std::array<size_t, 4> kCounts = {kPixels * kHidden, kHidden, kHidden* kDigits, kDigits};
constexpr size_t kAll = kCounts[0] + kCounts[1] + kCounts[2] + kCounts[3];
struct Parameters {
  std::vector<float> all = std::vector<float>(kAll, 0.0F);
  float* at(size_t i) {
    float* p = all.data();
    for (size_t k = 0; k < i; ++k) p += kCounts[k];
    return p;
  }
};

struct Activations {
  std::array<float, kHidden> hidden;
  std::array<float, kDigits> chance;
};

Activations forward(Parameters& w, const Digit& digit) {
  Activations a{};
  const float *w1 = w.at(0), *b1 = w.at(1), *w2 = w.at(2), *b2 = w.at(3);
  for (int h = 0; h < kHidden; ++h) {
    float sum = b1[h];
    for (int i = 0; i < kPixels; ++i) sum += w1[h * kPixels + i] * digit.pixels[static_cast<size_t>(i)];
    a.hidden[static_cast<size_t>(h)] = std::max(sum, 0.0F);
  }
  float all = 0;
  for (int k = 0; k < kDigits; ++k) {
    float sum = b2[k];
    for (int h = 0; h < kHidden; ++h) sum += w2[k * kHidden + h] * a.hidden[static_cast<size_t>(h)];
    all += a.chance[static_cast<size_t>(k)] = std::exp(std::min(sum, 50.0F));
  }
  for (float& chance : a.chance) chance /= all;
  return a;
}

// Computes, from this learner's part of the batch, the gradients of the mean loss over the batch times the number of
// learners: their mean over the learners is the gradient of the batch. `ready` is called for each parameter as soon as
// its gradient is complete.
template <typename Ready>
void backward(Parameters& w, const std::vector<const Digit*>& part, float scale, Parameters& g, Ready&& ready) {
  std::fill(g.all.begin(), g.all.end(), 0.0F);
  std::vector<Activations> passes;
  for (const Digit* digit : part) {
    Activations a = forward(w, *digit);
    a.chance[static_cast<size_t>(digit->label)] -= 1;  // now it is the gradient before the softmax
    for (int k = 0; k < kDigits; ++k) {
      const float d = a.chance[static_cast<size_t>(k)] *= scale;
      g.at(3)[k] += d;
      for (int h = 0; h < kHidden; ++h) g.at(2)[k * kHidden + h] += d * a.hidden[static_cast<size_t>(h)];
    }
    passes.push_back(a);
  }
  ready(3);
  ready(2);
  for (size_t n = 0; n < part.size(); ++n)
    for (int h = 0; h < kHidden; ++h) {
      if (passes[n].hidden[static_cast<size_t>(h)] <= 0) continue;
      float d = 0;
      for (int k = 0; k < kDigits; ++k) d += passes[n].chance[static_cast<size_t>(k)] * w.at(2)[k * kHidden + h];
      g.at(1)[h] += d;
      for (int i = 0; i < kPixels; ++i) g.at(0)[h * kPixels + i] += d * part[n]->pixels[static_cast<size_t>(i)];
    }
  ready(1);
  ready(0);
}

float noise(uint64_t i) {  // in [-1, 1), the same on every machine
  i = (i + 1) * 0x9e3779b97f4a7c15ULL;
  i = (i ^ (i >> 30)) * 0xbf58476d1ce4e5b9ULL;
  return static_cast<float>(i >> 40) / static_cast<float>(1 << 23) - 1;
}

Parameters first_weights() {
  Parameters weights;
  for (size_t i = 0; i < kAll; ++i) weights.all[i] = noise(i) * 0.15F;
  return weights;
}

// The n-th digit of a batch. A data epoch goes through all digits with a stride that has no divisor in common with
// 1,500.
size_t sample(int64_t step, int n) {
  const int64_t place = step * kBatch + n, epoch = place / kTrained;
  return static_cast<size_t>((place % kTrained) * (7 + 30 * (epoch % 40)) % kTrained);
}

int64_t right_of(Parameters& weights, const std::vector<Digit>& digits, size_t first, size_t every) {
  int64_t right = 0;
  for (size_t i = kTrained + first; i < digits.size(); i += every) {
    const Activations a = forward(weights, digits[i]);
    right += std::max_element(a.chance.begin(), a.chance.end()) - a.chance.begin() == digits[i].label ? 1 : 0;
  }
  return right;
}

// Each learner tests its part of the test digits. The weights of all learners must be the same, bit for bit.
bool report(dllearner_ctx* world, Parameters& weights, const std::vector<Digit>& digits, const char* how,
            int64_t steps) {
  const int rank = dllearner_rank(world), size = dllearner_size(world);
  int64_t right = right_of(weights, digits, static_cast<size_t>(rank), static_cast<size_t>(size));
  check(dllearner_all_reduce(world, &right, &right, 1, DLLEARNER_I64, DLLEARNER_SUM));
  std::vector<float> first = weights.all;
  check(dllearner_broadcast(world, first.data(), kAll, DLLEARNER_F32, 0));
  int64_t differ = first == weights.all ? 0 : 1;
  check(dllearner_all_reduce(world, &differ, &differ, 1, DLLEARNER_I64, DLLEARNER_SUM));
  double sum = 0;
  for (float w : weights.all) sum += w;
  if (rank == 0)
    std::printf("%d learners, %s, train step %lld: %lld of %zu test digits are right; weights %s, sum %.9g\n", size,
                how, static_cast<long long>(steps), static_cast<long long>(right), digits.size() - kTrained,
                differ == 0 ? "are the same everywhere" : "DIFFER", sum);
  return differ == 0;
}

// The digits of this learner's part of a batch.
std::vector<const Digit*> part_of(const std::vector<Digit>& digits, int64_t step, int rank, int size) {
  std::vector<const Digit*> part;
  for (int n = rank; n < kBatch; n += size) part.push_back(&digits[sample(step, n)]);
  return part;
}

// Trains with weights and optimiser on parameter servers.
int train_with_servers(dllearner_ctx* world, const std::vector<Digit>& digits, int64_t steps, const std::string& mode) {
  if (dllearner_role_of(world) == DLLEARNER_SERVER) {
    check(dllearner_serve(world, nullptr, nullptr));
    dllearner_close(world);
    return 0;
  }
  const int rank = dllearner_rank(world), size = dllearner_size(world);
  dllearner_ps_options options{};
  options.struct_size = sizeof options;
  options.mode = mode == "async" ? DLLEARNER_PS_ASYNC : mode == "bounded" ? DLLEARNER_PS_BOUNDED : DLLEARNER_PS_SYNC;
  options.staleness = 2;
  // A gradient that is applied late pushes in a direction in which momentum has already moved the weights, so there is
  // less momentum then.
  const bool late = options.mode != DLLEARNER_PS_SYNC;
  options.momentum = late ? 0.5 : kMomentum;
  options.learning_rate = late ? 0.5 : kRate;
  Parameters weights = first_weights(), gradients;
  dllearner_ps* server = nullptr;
  check(dllearner_ps_create(world, &options, weights.all.data(), kAll, &server));
  for (int64_t step = 0; step < steps; ++step) {
    check(dllearner_ps_pull(server, weights.all.data()));
    backward(weights, part_of(digits, step, rank, size), static_cast<float>(size) / kBatch, gradients, [](size_t) {});
    check(dllearner_ps_push(server, gradients.all.data()));
  }
  // the answer comes after this learner's last gradient was applied
  check(dllearner_ps_pull(server, weights.all.data()));
  check(dllearner_barrier(world));  // so now those of all learners are
  check(dllearner_ps_pull(server, weights.all.data()));
  const bool same = report(world, weights, digits, mode.c_str(), steps);
  dllearner_ps_destroy(server);
  dllearner_close(world);
  return same ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<Digit> digits = read_digits(argc > 1 ? argv[1] : "digits.txt");
  const int64_t steps = argc > 2 ? std::atoll(argv[2]) : 500;
  const int delay_ms = argc > 3 ? std::atoi(argv[3]) : 0;

  dllearner_ctx* world = nullptr;
  check(dllearner_open(nullptr, &world));
  if (dllearner_servers(world) > 0) return train_with_servers(world, digits, steps, argc > 4 ? argv[4] : "sync");
  const int rank = dllearner_rank(world), size = dllearner_size(world);

  Parameters weights, momentum, gradients;
  if (rank == 0) weights = first_weights();
  check(dllearner_broadcast(world, weights.all.data(), kAll, DLLEARNER_F32, 0));
  dllearner_buckets* buckets = nullptr;
  check(dllearner_buckets_create(world, DLLEARNER_F32, kCounts.size(), kCounts.data(), 4096, &buckets));

  int64_t step = 0;
  dlckpt_ctx* checkpoint = nullptr;
  if (std::getenv("DL_CHECKPOINT_DIR") != nullptr) {
    dlckpt_options options{};
    options.struct_size = sizeof options;
    options.rank = rank;
    options.world_size = size;
    if (dlckpt_open(&options, &checkpoint) != DLCKPT_OK) stop(dlckpt_open_error());
    const int64_t count = kAll;
    int rc = dlckpt_tensor(checkpoint, "weights", DLCKPT_F32, 1, &count, nullptr, nullptr, weights.all.data(),
                           DLCKPT_REPLICATED);
    if (rc == DLCKPT_OK)
      rc = dlckpt_tensor(checkpoint, "momentum", DLCKPT_F32, 1, &count, nullptr, nullptr, momentum.all.data(),
                         DLCKPT_REPLICATED);
    if (rc == DLCKPT_OK) rc = dlckpt_restore(checkpoint, DLCKPT_LATEST, &step);
    if (rc != DLCKPT_OK && rc != DLCKPT_E_NOT_FOUND) stop(dlckpt_errmsg(checkpoint));
    if (rc == DLCKPT_OK && rank == 0) std::printf("resumed at train step %lld\n", static_cast<long long>(step));
  }

  for (; step < steps; ++step) {
    const int want = checkpoint != nullptr ? dlckpt_want(checkpoint, step) : 0;
    if ((want & DLCKPT_WANT_SAVE) != 0 && dlckpt_save(checkpoint, step) != DLCKPT_OK && rank == 0)
      std::fprintf(stderr, "not saved: %s\n", dlckpt_errmsg(checkpoint));
    if ((want & DLCKPT_WANT_EXIT) != 0) {
      const int code = dlckpt_exit_code(checkpoint);
      if (rank == 0) std::printf("stopping at train step %lld, exit status %d\n", static_cast<long long>(step), code);
      dlckpt_close(checkpoint);
      dllearner_buckets_destroy(buckets);
      dllearner_close(world);
      return code;
    }
    backward(weights, part_of(digits, step, rank, size), static_cast<float>(size) / kBatch, gradients,
             [&](size_t i) { check(dllearner_buckets_ready(buckets, i, gradients.at(i))); });
    check(dllearner_buckets_finish(buckets));
    for (size_t i = 0; i < kAll; ++i) {
      momentum.all[i] = kMomentum * momentum.all[i] + gradients.all[i];
      weights.all[i] -= kRate * momentum.all[i];
    }
    if (delay_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
  }
  if (checkpoint != nullptr) {
    if (dlckpt_save(checkpoint, steps) != DLCKPT_OK || dlckpt_wait(checkpoint, -1, nullptr) != DLCKPT_OK)
      stop(dlckpt_errmsg(checkpoint));
    dlckpt_finished(checkpoint);
    dlckpt_close(checkpoint);
  }

  const bool same = report(world, weights, digits, "buckets", steps);
  dllearner_buckets_destroy(buckets);
  dllearner_close(world);
  return same ? 0 : 1;
}
