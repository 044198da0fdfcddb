// SPDX-License-Identifier: Apache-2.0
// The settings of a context: the caller's options, completed from the environment (dlckpt_options in dlckpt.h says in
// which order).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "checkpoint/include/dlckpt.h"
#include "checkpoint/retention/retention.h"
#include "common/base/result.h"

namespace dl::ckpt {

struct Settings {
  std::string dir;
  int rank = 0;
  int world_size = 1;
  std::string run_id;
  double every_s = 0;       // 0: never
  int64_t every_steps = 0;  // 0: never
  bool every_auto = false;  // found from measurements (common/contract/checkpoint_interval.h)
  int keep = 3;
  int max_files = 256;             // ranks that replicated data is spread over, at most
  int64_t keep_every = 0;          // 0: none
  std::optional<BestMetric> best;  // of the checkpoints to keep
  enum Mode { kSync, kAsync, kLazy };
  Mode mode = kSync;          // resolve_settings() says kAsync unless asked otherwise
  uint64_t memory_bytes = 0;  // staging memory; 0: the engine decides
  int write_threads = 0;      // 0: the engine decides
  bool recycle = true;        // retired files are written again in place
  bool reuse = true;          // what does not change is stored once
  double timeout_s = 600;
  std::string progress_page;  // path, empty without dlrun
  std::string lease_token;    // of the lease that dlrun holds, or empty
  std::string owner;          // for the lease: "job 12" or "process 77"
  std::string job_id;         // Slurm's, or empty
  std::string local_dir;      // node-local level, or empty
  bool partner = false;       // a copy of it on the next node
  std::string node;           // name of this node

  RetentionPolicy retention() const { return RetentionPolicy{keep, keep_every, best}; }
};

// Where each setting comes from, as dlckpt.h promises: first the options, then the environment, then the default. With
// options.environment_first the environment precedes the options for some settings.
struct Resolved {
  Settings settings;
  unsigned from_environment = 0;  // DLCKPT_SETTING_ bits
};

// Reads the environment; no other side effect. options may be nullptr. Where nobody names a directory, settings.dir is
// empty. kInvalid.
Result<Resolved> resolve(const dlckpt_options* options);
// The same for callers that need a directory: kInvalid without one.
Result<Settings> resolve_settings(const dlckpt_options* options);

}  // namespace dl::ckpt
