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
  // The train step whose weights are saved as those of `step`: an earlier one if they have not changed since.
  std::function<int64_t(int64_t)> weights_of = [](int64_t step) { return step; };

  Settings settings(int rank = 0) const;
  PatternState state(int64_t step) const;
  // The content of a member in the save of `step`; rank -1: of the member that all ranks share.
  std::string member(int64_t step, int rank) const;
};

// Registers state and members of one rank.
Status enroll(Context& context, const CrashJob& job, int rank, PatternState* state);
// What the program does before it saves: replaces its own files, durably.
void write_members(ModelIo& io, const CrashJob& job, int rank, int64_t step);
// Note in the record that the save of `step` begins, or was reported as done.
void mark_saving(ModelIo& io, int64_t step);
void mark_saved(ModelIo& io, int64_t step);

// Saves train steps first..last in one run, each marked in the record.
void save_steps(ModelIo& io, int64_t first, int64_t last, const CrashJob& job);
// A disk on which train steps 1..steps are committed, and everything is durable.
ModelState disk_with(int64_t steps, const CrashJob& job = CrashJob());

// Judges what the next start of the job finds on `disk`; returns what is wrong, or an empty text. Every published
// checkpoint must be whole, and the newest one must load as it was saved, with a train step from `acknowledged` to
// `begun` (acknowledged -1: there may also be none).
std::string judge(const ModelState& disk, const CrashJob& job, int64_t acknowledged, int64_t begun);

struct CrashVerdict {
  int states = 0;
  std::string violation;  // the first one found; empty: none
};
// Tries a power loss after each number of the recorded operations `ops`, from `from` on; they began with the disk
// `initial`. `committed`: train step that was committed on `initial`, or -1.
CrashVerdict explore(const ModelState& initial, const std::vector<ModelOp>& ops, int64_t committed,
                     const CrashJob& job = CrashJob(), const CrashBounds& bounds = CrashBounds(), size_t from = 0);
// The least number of states that explore() makes where it would make `of` without passing over any
// (CrashBounds::kOneOf).
int least_made(int of);
// Expects that nothing is wrong, and that more than `at_least` states were tried, or that part of them that is made.
void expect_whole(const CrashVerdict& verdict, int at_least);

// How many files of retired checkpoints were overwritten for new ones.
int recycled_files(const std::vector<ModelOp>& ops);
// How many files got a hard link in a later checkpoint.
int linked_files(const std::vector<ModelOp>& ops);

}  // namespace dl::ckpt::test
