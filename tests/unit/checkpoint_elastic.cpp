// SPDX-License-Identifier: Apache-2.0
// The elastic matrix: N ranks save, M ranks restore, every sharding the API can express on either side, against an
// oracle that knows the value of each byte. And each stored byte is read once, by all ranks together.
//
// A run takes a fixed subset of the pairs; DL_TEST_ELASTIC=full takes N, M in 1..8 and 16, each with several seeds.
#include <sys/socket.h>

#include <cstdlib>
#include <random>
#include <set>

#include "checkpoint/device/strided.h"
#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {
namespace {

constexpr unsigned char kFiller = 0xA5;

enum Kind { kWhole, kRows, kMesh, kReplicatedRows, kReplicatedMesh, kCyclic, kKinds };

int largest_divisor(int n) {
  int found = 1;
  for (int d = 2; d * d <= n; ++d)
    if (n % d == 0) found = d;
  return found;
}

// Cuts a size unevenly: the first parts get little or nothing.
std::pair<int64_t, int64_t> uneven(int64_t size, int part, int parts) {
  const auto cut = [&](int64_t p) { return size * p * p / (int64_t{parts} * parts); };
  return {cut(part), cut(part + 1) - cut(part)};
}

struct Sharding {
  Kind kind = kWhole;
  size_t dim = 0;
  bool replicated = false, boxed = false;

  // The boxes of one rank.
  std::vector<Box> boxes(const Dims& shape, int rank, int ranks) const {
    Box box = whole(shape);
    const auto cut = [&](size_t d, int part, int parts) {
      std::tie(box.offset[d], box.extent[d]) = uneven(shape[d], part, parts);
    };
    const int groups = largest_divisor(ranks);
    switch (kind) {
      case kRows:
        cut(dim, rank, ranks);
        break;
      case kReplicatedRows:  // HSDP: sharded within a group, the same in each group
        cut(dim, rank % (ranks / groups), ranks / groups);
        break;
      case kMesh:
        cut(0, rank / groups, ranks / groups);
        cut(1, rank % groups, groups);
        break;
      case kReplicatedMesh: {  // a mesh, twice where the number of ranks is even
        const int mesh = ranks % 2 == 0 ? ranks / 2 : ranks, columns = largest_divisor(mesh), r = rank % mesh;
        cut(0, r / columns, mesh / columns);
        cut(1, r % columns, columns);
        break;
      }
      case kCyclic: {  // rows dealt out in turn
        std::vector<Box> dealt;
        for (int64_t row = rank; row < shape[0]; row += ranks) {
          box.offset[0] = row;
          box.extent[0] = 1;
          dealt.push_back(box);
        }
        if (dealt.empty()) {
          box.extent[0] = 0;
          dealt.push_back(box);
        }
        return dealt;
      }
      default:
        break;
    }
    return {box};
  }
};

Sharding draw_sharding(std::mt19937& random, const Dims& shape) {
  Sharding sharding;
  sharding.kind = static_cast<Kind>(random() % kKinds);
  if (shape.empty()) sharding.kind = kWhole;
  if (shape.size() < 2 && (sharding.kind == kMesh || sharding.kind == kReplicatedMesh)) sharding.kind = kRows;
  if (!shape.empty()) sharding.dim = random() % shape.size();
  sharding.replicated = sharding.kind == kWhole || sharding.kind == kReplicatedRows || sharding.kind == kReplicatedMesh;
  sharding.boxed = sharding.kind != kWhole;
  return sharding;
}

struct Subject {
  std::string path;
  const DtypeInfo* dtype = nullptr;
  Dims shape;
  uint64_t seed = 0;

  // The oracle: byte `byte` of the element at a position.
  unsigned char value(int64_t element, size_t byte) const {
    uint64_t x = seed + (static_cast<uint64_t>(element) * dtype->size + byte) * 0x9E3779B97F4A7C15U;
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9U;
    return static_cast<unsigned char>(x >> 32);
  }
};

// A box in memory of any layout.
struct Held {
  Box box;
  Dims strides;
  std::vector<unsigned char> bytes;
  size_t first = 0;

  Held(const Box& held, size_t size, std::mt19937& random) : box(held) {
    std::vector<size_t> order(box.extent.size());
    for (size_t d = 0; d < order.size(); ++d) order[d] = d;
    const bool plain = random() % 2 == 0;
    if (!plain) std::shuffle(order.begin(), order.end(), random);
    strides.resize(order.size());
    auto stride = static_cast<int64_t>(size);
    int64_t negative = 0, span = stride;
    for (size_t i = order.size(); i-- > 0;) {
      const size_t d = order[i];
      if (!plain && random() % 4 == 0) stride += static_cast<int64_t>(1 + random() % 24);  // a gap
      strides[d] = stride;
      const int64_t reach = stride * std::max<int64_t>(box.extent[d] - 1, 0);
      span += reach;
      if (!plain && random() % 6 == 0) {
        strides[d] = -stride;
        negative += reach;
      }
      stride *= std::max<int64_t>(box.extent[d], 1);
      stride = std::max(stride, span);
    }
    const size_t skew = random() % 9;  // not aligned to anything
    first = skew + static_cast<size_t>(negative);
    bytes.assign(skew + static_cast<size_t>(span) + 8, kFiller);
  }

  // Calls visit(global position, pointer to the element).
  template <typename Visit>
  void each(const Dims& shape, Visit&& visit) {
    const uint64_t count = *volume(box.extent);
    Dims at(box.extent.size(), 0);
    for (uint64_t i = 0; i < count; ++i) {
      int64_t linear = 0, offset = 0;
      for (size_t d = 0; d < at.size(); ++d) {
        linear = linear * shape[d] + box.offset[d] + at[d];
        offset += at[d] * strides[d];
      }
      visit(linear, bytes.data() + static_cast<int64_t>(first) + offset);
      for (size_t d = at.size(); d-- > 0;) {
        if (++at[d] < box.extent[d]) break;
        at[d] = 0;
      }
    }
  }
};

std::vector<Subject> draw_subjects(std::mt19937& random) {
  std::vector<Subject> subjects;
  const auto add = [&](const Dims& shape, int dtype) {
    Subject one;
    one.path = "t" + std::to_string(subjects.size()) + "/x";
    one.dtype = find_dtype(dtype);
    one.shape = shape;
    one.seed = random();
    subjects.push_back(std::move(one));
  };
  // Every dtype, with shapes of all sorts: scalars, empty ones, fewer rows than ranks, sizes that divide by nothing.
  for (int dtype = DLCKPT_F64; dtype <= DLCKPT_C128; ++dtype) {
    Dims shape;
    for (size_t d = random() % 5; d > 0; --d)
      shape.push_back(static_cast<int64_t>(random() % 3 == 0 ? random() % 4 : random() % 23));
    add(shape, dtype);
  }
  add({}, DLCKPT_I64);
  add({0, 5}, DLCKPT_F32);
  add({1, 1, 1}, DLCKPT_BF16);
  add({97, 1031}, DLCKPT_F32);  // blocks of its own
  add({3, 2, 60000}, DLCKPT_F8E4M3);
  add({1500, 1001}, DLCKPT_I32);  // 6 MB: several blocks, cut among the ranks where it is replicated
  return subjects;
}

struct Totals {
  std::atomic<uint64_t> read{0}, needed{0};
};

// A rank's tensors under shardings drawn for all ranks alike.
class Rank {
 public:
  Rank(const std::vector<Subject>& subjects, unsigned seed, int rank, int ranks) : subjects_(subjects) {
    std::mt19937 shared(seed), own(seed * 1000 + static_cast<unsigned>(rank));
    for (const Subject& subject : subjects) {
      shardings_.push_back(draw_sharding(shared, subject.shape));
      std::vector<Held> held;
      for (const Box& box : shardings_.back().boxes(subject.shape, rank, ranks))
        held.emplace_back(box, subject.dtype->size, own);
      held_.push_back(std::move(held));
    }
  }

  void fill() {
    for (size_t s = 0; s < subjects_.size(); ++s)
      for (Held& held : held_[s])
        held.each(subjects_[s].shape, [&](int64_t element, unsigned char* bytes) {
          for (size_t b = 0; b < subjects_[s].dtype->size; ++b) bytes[b] = subjects_[s].value(element, b);
        });
  }

  Status enroll(Context& context) {
    for (size_t s = 0; s < subjects_.size(); ++s) {
      const Subject& subject = subjects_[s];
      unsigned flags = shardings_[s].replicated ? DLCKPT_REPLICATED : 0;
      for (Held& held : held_[s]) {
        const bool boxed = shardings_[s].boxed;
        DL_TRY(context.registry().add_tensor(
            subject.path.c_str(), subject.dtype->id, static_cast<int>(subject.shape.size()), subject.shape.data(),
            boxed ? held.box.offset.data() : nullptr, boxed ? held.box.extent.data() : nullptr,
            held.bytes.data() + held.first, flags, held.strides.data()));
        flags |= DLCKPT_ANOTHER_PART;
      }
    }
    return {};
  }

  // Every element is the oracle's, and every byte between is as it was.
  void check() {
    for (size_t s = 0; s < subjects_.size(); ++s) {
      const Subject& subject = subjects_[s];
      for (Held& held : held_[s]) {
        uint64_t wrong = 0;
        held.each(subject.shape, [&](int64_t element, unsigned char* bytes) {
          for (size_t b = 0; b < subject.dtype->size; ++b) {
            wrong += bytes[b] != subject.value(element, b) ? 1 : 0;
            bytes[b] = kFiller;
          }
        });
        EXPECT_EQ(wrong, 0U) << subject.path << " " << subject.dtype->name << describe(subject.shape) << " part "
                             << describe(held.box) << " kind " << shardings_[s].kind;
        EXPECT_TRUE(std::all_of(held.bytes.begin(), held.bytes.end(), [](unsigned char c) { return c == kFiller; }))
            << subject.path << ": bytes between the elements were touched";
      }
    }
  }

 private:
  const std::vector<Subject>& subjects_;
  std::vector<Sharding> shardings_;
  std::vector<std::vector<Held>> held_;  // by subject
};

void save_all(const std::string& dir, const std::vector<Subject>& subjects, unsigned seed, int ranks) {
  run_ranks(ranks, [&](int rank) {
    auto context = open_context(settings_for(dir, rank, ranks, "save"));
    ASSERT_TRUE(context) << context.error().text;
    Rank state(subjects, seed, rank, ranks);
    state.fill();
    auto enrolled = state.enroll(**context);
    ASSERT_TRUE(enrolled) << enrolled.error().text;
    const std::string mine = "rank " + std::to_string(rank);
    ASSERT_TRUE((*context)->registry().add_blob("own", mine.data(), mine.size(), true));
    ASSERT_TRUE((*context)->registry().add_blob("all", "everybody", rank == 0 ? 9 : 0, false));
    auto saved = (*context)->save(1);
    EXPECT_TRUE(saved) << saved.error().text;
  });
}

void restore_all(const std::string& dir, const std::vector<Subject>& subjects, unsigned seed, int saved_by, int ranks,
                 bool peek, Totals* totals) {
  run_ranks(ranks, [&](int rank) {
    auto context = open_context(settings_for(dir, rank, ranks, "restore"));
    ASSERT_TRUE(context) << context.error().text;
    std::string note;
    const auto check_blobs = [&] {
      const std::string* own = (*context)->restored_blob("own");
      ASSERT_EQ(own != nullptr, rank < saved_by);
      if (own) {
        EXPECT_EQ(*own, "rank " + std::to_string(rank));
      }
      ASSERT_TRUE((*context)->restored_blob("all"));
      EXPECT_EQ(*(*context)->restored_blob("all"), "everybody");
    };
    if (peek) {
      auto peeked = (*context)->peek(DLCKPT_LATEST, &note);
      ASSERT_TRUE(peeked) << peeked.error().text;
      EXPECT_EQ(*peeked, 1);
      check_blobs();
    }
    Rank state(subjects, seed, rank, ranks);
    auto enrolled = state.enroll(**context);
    ASSERT_TRUE(enrolled) << enrolled.error().text;
    auto restored = (*context)->restore(peek ? 1 : DLCKPT_LATEST, &note);
    ASSERT_TRUE(restored) << restored.error().text;
    EXPECT_EQ(note, "");
    state.check();
    check_blobs();
    const RestoreStats& stats = (*context)->restore_stats();
    totals->read += stats.read_bytes;
    totals->needed = stats.needed_bytes;
    EXPECT_EQ(stats.exchange, ranks > 1);
  });
}

// Bytes of all blocks that hold data of a tensor or blob.
uint64_t blocks_with_data(const std::string& dir) {
  auto names = scan_checkpoints(posix_io(), dir);
  auto manifest = load_manifest(posix_io(), dir, names->front());
  std::set<std::pair<size_t, size_t>> blocks;
  const auto add = [&](size_t file, uint64_t at, uint64_t bytes) {
    const auto& all = manifest->files[file].blocks;
    for (size_t b = 0; bytes > 0 && b < all.size(); ++b)
      if (all[b].at < at + bytes && at < all[b].end()) blocks.emplace(file, b);
  };
  for (const TensorRecord& tensor : manifest->tensors)
    for (const ShardRecord& shard : tensor.shards)
      add(shard.file, shard.at, *volume(shard.box.extent) * tensor.dtype->size);
  for (const BlobRecord& blob : manifest->blobs) add(blob.file, blob.at, blob.size);
  uint64_t total = 0;
  for (const auto& [file, block] : blocks) total += manifest->files[file].blocks[block].length;
  return total;
}

void try_pair(int from, int to, unsigned seed) {
  SCOPED_TRACE(std::to_string(from) + " -> " + std::to_string(to) + ", seed " + std::to_string(seed));
  const TempDir dir;
  std::mt19937 random(seed);
  const std::vector<Subject> subjects = draw_subjects(random);
  save_all(dir.path(), subjects, seed + 1, from);
  if (testing::Test::HasFailure()) return;
  auto names = scan_checkpoints(posix_io(), dir.path());
  auto verified = verify_checkpoint(posix_io(), dir.path(), names->front());
  ASSERT_TRUE(verified) << verified.error().text;
  uint64_t state = 0, stored = 0;
  for (const Subject& subject : subjects) state += *volume(subject.shape) * subject.dtype->size;
  for (const TensorRecord& tensor : verified->tensors)
    for (const ShardRecord& shard : tensor.shards) stored += *volume(shard.box.extent) * tensor.dtype->size;
  EXPECT_EQ(stored, state) << "each byte is written once";

  Totals totals;
  restore_all(dir.path(), subjects, seed + 2, from, to, false, &totals);
  // With more ranks than before, blobs of one rank are there for all who ask; with fewer, some are not asked for.
  if (to >= from) {
    EXPECT_EQ(totals.needed, blocks_with_data(dir.path()));
  }
  EXPECT_EQ(totals.read, totals.needed) << "each byte is read once by all ranks together";
}

TEST(CheckpointElastic, EveryShardingIsRestoredByAnyNumberOfRanks) {
  const char* wish = std::getenv("DL_TEST_ELASTIC");
  if (wish && std::string(wish) == "full") {
    for (const int from : {1, 2, 3, 4, 5, 6, 7, 8, 16})
      for (const int to : {1, 2, 3, 4, 5, 6, 7, 8, 16})
        for (unsigned seed = 0; seed < 5 && !HasFailure(); ++seed)
          try_pair(from, to, static_cast<unsigned>(from) * 10000 + static_cast<unsigned>(to) * 100 + seed * 10);
    return;
  }
  const std::pair<int, int> pairs[] = {{1, 1}, {1, 4}, {4, 1}, {2, 3}, {3, 2}, {4, 4},
                                       {6, 5}, {8, 3}, {5, 8}, {2, 7}, {7, 6}};
  unsigned seed = 100;
  for (const auto& [from, to] : pairs)
    if (!HasFailure()) try_pair(from, to, seed += 10);
  if (!HasFailure()) try_pair(16, 4, 7);
}

TEST(CheckpointElastic, BlobsAreThereBeforeTensorsAreRegistered) {
  const TempDir dir;
  std::mt19937 random(9);
  const std::vector<Subject> subjects = draw_subjects(random);
  save_all(dir.path(), subjects, 10, 3);
  Totals totals;
  restore_all(dir.path(), subjects, 11, 3, 2, true, &totals);
  EXPECT_EQ(totals.read, totals.needed);
}

TEST(CheckpointElastic, WithoutTheExchangeEachRankReadsForItself) {
  const TempDir dir;
  std::mt19937 random(12);
  const std::vector<Subject> subjects = draw_subjects(random);
  save_all(dir.path(), subjects, 13, 3);
  ASSERT_EQ(setenv("DL_CHECKPOINT_TRANSPORT", "files", 1), 0);
  run_ranks(2, [&](int rank) {
    auto context = open_context(settings_for(dir.path(), rank, 2, "restore"));
    ASSERT_TRUE(context);
    Rank state(subjects, 14, rank, 2);
    ASSERT_TRUE(state.enroll(**context));
    std::string note;
    auto restored = (*context)->restore(DLCKPT_LATEST, &note);
    ASSERT_TRUE(restored) << restored.error().text;
    state.check();
    EXPECT_FALSE((*context)->restore_stats().exchange);
  });
  unsetenv("DL_CHECKPOINT_TRANSPORT");
}

// All TCP sockets of this process, which has all ranks in it, stop working.
void break_connections() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::atoi(entry.path().filename().c_str());
    int domain = 0;
    socklen_t length = sizeof domain;
    if (::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == AF_INET) ::shutdown(fd, SHUT_RDWR);
  }
}

TEST(CheckpointElastic, WhenConnectionsBreakEachRankReadsForItself) {
  const TempDir dir;
  constexpr int kRanks = 3;
  std::mt19937 random(15);
  const std::vector<Subject> subjects = draw_subjects(random);
  save_all(dir.path(), subjects, 16, 2);
  std::atomic<int> ready{0};
  run_ranks(kRanks, [&](int rank) {
    auto context = open_context(settings_for(dir.path(), rank, kRanks, "restore"));
    ASSERT_TRUE(context);
    std::string note;
    ASSERT_TRUE((*context)->peek(DLCKPT_LATEST, &note));
    EXPECT_TRUE((*context)->restore_stats().exchange);
    if (++ready == kRanks) {
      break_connections();
      ++ready;
    }
    while (ready <= kRanks) std::this_thread::yield();
    Rank state(subjects, 17, rank, kRanks);
    ASSERT_TRUE(state.enroll(**context));
    auto restored = (*context)->restore(1, &note);
    ASSERT_TRUE(restored) << restored.error().text;
    state.check();
    EXPECT_FALSE((*context)->restore_stats().exchange);
  });
}

// A block is damaged on the disk, and most ranks have loaded much when one finds out.
TEST(CheckpointElastic, DamageInMidLoadTakesAllRanksToTheOlderCheckpoint) {
  const TempDir dir;
  constexpr int kRanks = 3;
  constexpr int64_t kRows = 3000, kColumns = 1000;  // 12 MB
  const int64_t shape[] = {kRows, kColumns};
  const auto with = [&](int rank, const std::function<void(Context&, std::vector<uint32_t>&)>& body) {
    auto context = open_context(settings_for(dir.path(), rank, kRanks, "run" + std::to_string(rank / 100)));
    ASSERT_TRUE(context);
    std::vector<uint32_t> values(static_cast<size_t>(kRows * kColumns), 7);
    ASSERT_TRUE((*context)->registry().add_tensor("w", DLCKPT_U32, 2, shape, nullptr, nullptr, values.data(),
                                                  DLCKPT_REPLICATED));
    body(**context, values);
  };
  run_ranks(kRanks, [&](int rank) {
    with(rank, [&](Context& context, std::vector<uint32_t>& values) {
      for (int64_t step = 1; step <= 2; ++step) {
        for (size_t i = 0; i < values.size(); ++i)
          values[i] = static_cast<uint32_t>(i * 10 + static_cast<size_t>(step));
        EXPECT_TRUE(context.save(step));
      }
    });
  });
  std::string path = newest_path(dir.path()) + "/r00001.h5";
  std::string bytes = read_file(path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_file(path, bytes);
  run_ranks(kRanks, [&](int rank) {
    with(rank, [&](Context& context, std::vector<uint32_t>& values) {
      std::string note;
      auto restored = context.restore(DLCKPT_LATEST, &note);
      ASSERT_TRUE(restored) << restored.error().text;
      EXPECT_EQ(*restored, 1);
      EXPECT_NE(note.find("checksum"), std::string::npos) << note;
      bool right = true;
      for (size_t i = 0; i < values.size(); ++i) right = right && values[i] == static_cast<uint32_t>(i * 10 + 1);
      EXPECT_TRUE(right);
      // It is known by now, and not tried again; whoever asks for it by its number is told.
      restored = context.peek(DLCKPT_LATEST, &note);
      ASSERT_TRUE(restored);
      EXPECT_EQ(*restored, 1);
      EXPECT_NE(note, "");
      restored = context.restore(2, &note);
      ASSERT_FALSE(restored);
      EXPECT_EQ(restored.error().code, Errc::kCorrupt) << restored.error().text;
    });
  });
}

TEST(CheckpointElastic, RanksThatDisagreeAboutReplicatedBoxesAreTold) {
  const TempDir dir;
  const int64_t shape[] = {10};
  float values[10] = {};
  std::vector<Status> saved(2);
  run_ranks(2, [&](int rank) {
    auto context = open_context(settings_for(dir.path(), rank, 2));
    ASSERT_TRUE(context);
    const int64_t offset[] = {0}, extent[] = {rank == 0 ? 10 : 5};  // overlap
    ASSERT_TRUE(
        (*context)->registry().add_tensor("w", DLCKPT_F32, 1, shape, offset, extent, values, DLCKPT_REPLICATED));
    saved[static_cast<size_t>(rank)] = (*context)->save(1);
    // Corrected, the next save goes well: what was learnt is learnt anew.
    const int64_t begin[] = {rank * 5}, half[] = {5};
    ASSERT_TRUE((*context)->registry().add_tensor("w", DLCKPT_F32, 1, shape, begin, half, values, DLCKPT_REPLICATED));
    auto again = (*context)->save(1);
    EXPECT_TRUE(again) << again.error().text;
  });
  for (const Status& status : saved) {
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Errc::kInvalid);
    EXPECT_NE(status.error().text.find("overlap"), std::string::npos) << status.error().text;
  }
}

TEST(CheckpointElastic, FewFilesWhereManyRanksHoldTheSame) {
  const TempDir dir;
  constexpr int kRanks = 8;
  std::vector<uint32_t> values(2000000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint32_t>(i);
  const auto shape = static_cast<int64_t>(values.size());
  run_ranks(kRanks, [&](int rank) {
    Settings settings = settings_for(dir.path(), rank, kRanks);
    settings.max_files = 3;
    auto context = open_context(settings);
    ASSERT_TRUE(context);
    ASSERT_TRUE((*context)->registry().add_tensor("w", DLCKPT_U32, 1, &shape, nullptr, nullptr, values.data(),
                                                  DLCKPT_REPLICATED));
    auto saved = (*context)->save(1);
    EXPECT_TRUE(saved) << saved.error().text;
  });
  auto names = scan_checkpoints(posix_io(), dir.path());
  auto manifest = load_manifest(posix_io(), dir.path(), names->front());
  ASSERT_TRUE(manifest);
  EXPECT_EQ(manifest->files.size(), 3U);
  EXPECT_TRUE(verify_checkpoint(posix_io(), dir.path(), names->front()));
}

TEST(CheckpointStrided, EveryRangeOfAStoredBoxIsFoundInMemory) {
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    Dims shape;
    for (size_t d = random() % 5; d > 0; --d) shape.push_back(1 + static_cast<int64_t>(random() % 6));
    const auto draw = [&] {
      Box box = whole(shape);
      for (size_t d = 0; d < shape.size(); ++d) {
        box.offset[d] = static_cast<int64_t>(random() % static_cast<unsigned>(shape[d]));
        box.extent[d] = 1 + static_cast<int64_t>(random() % static_cast<unsigned>(shape[d] - box.offset[d]));
      }
      return box;
    };
    const size_t size = size_t{1} << (random() % 4);
    const Box stored = draw();
    Subject subject{"x", find_dtype(DLCKPT_U8), shape, random()};
    Held held(draw(), size, random);
    const auto common = intersect(stored, held.box);
    if (!common) continue;
    const StridedMap map(stored, held.box, *common, held.strides, size);
    // The stored bytes, element by element.
    Held dense(stored, size, random);
    dense.strides = dense_strides(stored.extent, size);
    dense.bytes.assign(*volume(stored.extent) * size, 0);
    dense.first = 0;
    const auto value = [&](int64_t element, size_t b) {
      return static_cast<unsigned char>(element * 31 + static_cast<int64_t>(b) * 7);
    };
    dense.each(shape, [&](int64_t element, unsigned char* bytes) {
      for (size_t b = 0; b < size; ++b) bytes[b] = value(element, b);
    });
    // In pieces of any length: packed and unpacked, as between ranks.
    uint64_t total = 0;
    for (uint64_t from = 0; from < dense.bytes.size();) {
      const uint64_t to = std::min<uint64_t>(dense.bytes.size(), from + 1 + random() % 9);
      const uint64_t bytes = map.bytes(from, to);
      std::vector<unsigned char> packed(bytes + 1, kFiller);
      ASSERT_EQ(map.pack(from, to, dense.bytes.data() + from, packed.data()), packed.data() + bytes);
      map.unpack(from, to, packed.data(), held.bytes.data() + held.first);
      total += bytes;
      from = to;
    }
    EXPECT_EQ(total, *volume(common->extent) * size);
    held.each(shape, [&](int64_t element, unsigned char* bytes) {
      for (size_t b = 0; b < size; ++b) EXPECT_TRUE(bytes[b] == kFiller || bytes[b] == value(element, b));
    });
    std::vector<unsigned char> back(dense.bytes.size(), kFiller);
    map.gather(0, back.size(), held.bytes.data() + held.first, back.data());
    uint64_t same = 0;
    for (size_t i = 0; i < back.size(); ++i) same += back[i] == dense.bytes[i] ? 1 : 0;
    EXPECT_GE(same, *volume(common->extent) * size);
  }
}

}  // namespace
}  // namespace dl::ckpt::test
