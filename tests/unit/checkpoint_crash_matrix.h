// SPDX-License-Identifier: Apache-2.0
// The crash matrix: a power loss after every operation of recorded saves, with everything on the disk that missing
// fsyncs allow (checkpoint_crash_states.h). On each such disk the real loader must find the old or the new checkpoint,
// bit for bit, and the new one once it was reported as saved.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/unit/checkpoint_crash_states.h"
#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {

constexpr const char* kCrashDir = "/ckpt";
constexpr const char* kCrashFiles = "/files";

// What the job saves, and how.
struct CrashJob {
  int keep = 3;
  int ranks = 1;           // more: each has its share of the weights
  size_t weights = 17000;  // 68 kB: blocks of its own, and 17 pages that can be torn
  bool members = false;    // files of the program's own, in kCrashFiles
  bool sizes = false;      // files of other sizes in each save
  bool frozen = false;     // the weights are registered as not changing
  // The train step whose weights those of `step` still are.
  std::function<int64_t(int64_t)> weights_of = [](int64_t step) { return step; };

  Settings settings(int rank = 0) const;
  PatternState state(int64_t step) const;
  // Of a member in the save of `step`; rank -1: the one that all share.
  std::string member(int64_t step, int rank) const;
};

// Registers state and members of one rank.
Status enroll(Context& context, const CrashJob& job, int rank, PatternState* state);
// What the program does before it saves: its files are replaced, durably.
void write_members(ModelIo& io, const CrashJob& job, int rank, int64_t step);
// In the record: the save of `step` is begun, or was reported as done.
void mark_saving(ModelIo& io, int64_t step);
void mark_saved(ModelIo& io, int64_t step);

// Saves train steps first..last in one run, each marked in the record.
void save_steps(ModelIo& io, int64_t first, int64_t last, const CrashJob& job);
// A disk on which train steps 1..steps are committed, and everything is durable.
ModelState disk_with(int64_t steps, const CrashJob& job = CrashJob());

// What the next start of the job finds on `disk`: empty if it is what it should be, else what is wrong. All that is
// published must be whole, and the newest loads as what was saved: of train step `acknowledged` (-1: or nothing) to
// `begun`.
std::string judge(const ModelState& disk, const CrashJob& job, int64_t acknowledged, int64_t begun);

struct CrashVerdict {
  int states = 0;
  std::string violation;  // the first
};
// The matrix over what was recorded from `initial` on, for power losses after `from` operations and more. `committed`:
// train step that was there before, or -1.
CrashVerdict explore(const ModelState& initial, const std::vector<ModelOp>& ops, int64_t committed,
                     const CrashJob& job = CrashJob(), const CrashBounds& bounds = CrashBounds(), size_t from = 0);
// Nothing wrong in so many states.
void expect_whole(const CrashVerdict& verdict, int at_least);

// How many files were taken from retired checkpoints to be written again.
int recycled_files(const std::vector<ModelOp>& ops);
// How many got one more name, in a later checkpoint.
int linked_files(const std::vector<ModelOp>& ops);

}  // namespace dl::ckpt::test
