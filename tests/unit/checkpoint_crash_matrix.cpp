// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/checkpoint_crash_matrix.h"

#include <fcntl.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <tuple>

namespace dl::ckpt::test {
namespace {

std::string member_path(int rank) {
  return std::string(kCrashFiles) + (rank < 0 ? "/model" : "/own" + std::to_string(rank));
}

std::string read_model_file(const ModelState& state, const std::string& path) {
  const int node = state.find(path);
  return node < 0 ? "not there" : *state.nodes[static_cast<size_t>(node)].data;
}

std::string describe_disk(const ModelState& disk) {
  std::string text;
  for (const auto& [name, node] : disk.nodes[static_cast<size_t>(std::max(disk.find(kCrashDir), 0))].entries) {
    text += "\n  " + name;
    for (const auto& [file, inner] : disk.nodes[static_cast<size_t>(node)].entries)
      text += "\n    " + file + " (#" + std::to_string(inner) + ")";
  }
  return text;
}

}  // namespace

Settings CrashJob::settings(int rank) const {
  Settings made = settings_for(kCrashDir, rank, ranks);
  made.job_id = "7";  // the next start of the same job is the heir of the lease
  made.keep = keep;
  return made;
}

PatternState CrashJob::state(int64_t step) const {
  PatternState made(weights);
  made.fill(step, weights_of(step));
  if (sizes) made.cursor += std::string(static_cast<size_t>(step % 3) * 5000, 'x');
  return made;
}

std::string CrashJob::member(int64_t step, int rank) const {
  std::string text(9000, '\0');  // three pages
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>((i + static_cast<size_t>(step * 7 + rank)) / 3);
  return text;
}

Status enroll(Context& context, const CrashJob& job, int rank, PatternState* state) {
  DL_TRY(job.ranks > 1 ? state->enroll_sharded(context, rank, job.ranks) : state->enroll(context));
  if (job.frozen) DL_TRY(state->enroll_weights(context.registry(), DLCKPT_FROZEN));
  if (!job.members) return {};
  DL_TRY(context.registry().add_member("own", member_path(rank).c_str(), true));
  return rank > 0 ? Status() : context.registry().add_member("model", member_path(-1).c_str(), false);
}

void write_members(ModelIo& io, const CrashJob& job, int rank, int64_t step) {
  if (!job.members) return;
  io.mkdir(kCrashFiles);
  ASSERT_EQ(io.fsync_directory("/"), 0);
  for (const int which : {-1, rank}) {
    if (which < 0 && rank > 0) continue;
    const std::string path = member_path(which);
    ASSERT_TRUE(replace_file(io, path, path + ".new", job.member(step, which), /*durable=*/true));
  }
  ASSERT_EQ(io.fsync_directory(kCrashFiles), 0);
}

void mark_saving(ModelIo& io, int64_t step) {
  io.mark("saving " + std::to_string(step));
}

void mark_saved(ModelIo& io, int64_t step) {
  io.mark("saved " + std::to_string(step));
}

void save_steps(ModelIo& io, int64_t first, int64_t last, const CrashJob& job) {
  setenv("SLURM_RESTART_COUNT", "0", 1);
  run_ranks(job.ranks, [&](int rank) {
    auto context = open_context(job.settings(rank), io);
    ASSERT_TRUE(context) << context.error().text;
    PatternState state(job.weights);
    for (int64_t step = first; step <= last; ++step) {
      write_members(io, job, rank, step);
      state = job.state(step);
      ASSERT_TRUE(enroll(**context, job, rank, &state));
      if (rank == 0) mark_saving(io, step);
      auto saved = (*context)->save(step);
      ASSERT_TRUE(saved) << saved.error().text;
      if (rank == 0) mark_saved(io, step);
    }
  });
}

ModelState disk_with(int64_t steps, const CrashJob& job) {
  ModelIo io(ModelState(), /*record=*/false);
  CrashJob before = job;
  before.keep = 3;
  if (steps > 0) save_steps(io, 1, steps, before);
  return io.state();
}

std::string judge(const ModelState& disk, const CrashJob& job, int64_t acknowledged, int64_t begun) {
  ModelState later = disk;
  later.now_ms += 120000;  // a machine that starts again takes its time
  ModelIo io(std::move(later), /*record=*/false);
  if (disk.find(kCrashDir) >= 0) {
    auto names = scan_checkpoints(io, kCrashDir);
    if (!names) return "cannot be listed: " + names.error().text;
    for (const CheckpointName& name : *names) {
      auto verified = verify_checkpoint(io, kCrashDir, name);
      if (!verified) return "published, but not whole: " + verified.error().text;
    }
  }
  setenv("SLURM_RESTART_COUNT", "9", 1);
  CrashJob heir = job;  // on one rank, whatever there were
  heir.ranks = 1;
  auto context = open_context(heir.settings(), io);
  if (!context) return "cannot be opened: " + context.error().text;
  PatternState state(job.weights);
  state.clear();
  if (!enroll(**context, heir, 0, &state)) return "cannot enroll";
  std::string note;
  auto restored = (*context)->restore(DLCKPT_LATEST, &note);
  if (!restored) {
    if (acknowledged < 0 && restored.error().code == Errc::kNotFound) return "";
    return "cannot be loaded: " + restored.error().text;
  }
  if (!note.empty()) return note;
  const std::string which = "train step " + std::to_string(*restored);
  if (*restored < acknowledged) return which + " although " + std::to_string(acknowledged) + " was reported as saved";
  if (*restored > begun) return which + " was never saved";
  const PatternState expected = job.state(*restored);
  const std::string* cursor = (*context)->restored_blob("data/cursor");
  if (!(state == expected) || !cursor || *cursor != expected.cursor) return which + " is not what was saved";
  if (job.members)
    for (const int rank : {-1, 0})
      if (read_model_file(io.state(), member_path(rank)) != job.member(*restored, rank))
        return which + " has another " + member_path(rank);
  return "";
}

CrashVerdict explore(const ModelState& initial, const std::vector<ModelOp>& ops, int64_t committed, const CrashJob& job,
                     const CrashBounds& bounds, size_t from) {
  CrashVerdict verdict;
  DurableState durable{initial};
  int64_t acknowledged = committed, begun = committed;
  // Most states are also those of the operation before, after which the program had been promised the same.
  std::set<std::tuple<uint64_t, int64_t, int64_t>> judged;
  for (size_t count = 0; count <= ops.size() && verdict.violation.empty(); ++count) {
    if (count > 0 && ops[count - 1].kind == ModelOp::kMark) {
      const std::string& words = ops[count - 1].name;
      const int64_t step = std::atoll(words.c_str() + words.find(' ') + 1);
      (words.compare(0, 6, "saving") == 0 ? begun : acknowledged) = step;
    }
    if (count < from) continue;
    for_each_crash(&durable, ops, count, bounds, [&](const ModelState& disk, uint64_t tree) {
      if (!verdict.violation.empty()) return;
      ++verdict.states;
      if (!judged.emplace(tree, acknowledged, begun).second) return;
      const std::string wrong = judge(disk, job, acknowledged, begun);
      if (wrong.empty()) return;
      verdict.violation = wrong + "\nafter " + std::to_string(count) + " operations, the last of them:";
      for (size_t i = count > 12 ? count - 12 : 0; i < count; ++i) verdict.violation += "\n  " + describe(ops[i]);
      verdict.violation += "\non the disk:" + describe_disk(disk);
    });
  }
  return verdict;
}

int least_made(int of) {
  // Of those that are passed over some would have been equal to others.
  return CrashBounds::kOneOf == 1 ? of : of / static_cast<int>(2 * CrashBounds::kOneOf);
}

void expect_whole(const CrashVerdict& verdict, int at_least) {
  EXPECT_EQ(verdict.violation, "");
  EXPECT_GT(verdict.states, least_made(at_least));
  testing::Test::RecordProperty("states", verdict.states);
}

int linked_files(const std::vector<ModelOp>& ops) {
  int linked = 0;
  std::set<int> made;
  for (const ModelOp& op : ops) {
    if (op.kind != ModelOp::kMake || !parse_file_name(op.name)) continue;
    // A file that was there before the record began has its first name from then.
    const bool new_file = std::any_of(ops.begin(), ops.end(), [&](const ModelOp& other) {
      return other.kind == ModelOp::kGrow && other.node == op.other;
    });
    linked += new_file && made.insert(op.other).second ? 0 : 1;
  }
  return linked;
}

int recycled_files(const std::vector<ModelOp>& ops) {
  return static_cast<int>(std::count_if(ops.begin(), ops.end(), [](const ModelOp& op) {
    return op.kind == ModelOp::kRename && op.node != op.other && parse_file_name(op.name);
  }));
}

}  // namespace dl::ckpt::test
