// SPDX-License-Identifier: Apache-2.0
// Carries out one rank's part of a LoadPlan, in one pass: several threads read the rank's granules, verify every block,
// copy what this rank wants into its memory and send the others theirs; the calling thread takes in what others send.
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

// How loading ended. The cause decides what is tried next.
enum class LoadEnd : char {
  kDone = 'd',
  kBad = 'b',     // the checkpoint is bad: a checksum, a missing file, a failed read
  kPeers = 'p',   // the exchange failed, or another rank gave up
  kFailed = 'f',  // this rank cannot go on (no memory)
};

struct LoadOutcome {
  LoadEnd end = LoadEnd::kDone;
  Error error;
};

struct LoadCounts {
  std::atomic<uint64_t> read{0};      // bytes of needed blocks, read from files by this rank
  std::atomic<uint64_t> sent{0};      // to other ranks
  std::atomic<uint64_t> received{0};  // from other ranks
};

struct LoadJob {
  Io* io = nullptr;
  std::string checkpoint;  // path
  const Manifest* manifest = nullptr;
  const LoadPlan* plan = nullptr;
  const Registry* registry = nullptr;
  int rank = 0;
  Exchange* exchange = nullptr;  // nullptr if the plan has no other reader than this rank
  uint64_t channel = 0;
  int threads = 1;
  double timeout_s = 600;  // the longest time in which nothing comes
  // Blobs of the plan that are this rank's, filled.
  std::map<std::string, std::string>* blobs = nullptr;
  LoadCounts* counts = nullptr;
};

// With how many threads a rank reads where it is not told. Each holds a buffer of a block, 4 MiB. One rank has so many
// that the disk is never without the next request while some threads verify and copy; that is more than there are
// cores. In a cgroup their buffers take an eighth of the memory that is left (memory_left) at most, but four threads
// always read.
int usual_read_threads(int world_size, std::optional<uint64_t> memory_left);

// Registered memory is filled as verified blocks come in: after anything but kDone its content is undefined.
LoadOutcome load(const LoadJob& job);

}  // namespace dl::ckpt
