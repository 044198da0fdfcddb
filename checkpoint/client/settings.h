// SPDX-License-Identifier: Apache-2.0
// The settings of a context: the caller's options, completed from the environment (dlckpt_options in dlckpt.h explains
// the order).
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
  bool every_auto = false;  // the interval follows from measurements (common/contract/checkpoint_interval.h)
  int keep = 3;
  int max_files = 256;             // most ranks over which replicated data is spread
  int64_t keep_every = 0;          // 0: none
  std::optional<BestMetric> best;  // the best checkpoints, which are kept
  enum Mode { kSync, kAsync, kLazy };
  Mode mode = kSync;          // resolve_settings() sets kAsync unless another mode was asked for
  uint64_t memory_bytes = 0;  // staging memory; 0: the engine decides
  int write_threads = 0;      // 0: the engine decides
  bool recycle = true;        // files of retired checkpoints are overwritten in place
  bool reuse = true;          // unchanged data is stored once
  double timeout_s = 600;
  std::string progress_page;  // path; empty without dlrun
  std::string lease_token;    // token of the lease that dlrun holds; may be empty
  std::string owner;          // name of the holder in the lease: "job 12" or "process 77"
  std::string job_id;         // Slurm's job id; may be empty
  std::string local_dir;      // directory of the node-local level; empty: none
  bool partner = false;       // keep a copy of the node-local checkpoint on the next node
  std::string node;           // name of this node
  std::string objects;        // "NAME:PATH" of the object store; empty: none

  RetentionPolicy retention() const { return RetentionPolicy{keep, keep_every, best}; }
};

// Settings, and where they come from. As dlckpt.h promises, the options count first, then the environment, then the
// default. With options.environment_first the environment precedes the options for some settings.
struct Resolved {
  Settings settings;
  unsigned from_environment = 0;  // DLCKPT_SETTING_ bits
};

// Reads the environment; it has no side effects. options may be nullptr. If nobody names a directory, settings.dir is
// empty. kInvalid.
Result<Resolved> resolve(const dlckpt_options* options);
// As resolve(), for callers that need a directory: kInvalid without one.
Result<Settings> resolve_settings(const dlckpt_options* options);

}  // namespace dl::ckpt
