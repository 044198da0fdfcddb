// SPDX-License-Identifier: Apache-2.0
// Carries out one rank's part of a LoadPlan, in one pass: several threads read the rank's granules, verify every block,
// copy what this rank wants into its memory and send the other ranks their parts; the calling thread receives what
// others send.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/client/load_plan.h"
#include "checkpoint/store/direct_file.h"
#include "checkpoint/transport/exchange.h"

namespace dl::ckpt {

// How loading ended. What is tried next depends on it.
enum class LoadEnd : char {
  kDone = 'd',
  kBad = 'b',     // the checkpoint is bad: a checksum, a missing file, a failed read
  kPeers = 'p',   // the exchange failed, or another rank gave up
  kFailed = 'f',  // this rank cannot go on (out of memory)
};

struct LoadOutcome {
  LoadEnd end = LoadEnd::kDone;
  Error error;
};

struct LoadCounts {
  std::atomic<uint64_t> read{0};      // bytes of needed blocks that this rank read from files
  std::atomic<uint64_t> sent{0};      // bytes sent to other ranks
  std::atomic<uint64_t> received{0};  // bytes received from other ranks
};

struct LoadJob {
  Io* io = nullptr;
  std::string checkpoint;  // path of the checkpoint
  const Manifest* manifest = nullptr;
  const LoadPlan* plan = nullptr;
  const Registry* registry = nullptr;
  int rank = 0;
  Exchange* exchange = nullptr;  // nullptr if this rank is the only reader of the plan
  uint64_t channel = 0;
  int threads = 1;
  double timeout_s = 600;  // longest time without an incoming message
  // Receives the plan's blobs for this rank.
  std::map<std::string, std::string>* blobs = nullptr;
  LoadCounts* counts = nullptr;
};

// The number of threads with which a rank reads, unless the settings say otherwise. Each has a buffer of one block, 4
// MiB. A single rank has more threads than cores, so that the disk always has a next request while some threads verify
// and copy. In a cgroup the buffers take at most an eighth of the memory that is left (memory_left), but there are at
// least four threads.
int usual_read_threads(int world_size, std::optional<uint64_t> memory_left);

// Registered memory is filled while verified blocks come in: if the result is not kDone, its content is undefined.
LoadOutcome load(const LoadJob& job);

}  // namespace dl::ckpt
