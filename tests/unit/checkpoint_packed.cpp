// SPDX-License-Identifier: Apache-2.0
// Thousands of small tensors, which share one dataset with an index: saved and loaded at any number of ranks, damaged,
// forged.
#include <filesystem>
#include <fstream>

#include "checkpoint/format/packed_index.h"
#include "checkpoint/group/messages.h"
#include "checkpoint/read/reader.h"
#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {
namespace {

constexpr int kMany = 6000;
static_assert(kMany > kPackFrom);

// Tensors of several types and shapes, some empty, some large, some with gaps in memory, whose every byte depends on
// the train step.
class ManyTensors {
 public:
  explicit ManyTensors(int count = kMany) {
    for (int i = 0; i < count; ++i) {
      One one;
      one.path = "model/layers." + std::to_string(i) + (i % 2 ? ".bias" : ".é b");
      one.dtype = find_dtype(i % 3 == 0 ? DLCKPT_F64 : i % 3 == 1 ? DLCKPT_U8 : DLCKPT_F32);
      if (i % 5 == 1) one.shape = {i % 7 + 1};
      if (i % 5 == 2) one.shape = {2, i % 4};  // some without elements
      if (i % 5 == 3) one.shape = {2, 1, 3};
      if (i % 1000 == 4) one.shape = {70000};  // large
      one.bytes.resize(volume(one.shape).value() * one.dtype->size);
      if (i % 5 == 3 && i % 2) {  // the first and the last dimension the other way round
        const auto size = static_cast<int64_t>(one.dtype->size);
        one.strides = {size, 2 * size, 2 * size};
      }
      all_.push_back(std::move(one));
    }
  }
  void fill(int64_t step) {
    for (size_t i = 0; i < all_.size(); ++i)
      for (size_t b = 0; b < all_[i].bytes.size(); ++b)
        all_[i].bytes[b] = static_cast<unsigned char>(static_cast<size_t>(step) * 31 + i * 7 + b);
  }
  Status enroll(Context& context, unsigned flags = DLCKPT_REPLICATED) {
    for (One& one : all_)
      DL_TRY(context.registry().add_tensor(one.path.c_str(), one.dtype->id, static_cast<int>(one.shape.size()),
                                           one.shape.data(), nullptr, nullptr, one.bytes.data(), flags,
                                           one.strides.empty() ? nullptr : one.strides.data()));
    return {};
  }
  friend bool operator==(const ManyTensors& a, const ManyTensors& b) {
    for (size_t i = 0; i < a.all_.size(); ++i)
      if (a.all_[i].bytes != b.all_[i].bytes) return false;
    return true;
  }
  const std::string& path(size_t i) const { return all_[i].path; }
  const std::vector<unsigned char>& bytes(size_t i) const { return all_[i].bytes; }

 private:
  struct One {
    std::string path;
    const DtypeInfo* dtype = nullptr;
    Dims shape, strides;
    std::vector<unsigned char> bytes;
  };
  std::vector<One> all_;
};

ManyTensors filled(int64_t step, int count = kMany) {
  ManyTensors tensors(count);
  tensors.fill(step);
  return tensors;
}

void save(const std::string& dir, int ranks, std::initializer_list<int64_t> steps, int count = kMany,
          unsigned flags = DLCKPT_REPLICATED) {
  run_ranks(ranks, [&](int rank) {
    auto context = open_context(settings_for(dir, rank, ranks));
    ASSERT_TRUE(context) << context.error().text;
    ManyTensors state(count);
    const Status enrolled = state.enroll(**context, flags);
    ASSERT_TRUE(enrolled) << enrolled.error().text;
    for (const int64_t step : steps) {
      state.fill(step);
      const Status saved = (*context)->save(step, DLCKPT_SYNC);
      ASSERT_TRUE(saved) << saved.error().text;
    }
  });
}

void expect_restored(const std::string& dir, int ranks, int64_t step, int count = kMany) {
  run_ranks(ranks, [&](int rank) {
    auto context = open_context(settings_for(dir, rank, ranks, "again"));
    ASSERT_TRUE(context) << context.error().text;
    ManyTensors state(count);
    state.fill(999);
    ASSERT_TRUE(state.enroll(**context));
    std::string note;
    auto restored = (*context)->restore(DLCKPT_LATEST, &note);
    ASSERT_TRUE(restored) << restored.error().text;
    EXPECT_EQ(*restored, step) << note;
    EXPECT_TRUE(state == filled(step, count)) << rank;
  });
}

Manifest manifest_in(const std::string& dir, size_t index = 0) {
  const auto names = scan_checkpoints(posix_io(), dir);
  auto manifest = load_manifest(posix_io(), dir, (*names)[index]);
  EXPECT_TRUE(manifest) << manifest.error().text;
  return *std::move(manifest);
}

TEST(CheckpointPacked, ThousandsOfSmallTensorsAreRestoredBitForBit) {
  const TempDir dir;
  save(dir.path(), 1, {1, 2});
  expect_restored(dir.path(), 1, 2);
  const Manifest manifest = manifest_in(dir.path());
  EXPECT_EQ(manifest.tensors.size(), static_cast<size_t>(kMany));
  EXPECT_EQ(manifest.schema(), 3);
  ASSERT_TRUE(manifest.files[0].packed);
  EXPECT_GT(manifest.files[0].packed->count, kPackFrom);
  const std::string text = format_manifest(manifest);
  EXPECT_EQ(text.find("layers.7.bias"), std::string::npos) << "packed tensors do not stand in the manifest";
  EXPECT_NE(text.find("layers.4."), std::string::npos) << "large ones do";
  EXPECT_TRUE(verify_checkpoint(posix_io(), dir.path(), manifest.name));
}

TEST(CheckpointPacked, TensorsThatOneRankRegistersAsItsOwnArePackedToo) {
  const TempDir dir;
  save(dir.path(), 1, {1}, kMany, 0);
  EXPECT_TRUE(manifest_in(dir.path()).files[0].packed);
  auto reader = Reader::open(posix_io(), dir.path(), std::nullopt);
  ASSERT_TRUE(reader) << reader.error().text;
}

TEST(CheckpointPacked, RanksPackAShareEachAndAnyNumberOfThemRestores) {
  const TempDir dir;
  save(dir.path(), 3, {1, 2});
  const Manifest manifest = manifest_in(dir.path());
  EXPECT_EQ(manifest.tensors.size(), static_cast<size_t>(kMany));
  ASSERT_EQ(manifest.files.size(), 3U);
  for (const FileRecord& file : manifest.files) {
    ASSERT_TRUE(file.packed) << file.name();
    EXPECT_NEAR(static_cast<double>(file.packed->data.length),
                static_cast<double>(manifest.files[0].packed->data.length), 2000);
  }
  expect_restored(dir.path(), 1, 2);
  expect_restored(dir.path(), 2, 2);
  expect_restored(dir.path(), 5, 2);
}

TEST(CheckpointPacked, FewTensorsKeepDatasetsOfTheirOwn) {
  const TempDir dir;
  save(dir.path(), 2, {1}, 600);
  const Manifest manifest = manifest_in(dir.path());
  EXPECT_EQ(manifest.schema(), 1);
  EXPECT_EQ(manifest.tensors.size(), 600U);
  for (const FileRecord& file : manifest.files) EXPECT_FALSE(file.packed);
  expect_restored(dir.path(), 3, 1, 600);
}

TEST(CheckpointPacked, WhatACheckpointIsCanBeAskedWithoutItsDataFiles) {
  const TempDir dir;
  save(dir.path(), 1, {1});
  const CheckpointName name = manifest_in(dir.path()).name;
  std::filesystem::remove(checkpoint_path(dir.path(), name) + "/r00000.h5");
  auto outline = load_outline(posix_io(), dir.path(), name);
  ASSERT_TRUE(outline) << outline.error().text;
  EXPECT_GE(outline->tensor_count(), kPackFrom);
  auto stored = load_stored_manifest(posix_io(), dir.path(), name);
  ASSERT_TRUE(stored) << stored.error().text;
  EXPECT_EQ(stored->tensor_count(), static_cast<uint64_t>(kMany));
  auto whole = load_manifest(posix_io(), dir.path(), name);
  ASSERT_FALSE(whole);
  EXPECT_EQ(whole.error().code, Errc::kCorrupt) << whole.error().text;
}

void flip(const std::string& file, uint64_t at) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(at));
  const int byte = stream.get();
  stream.seekp(static_cast<std::streamoff>(at));
  stream.put(static_cast<char>(byte ^ 4));
}

TEST(CheckpointPacked, DamageInTheIndexOrTheDataLeadsToTheCheckpointBefore) {
  for (const bool in_index : {true, false}) {
    const TempDir dir;
    save(dir.path(), 2, {1, 2});
    const Manifest manifest = manifest_in(dir.path());
    const FileRecord& file = manifest.files[1];
    const Extent& place = in_index ? file.packed->index : file.packed->data;
    flip(checkpoint_path(dir.path(), manifest.name) + "/" + file.name(), place.at + place.length / 2);
    EXPECT_FALSE(verify_checkpoint(posix_io(), dir.path(), manifest.name));
    EXPECT_EQ(static_cast<bool>(load_manifest(posix_io(), dir.path(), manifest.name)), !in_index);
    expect_restored(dir.path(), 2, 1);
  }
}

TEST(CheckpointPacked, AReaderSeesThemAsOthers) {
  const TempDir dir;
  save(dir.path(), 2, {7});
  const ManyTensors expected = filled(7);
  auto reader = Reader::open(posix_io(), dir.path(), std::nullopt);
  ASSERT_TRUE(reader) << reader.error().text;
  EXPECT_EQ(reader->manifest().tensors.size(), static_cast<size_t>(kMany));
  for (const size_t i : {0U, 1U, 8U, 3000U, 4004U, 5999U}) {
    const TensorRecord* tensor = reader->manifest().find_tensor(expected.path(i));
    ASSERT_NE(tensor, nullptr) << expected.path(i);
    std::vector<unsigned char> bytes(tensor->bytes());
    const Status loaded = reader->load(*tensor, whole(tensor->shape), bytes.data());
    ASSERT_TRUE(loaded) << loaded.error().text;
    if (i % 5 != 3) {  // those lie otherwise in memory
      EXPECT_EQ(bytes, expected.bytes(i)) << i;
    }
  }
}

TEST(CheckpointPacked, AnIndexSaysWhatWasPutIn) {
  std::string text;
  append_packed_line("a", *find_dtype(DLCKPT_F32), {}, true, 0, &text);
  append_packed_line("b/é", *find_dtype(DLCKPT_BF16), {2, 0, 3}, false, 8, &text);
  append_packed_line("c", *find_dtype(DLCKPT_U8), {4}, false, 8, &text);
  EXPECT_EQ(text, "a\tfloat32\t\t0\treplicated\nb/é\tbfloat16\t2,0,3\t8\twhole\nc\tuint8\t4\t8\twhole\n");
  const PackedRecord packed{3, {10000, 12}, {20000, text.size()}};
  std::vector<TensorRecord> tensors;
  const Status parsed = parse_packed_index(text, packed, 5, &tensors);
  ASSERT_TRUE(parsed) << parsed.error().text;
  ASSERT_EQ(tensors.size(), 3U);
  EXPECT_EQ(tensors[1].path, "b/é");
  EXPECT_EQ(tensors[1].shape, (Dims{2, 0, 3}));
  EXPECT_FALSE(tensors[1].replicated);
  EXPECT_EQ(tensors[2].shards[0].at, 10008U);
  EXPECT_EQ(tensors[2].shards[0].file, 5U);
}

TEST(CheckpointPacked, AForgedIndexIsRefused) {
  const std::string good = "a\tfloat32\t2\t0\twhole\n";
  for (const std::string bad :
       {"",
        "a",
        "a\tfloat32\t2\t0\twhole",
        "a\tfloat32\t2\t0\n",
        "a\tfloat32\t2\t0\tWhole\n",
        "\tfloat32\t2\t0\twhole\n",
        "/a\tfloat32\t2\t0\twhole\n",
        "a\tfloat99\t2\t0\twhole\n",
        "a\tfloat32\t2,\t0\twhole\n",
        "a\tfloat32\t02\t0\twhole\n",
        "a\tfloat32\t2\t00\twhole\n",
        "a\tfloat32\t-2\t0\twhole\n",
        "a\tfloat32\t2 \t0\twhole\n",
        "a\tfloat32\t3\t0\twhole\n",
        "a\tfloat32\t2\t1\twhole\n",
        "a\tfloat32\t2\t18446744073709551615\twhole\n",
        "a\tfloat32\t2\t\twhole\n",
        "a\tfloat32\t4294967296,4294967296,4294967296\t0\twhole\n",
        "a\tfloat32\t2\t0\twhole\twhole\n",
        "a\tfloat32\t1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1\t0\twhole\n"}) {
    std::vector<TensorRecord> tensors;
    const Status parsed = parse_packed_index(bad, PackedRecord{1, {4096, 8}, {8192, bad.size()}}, 0, &tensors);
    ASSERT_FALSE(parsed) << bad;
    EXPECT_EQ(parsed.error().code, Errc::kCorrupt);
  }
  for (const std::string& two : {good + good, good + "A" + good.substr(1), good}) {
    std::vector<TensorRecord> tensors;
    EXPECT_FALSE(parse_packed_index(two, PackedRecord{2, {4096, 8}, {8192, two.size()}}, 0, &tensors)) << two;
  }
  std::vector<TensorRecord> tensors;
  EXPECT_TRUE(parse_packed_index(good, PackedRecord{1, {4096, 8}, {8192, good.size()}}, 0, &tensors));
}

TEST(CheckpointPacked, APlaceThatIsNotInTheFileIsRefused) {
  const TempDir dir;
  save(dir.path(), 1, {1});
  const Manifest good = manifest_in(dir.path());
  EXPECT_TRUE(parse_manifest(format_manifest(good)));
  const auto with = [&](auto change) {
    Manifest changed = good;
    change(&*changed.files[0].packed, changed.files[0]);
    return parse_manifest(format_manifest(changed)).has_value();
  };
  EXPECT_TRUE(with([](PackedRecord*, const FileRecord&) {}));
  EXPECT_FALSE(with([](PackedRecord* p, const FileRecord& f) { p->data.length = f.size - p->data.at + 1; }));
  EXPECT_FALSE(with([](PackedRecord* p, const FileRecord& f) { p->index.at = f.size; }));
  EXPECT_FALSE(with([](PackedRecord* p, const FileRecord&) { p->index.at = 4095; }));
  EXPECT_FALSE(with([](PackedRecord* p, const FileRecord& f) { p->index.at = f.table.at; }));
  EXPECT_FALSE(with([](PackedRecord* p, const FileRecord&) { p->count = 0; }));
  EXPECT_FALSE(with([](PackedRecord* p, const FileRecord&) { p->count = p->index.length / 16 + 1; }));
}

TEST(CheckpointPacked, RanksThatPackedMoreOrLessThanIsRegisteredCommitNothing) {
  Part part;
  part.fingerprint = "f";
  part.tensor_count = 3;
  FileRecord file;
  file.size = 1 << 20;
  file.table = Extent{4096, 320};
  file.blocks = cut_blocks(4096, file.size, file.table, {});
  file.root = table_root(file.blocks);
  file.packed = PackedRecord{2, {8192, 100}, {12288, 100}};
  part.files.push_back(file);
  Manifest manifest;
  manifest.name = CheckpointName{1, uint64_t{1} << 32};
  const Status merged = merge_parts({part}, &manifest);
  ASSERT_FALSE(merged);
  EXPECT_NE(merged.error().text.find("packed 2 tensors of 3"), std::string::npos) << merged.error().text;
}

}  // namespace
}  // namespace dl::ckpt::test
