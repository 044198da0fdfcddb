// SPDX-License-Identifier: Apache-2.0
// What must hold of a run whatever happens in whatever order: tried in a million random orders of events, and shrunk to
// the shortest that fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/unit/supervise_run_world.h"

namespace dl::supervise {
namespace {

using testing::Choices;
using testing::RunWorld;

constexpr int kOrders = 1'000'000;
constexpr size_t kLongest = 90;

Choices random_choices(uint64_t seed) {
  std::mt19937_64 engine(seed * 0x9E3779B97F4A7C15U + 1);
  Choices choices(engine() % kLongest);
  for (uint8_t& choice : choices) choice = static_cast<uint8_t>(engine() >> 32);
  return choices;
}

// The shortest choices near these that still fail: pieces are left out, then made as small as may be.
Choices shrink(Choices choices) {
  const auto fails = [](const Choices& tried) { return !RunWorld(tried).play().empty(); };
  for (bool better = true; better;) {
    better = false;
    for (size_t size = std::max<size_t>(choices.size() / 2, 1); size > 0; size /= 2) {
      for (size_t at = 0; at + size <= choices.size();) {
        Choices tried = choices;
        tried.erase(tried.begin() + static_cast<std::ptrdiff_t>(at),
                    tried.begin() + static_cast<std::ptrdiff_t>(at + size));
        if (fails(tried)) {
          choices = tried;
          better = true;
        } else {
          at += size;
        }
      }
    }
    for (uint8_t& choice : choices) {
      const uint8_t before = choice;
      for (uint8_t smaller = 0; smaller < std::min<uint8_t>(before, 13); ++smaller) {
        choice = smaller;
        if (fails(choices)) break;
        choice = before;
      }
      better = better || choice != before;
    }
  }
  return choices;
}

TEST(RunStateTest, HoldsItsPromisesInAnyOrderOfEvents) {
  int64_t events = 0;
  for (uint64_t seed = 0; seed < kOrders; ++seed) {
    const Choices choices = random_choices(seed);
    RunWorld world(choices);
    const std::string failure = world.play();
    events += world.events();
    if (failure.empty()) continue;
    const Choices shortest = shrink(choices);
    RunWorld shown(shortest, true);
    const std::string why = shown.play();
    FAIL() << "seed " << seed << ": " << failure << "; shrunk to " << shortest.size() << " choices: " << why << "\n"
           << shown.trace();
  }
  RecordProperty("events", std::to_string(events));
  EXPECT_GT(events, 10 * kOrders);
}

}  // namespace
}  // namespace dl::supervise
