// SPDX-License-Identifier: Apache-2.0
// Saves that go on in the background: what the training loop may do meanwhile, what it is told, what is on disk.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "checkpoint/client/loader.h"
#include "checkpoint/engine/copy.h"
#include "checkpoint/engine/memory_limit.h"
#include "tests/unit/checkpoint_slow_io.h"
#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {
namespace {

Settings async_settings(const std::string& dir, int rank = 0, int world_size = 1) {
  Settings settings = settings_for(dir, rank, world_size);
  settings.mode = Settings::kAsync;
  return settings;
}

size_t committed(const std::string& dir) {
  return scan_checkpoints(posix_io(), dir)->size();
}

// A program of one rank in train step 1, with its state registered.
struct Training {
  explicit Training(const std::string& dir, Io& io = posix_io()) : context(*open_context(async_settings(dir), io)) {
    change_to(1);
  }
  void change_to(int64_t step) {
    state.fill(step);
    EXPECT_TRUE(state.enroll(*context));
  }
  PatternState state;
  std::unique_ptr<Context> context;  // goes first
};

// The newest checkpoint is that of `step`, whole, and holds the pattern of `step`.
void expect_newest(const std::string& dir, int64_t step, size_t weights = 40000) {
  const auto names = scan_checkpoints(posix_io(), dir);
  ASSERT_TRUE(names && !names->empty());
  EXPECT_EQ(names->front().step, step);
  auto verified = verify_checkpoint(posix_io(), dir, names->front());
  EXPECT_TRUE(verified) << verified.error().text;
  std::filesystem::remove(dir + "/LEASE");
  auto restored = restore_pattern(dir, nullptr, posix_io(), weights);
  ASSERT_TRUE(restored) << restored.error().text;
  EXPECT_EQ(*restored, step);
}

size_t entries_with(const std::string& dir, const std::string& text) {
  const std::filesystem::directory_iterator all(dir);
  return static_cast<size_t>(std::count_if(begin(all), end(all), [&](const auto& entry) {
    return entry.path().filename().string().find(text) != std::string::npos;
  }));
}

TEST(CheckpointAsync, NobodyWaitsForTheRemovalOfRetiredCheckpoints) {
  const TempDir dir;
  SlowIo io;
  Settings settings = async_settings(dir.path());
  settings.recycle = false;
  settings.keep = 1;
  PatternState state;
  {
    auto context = *open_context(settings, io);
    state.fill(1);
    ASSERT_TRUE(state.enroll(*context));
    ASSERT_TRUE(context->save(1));
    ASSERT_TRUE(context->wait(-1, nullptr));
    io.hold_removals(true);
    state.fill(2);
    ASSERT_TRUE(state.enroll(*context));
    ASSERT_TRUE(context->save(2));
    int64_t durable = -1;
    ASSERT_TRUE(context->wait(30, &durable));
    EXPECT_EQ(durable, 2);
    EXPECT_EQ(committed(dir.path()), 1U);  // the former is no checkpoint any more
    EXPECT_EQ(entries_with(dir.path(), "retired"), 1U);
    EXPECT_EQ(context->want(2), 0);
    io.hold_removals(false);
    state.fill(3);
    ASSERT_TRUE(state.enroll(*context));
    ASSERT_TRUE(context->save(3));  // takes its turn behind the removal
    ASSERT_TRUE(context->wait(-1, nullptr));
  }
  EXPECT_EQ(entries_with(dir.path(), "retired"), 0U);
  expect_newest(dir.path(), 3);
}

TEST(CheckpointAsync, TheStateMayChangeWhenTheSaveReturns) {
  const TempDir dir;
  SlowIo io;
  Training training(dir.path(), io);
  Context* const context = training.context.get();
  io.hold();
  ASSERT_TRUE(context->save(1));
  EXPECT_EQ(committed(dir.path()), 0U);
  training.state.clear();  // the next train step
  ASSERT_TRUE(context->registry().add_blob("data/cursor", "other", 5, false));
  EXPECT_EQ(context->want(1), 0);
  EXPECT_EQ(context->exit_code(), 76);
  int64_t durable = 7;
  auto waited = context->wait(0.01, &durable);
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code, Errc::kTimeout);
  EXPECT_EQ(durable, -1);
  EXPECT_EQ(context->stats().step, -1);
  io.let_go();
  ASSERT_TRUE(context->wait(-1, &durable));
  EXPECT_EQ(durable, 1);
  const SaveStats stats = context->stats();
  EXPECT_EQ(stats.step, 1);
  EXPECT_EQ(stats.saves, 1U);
  EXPECT_EQ(stats.bytes, 40000 * 4 + 200 + 8 + std::string("sample 64").size());
  EXPECT_GT(stats.written_bytes, stats.bytes);
  EXPECT_GT(stats.durable_s, 0);
  expect_newest(dir.path(), 1);
}

TEST(CheckpointAsync, ALazySaveIsCopiedWhenBeforeMutationReturns) {
  const TempDir dir;
  SlowIo io;
  auto context = *open_context(async_settings(dir.path()), io);
  PatternState state;
  ASSERT_TRUE(state.enroll(*context));
  for (int64_t step = 1; step <= 4; ++step) {
    context->before_mutation();
    state.fill(step);
    ASSERT_TRUE(state.enroll(*context));
    ASSERT_TRUE(context->save(step, DLCKPT_LAZY));
  }
  io.hold();
  context->before_mutation();
  state.clear();
  io.let_go();
  ASSERT_TRUE(context->wait(-1, nullptr));
  expect_newest(dir.path(), 4);
}

TEST(CheckpointAsync, ASecondSaveWaitsOrIsSkippedAsAsked) {
  const TempDir dir;
  SlowIo io;
  Training training(dir.path(), io);
  Context* const context = training.context.get();
  io.hold();
  ASSERT_TRUE(context->save(1, DLCKPT_SKIP_IF_BUSY));
  auto skipped = context->save(2, DLCKPT_SKIP_IF_BUSY);
  ASSERT_FALSE(skipped);
  EXPECT_EQ(skipped.error().code, Errc::kBusy);
  EXPECT_EQ(skipped.error().sys_errno, EALREADY);
  std::thread helper([&] {
    usleep(20000);
    io.let_go();
  });
  training.change_to(3);
  ASSERT_TRUE(context->save(3));
  EXPECT_EQ(committed(dir.path()), 1U);  // the first had to be there
  helper.join();
  ASSERT_TRUE(context->wait(-1, nullptr));
  EXPECT_EQ(committed(dir.path()), 2U);
  EXPECT_FALSE(context->save(4, 8));
  expect_newest(dir.path(), 3);
}

TEST(CheckpointAsync, SkippingIsTheSameOnAllRanks) {
  const TempDir dir;
  std::atomic<int> skipped{0}, saved{0};
  run_ranks(3, [&](int rank) {
    auto context = *open_context(async_settings(dir.path(), rank, 3));
    PatternState state;
    for (int64_t step = 1; step <= 8; ++step) {
      state.fill(step);
      ASSERT_TRUE(state.enroll(*context));
      auto outcome = context->save(step, DLCKPT_SKIP_IF_BUSY);
      ++(outcome ? saved : skipped);
      if (!outcome) {
        EXPECT_EQ(outcome.error().sys_errno, EALREADY) << outcome.error().text;
      }
    }
    auto waited = context->wait(-1, nullptr);
    EXPECT_TRUE(waited) << waited.error().text;
  });
  EXPECT_EQ(saved % 3, 0);
  EXPECT_EQ(skipped % 3, 0);
  EXPECT_GT(saved, 0);
}

TEST(CheckpointAsync, RanksThatSkipBeforeRankZeroHasOpenedKeepTheirFolder) {
  const TempDir dir;
  const std::string own = run_folder("test");
  for (const std::string& name : {own, own + "-skip", run_folder("other"), run_folder("other") + "-skip"})
    std::filesystem::create_directories(dir.path() + "/" + name);
  EXPECT_EQ(run_folder("test\nskip"), own + "-skip");
  ASSERT_TRUE(collect_garbage(posix_io(), dir.path(), own));
  EXPECT_EQ(leftovers(dir.path()).size(), 2U);
  ASSERT_TRUE(collect_garbage(posix_io(), dir.path(), ""));
  EXPECT_TRUE(leftovers(dir.path()).empty());
}

TEST(CheckpointAsync, AFailureIsToldByWaitAndByTheNextSave) {
  const TempDir dir;
  SlowIo io;
  Training training(dir.path(), io);
  Context* const context = training.context.get();
  io.fail_fsync();
  ASSERT_TRUE(context->save(1));
  int64_t durable = 0;
  auto waited = context->wait(-1, &durable);
  ASSERT_FALSE(waited);
  EXPECT_EQ(waited.error().code, Errc::kIo);
  EXPECT_EQ(durable, -1);
  EXPECT_EQ(context->stats().failed_saves, 1U);
  EXPECT_TRUE(leftovers(dir.path()).empty());

  io.fail_fsync();
  ASSERT_TRUE(context->save(2));
  std::string note;
  ASSERT_TRUE(context->save(3, 0, &note));
  EXPECT_NE(note.find("train step 2 failed"), std::string::npos) << note;
  note.clear();
  ASSERT_TRUE(context->save(4, 0, &note));
  EXPECT_EQ(note, "");
  ASSERT_TRUE(context->wait(-1, &durable));
  EXPECT_EQ(durable, 4);
  EXPECT_EQ(committed(dir.path()), 2U);
}

TEST(CheckpointAsync, ClosingWaits) {
  const TempDir dir;
  SlowIo io;
  Training training(dir.path(), io);
  Context* const context = training.context.get();
  io.hold();
  ASSERT_TRUE(context->save(1));
  std::thread helper([&] {
    usleep(20000);
    io.let_go();
  });
  training.context.reset();
  helper.join();
  expect_newest(dir.path(), 1);
}

TEST(CheckpointAsync, ASaveAlreadyDurableIsNotMadeAgain) {
  const TempDir dir;
  Training training(dir.path());
  Context* const context = training.context.get();
  ASSERT_TRUE(context->save(1));
  ASSERT_TRUE(context->save(1));
  ASSERT_TRUE(context->save(1, DLCKPT_SYNC));
  EXPECT_EQ(committed(dir.path()), 1U);
  EXPECT_EQ(context->stats().saves, 1U);
}

TEST(CheckpointAsync, LittleStagingMemoryIsEnough) {
  constexpr size_t kWeights = 3000000;  // 12 MB through 1 MiB
  const TempDir dir;
  for (const bool lazy : {false, true}) {
    Settings settings = async_settings(dir.path());
    settings.memory_bytes = uint64_t{1} << 20;
    auto context = *open_context(settings);
    PatternState state(kWeights);
    for (int64_t step = 1; step <= 2; ++step) {
      state.fill(step + 10 * lazy);
      ASSERT_TRUE(state.enroll(*context));
      ASSERT_TRUE(context->save(step + 10 * lazy, lazy ? DLCKPT_LAZY : 0));
      context->before_mutation();
      state.clear();
    }
    ASSERT_TRUE(context->wait(-1, nullptr));
    context.reset();
    expect_newest(dir.path(), 2 + 10 * lazy, kWeights);
  }
}

TEST(CheckpointAsync, AFullDiskDoesNotKeepTheCopyWaiting) {
  const TempDir dir;
  Settings settings = async_settings(dir.path());
  settings.memory_bytes = uint64_t{1} << 20;
  auto probe = FaultyIo(FaultyIo::kErrno, INT32_MAX);
  PatternState state(3000000);
  state.fill(1);
  int before = 0;
  {
    auto context = *open_context(settings, probe);
    before = probe.count();
    ASSERT_TRUE(state.enroll(*context));
    ASSERT_TRUE(context->save(1, DLCKPT_SYNC));
  }
  for (int at = before; at < before + 12; ++at) {
    FaultyIo io(FaultyIo::kErrno, at, ENOSPC);
    auto context = *open_context(settings, io);
    ASSERT_TRUE(state.enroll(*context));
    ASSERT_TRUE(context->save(2 + at));
    auto waited = context->wait(-1, nullptr);
    if (!waited) {
      EXPECT_EQ(waited.error().code, Errc::kNoSpace) << waited.error().text;
    }
  }
}

TEST(CheckpointAsync, BlobsOfOtherSizesNeedNoNewLayout) {
  const TempDir dir;
  Engine engine(posix_io(), EngineSettings{});
  std::vector<float> values(20000, 1.5F);
  for (const size_t size : {0, 1, 100, 70000, 5}) {
    const std::string blob(size, 'b');
    std::vector<WriteItem> items;
    for (int i = 0; i < 50; ++i) {
      WriteItem item;
      const Dims shape{400 * (i + 1)};
      item.dataset =
          std::make_shared<const LayoutItem>(LayoutItem{"/t" + std::to_string(i) + "/s0", "t" + std::to_string(i),
                                                        find_dtype(DLCKPT_F32), shape, whole(shape), false, false});
      item.data = values.data();
      items.push_back(item);
    }
    WriteItem item;
    const Dims shape{static_cast<int64_t>(size)};
    item.dataset = std::make_shared<const LayoutItem>(
        LayoutItem{"/cursor/b0", "cursor", find_dtype(DLCKPT_U8), shape, whole(shape), false, true});
    item.data = blob.data();
    items.push_back(item);
    auto job = engine.prepare(items);
    ASSERT_TRUE(job) << job.error().text;
    (*job)->copy(engine.pool());
    const std::string folder = dir.path() + "/" + std::to_string(size);
    std::filesystem::create_directory(folder);
    auto written = (*job)->write(posix_io(), engine.queue(), folder, FileIdentity{CheckpointName{1, 1}, 0, 1});
    ASSERT_TRUE(written) << written.error().text;
    const FileRecord& record = (*job)->records().front();
    const std::string bytes = read_file(folder + "/r00000.h5");
    ASSERT_EQ(bytes.size(), record.size);
    EXPECT_TRUE(check_table(record.blocks, 4096, record.size, record.table));
    for (const Block& block : record.blocks) EXPECT_EQ(hash_bytes(bytes.data() + block.at, block.length), block.hash);
    EXPECT_EQ(bytes.substr((*job)->images()[0].places().back(), size), size ? blob : "");
  }
  EXPECT_EQ(engine.layouts_made(), 1U);
}

TEST(CheckpointAsync, MemoryWithGapsIsStoredInCOrder) {
  const TempDir dir;
  const int64_t rows = 700, columns = 333;
  std::vector<uint32_t> transposed(static_cast<size_t>(rows * columns)), back(transposed.size());
  for (size_t i = 0; i < transposed.size(); ++i) transposed[i] = static_cast<uint32_t>(i * 2654435761U);
  const int64_t shape[] = {rows, columns}, strides[] = {4, 4 * rows};
  {
    auto context = *open_context(async_settings(dir.path()));
    ASSERT_TRUE(
        context->registry().add_tensor("m", DLCKPT_U32, 2, shape, nullptr, nullptr, transposed.data(), 0, strides));
    ASSERT_TRUE(context->save(1));
    ASSERT_TRUE(context->wait(-1, nullptr));
  }
  auto context = *open_context(settings_for(dir.path()));
  ASSERT_TRUE(context->registry().add_tensor("m", DLCKPT_U32, 2, shape, nullptr, nullptr, back.data(), 0));
  std::string note;
  ASSERT_TRUE(context->restore(1, &note));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      ASSERT_EQ(back[static_cast<size_t>(r * columns + c)], transposed[static_cast<size_t>(c * rows + r)]);
}

TEST(CheckpointAsync, RanksSaveTogetherInTheBackground) {
  const TempDir dir;
  run_ranks(3, [&](int rank) {
    auto context = *open_context(async_settings(dir.path(), rank, 3));
    PatternState state(300000);
    for (int64_t step = 1; step <= 4; ++step) {
      state.fill(step);
      ASSERT_TRUE(state.enroll(*context));
      auto saved = context->save(step, step % 2 ? 0 : DLCKPT_LAZY);
      ASSERT_TRUE(saved) << saved.error().text;
      EXPECT_GE(context->want(step), 0);
      context->before_mutation();
    }
    int64_t durable = 0;
    auto waited = context->wait(-1, &durable);
    ASSERT_TRUE(waited) << waited.error().text;
    EXPECT_EQ(durable, 4);
  });
  expect_newest(dir.path(), 4, 300000);
}

uint64_t inode(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

TEST(CheckpointAsync, FilesOfRetiredCheckpointsAreWrittenAgainInPlace) {
  const TempDir dir;
  for (const bool recycle : {true, false}) {
    Settings settings = async_settings(dir.path());
    settings.keep = 1;
    settings.recycle = recycle;
    auto context = *open_context(settings);
    PatternState state;
    std::vector<uint64_t> inodes;
    for (int64_t step = 1; step <= 5; ++step) {
      state.fill(step);
      state.cursor += std::string(static_cast<size_t>(step % 3) * 5000, 'x');  // files of other sizes
      ASSERT_TRUE(state.enroll(*context));
      ASSERT_TRUE(context->save(step, DLCKPT_SYNC));
      EXPECT_EQ(committed(dir.path()), 1U);
      const auto name = scan_checkpoints(posix_io(), dir.path())->front();
      ASSERT_TRUE(verify_checkpoint(posix_io(), dir.path(), name));
      inodes.push_back(inode(newest_path(dir.path()) + "/r00000.h5"));
    }
    if (recycle) {
      EXPECT_EQ(inodes[2], inodes[0]);
      EXPECT_EQ(inodes[3], inodes[1]);
      EXPECT_EQ(inodes[4], inodes[2]);
    }
    context.reset();
    EXPECT_TRUE(leftovers(dir.path()).empty());
    std::filesystem::remove_all(newest_path(dir.path()));
  }
}

TEST(CheckpointAsync, AFileThatSomebodyLinkedIsNeverOverwritten) {
  const TempDir dir;
  Settings settings = async_settings(dir.path() + "/c");
  settings.keep = 1;
  auto context = *open_context(settings);
  PatternState state;
  const std::string mine = dir.path() + "/mine.h5";
  std::string kept;
  for (int64_t step = 1; step <= 4; ++step) {
    state.fill(step);
    ASSERT_TRUE(state.enroll(*context));
    ASSERT_TRUE(context->save(step, DLCKPT_SYNC));
    if (step == 1) {
      std::filesystem::create_hard_link(newest_path(dir.path() + "/c") + "/r00000.h5", mine);
      kept = read_file(mine);
    }
    EXPECT_TRUE(read_file(mine) == kept);
  }
}

TEST(CheckpointAsync, EveryWayOfWritingWritesTheSame) {
  const TempDir dir;
  std::vector<unsigned char, std::allocator<unsigned char>> unaligned(4096 * 64 + 4096);
  auto* bytes = reinterpret_cast<unsigned char*>(round_up(reinterpret_cast<uintptr_t>(unaligned.data()), 4096));
  for (size_t i = 0; i < 4096 * 60; ++i) bytes[i] = static_cast<unsigned char>(i * 31 + i / 4096);
  std::vector<std::unique_ptr<WriteQueue>> queues;
  queues.push_back(make_thread_queue(0));
  queues.push_back(make_thread_queue(3));
  if (auto uring = make_uring_queue(4)) queues.push_back(std::move(uring));
  for (size_t way = 0; way < queues.size(); ++way) {
    SCOPED_TRACE("way " + std::to_string(way));
    const auto& queue = queues[way];
    const std::string path = dir.path() + "/" + std::to_string(way);
    auto file = DirectOutput::open(posix_io(), path, O_WRONLY | O_CREAT | O_EXCL);
    ASSERT_TRUE(file);
    std::atomic<int> done{0};
    for (size_t page = 0; page < 60; ++page)
      queue->submit(**file, bytes + 4096 * page, 4096, 4096 * page, [&] { ++done; });
    auto finished = queue->finish();
    EXPECT_TRUE(finished) << finished.error().text;
    EXPECT_EQ(done, 60);
    ASSERT_TRUE((*file)->sync());
    ASSERT_TRUE((*file)->close());
    EXPECT_EQ(read_file(path), std::string(reinterpret_cast<char*>(bytes), 4096 * 60));
    // Writes that fail are told once, and all give their memory back.
    auto readonly = DirectOutput::open(posix_io(), path, O_RDONLY);
    ASSERT_TRUE(readonly);
    for (size_t page = 0; page < 20; ++page)
      queue->submit(**readonly, bytes + 4096 * page, 4096, 4096 * page, [&] { ++done; });
    EXPECT_FALSE(queue->finish());
    EXPECT_EQ(done, 80);
    EXPECT_TRUE(queue->finish());
  }
}

TEST(CheckpointAsync, CopiesOfEverySizeAndAlignment) {
  std::vector<unsigned char> from(300000), to(300100);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(i * 7 + i / 256);
  for (const size_t size : {0, 1, 31, 65535, 65536, 65537, 131072 + 33, 262144 + 127}) {
    for (const size_t shift : {0, 1, 17, 31}) {
      std::fill(to.begin(), to.end(), static_cast<unsigned char>(0xAB));
      copy_past_caches(to.data() + shift, from.data() + shift / 2, size);
      ASSERT_EQ(std::memcmp(to.data() + shift, from.data() + shift / 2, size), 0);
      ASSERT_EQ(to[shift + size], 0xAB);
      if (shift > 0) {
        ASSERT_EQ(to[shift - 1], 0xAB);
      }
    }
  }
}

TEST(CheckpointAsync, TheTightestCgroupCounts) {
  const TempDir dir;
  const auto group = [&](const std::string& path, const std::string& limit_name, const std::string& limit,
                         const std::string& used_name, const std::string& used, const std::string& stat) {
    std::filesystem::create_directories(dir.path() + path);
    write_file(dir.path() + path + "/" + limit_name, limit);
    write_file(dir.path() + path + "/" + used_name, used);
    write_file(dir.path() + path + "/memory.stat", stat);
  };
  const std::string self = dir.path() + "/self";
  write_file(self, "0::/job_1/step_0/task\n");
  EXPECT_FALSE(memory_room(self, dir.path()));
  group("/job_1/step_0/task", "memory.max", "max\n", "memory.current", "1000\n", "inactive_file 0\n");
  EXPECT_FALSE(memory_room(self, dir.path()));
  group("/job_1/step_0", "memory.max", "9000\n", "memory.current", "5000\n", "anon 10\ninactive_file 3000\n");
  group("/job_1", "memory.max", "10000\n", "memory.current", "5000\n", "inactive_file 1000\n");
  auto room = memory_room(self, dir.path());
  ASSERT_TRUE(room);
  EXPECT_EQ(room->limit, 10000U);
  EXPECT_EQ(room->left(), 6000U);
  group("/memory/slurm/job_1", "memory.limit_in_bytes", "4000\n", "memory.usage_in_bytes", "4500\n",
        "total_inactive_file 100\n");
  group("/memory/slurm", "memory.limit_in_bytes", "9223372036854771712\n", "memory.usage_in_bytes", "4500\n", "");
  write_file(self, "3:cpu:/x\n2:devices,memory:/slurm/job_1\n0::/elsewhere\n");
  room = memory_room(self, dir.path());
  ASSERT_TRUE(room);
  EXPECT_EQ(room->limit, 4000U);
  EXPECT_EQ(room->left(), 0U);
}

TEST(CheckpointAsync, ReadersKeepTheDiskBusyWithinTheMemoryThatIsLeft) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  EXPECT_EQ(usual_read_threads(1, std::nullopt), 32);
  EXPECT_EQ(usual_read_threads(1, 4096 * kMiB), 32);
  EXPECT_EQ(usual_read_threads(1, 320 * kMiB), 10);
  EXPECT_EQ(usual_read_threads(1, 0), 4);
  EXPECT_EQ(usual_read_threads(8, std::nullopt), 2);
}

TEST(CheckpointAsync, TheCApiSavesInTheBackgroundAndAForkedChildMayClose) {
  const TempDir dir;
  dlckpt_options options{};
  options.struct_size = sizeof options;
  options.dir = dir.path().c_str();
  options.world_size = 1;
  dlckpt_ctx* ctx = nullptr;
  ASSERT_EQ(dlckpt_open(&options, &ctx), DLCKPT_OK) << dlckpt_open_error();
  std::vector<float> values(100000, 2.5F);
  const int64_t shape = 100000;
  ASSERT_EQ(dlckpt_tensor(ctx, "w", DLCKPT_F32, 1, &shape, nullptr, nullptr, values.data(), 0), DLCKPT_OK);
  EXPECT_EQ(dlckpt_wait(ctx, 0, nullptr), DLCKPT_OK);
  ASSERT_EQ(dlckpt_save(ctx, 1), DLCKPT_OK) << dlckpt_errmsg(ctx);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    dlckpt_close(ctx);
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_EQ(dlckpt_save_flags(ctx, 2, DLCKPT_LAZY), DLCKPT_OK);
  ASSERT_EQ(dlckpt_before_mutation(ctx), DLCKPT_OK);
  int64_t durable = -1;
  ASSERT_EQ(dlckpt_wait(ctx, 60, &durable), DLCKPT_OK);
  EXPECT_EQ(durable, 2);
  dlckpt_save_stats stats{};
  EXPECT_EQ(dlckpt_stats(ctx, &stats), DLCKPT_E_INVALID);
  stats.struct_size = sizeof stats;
  ASSERT_EQ(dlckpt_stats(ctx, &stats), DLCKPT_OK);
  EXPECT_EQ(stats.step, 2);
  EXPECT_EQ(stats.saves, 2U);
  EXPECT_EQ(stats.outcome, DLCKPT_OK);
  EXPECT_EQ(dlckpt_save_flags(ctx, 3, 64), DLCKPT_E_INVALID);
  dlckpt_close(ctx);
  options.mode = 4;
  EXPECT_EQ(dlckpt_open(&options, &ctx), DLCKPT_E_INVALID);
  options.mode = 0;
  options.memory_bytes = 5;
  EXPECT_EQ(dlckpt_open(&options, &ctx), DLCKPT_E_INVALID);
}

}  // namespace
}  // namespace dl::ckpt::test
