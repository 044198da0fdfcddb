// SPDX-License-Identifier: Apache-2.0
// The outline of a manifest: what a checkpoint is as a whole, read without its tensors, of which there may be a
// million.
#include "checkpoint/format/manifest_json.h"
#include "checkpoint/format/manifest_scan.h"
#include "checkpoint/format/manifest_text.h"
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

// The text with one character replaced or one put in, at every place.
std::vector<std::string> changed_a_little(const std::string& text) {
  std::vector<std::string> all;
  for (size_t at = 0; at < text.size(); ++at)
    for (const char* with :
         {"", "0", "7", "-", "+", ".", "e", " ", ",", "\"", "\\", "[", "]", "{", "}", "\x7f", "\n", "\xc3"})
      for (const size_t skipped : {0, 1}) all.push_back(text.substr(0, at) + with + text.substr(at + skipped));
  return all;
}

template <typename Record>
std::string text_of(const Record& record) {
  std::string text;
  append_json(record, &text);
  return text;
}

TEST(CheckpointManyTensors, WhatIsScannedIsWhatTheJsonReaderReads) {
  const TensorRecord tensor{"layers.1/weight",
                            find_dtype(DLCKPT_F32),
                            {40, 5},
                            true,
                            {{0, "/layers.1/weight/s0", 600000, {{0, 0}, {10, 5}}}, {1, "/s1", 0, {{10, 0}, {30, 5}}}}};
  ASSERT_TRUE(scan_tensor(text_of(tensor)));
  size_t scanned_tensors = 0;
  for (const std::string& text : changed_a_little(text_of(tensor))) {
    const auto scanned = scan_tensor(text);
    if (!scanned) continue;
    ++scanned_tensors;
    const auto json = parse_json(text);
    ASSERT_TRUE(json) << text;
    const auto read = tensor_from_json(*json);
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(text_of(*scanned), text_of(*read)) << text;
  }
  EXPECT_GT(scanned_tensors, 100U);
  // Letters outside of ASCII are for the JSON reader, which knows whether they are well-formed.
  TensorRecord foreign = tensor;
  foreign.path = "mod\u00e8le";
  EXPECT_FALSE(scan_tensor(text_of(foreign)));

  const FileRecord file = manifest_of(1).files[0];
  size_t scanned_files = 0;
  for (const std::string& text : changed_a_little(text_of(file))) {
    std::string rest;
    const auto blocks = scan_blocks(text, &rest);
    const auto json = parse_json(blocks ? rest : text);
    if (!blocks || !json) continue;
    auto scanned = file_from_json(*json);
    if (!scanned) continue;
    scanned->blocks = *blocks;
    ++scanned_files;
    const auto whole = parse_json(text);
    ASSERT_TRUE(whole) << text;
    const auto read = file_from_json(*whole);
    if (!read) continue;  // a block that begins behind the end of the file: parse_manifest() sees that
    EXPECT_EQ(text_of(*scanned), text_of(*read)) << text;
  }
  EXPECT_GT(scanned_files, 100U);
  // A second list, under the same name in another spelling.
  std::string rest, twice = text_of(file);
  ASSERT_TRUE(scan_blocks(twice, &rest));
  twice.insert(twice.rfind('}'), R"(,"bl\u006fcks":[])");
  EXPECT_FALSE(scan_blocks(twice, &rest));
}

}  // namespace
}  // namespace dl::ckpt::test
