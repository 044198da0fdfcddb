// SPDX-License-Identifier: Apache-2.0
// The pure parts of the format: boxes, names, tables, user blocks, manifests, spreading. Tables and oracles, and
// hostile input.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "checkpoint/client/spread.h"
#include "checkpoint/format/block_table.h"
#include "checkpoint/format/box.h"
#include "checkpoint/format/layout.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/format/manifest_json.h"
#include "checkpoint/format/manifest_text.h"
#include "checkpoint/format/names.h"
#include "checkpoint/format/user_block.h"

namespace dl::ckpt {
namespace {

TEST(CheckpointBox, VolumeRefusesNegativeAndOverflowingShapes) {
  EXPECT_EQ(volume({}), 1U);
  EXPECT_EQ(volume({3, 4}), 12U);
  EXPECT_EQ(volume({0, int64_t{1} << 62, int64_t{1} << 62}), 0U);
  EXPECT_EQ(volume({-1}), std::nullopt);
  EXPECT_EQ(volume({0, -1}), std::nullopt);
  EXPECT_EQ(volume({int64_t{1} << 40, int64_t{1} << 40}), std::nullopt);
  EXPECT_EQ(volume({INT64_MAX}), std::nullopt);
}

TEST(CheckpointBox, WithinDoesNotOverflow) {
  EXPECT_TRUE(within({{2}, {3}}, {5}));
  EXPECT_TRUE(within({{5}, {0}}, {5}));
  EXPECT_FALSE(within({{2}, {4}}, {5}));
  EXPECT_FALSE(within({{INT64_MAX}, {INT64_MAX}}, {5}));
  EXPECT_FALSE(within({{-1}, {1}}, {5}));
  EXPECT_FALSE(within({{0, 0}, {1, 1}}, {5}));
}

// Element by element, the slow and obvious way.
TEST(CheckpointBox, RunsCopyExactlyTheCommonPart) {
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    const size_t ndim = random() % 5;
    Dims shape(ndim);
    Box stored, wanted;
    for (size_t d = 0; d < ndim; ++d) {
      shape[d] = 1 + random() % 5;
      const auto pick = [&](Box* box) {
        const auto offset = static_cast<int64_t>(random() % static_cast<unsigned>(shape[d]));
        box->offset.push_back(offset);
        box->extent.push_back(1 + static_cast<int64_t>(random() % static_cast<unsigned>(shape[d] - offset)));
      };
      pick(&stored);
      pick(&wanted);
    }
    const auto linear = [&](const Box& box, const Dims& at) {
      int64_t index = 0;
      for (size_t d = 0; d < ndim; ++d) index = index * box.extent[d] + at[d] - box.offset[d];
      return index;
    };
    std::vector<int> source(*volume(stored.extent)), got(*volume(wanted.extent), -1), expected = got;
    std::iota(source.begin(), source.end(), 100);
    const auto total = static_cast<int64_t>(*volume(shape));
    for (int64_t i = 0; i < total; ++i) {
      Dims at(ndim);
      int64_t rest = i;
      bool in_both = true;
      for (size_t d = ndim; d-- > 0;) {
        at[d] = rest % shape[d];
        rest /= shape[d];
        in_both = in_both && at[d] >= stored.offset[d] && at[d] < stored.offset[d] + stored.extent[d] &&
                  at[d] >= wanted.offset[d] && at[d] < wanted.offset[d] + wanted.extent[d];
      }
      if (in_both) expected[static_cast<size_t>(linear(wanted, at))] = source[static_cast<size_t>(linear(stored, at))];
    }
    if (const auto common = intersect(stored, wanted)) {
      RunWalker runs(stored, wanted, *common, sizeof(int));
      uint64_t last = 0;
      while (const auto run = runs.next()) {
        EXPECT_GE(run->source, last);  // rising, so that each block is read once
        last = run->source;
        ASSERT_LE(run->source + run->length, source.size() * sizeof(int));
        ASSERT_LE(run->destination + run->length, got.size() * sizeof(int));
        std::memcpy(reinterpret_cast<char*>(got.data()) + run->destination,
                    reinterpret_cast<const char*>(source.data()) + run->source, run->length);
      }
    }
    ASSERT_EQ(got, expected) << describe(stored) << " " << describe(wanted);
  }
}

TEST(CheckpointBox, WholeRowsAreOneRun) {
  const Box stored{{0, 0}, {1000, 1000}};
  const Box wanted{{250, 0}, {250, 1000}};
  RunWalker runs(stored, wanted, *intersect(stored, wanted), 4);
  const auto run = runs.next();
  ASSERT_TRUE(run);
  EXPECT_EQ(run->source, 1000000U);
  EXPECT_EQ(run->length, 1000000U);
  EXPECT_FALSE(runs.next());
}

TEST(CheckpointBox, CoverFindsHolesAndOverlaps) {
  EXPECT_TRUE(check_cover({4, 4}, {{{0, 0}, {2, 4}}, {{2, 0}, {2, 2}}, {{2, 2}, {2, 2}}}));
  EXPECT_TRUE(check_cover({}, {{{}, {}}}));
  EXPECT_FALSE(check_cover({}, {{{}, {}}, {{}, {}}}));
  EXPECT_FALSE(check_cover({}, {}));
  EXPECT_TRUE(check_cover({0, 3}, {}));
  EXPECT_TRUE(check_cover({3}, {{{0}, {3}}, {{1}, {0}}}));
  auto hole = check_cover({4}, {{{0}, {1}}, {{2}, {2}}});
  ASSERT_FALSE(hole);
  EXPECT_NE(hole.error().text.find("hole"), std::string::npos);
  auto overlap = check_cover({4}, {{{0}, {3}}, {{2}, {2}}});
  ASSERT_FALSE(overlap);
  EXPECT_NE(overlap.error().text.find("overlap"), std::string::npos);
  // The right number of elements, but not the right ones.
  EXPECT_FALSE(check_cover({2, 2}, {{{0, 0}, {2, 1}}, {{0, 0}, {1, 2}}}));
}

TEST(CheckpointBox, CoverOfManyShardsIsQuick) {
  std::vector<Box> boxes;
  for (int64_t i = 0; i < 100; ++i)
    for (int64_t j = 0; j < 100; ++j) boxes.push_back({{i * 3, j * 5}, {3, 5}});
  EXPECT_TRUE(check_cover({300, 500}, boxes));
  boxes[5].extent = {4, 5};
  EXPECT_FALSE(check_cover({300, 500}, boxes));
}

TEST(CheckpointNames, CheckpointAndFileNames) {
  const CheckpointName name{1200, 0x0000000700c0ffeeU};
  EXPECT_EQ(format_checkpoint_name(name), "step-000000001200.0000000700c0ffee");
  const auto back = parse_checkpoint_name("step-000000001200.0000000700c0ffee");
  ASSERT_TRUE(back);
  EXPECT_EQ(back->step, 1200);
  EXPECT_EQ(back->save_id, name.save_id);
  EXPECT_EQ(back->generation(), 7U);
  for (const char* bad : {"", "step-", "step-000000001200", "step-000000001200.0000000700C0FFEE",
                          "step-00000000120.00000000700c0ffee", "step-00000000-200.0000000700c0ffee",
                          "step-000000001200.0000000700c0ffee ", ".tmp-step-000000001200.0000000700c0ffee"})
    EXPECT_FALSE(parse_checkpoint_name(bad)) << bad;
  EXPECT_EQ(format_file_name(3), "r00003.h5");
  EXPECT_EQ(parse_file_name("r00003.h5")->writer, 3U);
  EXPECT_EQ(parse_file_name("r00003.h5")->part, 0U);
  EXPECT_EQ(format_file_name(3, 12), "r00003.f12.h5");
  EXPECT_EQ(parse_file_name("r00003.f12.h5")->part, 12U);
  for (const char* bad : {"r3.h5", "../r0.h5", "r0000a.h5", "r00003.h5x", "", "r-0003.h5"})
    EXPECT_FALSE(parse_file_name(bad)) << bad;
}

TEST(CheckpointNames, PathsAreCheckedAndEscaped) {
  for (const char* good : {"a", "model/layers.0.weight", "a/b/c", "größe", "..", "a b", "%", "s0/b1", "_dlckpt"})
    EXPECT_TRUE(check_path(good)) << good;
  for (const std::string& bad : {std::string(), std::string("/a"), std::string("a/"), std::string("a//b"),
                                 std::string("a\nb"), std::string("a\0b", 3), std::string("\xff"),
                                 std::string("\xc0\x80"), std::string("\xed\xa0\x80"), std::string(513, 'x')})
    EXPECT_FALSE(check_path(bad)) << bad;
  EXPECT_EQ(h5_path("model/w", 's', 0), "/model/w/s0");
  EXPECT_EQ(h5_path("a/./b", 's', 1), "/a/%2E/b/s1");
  EXPECT_EQ(h5_path("a/s0", 's', 0), "/a/%730/s0");
  EXPECT_EQ(h5_path("a/b12/sx", 'b', 0), "/a/%6212/sx/b0");
  EXPECT_EQ(h5_path("_dlckpt/blocks", 's', 0), "/%5Fdlckpt/blocks/s0");
  EXPECT_EQ(h5_path("a%2E", 's', 0), "/a%252E/s0");
}

TEST(CheckpointHash, HexIsWhatXxhsumPrints) {
  // printf '' | xxhsum -H2
  EXPECT_EQ(to_hex(hash_bytes("", 0)), "99aa06d3014798d86001c324468d497f");
  const Hash128 hash = hash_bytes("slurm-dl", 8);
  EXPECT_EQ(hash_from_hex(to_hex(hash)), hash);
  unsigned char bytes[kHashBytes];
  put_hash(hash, bytes);
  EXPECT_EQ(get_hash(bytes), hash);
  EXPECT_FALSE(hash_from_hex("99aa06d3014798d86001c324468d497"));
  EXPECT_FALSE(hash_from_hex("99AA06D3014798D86001C324468D497F"));
}

TEST(CheckpointUserBlock, EveryFlippedByteIsNoticed) {
  UserBlock block;
  block.save_id = 0x123456789abcdef0U;
  block.step = 42;
  block.writer = 3;
  block.world_size = 8;
  block.file_size = 1 << 20;
  block.table_at = 8192;
  block.block_count = 5;
  block.root = hash_bytes("x", 1);
  block.complete = true;
  auto bytes = encode_user_block(block);
  const auto back = decode_user_block(bytes.data());
  ASSERT_TRUE(back);
  EXPECT_EQ(back->step, 42);
  EXPECT_EQ(back->save_id, block.save_id);
  EXPECT_EQ(back->writer, 3U);
  EXPECT_EQ(back->root, block.root);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] ^= static_cast<unsigned char>(1U << (i % 8));
    EXPECT_FALSE(decode_user_block(bytes.data())) << "byte " << i;
    bytes[i] ^= static_cast<unsigned char>(1U << (i % 8));
  }
  block.complete = false;
  bytes = encode_user_block(block);
  EXPECT_FALSE(decode_user_block(bytes.data()));
}

TEST(CheckpointBlockTable, BlocksCoverEverythingAroundTheHole) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 500; ++round) {
    std::vector<Extent> large;
    uint64_t at = 4096;
    const Extent hole{at + random() % 5000, 32 * (1 + random() % 50)};
    at = hole.end();
    for (size_t i = random() % 5; i > 0; --i) {
      const Extent extent{at + random() % (6U << 20), kOwnBlocksFrom + random() % (20U << 20)};
      large.push_back(extent);
      at = extent.end();
    }
    const uint64_t end = at + random() % 100000;
    const auto blocks = cut_blocks(4096, end, hole, large);
    ASSERT_TRUE(check_table(blocks, 4096, end, hole));
    for (const Block& block : blocks) {
      EXPECT_LE(block.length, kBlockBytes);
      for (const Extent& extent : large)  // none crosses the border of a large dataset
        EXPECT_TRUE(block.end() <= extent.at || block.at >= extent.end() ||
                    (block.at >= extent.at && block.end() <= extent.end()));
    }
    if (!blocks.empty()) {
      const size_t i = random() % blocks.size();
      EXPECT_EQ(find_block(blocks, blocks[i].at), i);
      EXPECT_EQ(find_block(blocks, blocks[i].end() - 1), i);
      auto broken = blocks;
      broken.erase(broken.begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_FALSE(check_table(broken, 4096, end, hole));
      broken = blocks;
      ++broken[i].at;
      EXPECT_FALSE(check_table(broken, 4096, end, hole));
    }
    EXPECT_EQ(find_block(blocks, hole.at), blocks.size());
    EXPECT_EQ(find_block(blocks, 0), blocks.size());
    EXPECT_EQ(find_block(blocks, end), blocks.size());
  }
}

// Nothing is written: lay_out reserves places only, so the states may be large.
TEST(CheckpointLayout, TheBlockTableHasARowForEachBlockWhateverTheSizes) {
  struct Case {
    size_t tensors;
    int64_t elements;
  };
  for (const Case& c : {Case{1, 1}, Case{1000, 8388}, Case{3000, 16383}, Case{40, 16384}, Case{2, int64_t{1} << 28}}) {
    std::vector<LayoutItem> items;
    for (size_t i = 0; i < c.tensors; ++i) {
      const std::string path = "t" + std::to_string(i);
      const Dims shape{c.elements};
      items.push_back(LayoutItem{"/" + path, path, find_dtype(DLCKPT_F32), shape, whole(shape), false, false});
    }
    const auto layout = lay_out(items);
    ASSERT_TRUE(layout) << c.tensors << " of " << c.elements << ": " << layout.error().text;
    EXPECT_TRUE(check_table(layout->blocks, kUserBlockBytes, layout->file_size, layout->table));
    EXPECT_LE(layout->blocks.size() * kTableRowBytes, layout->table.length);
  }
}

TEST(CheckpointSpread, EachReplicaIsWrittenOnceAndBytesAreBalanced) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<Replica> replicas;
    uint64_t total = 0, largest = 0;
    for (size_t i = 1 + random() % 30; i > 0; --i) {
      Dims shape;
      for (size_t d = random() % 4; d > 0; --d) shape.push_back(random() % 40);
      replicas.push_back(Replica{whole(shape), 4, {}});
      total += *volume(shape) * 4;
    }
    const int world = 1 + static_cast<int>(random() % 9);
    constexpr uint64_t kMinPiece = 1000;
    const int writers = 1 + static_cast<int>(random() % static_cast<unsigned>(world));
    const auto pieces = spread_replicas(replicas, world, writers, kMinPiece);
    std::vector<std::vector<Box>> boxes(replicas.size());
    std::vector<uint64_t> load(static_cast<size_t>(world));
    for (const ReplicaPiece& piece : pieces) {
      ASSERT_TRUE(within(piece.box, replicas[piece.replica].box.extent));
      boxes[piece.replica].push_back(piece.box);
      const uint64_t bytes = *volume(piece.box.extent) * 4;
      load[static_cast<size_t>(piece.rank)] += bytes;
      largest = std::max(largest, bytes);
    }
    for (size_t i = 0; i < replicas.size(); ++i) {
      EXPECT_FALSE(boxes[i].empty());  // also an empty tensor is in the file
      EXPECT_TRUE(check_cover(replicas[i].box.extent, boxes[i]));
    }
    // Neighbours of up to kMinPiece stay together.
    EXPECT_LE(*std::max_element(load.begin(), load.end()),
              total / static_cast<uint64_t>(writers) + std::max(largest, kMinPiece));
    EXPECT_LE(std::count_if(load.begin(), load.end(), [](uint64_t bytes) { return bytes > 0; }), writers);
    const auto again = spread_replicas(replicas, world, writers, kMinPiece);
    ASSERT_EQ(again.size(), pieces.size());
    for (size_t i = 0; i < pieces.size(); ++i)
      EXPECT_TRUE(again[i].rank == pieces[i].rank && again[i].box == pieces[i].box);
  }
}

TEST(CheckpointSpread, ABoxIsWrittenByRanksThatHoldIt) {
  // A mesh of 4 x 2: ranks 2r and 2r+1 hold the same rows; and a bound of 3 writers, 0, 2 and 5.
  std::vector<Replica> replicas;
  for (int row = 0; row < 4; ++row) replicas.push_back(Replica{{{row * 100, 0}, {100, 10}}, 4, {2 * row, 2 * row + 1}});
  for (const int writers : {8, 3}) {
    const auto pieces = spread_replicas(replicas, 8, writers, 100);
    std::vector<Box> boxes;
    std::vector<uint64_t> load(8);
    for (const ReplicaPiece& piece : pieces) {
      boxes.push_back(piece.box);
      const auto& holders = replicas[piece.replica].holders;
      EXPECT_TRUE(std::find(holders.begin(), holders.end(), piece.rank) != holders.end());
      load[static_cast<size_t>(piece.rank)] += *volume(piece.box.extent);
    }
    EXPECT_TRUE(check_cover({400, 10}, boxes));
    if (writers == 8) {
      EXPECT_EQ(load, std::vector<uint64_t>(8, 500));
    } else {
      EXPECT_EQ(load, (std::vector<uint64_t>{1000, 0, 1000, 0, 0, 1000, 1000, 0}));  // 6: none of 6 and 7 is a writer
    }
  }
}

Manifest sample_manifest() {
  Manifest m;
  m.name = CheckpointName{7, 0x0000000100000002U};
  m.world_size = 2;
  m.created_ms = 1700000000000;
  m.writer = "test";
  m.run_id = "run \"1\"\n";
  for (uint32_t rank = 0; rank < 2; ++rank) {
    FileRecord file;
    file.writer = rank;
    file.size = 100000;
    file.table = Extent{5000, 320};
    file.blocks = cut_blocks(kUserBlockBytes, file.size, file.table, {});
    for (Block& block : file.blocks) block.hash = hash_bytes(&block.at, 8);
    file.root = table_root(file.blocks);
    m.files.push_back(file);
  }
  m.tensors.push_back({"a",
                       find_dtype(DLCKPT_F32),
                       {10, 10},
                       false,
                       {{0, "/a/s0", 6000, {{0, 0}, {5, 10}}}, {1, "/a/s0", 6000, {{5, 0}, {5, 10}}}}});
  m.tensors.push_back({"scalar", find_dtype(DLCKPT_BF16), {}, true, {{1, "/scalar/s0", 7000, {{}, {}}}}});
  m.blobs.push_back({"rng", 0, 0, "/rng/b0", 8000, 100});
  m.blobs.push_back({"rng", 1, 1, "/rng/b0", 8000, 100});
  return m;
}

// The text of a JSON value with a right checksum: what a forger would write.
std::string sealed(const nlohmann::json& json) {
  std::string text = json.dump();
  text.pop_back();  // the closing brace
  text += ",\n\"checksum\": \"";
  const size_t at = text.size();
  text += std::string(32, '0') + "\"\n}\n";
  return text.replace(at, 32, to_hex(hash_bytes(text.data(), text.size())));
}

nlohmann::json sample_json() {
  auto json = nlohmann::json::parse(format_manifest(sample_manifest()));
  json.erase("checksum");
  return json;
}

TEST(CheckpointManifest, RoundTrip) {
  const Manifest m = sample_manifest();
  const std::string text = format_manifest(m);
  auto back = parse_manifest(text);
  ASSERT_TRUE(back) << back.error().text;
  EXPECT_EQ(format_manifest(*back), text);
  EXPECT_EQ(back->run_id, m.run_id);
  ASSERT_TRUE(back->find_tensor("scalar"));
  EXPECT_FALSE(back->find_tensor("b"));
  ASSERT_TRUE(parse_manifest(sealed(sample_json())));
}

TEST(CheckpointManifest, SharedFilesNeedTheSecondSchemaAndNothingElseDoes) {
  EXPECT_NE(format_manifest(sample_manifest()).find("\"schema\": 1"), std::string::npos);
  Manifest m = sample_manifest();
  FileRecord shared = m.files[1];
  shared.part = 2;
  shared.origin = CheckpointName{3, 0x0000000100000001U};
  m.files.push_back(shared);
  m.tensors[1].shards[0].file = 2;
  const std::string text = format_manifest(m);
  EXPECT_NE(text.find("\"schema\": 2"), std::string::npos);
  auto back = parse_manifest(text);
  ASSERT_TRUE(back) << back.error().text;
  EXPECT_EQ(format_manifest(*back), text);
  EXPECT_EQ(back->files[2].name(), "r00001.f2.h5");
  ASSERT_TRUE(back->files[2].origin);
  EXPECT_EQ(back->files[2].origin->step, 3);
  EXPECT_EQ(back->files[2].origin->save_id, shared.origin->save_id);
  EXPECT_FALSE(back->files[1].origin);
}

TEST(CheckpointManifest, EveryFlippedOrMissingByteIsNoticed) {
  std::string text = format_manifest(sample_manifest());
  for (size_t i = 0; i < text.size(); ++i) {
    text[i] = static_cast<char>(text[i] ^ (1 << (i % 8)));
    EXPECT_FALSE(parse_manifest(text)) << i;
    text[i] = static_cast<char>(text[i] ^ (1 << (i % 8)));
    EXPECT_FALSE(parse_manifest(text.substr(0, i))) << i;
  }
  EXPECT_FALSE(parse_manifest(text + " "));
}

// What is written without the JSON library is what the library would write.
TEST(CheckpointManifest, RecordsAreWrittenAsTheJsonLibraryDoes) {
  TensorRecord tensor;
  tensor.dtype = find_dtype(DLCKPT_BF16);
  FileRecord file;
  const auto expect_canonical = [](const std::string& text) {
    const auto json = nlohmann::json::parse(text, nullptr, false);
    ASSERT_FALSE(json.is_discarded()) << text;
    EXPECT_EQ(json.dump(), text);
  };
  const auto text_of = [](const auto& record) {
    std::string text;
    append_json(record, &text);
    return text;
  };
  expect_canonical(text_of(tensor));
  expect_canonical(text_of(file));
  for (const char* path :
       {"layer.0/weight", "a \"quote\" and a \\", "tab\tline\nnul\x01", "gr\xc3\xbc\xc3\x9f", "\x7f", ""}) {
    tensor.path = path;
    tensor.shape = {0, 1, INT64_MAX};
    tensor.replicated = !tensor.replicated;
    tensor.shards.push_back(ShardRecord{});
    tensor.shards.back().h5_path = path;
    tensor.shards.back().at = UINT64_MAX;
    tensor.shards.back().file = 7;
    tensor.shards.back().box = Box{{1, 2}, {3, 4}};
    const std::string text = text_of(tensor);
    expect_canonical(text);
    EXPECT_EQ(nlohmann::json::parse(text)["path"], path);
  }
  file.blocks = {Block{0, 1, Hash128{}}, Block{512, UINT64_MAX, hash_bytes("x", 1)}};
  expect_canonical(text_of(file));
  file.origin = CheckpointName{kMaxStep, UINT64_MAX};
  expect_canonical(text_of(file));
  tensor.path = "\xff";
  EXPECT_FALSE(nlohmann::json::parse(text_of(tensor), nullptr, false).is_discarded());
}

TEST(CheckpointManifest, HostileContentIsRefused) {
  using Edit = std::function<void(nlohmann::json&)>;
  const std::vector<std::pair<const char*, Edit>> edits = {
      {"newer schema", [](nlohmann::json& j) { j["schema"] = kManifestSchema + 1; }},
      {"no schema", [](nlohmann::json& j) { j.erase("schema"); }},
      {"schema is text", [](nlohmann::json& j) { j["schema"] = "1"; }},
      {"negative step", [](nlohmann::json& j) { j["step"] = -1; }},
      {"huge step", [](nlohmann::json& j) { j["step"] = UINT64_MAX; }},
      {"fractional step", [](nlohmann::json& j) { j["step"] = 1.5; }},
      {"no ranks", [](nlohmann::json& j) { j["world_size"] = 0; }},
      {"too many ranks", [](nlohmann::json& j) { j["world_size"] = 1000000000; }},
      {"bad save id", [](nlohmann::json& j) { j["save_id"] = "../../etc"; }},
      {"no files", [](nlohmann::json& j) { j["files"] = nlohmann::json::array(); }},
      {"files is an object", [](nlohmann::json& j) { j["files"] = nlohmann::json::object(); }},
      {"path in a file name", [](nlohmann::json& j) { j["files"][0]["name"] = "../r00000.h5"; }},
      {"absolute file name", [](nlohmann::json& j) { j["files"][0]["name"] = "/etc/passwd"; }},
      {"file named twice", [](nlohmann::json& j) { j["files"][1]["name"] = "r00000.h5"; }},
      {"shared file before the other", [](nlohmann::json& j) { j["files"][0]["name"] = "r00001.f1.h5"; }},
      {"part 0 by another name", [](nlohmann::json& j) { j["files"][1]["name"] = "r00001.f0.h5"; }},
      {"part with a leading zero", [](nlohmann::json& j) { j["files"][1]["name"] = "r00001.f01.h5"; }},
      {"origin is a number", [](nlohmann::json& j) { j["files"][0]["origin"] = 7; }},
      {"origin without a save id",
       [](nlohmann::json& j) {
         j["files"][0]["origin"] = {{"step", 1}};
       }},
      {"origin with a path",
       [](nlohmann::json& j) {
         j["files"][0]["origin"] = {{"step", 1}, {"save_id", "../../../../x"}};
       }},
      {"origin before all steps",
       [](nlohmann::json& j) {
         j["files"][0]["origin"] = {{"step", -1}, {"save_id", "0000000100000002"}};
       }},
      {"file of a rank beyond", [](nlohmann::json& j) { j["files"][1]["name"] = "r00005.h5"; }},
      {"huge file", [](nlohmann::json& j) { j["files"][0]["size"] = UINT64_MAX; }},
      {"tiny file", [](nlohmann::json& j) { j["files"][0]["size"] = 1; }},
      {"size beyond the blocks", [](nlohmann::json& j) { j["files"][0]["size"] = 100001; }},
      {"wrong root", [](nlohmann::json& j) { j["files"][0]["root"] = std::string(32, 'a'); }},
      {"table outside",
       [](nlohmann::json& j) {
         j["files"][0]["table"] = {99999, 320};
       }},
      {"table overflow",
       [](nlohmann::json& j) {
         j["files"][0]["table"] = {5000, UINT64_MAX - 100};
       }},
      {"table in the user block",
       [](nlohmann::json& j) {
         j["files"][0]["table"] = {0, 320};
       }},
      {"block missing", [](nlohmann::json& j) { j["files"][0]["blocks"].erase(0); }},
      {"block of no length", [](nlohmann::json& j) { j["files"][0]["blocks"][0][1] = 0; }},
      {"block too long", [](nlohmann::json& j) { j["files"][0]["blocks"][0][1] = uint64_t{1} << 40; }},
      {"block is a number", [](nlohmann::json& j) { j["files"][0]["blocks"][0] = 7; }},
      {"no blocks", [](nlohmann::json& j) { j["files"][0]["blocks"] = nlohmann::json::array(); }},
      {"unknown dtype", [](nlohmann::json& j) { j["tensors"][0]["dtype"] = "float128"; }},
      {"negative size",
       [](nlohmann::json& j) {
         j["tensors"][0]["shape"] = {-10, -10};
       }},
      {"overflowing shape",
       [](nlohmann::json& j) {
         j["tensors"][0]["shape"] = {1LL << 40, 1LL << 40};
       }},
      {"33 dimensions", [](nlohmann::json& j) { j["tensors"][0]["shape"] = std::vector<int>(33, 1); }},
      {"other number of dimensions", [](nlohmann::json& j) { j["tensors"][0]["shape"] = {100}; }},
      {"hole", [](nlohmann::json& j) { j["tensors"][0]["shards"].erase(1); }},
      {"overlap",
       [](nlohmann::json& j) {
         j["tensors"][0]["shards"][1]["offset"] = {4, 0};
       }},
      {"part outside the shape",
       [](nlohmann::json& j) {
         j["tensors"][0]["shards"][1]["offset"] = {6, 0};
       }},
      {"overflowing part",
       [](nlohmann::json& j) {
         j["tensors"][0]["shards"][1]["offset"] = {INT64_MAX, 0};
       }},
      {"unknown file", [](nlohmann::json& j) { j["tensors"][0]["shards"][0]["file"] = 2; }},
      {"data behind the end", [](nlohmann::json& j) { j["tensors"][0]["shards"][0]["at"] = 99900; }},
      {"data in the user block", [](nlohmann::json& j) { j["tensors"][0]["shards"][0]["at"] = 100; }},
      {"data in the block table", [](nlohmann::json& j) { j["tensors"][0]["shards"][0]["at"] = 5100; }},
      {"data offset overflow", [](nlohmann::json& j) { j["tensors"][0]["shards"][0]["at"] = UINT64_MAX; }},
      {"tensor twice", [](nlohmann::json& j) { j["tensors"][1] = j["tensors"][0]; }},
      {"tensors not sorted", [](nlohmann::json& j) { std::swap(j["tensors"][0], j["tensors"][1]); }},
      {"bad tensor name", [](nlohmann::json& j) { j["tensors"][0]["path"] = "a//b"; }},
      {"blob behind the end", [](nlohmann::json& j) { j["blobs"][0]["size"] = 99999; }},
      {"blob too large", [](nlohmann::json& j) { j["blobs"][0]["size"] = uint64_t{2} << 30; }},
      {"blob of a rank beyond", [](nlohmann::json& j) { j["blobs"][1]["rank"] = 2; }},
      {"blob twice", [](nlohmann::json& j) { j["blobs"][1]["rank"] = 0; }},
      {"blob without a file", [](nlohmann::json& j) { j["blobs"][0].erase("file"); }},
  };
  for (const auto& [what, edit] : edits) {
    nlohmann::json json = sample_json();
    edit(json);
    auto parsed = parse_manifest(sealed(json));
    ASSERT_FALSE(parsed) << what;
    EXPECT_FALSE(parsed.error().text.empty()) << what;
  }
  EXPECT_FALSE(parse_manifest(""));
  EXPECT_FALSE(parse_manifest("{}"));
  EXPECT_FALSE(parse_manifest(sealed(nlohmann::json::object())));
  // Deep nesting must not exhaust the stack.
  EXPECT_FALSE(parse_json(std::string(1000000, '[')));
  EXPECT_FALSE(parse_json("{\"a\":" + std::string(100000, '[') + std::string(100000, ']') + "}"));
}

// Replaces random values by extreme ones, with a right checksum: never a crash, and what is accepted is consistent.
TEST(CheckpointManifest, RandomForgeriesNeverCrash) {
  std::mt19937 random(4);
  const auto extremes = nlohmann::json::parse(
      R"([0, 1, -1, 4096, 9223372036854775807, -9223372036854775808, 18446744073709551615, 1e300, "x", "", null, [],
          true, {}, [0, 0], "r00001.h5", 1152921504606846976, 100000])");
  const auto mutate = [&](const auto& self, nlohmann::json* json) -> void {
    if (json->is_structured() && !json->empty() && random() % 8 != 0) {
      auto at = json->begin();
      std::advance(at, random() % json->size());
      self(self, &*at);
    } else {
      *json = extremes[random() % extremes.size()];
    }
  };
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    nlohmann::json json = sample_json();
    for (unsigned i = 1 + random() % 3; i > 0; --i) mutate(mutate, &json);
    if (!json.is_object() || json.empty()) continue;
    auto parsed = parse_manifest(sealed(json));
    if (parsed) {
      ++accepted;
      EXPECT_TRUE(check_manifest(*parsed));
    }
  }
  EXPECT_GT(accepted, 10);  // such as another creation time
}

}  // namespace
}  // namespace dl::ckpt
