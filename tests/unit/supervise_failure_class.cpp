// SPDX-License-Identifier: Apache-2.0
// Classes of failure, their signatures, and what follows from them: tables.
#include "launcher/supervise/failure_class.h"

#include <gtest/gtest.h>

#include <csignal>

#include "common/contract/exit_codes.h"
#include "launcher/supervise/restart_policy.h"

namespace dl::supervise {
namespace {

using Kind = Failure::Kind;
using Action = EndDecision::Action;

Failure failure(Kind kind, int number, std::vector<std::string> lines = {}, const std::string& exception = "") {
  Failure f;
  f.kind = kind;
  (kind == Kind::kSignal ? f.signal : f.exit) = number;
  f.last_lines = std::move(lines);
  f.exception = exception;
  return f;
}
Failure not_started(const std::string& text) {
  Failure f = failure(Kind::kNotStarted, 71);
  f.text = text;
  return f;
}
Failure with_memory(Failure f) {
  f.memory = true;
  return f;
}
Failure at_step(Failure f, int64_t step) {
  f.step = step;
  return f;
}

TEST(FailureClassTest, Table) {
  struct Row {
    Failure failure;
    const char* name;
    const char* code;
    Fault fault;
    Answer answer;
  };
  const Fault yours = Fault::kYours, ours = Fault::kOurs;
  const Row rows[] = {
      {failure(Kind::kExit, 1), "exit", "C201", yours, Answer::kRestart},
      {failure(Kind::kExit, 93), "given-up", "C202", yours, Answer::kFail},
      {failure(Kind::kExit, 93, {"No space left on device"}), "given-up", "C202", yours, Answer::kFail},
      {failure(Kind::kNotStarted, 127), "no-command", "C101", yours, Answer::kFail},
      {failure(Kind::kNotStarted, 71), "not-started", "S101", ours, Answer::kFail},
      {not_started("srun: Permission denied"), "not-started", "S101", ours, Answer::kFail},
      {not_started("write /job/plan.json: No space left on device"), "storage-full", "S306", ours, Answer::kHold},
      {not_started("open /job/logs/learner-0.log: Disk quota exceeded"), "quota", "C220", yours, Answer::kHold},
      {failure(Kind::kExit, 4, {"last save: the disk of the checkpoint directory is full"}), "storage-full", "S306",
       ours, Answer::kHold},
      {failure(Kind::kAgentLost, 0), "node", "S104", ours, Answer::kExclude},
      {failure(Kind::kAgentLost, 0, {"CUDA out of memory"}), "node", "S104", ours, Answer::kExclude},
      {failure(Kind::kNoAgent, 71), "no-agent", "S102", ours, Answer::kExclude},
      {failure(Kind::kHang, 0), "no-progress", "S220", ours, Answer::kRestart},
      {failure(Kind::kSignal, SIGSEGV), "crash", "C201", yours, Answer::kRestart},
      {failure(Kind::kSignal, SIGKILL), "killed", "C201", yours, Answer::kRestart},
      {with_memory(failure(Kind::kSignal, SIGKILL)), "memory", "C210", yours, Answer::kRestart},
      {failure(Kind::kExit, 1, {}, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"),
       "gpu-memory", "C211", yours, Answer::kRestart},
      {failure(Kind::kExit, 1, {"RuntimeError: CUDA error: uncorrectable ECC error encountered"}), "gpu", "S110", ours,
       Answer::kExclude},
      {failure(Kind::kExit, 1, {"NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."}), "gpu", "S110", ours,
       Answer::kExclude},
      {failure(Kind::kExit, 1, {"RuntimeError: No CUDA GPUs", "RuntimeError: no CUDA-capable device is detected"}),
       "gpu-driver", "S111", ours, Answer::kExclude},
      {failure(Kind::kSignal, SIGABRT, {"n1:7:9 [0] NCCL WARN NET/IB : Got completion from peer with error 12"}),
       "network", "S120", ours, Answer::kRestart},
      {failure(Kind::kExit, 1, {"torch.distributed.DistBackendError: unhandled system error, NCCL version 2.20"}),
       "network", "S120", ours, Answer::kRestart},
      {failure(Kind::kExit, 1, {"OSError: [Errno 28] No space left on device: 'x'"}), "storage-full", "S306", ours,
       Answer::kHold},
      {failure(Kind::kExit, 1, {"OSError: [Errno 122] Disk quota exceeded"}), "quota", "C220", yours, Answer::kHold},
      {failure(Kind::kExit, 1, {"OSError: [Errno 116] Stale file handle"}), "storage", "S307", ours, Answer::kExclude},
      {failure(Kind::kExit, 1, {}, "SyntaxError: invalid syntax"), "syntax", "C204", yours, Answer::kFail},
      {failure(Kind::kExit, 1, {}, "RuntimeError: use_libuv was requested but PyTorch was build without libuv support"),
       "no-libuv", "C205", yours, Answer::kFail},
      {failure(Kind::kExit, 1, {"caught a SyntaxError: ignored"}), "exit", "C201", yours, Answer::kRestart},
      {failure(Kind::kExit, 1, {"RuntimeError: The server socket: Address already in use"}), "port", "S121", ours,
       Answer::kRestart},
      // The reason and its consequence in one log.
      {failure(Kind::kExit, 1, {"ncclRemoteError", "RuntimeError: CUDA error: uncorrectable ECC error"}), "gpu", "S110",
       ours, Answer::kExclude},
  };
  for (const Row& row : rows) {
    const FailureClass got = classify(row.failure, {});
    EXPECT_EQ(got.name, row.name);
    EXPECT_EQ(got.code, row.code) << row.name;
    EXPECT_EQ(static_cast<int>(got.fault), static_cast<int>(row.fault)) << row.name;
    EXPECT_EQ(static_cast<int>(got.answer), static_cast<int>(row.answer)) << row.name;
    EXPECT_EQ(got.code[0], got.fault == Fault::kYours ? 'C' : 'S') << row.name;
  }
}

TEST(FailureClassTest, TheSitesRowsComeFirst) {
  FailureRow fabric;
  fabric.pattern = "mlx5_core .* timed out";
  fabric.name = "fabric";
  fabric.answer = Answer::kExclude;
  FailureRow gpu;
  gpu.pattern = "cudaErrorSoft";
  gpu.name = "gpu";
  gpu.budget = 4;
  const std::vector<FailureRow> site{fabric, gpu};
  const FailureClass own =
      classify(failure(Kind::kExit, 1, {"No space left on device", "mlx5_core 0 timed out"}), site);
  EXPECT_EQ(own.name, "fabric");
  EXPECT_EQ(own.code, "S199");
  EXPECT_EQ(own.answer, Answer::kExclude);
  EXPECT_EQ(own.budget, -1);
  const FailureClass known = classify(failure(Kind::kExit, 1, {}, "RuntimeError: cudaErrorSoft"), site);
  EXPECT_EQ(known.code, "S110") << "a built-in class keeps its code";
  EXPECT_EQ(known.budget, 4);
  EXPECT_EQ(classify(failure(Kind::kExit, 93, {"cudaErrorSoft"}), site).name, "given-up");
  EXPECT_EQ(classify(failure(Kind::kAgentLost, 0, {"cudaErrorSoft"}), site).name, "node");
  EXPECT_EQ(format_class(own), "fabric (S199, ours)");
}

TEST(FailureSignatureTest, IsTheSameForTheSameFailureAlone) {
  const auto signature = [](const Failure& f) { return failure_signature(f, classify(f, {})); };
  const Failure base = at_step(failure(Kind::kExit, 1, {}, "ValueError: rank 3 at 0x7f3a2b: got 17.5"), 15);
  Failure other = base;
  other.rank = 5;
  other.host = "n9";
  other.exception = "ValueError: rank 11 at 0x55e0: got 3";
  EXPECT_EQ(signature(base), signature(other));
  EXPECT_FALSE(signature(base).empty());
  EXPECT_NE(signature(base), signature(at_step(base, 16)));
  other.exception = "KeyError: rank 3 at 0x7f3a2b: got 17.5";
  EXPECT_NE(signature(base), signature(other));
  EXPECT_NE(signature(base), signature(at_step(failure(Kind::kExit, 2, {}, base.exception), 15)));
  EXPECT_EQ(signature(at_step(base, -1)), "") << "no train step is known";
  EXPECT_EQ(signature(at_step(failure(Kind::kExit, 1, {"fallen off the bus"}), 15)), "") << "ours";
}

TEST(FailureSignatureTest, CountsAttemptsNotLearners) {
  const auto event = [](int attempt, int learner, const char* signature) {
    record::Event e;
    e.attempt = attempt;
    if (learner >= 0) e.learner = learner;
    e.state = learner >= 0 ? record::JobState::kFailed : record::JobState::kHalted;
    e.signature = signature;
    return e;
  };
  std::vector<record::Event> events{event(1, 0, "a"), event(1, 1, "a"), event(2, 1, "b")};
  EXPECT_EQ(attempts_with("a", events), 1);
  events.push_back(event(3, 2, "a"));
  EXPECT_EQ(attempts_with("a", events), 2);
  EXPECT_EQ(attempts_with("", events), 0);
  events.push_back(event(3, -1, ""));
  EXPECT_EQ(attempts_with("a", events), 0) << "a person has looked at it";
}

TEST(AnswerTest, Table) {
  struct Row {
    const char* what;
    Failure failure;
    int restarts_done, restarts_max, class_restarts, same_failure, without_progress;
    bool measurable, can_requeue;
    Action action;
    bool exclude;
    const char* says;
  };
  const Failure plain = at_step(failure(Kind::kExit, 3), 15);
  const Failure gpu = failure(Kind::kExit, 1, {"fallen off the bus"});
  const Failure full = failure(Kind::kExit, 1, {"No space left on device"});
  const Failure oom = failure(Kind::kExit, 1, {}, "OutOfMemoryError: CUDA out of memory");
  const Row rows[] = {
      {"the first time", plain, 0, 9, 0, 1, 1, true, true, Action::kRestart, false, "code 3"},
      {"the same twice", plain, 1, 9, 1, 2, 1, true, true, Action::kFail, false,
       "exited with code 3; the same failure at train step 15 in 2 attempts: not started again"},
      {"given up", failure(Kind::kExit, kExitDoNotRestart), 0, 9, 0, 0, 0, true, true, Action::kFail, false, "93"},
      {"a broken GPU", gpu, 0, 9, 0, 0, 0, true, true, Action::kRequeue, true, "code 1"},
      {"also without restarts", gpu, 0, 0, 0, 0, 0, true, true, Action::kRequeue, true, "code 1"},
      {"that leads nowhere", gpu, 0, 9, 0, 0, 2, true, true, Action::kHold, false, "held: 2 attempts"},
      {"that cannot go back", gpu, 0, 9, 0, 0, 0, true, false, Action::kRestart, false, "code 1"},
      {"that has no checkpoint", gpu, 0, 9, 0, 0, 0, false, true, Action::kRestart, false, "code 1"},
      {"a full disk", full, 0, 9, 0, 0, 0, true, true, Action::kHold, false, "code 1; class storage-full (S306, ours)"},
      {"without Slurm", full, 0, 9, 0, 0, 0, true, false, Action::kFail, false, "code 1"},
      {"out of memory once", oom, 0, 9, 0, 0, 0, true, true, Action::kRestart, false, "CUDA out of memory"},
      {"again", oom, 1, 9, 1, 0, 0, true, true, Action::kFail, false,
       "; at most 1 restart after failures of class gpu-memory"},
      {"an agent killed: in place first", failure(Kind::kAgentLost, 0), 0, 1, 0, 0, 0, true, true, Action::kRestart,
       false, "lost"},
  };
  for (const Row& row : rows) {
    AttemptEnd end;
    end.failure = row.failure;
    end.failure_class = classify(row.failure, {});
    RestartLimits limits;
    limits.restarts_done = row.restarts_done;
    limits.restarts_max = row.restarts_max;
    limits.class_restarts = row.class_restarts;
    limits.same_failure = row.same_failure;
    limits.without_progress = row.without_progress;
    limits.measurable = row.measurable;
    limits.can_requeue = row.can_requeue;
    const EndDecision decision = decide_end(end, limits);
    EXPECT_EQ(static_cast<int>(decision.action), static_cast<int>(row.action)) << row.what << ": " << decision.reason;
    EXPECT_EQ(decision.exclude_node && decision.action == Action::kRequeue, row.exclude) << row.what;
    EXPECT_NE(decision.reason.find(row.says), std::string::npos) << row.what << ": " << decision.reason;
  }
}

TEST(DescribeTest, TheLearnersOwnWordsAreCutWhereACharacterEnds) {
  Failure f = failure(Kind::kExit, 1, {}, "KeyError: 'lr'");
  EXPECT_EQ(describe(f), "learner 0 exited with code 1: KeyError: 'lr'");
  f.exception = "E: " + std::string(236, 'x') + "\xc3\xa4\xc3\xa4";
  EXPECT_EQ(describe(f).substr(describe(f).size() - 5), "xx...");
  EXPECT_EQ(describe(with_memory(failure(Kind::kSignal, SIGKILL))),
            "learner 0 was killed by signal 9 (SIGKILL): out of memory");
}

}  // namespace
}  // namespace dl::supervise
