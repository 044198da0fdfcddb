// SPDX-License-Identifier: Apache-2.0
// What the tests of libdlckpt share: a directory that goes away, contexts on any Io, ranks as threads.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/client/context.h"
#include "checkpoint/store/directory.h"
#include "checkpoint/store/verify.h"

namespace dl::ckpt::test {

class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "dlckpt-test-XXXXXX").string();
    if (!mkdtemp(pattern.data())) abort();
    path_ = pattern;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline Settings settings_for(const std::string& dir, int rank = 0, int world_size = 1,
                             const std::string& run_id = "test") {
  Settings s;
  s.dir = dir;
  s.rank = rank;
  s.world_size = world_size;
  s.run_id = run_id;
  s.owner = "test";
  s.timeout_s = 30;
  return s;
}

inline Result<std::unique_ptr<Context>> open_context(const Settings& settings, Io& io = posix_io()) {
  return Context::open(settings, io);
}

// Runs fn(rank) on `count` threads and waits for all.
inline void run_ranks(int count, const std::function<void(int)>& fn) {
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(count));
  for (int rank = 0; rank < count; ++rank) threads.emplace_back(fn, rank);
  for (std::thread& thread : threads) thread.join();
}

// A state in which every byte depends on the train step, so that a mixture of two saves is noticed.
struct PatternState {
  std::vector<uint32_t> weights;  // large enough for blocks of its own
  std::vector<uint16_t> bias;
  int64_t counter = 0;
  std::string cursor;

  explicit PatternState(size_t weight_count = 40000) : weights(weight_count), bias(100) {}

  void fill(int64_t step) { fill(step, step); }
  // Fills the state of `step`, but with the weights of another train step, as if they had not changed since.
  void fill(int64_t step, int64_t weights_step) {
    for (size_t i = 0; i < weights.size(); ++i)
      weights[i] = static_cast<uint32_t>(static_cast<uint64_t>(weights_step) * 2654435761U + i * 40503U);
    for (size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<uint16_t>(static_cast<uint64_t>(step) * 77 + i);
    counter = step;
    cursor = "sample " + std::to_string(step * 64);
  }
  void clear() {
    std::fill(weights.begin(), weights.end(), 0xDEADBEEFU);
    std::fill(bias.begin(), bias.end(), static_cast<uint16_t>(0xDEAD));
    counter = -77;
    cursor.clear();
  }
  friend bool operator==(const PatternState& a, const PatternState& b) {
    return a.weights == b.weights && a.bias == b.bias && a.counter == b.counter;
  }

  // Registers everything as replicated.
  Status enroll(Context& context) {
    DL_TRY(enroll_weights(context.registry()));
    return enroll_all_but_weights(context.registry());
  }
  // Registers an equal piece of the weights on each rank, so that each writes a file.
  Status enroll_sharded(Context& context, int rank, int ranks) {
    DL_TRY(enroll(context));
    const auto n = static_cast<int64_t>(weights.size());
    const int64_t extent = n / ranks, offset = rank * extent;
    return context.registry().add_tensor("model/weights", DLCKPT_U32, 1, &n, &offset, &extent, weights.data() + offset,
                                         0);
  }
  Status enroll_weights(Registry& registry, unsigned more_flags = 0) {
    const auto n = static_cast<int64_t>(weights.size());
    return registry.add_tensor("model/weights", DLCKPT_U32, 1, &n, nullptr, nullptr, weights.data(),
                               DLCKPT_REPLICATED | more_flags);
  }
  Status enroll_all_but_weights(Registry& registry) {
    const auto m = static_cast<int64_t>(bias.size());
    DL_TRY(registry.add_tensor("model/bias", DLCKPT_U16, 1, &m, nullptr, nullptr, bias.data(), DLCKPT_REPLICATED));
    DL_TRY(registry.add_tensor("opt/counter", DLCKPT_I64, 0, nullptr, nullptr, nullptr, &counter, DLCKPT_REPLICATED));
    return registry.add_blob("data/cursor", cursor.data(), cursor.size(), false);
  }
};

// Saves `step` with the pattern of `step` by one rank; a fresh run each time.
inline Status save_pattern(const std::string& dir, int64_t step, Io& io = posix_io(), int keep = 3,
                           size_t weight_count = 40000) {
  Settings settings = settings_for(dir);
  settings.keep = keep;
  DL_TRY_ASSIGN(auto context, open_context(settings, io));
  PatternState state(weight_count);
  state.fill(step);
  DL_TRY(state.enroll(*context));
  return context->save(step);
}

// Restores the newest by one rank. On success the state is that of the step returned, or the test fails.
inline Result<int64_t> restore_pattern(const std::string& dir, std::string* note = nullptr, Io& io = posix_io(),
                                       size_t weight_count = 40000) {
  DL_TRY_ASSIGN(auto context, open_context(settings_for(dir), io));
  PatternState state(weight_count);
  state.clear();
  DL_TRY(state.enroll(*context));
  std::string local;
  DL_TRY_ASSIGN(const int64_t step, context->restore(DLCKPT_LATEST, note ? note : &local));
  PatternState expected(weight_count);
  expected.fill(step);
  EXPECT_TRUE(state == expected) << "restored state is not that of train step " << step;
  const std::string* cursor = context->restored_blob("data/cursor");
  EXPECT_TRUE(cursor && *cursor == expected.cursor);
  return step;
}

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// Path of the newest committed checkpoint.
inline std::string newest_path(const std::string& dir) {
  auto names = scan_checkpoints(posix_io(), dir);
  if (!names || names->empty()) return std::string();
  return checkpoint_path(dir, names->front());
}

// Entries that a clean directory does not have.
inline std::vector<std::string> leftovers(const std::string& dir) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    const std::string name = entry.path().filename().string();
    if (name[0] == '.') found.push_back(name);
  }
  return found;
}

}  // namespace dl::ckpt::test
