// SPDX-License-Identifier: Apache-2.0
// Learns handwritten digits with parameter servers that come and go: an elastic pool (dlpool.hpp) of a class of this
// program's own. Learners add up to the same weights, bit for bit, whichever servers there are.
//
//   g++ -std=c++17 -O2 pool_digits.cpp $(pkg-config --cflags --libs dlpool) -o pool_digits
//   dlrun --framework cpp -n 2 --servers 1:4 -- ./pool_digits digits.txt 200
//
// (digits.txt lies beside the example of the framework dllearner.) Without dlrun, each process is told what it is:
//   pool_digits directory SECRET [MIN MAX]     prints where it listens, until its input ends
//   pool_digits server | learner RANK LEARNERS DIGITS STEPS     with DL_POOL and DL_POOL_SECRET in the environment
#include <unistd.h>
#include <dlpool.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Floats = std::vector<float>;

constexpr std::size_t kPixels = 64, kDigits = 10, kWeights = kDigits * (kPixels + 1);
constexpr std::size_t kBlock = 10;  // weights of one key
constexpr std::size_t kTrained = 1500;
constexpr float kRate = 0.5F, kMomentum = 0.9F;

std::string_view as_bytes(const Floats& floats) {
  return {reinterpret_cast<const char*>(floats.data()), floats.size() * sizeof(float)};
}
Floats as_floats(std::string_view bytes) {
  Floats floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), floats.size() * sizeof(float));
  return floats;
}

// Of a learner's gradient.
struct Push {
  std::uint32_t rank = 0, learners = 1;
  std::uint64_t step = 0;
};

// Some weights, and the gradients that have come for the present train step.
struct Block {
  std::uint64_t step = 0;
  Floats weights, velocity;
  std::map<std::uint32_t, std::string> gradients;  // by rank

  std::string save() const {
    const std::uint64_t head[3] = {step, weights.size(), gradients.size()};
    std::string bytes(reinterpret_cast<const char*>(head), sizeof head);
    bytes += as_bytes(weights);
    bytes += as_bytes(velocity);
    for (const auto& [rank, gradient] : gradients) {
      bytes.append(reinterpret_cast<const char*>(&rank), sizeof rank);
      bytes += gradient;
    }
    return bytes;
  }
  void load(std::string_view bytes) {
    std::uint64_t head[3];
    const auto take = [&bytes](void* to, std::size_t size) {
      if (bytes.size() < size) throw std::runtime_error("a block is cut short");
      std::memcpy(to, bytes.data(), size);
      bytes.remove_prefix(size);
    };
    take(head, sizeof head);
    step = head[0];
    weights.resize(head[1]);
    velocity.resize(head[1]);
    take(weights.data(), head[1] * sizeof(float));
    take(velocity.data(), head[1] * sizeof(float));
    for (std::uint64_t i = 0; i < head[2]; ++i) {
      std::uint32_t rank = 0;
      take(&rank, sizeof rank);
      std::string gradient(head[1] * sizeof(float), '\0');
      take(gradient.data(), gradient.size());
      gradients[rank] = std::move(gradient);
    }
  }
};

// The parameter server. A train step is done when the gradients of all learners have come; they are added in the order
// of ranks, whatever the order in which they came.
class Weights {
 public:
  std::string apply(const dl::PoolKey& key, std::string_view bytes) {
    Push push;
    if (bytes.size() < sizeof push) throw std::runtime_error("this is no gradient");
    std::memcpy(&push, bytes.data(), sizeof push);
    bytes.remove_prefix(sizeof push);
    Block& block = blocks_[key];
    if (block.weights.empty()) {
      block.weights.resize(bytes.size() / sizeof(float));
      block.velocity.resize(block.weights.size());
    }
    if (push.step != block.step || bytes.size() != block.weights.size() * sizeof(float))
      throw std::runtime_error("a gradient of train step " + std::to_string(push.step) + " came in train step " +
                               std::to_string(block.step));
    block.gradients[push.rank] = bytes;
    if (block.gradients.size() < push.learners) return {};
    Floats sum(block.weights.size());
    for (const auto& [rank, gradient] : block.gradients) {
      const Floats one = as_floats(gradient);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += one[i];
    }
    for (std::size_t i = 0; i < sum.size(); ++i) {
      block.velocity[i] = kMomentum * block.velocity[i] + sum[i] / static_cast<float>(push.learners);
      block.weights[i] -= kRate * block.velocity[i];
    }
    block.gradients.clear();
    ++block.step;
    return {};
  }
  // The weights after a train step; nothing if it is not done.
  std::string read(const dl::PoolKey& key, std::string_view bytes) const {
    std::uint64_t step = 0;
    if (bytes.size() != sizeof step) throw std::runtime_error("this is no train step");
    std::memcpy(&step, bytes.data(), sizeof step);
    if (!told_) {  // owners alone are read from
      told_ = true;
      const std::chrono::duration<double, std::milli> took = Clock::now() - began_;
      std::printf("serves after %.0f ms\n", took.count());
      std::fflush(stdout);
    }
    const Block* block = blocks_.find(key);
    return block == nullptr || block->step < step ? std::string() : std::string(as_bytes(block->weights));
  }
  std::string save(int slot) const { return blocks_.save(slot); }
  void load(int slot, std::string_view state) { blocks_.load(slot, state); }
  void drop(int slot) { blocks_.drop(slot); }
  // One more if this server computes most of the time, one less if it hardly does.
  int wanted(const dl::PoolLoad& load) const {
    const double busy = load.seconds > 0 ? load.busy_seconds / load.seconds : 0;
    return load.members + (busy > 0.7 ? 1 : busy < 0.02 ? -1 : 0);
  }

 private:
  dl::PoolMap<Block> blocks_;
  Clock::time_point began_ = Clock::now();
  mutable bool told_ = false;
};

dl::Pool<Weights>* serving = nullptr;

int serve(const dl::PoolPlace& place) {
  Weights weights;
  dl::Pool<Weights> pool(&weights, place);
  serving = &pool;
  std::signal(SIGTERM, [](int) { serving->leave(); });
  const dl::PoolStatus status = pool.serve();
  if (!status) std::fprintf(stderr, "%s\n", status.message().c_str());
  return status ? 0 : 1;
}

struct Digit {
  float pixels[kPixels];
  std::size_t label;
};

std::vector<Digit> read_digits(const char* path) {
  std::vector<Digit> digits;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.size() < kPixels + 1 || line[0] < '0' || line[0] > '9') continue;
    Digit digit{};
    digit.label = static_cast<std::size_t>(line[0] - '0');
    for (std::size_t i = 0; i < kPixels; ++i)
      digit.pixels[i] = static_cast<float>(line[line.size() - kPixels + i] - 'a') / 16.0F;
    digits.push_back(digit);
  }
  return digits;
}

// The probability of each digit.
void guess(const Floats& weights, const Digit& digit, float* probability) {
  float most = -1e30F, sum = 0;
  for (std::size_t d = 0; d < kDigits; ++d) {
    const float* row = weights.data() + d * (kPixels + 1);
    float value = row[kPixels];
    for (std::size_t i = 0; i < kPixels; ++i) value += row[i] * digit.pixels[i];
    probability[d] = value;
    most = value > most ? value : most;
  }
  for (std::size_t d = 0; d < kDigits; ++d) sum += probability[d] = std::exp(probability[d] - most);
  for (std::size_t d = 0; d < kDigits; ++d) probability[d] /= sum;
}

Floats gradient_of(const Floats& weights, const std::vector<Digit>& digits, std::size_t first, std::size_t each) {
  Floats gradient(kWeights);
  float probability[kDigits];
  std::size_t count = 0;
  for (std::size_t n = first; n < kTrained && n < digits.size(); n += each, ++count) {
    guess(weights, digits[n], probability);
    for (std::size_t d = 0; d < kDigits; ++d) {
      const float error = probability[d] - (digits[n].label == d ? 1.0F : 0.0F);
      float* row = gradient.data() + d * (kPixels + 1);
      for (std::size_t i = 0; i < kPixels; ++i) row[i] += error * digits[n].pixels[i];
      row[kPixels] += error;
    }
  }
  for (float& value : gradient) value /= static_cast<float>(count);
  return gradient;
}

std::string key_of(std::size_t block) {
  return "weights/" + std::to_string(block);
}

bool pull(dl::PoolClient* pool, std::uint64_t step, Floats* weights) {
  std::vector<dl::PoolCall> calls;
  for (std::size_t b = 0; b < kWeights / kBlock; ++b)
    calls.push_back({true, key_of(b), std::string(reinterpret_cast<const char*>(&step), sizeof step)});
  std::vector<std::size_t> blocks(calls.size());
  for (std::size_t b = 0; b < blocks.size(); ++b) blocks[b] = b;
  while (!calls.empty()) {  // until all learners have pushed
    std::vector<dl::PoolCall> again;
    std::vector<std::size_t> again_blocks;
    const auto answers = pool->call(calls);
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (!answers[i]) {
        std::fprintf(stderr, "pull: %s\n", answers[i].status.message().c_str());
        return false;
      }
      if (answers[i].bytes.size() != kBlock * sizeof(float)) {
        again.push_back(calls[i]);
        again_blocks.push_back(blocks[i]);
      } else {
        std::memcpy(weights->data() + blocks[i] * kBlock, answers[i].bytes.data(), kBlock * sizeof(float));
      }
    }
    calls.swap(again);
    blocks.swap(again_blocks);
    if (!calls.empty()) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

bool push(dl::PoolClient* pool, const Push& head, const Floats& gradient) {
  std::vector<dl::PoolCall> calls;
  for (std::size_t b = 0; b < kWeights / kBlock; ++b) {
    std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
    bytes.append(reinterpret_cast<const char*>(gradient.data() + b * kBlock), kBlock * sizeof(float));
    calls.push_back({false, key_of(b), std::move(bytes)});
  }
  for (const dl::PoolAnswer& answer : pool->call(calls))
    if (!answer) {
      std::fprintf(stderr, "push: %s\n", answer.status.message().c_str());
      return false;
    }
  return true;
}

int learn(const dl::PoolPlace& place, Push head, const char* path, std::uint64_t steps) {
  const std::vector<Digit> digits = read_digits(path);
  if (digits.size() <= kTrained) {
    std::fprintf(stderr, "%s: these are not the digits\n", path);
    return 1;
  }
  dl::PoolClient pool(place);
  Floats weights(kWeights);
  for (head.step = 0; head.step < steps; ++head.step) {
    if (head.step > 0 && !pull(&pool, head.step, &weights)) return 1;
    if (!push(&pool, head, gradient_of(weights, digits, head.rank, head.learners))) return 1;
    if (head.rank == 0 && head.step % 10 == 0) {
      std::printf("train step %llu\n", static_cast<unsigned long long>(head.step));
      std::fflush(stdout);
    }
  }
  if (!pull(&pool, steps, &weights)) return 1;
  std::uint64_t digest = 14695981039346656037U;
  for (const char byte : as_bytes(weights)) digest = (digest ^ static_cast<unsigned char>(byte)) * 1099511628211U;
  std::size_t right = 0;
  float probability[kDigits];
  for (std::size_t n = kTrained; n < digits.size(); ++n) {
    guess(weights, digits[n], probability);
    right += probability[digits[n].label] == *std::max_element(probability, probability + kDigits) ? 1 : 0;
  }
  std::printf("%zu of %zu test digits are right, weights %016llx\n", right, digits.size() - kTrained,
              static_cast<unsigned long long>(digest));
  return 0;
}

// What dlrun says: it hosts the directory, starts and ends the servers, and tells each process where the pool is.
int under_dlrun(const char* path, std::uint64_t steps) {
  const auto number = [](const char* name) {
    const char* text = std::getenv(name);
    return text == nullptr ? 0U : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
  };
  const char* role = std::getenv("DL_ROLE");
  if (role == nullptr || std::getenv("DL_POOL") == nullptr) {
    std::fprintf(stderr, "start this by dlrun --framework cpp --servers MIN:MAX\n");
    return 2;
  }
  if (std::strcmp(role, "server") == 0) return serve({});
  return learn({}, {number("DL_RANK"), number("DL_WORLD_SIZE"), 0}, path, steps);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "server") return serve({});
  if (what == "learner" && argc == 6) {
    const Push head{static_cast<std::uint32_t>(std::atoi(argv[2])), static_cast<std::uint32_t>(std::atoi(argv[3])), 0};
    return learn({}, head, argv[4], std::strtoull(argv[5], nullptr, 10));
  }
  if (what == "directory" && argc >= 3) {
    dl::PoolDirectory::Options options;
    options.secret_file = argv[2];
    if (argc > 4) options.min = std::atoi(argv[3]);
    options.max = argc > 4 ? std::atoi(argv[4]) : 64;
    const dl::PoolDirectory directory(options);
    if (!directory.status()) {
      std::fprintf(stderr, "%s\n", directory.status().message().c_str());
      return 1;
    }
    std::printf("127.0.0.1:%d\n", directory.port());
    std::fflush(stdout);
    for (std::string line; std::getline(std::cin, line);) {
      const dlpool_facts facts = directory.facts();
      std::printf("%d members, %d unsettled, %d lost, %llu moved\n", facts.members, facts.unsettled, facts.lost,
                  static_cast<unsigned long long>(facts.moved));
      std::fflush(stdout);
    }
    return 0;
  }
  if (argc == 3 && std::getenv("DL_RANK") != nullptr) return under_dlrun(argv[1], std::strtoull(argv[2], nullptr, 10));
  std::fprintf(stderr, "the first comment of pool_digits.cpp says how it is called\n");
  return 2;
}
