// SPDX-License-Identifier: Apache-2.0
// The outline of a manifest: what a checkpoint is as a whole, read without its tensors, of which there may be a
// million.
#include "checkpoint/format/user_block.h"
#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {
namespace {

Manifest manifest_of(size_t tensors) {
  Manifest m;
  m.name = CheckpointName{7, 0x0000000100000002U};
  m.created_ms = 1700000000000;
  m.writer = "test";
  m.run_id = "run\n\"tensors\": [";
  m.metrics["loss"] = 0.5;
  FileRecord file;
  file.size = 1 << 20;
  file.table = Extent{kUserBlockBytes, 320};
  file.blocks = cut_blocks(kUserBlockBytes, file.size, file.table, {});
  for (Block& block : file.blocks) block.hash = hash_bytes(&block.at, 8);
  file.root = table_root(file.blocks);
  m.files.push_back(file);
  for (size_t i = 0; i < tensors; ++i) {
    const std::string number = std::to_string(1000000 + i);
    m.tensors.push_back(
        {"t],\"" + number, find_dtype(DLCKPT_F32), {4}, false, {{0, "/t" + number + "/s0", 600000, {{0}, {4}}}}});
  }
  m.blobs.push_back({"rng", 0, 0, "/rng/b0", 8000, 100});
  return m;
}

TEST(CheckpointManyTensors, TheOutlineOfAManifestIsAllButItsTensorsAndBlobs) {
  for (const size_t count : {0, 1, 3}) {
    Manifest expected = manifest_of(count);
    const std::string text = format_manifest(expected);
    auto whole = parse_manifest(text);
    ASSERT_TRUE(whole) << whole.error().text;
    auto outline = parse_manifest_outline(text);
    ASSERT_TRUE(outline) << outline.error().text;
    expected.tensors.clear();
    expected.blobs.clear();
    EXPECT_EQ(format_manifest(*outline), format_manifest(expected));
  }
}

// The text with a right checksum, after `what` was replaced.
std::string forged(std::string text, const std::string& what, const std::string& by) {
  const size_t found = text.find(what);
  EXPECT_NE(found, std::string::npos) << what;
  text.replace(found, what.size(), by);
  const size_t digits = text.size() - kHashHexDigits - std::string("\"\n}\n").size();
  text.replace(digits, kHashHexDigits, std::string(kHashHexDigits, '0'));
  return text.replace(digits, kHashHexDigits, to_hex(hash_bytes(text.data(), text.size())));
}

TEST(CheckpointManyTensors, AnotherLayoutOfTheSameTextMeansTheSame) {
  const Manifest expected = manifest_of(3);
  const std::string text = format_manifest(expected);
  for (const auto& [what, by] :
       {std::pair("\n\"tensors\": [", "\n \"tensors\":["), std::pair(",\n  {\"dtype\"", ",{\"dtype\""),
        std::pair(",\n  {\"dtype\"", "\n , {\"dtype\""), std::pair("\n],\n\"blobs\"", "\n] ,\n\"blobs\""),
        std::pair("{\n", "{\n\"x\": {\n\"tensors\": [\n],\n\"y\": 1},\n"),
        std::pair("{\n", "{\n\"tensors\": [\n],\n")}) {
    const std::string other = forged(text, what, by);
    auto whole = parse_manifest(other);
    ASSERT_TRUE(whole) << by << ": " << whole.error().text;
    EXPECT_EQ(format_manifest(*whole), text) << by;
    auto outline = parse_manifest_outline(other);
    ASSERT_TRUE(outline) << by << ": " << outline.error().text;
    EXPECT_EQ(outline->files.size(), 1U);
  }
  for (const auto& [what, by] :
       {std::pair(",\n  {\"dtype\"", "\n  {\"dtype\""), std::pair(",\n  {\"dtype\"", ",\n ,{\"dtype\""),
        std::pair("\n],\n\"blobs\"", ",\n],\n\"blobs\""), std::pair("\n  {\"dtype\"", "\n\"cut\",\n  {\"dtype\""),
        std::pair("\n  {\"dtype\":\"float32\"", "\n  {\"dtype\":\"float99\"")})
    EXPECT_FALSE(parse_manifest(forged(text, what, by))) << by;
}

TEST(CheckpointManyTensors, TheOutlineNoticesEveryFlippedOrMissingByte) {
  std::string text = format_manifest(manifest_of(2));
  for (size_t i = 0; i < text.size(); ++i) {
    text[i] = static_cast<char>(text[i] ^ (1 << (i % 8)));
    EXPECT_FALSE(parse_manifest_outline(text)) << i;
    text[i] = static_cast<char>(text[i] ^ (1 << (i % 8)));
    EXPECT_FALSE(parse_manifest_outline(text.substr(0, i))) << i;
  }
}

}  // namespace
}  // namespace dl::ckpt::test
