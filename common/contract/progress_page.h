// SPDX-License-Identifier: Apache-2.0
// The progress page: one small file, mapped shared by a learner (through libdlckpt) and by its agent (of dlrun), by
// which all learners of a job agree on one train step to save at or to stop at, without a collective in the training
// loop and without a system call when nothing is asked.
//
// Who writes what
//   learner: state, step, saved_step, save_ms, local_ms, cost_ms, noise, seen_seq, sending  agent: everything else
//
// Protocol. Let c_r be the train step that learner r last announced with dlckpt_want(c_r), which it calls before it
// runs train step c_r.
//   agent   1. request: kind = K; stop_step = kUndecided; seq = seq + 1   (sequentially consistent)
//           2. reads step (c_r) and reports it to dlrun
//   learner in want(s):  step = s; then reads seq (both sequentially consistent).
//           seq == seen_seq: nothing new, go on. Otherwise wait until stop_step is decided, then
//             s <  stop_step: go on with train step s (the request stays open)
//             s >= stop_step: seen_seq = seq, and do K with the state as it is now: s train steps are done.
//   dlrun   collects c_r from all agents, decides S = max(c_r) + 1, and the agents store stop_step = S.
// Either the learner's want(s) sees the new seq, or the agent's read sees step >= s (store-then-load on both sides, as
// in Dekker's algorithm); hence no learner passes want(c_r + 1) before it knows S, and c_r + 1 <= S: all act at the
// same S. A learner waits at most one round trip between dlrun and its agents. A request is withdrawn by kind = kNone
// and stop_step = 0, seen as "nothing to do". A learner that has not announced a step yet has step = kNoStep (-1).
#pragma once

#include <atomic>
#include <cstdint>

namespace dl {

struct ProgressPage {
  static constexpr uint64_t kMagic = 0x31474b5054434c44;  // "DLCTPKG1" in little-endian order
  static constexpr uint32_t kVersion = 1;
  static constexpr int64_t kNoStep = -1;
  static constexpr int64_t kUndecided = -1;

  // kind
  enum Request : uint32_t { kNone = 0, kSave = 1, kSaveAndExit = 2, kExitWithoutSave = 3, kSaveLocalAndExit = 4 };
  // state of the learner
  enum State : uint32_t { kNotAttached = 0, kTraining = 1, kSaving = 2, kStopped = 3, kFinished = 4 };

  uint64_t magic;
  uint32_t version;
  uint32_t reserved;

  // Written by the learner.
  alignas(64) std::atomic<uint32_t> state;
  std::atomic<uint32_t> seen_seq;
  std::atomic<int64_t> step;        // c_r, or kNoStep
  std::atomic<int64_t> saved_step;  // newest train step that this learner knows to be committed; -1: none
  // What saves take, from those measured (the 95th percentile); 0 = unknown.
  std::atomic<uint64_t> save_ms;  // until durable in the checkpoint directory
  // time until it is committed at the node-local level; 0 also if there is no such level
  std::atomic<uint64_t> local_ms;
  std::atomic<uint64_t> cost_ms;  // training time that it costs: the wait, and slower train steps during the save
  std::atomic<uint64_t> noise;    // gradient noise scale in samples, at most 10^9, plus 1; 0 = unknown
  std::atomic<uint64_t> sending;  // grows while bytes of the newest checkpoint move to an object store at the run's end

  // Written by the agent.
  alignas(64) std::atomic<uint32_t> seq;
  std::atomic<uint32_t> kind;
  std::atomic<int64_t> stop_step;
  // 1 once a stop was asked for, also if that was withdrawn because the learners are finishing: what they still do then
  // should be short.
  std::atomic<uint32_t> stop_asked;
};
static_assert(sizeof(std::atomic<int64_t>) == 8 && std::atomic<int64_t>::is_always_lock_free);
static_assert(sizeof(ProgressPage) == 192);

// Size of the file. Behind the page, the learner's vote on the number of learners has its place (vote.h).
constexpr unsigned kProgressPageBytes = 4096;

}  // namespace dl
