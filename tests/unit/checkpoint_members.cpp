// SPDX-License-Identifier: Apache-2.0
// File mode: the program's own files in checkpoints, and manifests that lie about them.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "checkpoint/client/members.h"
#include "checkpoint/format/manifest_json.h"
#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {
namespace {

namespace fs = std::filesystem;

std::string content(int64_t step, int rank, size_t size = 9000000) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>((i * 31 + static_cast<size_t>(step * 7 + rank)) >> 3);
  return text;
}

// Two ranks, each with a file of its own; rank 0 with one for all and an empty one.
void with_members(const std::string& dir, const std::string& files, int ranks, const std::string& run,
                  const std::function<void(int, Context&)>& body) {
  run_ranks(ranks, [&](int rank) {
    auto context = open_context(settings_for(dir, rank, ranks, run));
    ASSERT_TRUE(context) << context.error().text;
    Registry& registry = (*context)->registry();
    const std::string own = files + "/own" + std::to_string(rank);
    ASSERT_TRUE(registry.add_member("state/own", own.c_str(), true));
    if (rank == 0) {
      ASSERT_TRUE(registry.add_member("model.bin", (files + "/model").c_str(), false));
      ASSERT_TRUE(registry.add_member("empty", (files + "/empty").c_str(), false));
    }
    body(rank, **context);
  });
}

class Members : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(files());
    fs::create_directory(dir());
    for (int rank = 0; rank < 2; ++rank) write_file(files() + "/own" + std::to_string(rank), content(5, rank, 1000));
    write_file(files() + "/model", content(5, 9));
    write_file(files() + "/empty", "");
  }
  std::string files() const { return temp_.path() + "/files"; }
  std::string dir() const { return temp_.path() + "/ck"; }
  void save(int64_t step) {
    with_members(dir(), files(), 2, "save" + std::to_string(step), [&](int, Context& context) {
      auto saved = context.save(step, DLCKPT_SYNC);
      EXPECT_TRUE(saved) << saved.error().text;
    });
  }
  TempDir temp_;
};

TEST_F(Members, ComeBackAsTheyWere) {
  save(5);
  auto names = scan_checkpoints(posix_io(), dir());
  auto manifest = verify_checkpoint(posix_io(), dir(), names->front());
  ASSERT_TRUE(manifest) << manifest.error().text;
  EXPECT_EQ(manifest->schema(), 2);
  EXPECT_EQ(manifest->members.size(), 4U);
  for (const char* name : {"own0", "own1", "model"}) write_file(files() + "/" + name, "garbage");
  fs::remove(files() + "/empty");
  with_members(dir(), files(), 2, "restore", [&](int, Context& context) {
    std::string note;
    auto restored = context.restore(DLCKPT_LATEST, &note);
    EXPECT_TRUE(restored) << restored.error().text;
  });
  EXPECT_EQ(read_file(files() + "/own0"), content(5, 0, 1000));
  EXPECT_EQ(read_file(files() + "/own1"), content(5, 1, 1000));
  EXPECT_TRUE(read_file(files() + "/model") == content(5, 9));
  EXPECT_TRUE(fs::exists(files() + "/empty"));
  EXPECT_EQ(std::distance(fs::directory_iterator(files()), fs::directory_iterator()), 4) << "no temporary file is left";
}

TEST_F(Members, OfARankThatWasNotThereAreLeftAlone) {
  save(5);
  write_file(files() + "/own2", "of the third");
  with_members(dir(), files(), 3, "wider", [&](int, Context& context) {
    std::string note;
    auto restored = context.restore(DLCKPT_LATEST, &note);
    EXPECT_TRUE(restored) << restored.error().text;
  });
  EXPECT_EQ(read_file(files() + "/own2"), "of the third");
}

TEST_F(Members, ThatTheCheckpointLacksAreAMismatch) {
  save(5);
  auto context = open_context(settings_for(dir()));
  ASSERT_TRUE(context);
  ASSERT_TRUE((*context)->registry().add_member("other", (files() + "/other").c_str(), false));
  std::string note;
  auto restored = (*context)->restore(DLCKPT_LATEST, &note);
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().code, Errc::kConflict);
  EXPECT_FALSE(fs::exists(files() + "/other"));
}

TEST_F(Members, AreDamageWhereAByteIsFlippedCutOffOrMissing) {
  const std::vector<std::function<void(const std::string&)>> damages{
      [](const std::string& path) {
        std::string bytes = read_file(path);
        bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
        write_file(path, bytes);
      },
      [](const std::string& path) { fs::resize_file(path, fs::file_size(path) - 1); },
      [](const std::string& path) { fs::remove(path); }};
  for (const auto& damage : damages) {
    save(5);
    auto names = scan_checkpoints(posix_io(), dir());
    auto manifest = load_manifest(posix_io(), dir(), names->front());
    ASSERT_TRUE(manifest);
    for (const MemberRecord& member : manifest->members)
      if (member.name == "model.bin") damage(newest_path(dir()) + "/" + member.file);
    auto verified = verify_checkpoint(posix_io(), dir(), names->front());
    ASSERT_FALSE(verified);
    EXPECT_EQ(verified.error().code, Errc::kCorrupt);
    fs::remove_all(newest_path(dir()));
  }
}

TEST_F(Members, AMissingFileFailsTheSaveOnAllRanksWithItsName) {
  fs::remove(files() + "/own1");
  with_members(dir(), files(), 2, "missing", [&](int, Context& context) {
    auto saved = context.save(6, DLCKPT_SYNC);
    ASSERT_FALSE(saved);
    EXPECT_NE(saved.error().text.find("state/own"), std::string::npos) << saved.error().text;
  });
  EXPECT_EQ(newest_path(dir()), "");
}

TEST_F(Members, AFileThatIsReplacedMeanwhileIsSavedAsItWasAndOneThatIsWrittenToIsNot) {
  Registry registry;
  ASSERT_TRUE(registry.add_member("m", (files() + "/model").c_str(), false));
  auto open = open_members(posix_io(), registry, 0);
  ASSERT_TRUE(open);
  write_file(files() + "/new", content(6, 9));
  fs::rename(files() + "/new", files() + "/model");
  auto written = write_members(posix_io(), dir(), 0, &*open);
  ASSERT_TRUE(written) << written.error().text;
  EXPECT_TRUE(read_file(dir() + "/" + (*written)[0].file) == content(5, 9));
  fs::remove(dir() + "/" + (*written)[0].file);

  auto again = open_members(posix_io(), registry, 0);
  ASSERT_TRUE(again);
  write_file(files() + "/model", content(7, 9) + "longer");
  auto refused = write_members(posix_io(), dir(), 0, &*again);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::kIo);
  EXPECT_TRUE(fs::is_empty(dir()));
}

TEST(MemberNames, AreBounded) {
  EXPECT_EQ(format_member_file_name({3, 7}), "m00003.0007");
  EXPECT_EQ(parse_member_file_name("m00003.0007")->index, 7U);
  for (const char* bad : {"", "m00003.007", "m00003.00071", "x00003.0007", "m0000a.0007", "../../etc/x", "m00003-0007"})
    EXPECT_FALSE(parse_member_file_name(bad)) << bad;
  Registry registry;
  EXPECT_FALSE(registry.add_member(nullptr, "/x", false));
  EXPECT_FALSE(registry.add_member("a", nullptr, false));
  EXPECT_FALSE(registry.add_member("a", "", false));
  EXPECT_FALSE(registry.add_member("a//b", "/x", false));
  EXPECT_FALSE(registry.add_member("a", std::string(5000, 'x').c_str(), false));
  EXPECT_TRUE(registry.add_member("a", "/x", false));
  EXPECT_TRUE(registry.remove("a"));
  EXPECT_FALSE(registry.remove("a"));
}

// A manifest whose JSON was changed, with its checksum made right again.
std::string forged(const std::string& text, const std::function<void(nlohmann::json&)>& change) {
  auto json = nlohmann::json::parse(text);
  change(json);
  json.erase("checksum");
  std::string body = json.dump();
  body.pop_back();
  body += ",\n\"checksum\": \"" + std::string(kHashHexDigits, '0') + "\"\n}\n";
  const size_t at = body.size() - 4 - kHashHexDigits;
  return body.replace(at, kHashHexDigits, to_hex(hash_bytes(body.data(), body.size())));
}

TEST_F(Members, HostileManifestsAreRefused) {
  save(5);
  const std::string text = read_file(newest_path(dir()) + "/" + kManifestName);
  ASSERT_TRUE(parse_manifest(forged(text, [](nlohmann::json&) {}))) << "the forger works";
  const std::vector<std::pair<const char*, std::function<void(nlohmann::json&)>>> cases{
      {"outside", [](nlohmann::json& j) { j["members"][0]["file"] = "../../x"; }},
      {"a data file", [](nlohmann::json& j) { j["members"][0]["file"] = "r00000.h5"; }},
      {"of a rank that is not there", [](nlohmann::json& j) { j["members"][0]["file"] = "m00009.0000"; }},
      {"two in one file", [](nlohmann::json& j) { j["members"][0]["file"] = j["members"][1]["file"]; }},
      {"twice", [](nlohmann::json& j) { j["members"].push_back(j["members"][0]); }},
      {"unsorted", [](nlohmann::json& j) { std::swap(j["members"][0], j["members"][1]); }},
      {"size", [](nlohmann::json& j) { j["members"][1]["size"] = 7; }},
      {"negative", [](nlohmann::json& j) { j["members"][1]["size"] = -7; }},
      {"huge", [](nlohmann::json& j) { j["members"][1]["size"] = INT64_MAX; }},
      {"rank", [](nlohmann::json& j) { j["members"][1]["rank"] = 5; }},
      {"name", [](nlohmann::json& j) { j["members"][1]["name"] = "/etc"; }},
      {"no blocks", [](nlohmann::json& j) { j["members"][1]["blocks"] = nlohmann::json::array(); }},
      {"a gap", [](nlohmann::json& j) { j["members"][1]["blocks"][0][0] = 1; }},
      {"root", [](nlohmann::json& j) { j["members"][1]["root"] = std::string(32, '0'); }},
      {"not a list", [](nlohmann::json& j) { j["members"] = 7; }},
      {"not an object", [](nlohmann::json& j) { j["members"][0] = 7; }},
      {"metrics", [](nlohmann::json& j) { j["metrics"] = 7; }},
      {"metric name", [](nlohmann::json& j) { j["metrics"]["a b"] = 1; }},
      {"metric value", [](nlohmann::json& j) { j["metrics"]["a"] = "1"; }},
  };
  for (const auto& [what, change] : cases) {
    auto parsed = parse_manifest(forged(text, change));
    EXPECT_FALSE(parsed) << what;
    if (!parsed) {
      EXPECT_EQ(parsed.error().code, Errc::kCorrupt) << what;
    }
  }
}

}  // namespace
}  // namespace dl::ckpt::test
