// SPDX-License-Identifier: Apache-2.0
// What the options of dlckpt.h and the environment say together.
#include <cstdlib>
#include <map>

#include "checkpoint/include/dlckpt.h"
#include "tests/unit/checkpoint_environment.h"
#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {
namespace {

TEST(CheckpointSettings, TheFirstSourceThatSpeaksCounts) {
  const auto resolve = [](const dlckpt_options* options = nullptr) {
    auto settings = resolve_settings(options);
    EXPECT_TRUE(settings) << settings.error().text;
    return settings ? *settings : Settings();
  };
  {
    const Environment env({{"CHECKPOINT_DIR", "/c"}});
    const Settings s = resolve();
    EXPECT_EQ(s.dir, "/c");
    EXPECT_EQ(s.rank, 0);
    EXPECT_EQ(s.world_size, 1);
    EXPECT_EQ(s.keep, 3);
    EXPECT_FALSE(s.run_id.empty());
    EXPECT_NE(resolve().run_id, s.run_id);
  }
  {
    const Environment env({{"CHECKPOINT_DIR", "/c"}, {"DL_CHECKPOINT", "/b,every=50steps,keep=7"}});
    const Settings s = resolve();
    EXPECT_EQ(s.dir, "/b");
    EXPECT_EQ(s.every_steps, 50);
    EXPECT_EQ(s.keep, 7);
    dlckpt_options options{};
    options.struct_size = sizeof options;
    options.dir = "/a///";
    options.keep = 2;
    options.every_s = 9;
    const Settings t = resolve(&options);
    EXPECT_EQ(t.dir, "/a");
    EXPECT_EQ(t.keep, 2);
    EXPECT_EQ(t.every_s, 9);
    EXPECT_EQ(t.every_steps, 0);
    EXPECT_FALSE(t.every_auto);
    options.every_s = DLCKPT_EVERY_AUTO;
    EXPECT_TRUE(resolve(&options).every_auto);
    EXPECT_EQ(resolve(&options).every_s, 0);
    EXPECT_EQ(resolve(&options).every_steps, 0) << "instead of what was asked for at submission";
  }
  {
    const Environment env({{"CHECKPOINT_DIR", "/c"},
                           {"DL_CHECKPOINT", "/b,every=10m"},
                           {"DL_CHECKPOINT_DIR", "/a"},
                           {"DL_RANK", "3"},
                           {"DL_WORLD_SIZE", "4"},
                           {"RANK", "0"},
                           {"WORLD_SIZE", "1"},
                           {"DL_RUN_ID", "run-1"},
                           {"SLURM_JOB_ID", "12"}});
    const Settings s = resolve();
    EXPECT_EQ(s.dir, "/a");
    EXPECT_EQ(s.every_s, 600);
    EXPECT_EQ(s.rank, 3);
    EXPECT_EQ(s.world_size, 4);
    EXPECT_EQ(s.run_id, "run-1");
    EXPECT_EQ(s.owner, "job 12");
  }
  {
    const Environment env({{"DL_CHECKPOINT_DIR", "/a"},
                           {"SLURM_PROCID", "1"},
                           {"SLURM_STEP_NUM_TASKS", "2"},
                           {"SLURM_JOB_ID", "12"},
                           {"SLURM_STEP_ID", "0"}});
    const Settings s = resolve();
    EXPECT_EQ(s.rank, 1);
    EXPECT_EQ(s.world_size, 2);
    EXPECT_EQ(s.run_id, "slurm-12.0-0");
  }
}

TEST(CheckpointSettings, AreToldWithRankAndRunId) {
  const Environment env({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"DL_RUN_ID", "run-1"}});
  dlckpt_settings found{};
  found.struct_size = sizeof found;
  ASSERT_EQ(dlckpt_resolve(nullptr, &found), DLCKPT_OK) << dlckpt_open_error();
  EXPECT_TRUE(found.rank == 1 && found.world_size == 2) << found.rank << " of " << found.world_size;
  EXPECT_STREQ(found.run_id, "run-1");
}

// Whether an argument is given, whether the environment speaks, and who counts. The same table in both languages:
// tests/python/test_pure.py has it for attach().
TEST(CheckpointSettings, WhoCountsOfAnArgumentAndTheEnvironment) {
  struct Row {
    bool given, said, first;  // options.environment_first
    const char* dir;
    double every_s;
    int keep, mode;
    unsigned from_environment;
  };
  constexpr unsigned kAll = DLCKPT_SETTING_DIR | DLCKPT_SETTING_EVERY | DLCKPT_SETTING_KEEP | DLCKPT_SETTING_MODE;
  constexpr Row kTable[] = {
      {false, false, false, nullptr, 0, 3, DLCKPT_MODE_ASYNC, 0},
      {true, false, false, "/mine", 60, 5, DLCKPT_MODE_LAZY, 0},
      {false, true, false, "/asked", 600, 7, DLCKPT_MODE_SYNC, kAll},
      {true, true, false, "/mine", 60, 5, DLCKPT_MODE_LAZY, 0},
      {false, false, true, nullptr, 0, 3, DLCKPT_MODE_ASYNC, 0},
      {true, false, true, "/mine", 60, 5, DLCKPT_MODE_LAZY, 0},
      {false, true, true, "/asked", 600, 7, DLCKPT_MODE_SYNC, kAll},
      {true, true, true, "/asked", 600, 7, DLCKPT_MODE_SYNC, kAll},
  };
  for (const Row& row : kTable) {
    SCOPED_TRACE(testing::Message() << "given " << row.given << ", said " << row.said << ", first " << row.first);
    const Environment env({});
    if (row.said) {
      setenv("DL_CHECKPOINT", "/asked,every=10m,keep=7", 1);
      setenv("DL_CHECKPOINT_MODE", "sync", 1);
    }
    dlckpt_options options{};
    options.struct_size = sizeof options;
    options.environment_first = row.first ? 1 : 0;
    if (row.given) {
      options.dir = "/mine";
      options.every_s = 60;
      options.keep = 5;
      options.mode = DLCKPT_MODE_LAZY;
    }
    dlckpt_settings found{};
    found.struct_size = sizeof found;
    ASSERT_EQ(dlckpt_resolve(&options, &found), DLCKPT_OK) << dlckpt_open_error();
    EXPECT_STREQ(found.dir, row.dir);
    EXPECT_EQ(found.every_s, row.every_s);
    EXPECT_EQ(found.every_steps, 0);
    EXPECT_EQ(found.keep, row.keep);
    EXPECT_EQ(found.mode, row.mode);
    EXPECT_EQ(found.from_environment, row.from_environment);
  }
}

TEST(CheckpointSettings, TheEnvironmentComesFirstOnlyInWhatItNames) {
  dlckpt_options options{};
  options.struct_size = sizeof options;
  options.environment_first = 1;
  options.dir = "/mine";
  options.every_steps = 50;
  options.keep = 5;
  dlckpt_settings found{};
  found.struct_size = sizeof found;
  {
    const Environment env({{"CHECKPOINT_DIR", "/c"}});
    ASSERT_EQ(dlckpt_resolve(&options, &found), DLCKPT_OK);
    EXPECT_STREQ(found.dir, "/mine") << "CHECKPOINT_DIR is what is left if nobody says anything";
  }
  {
    const Environment env({{"DL_CHECKPOINT", "/asked,keep=7"}, {"DL_CHECKPOINT_DIR", "/there"}});
    ASSERT_EQ(dlckpt_resolve(&options, &found), DLCKPT_OK);
    EXPECT_STREQ(found.dir, "/there");
    EXPECT_EQ(found.every_steps, 50);
    EXPECT_EQ(found.keep, 7);
    EXPECT_EQ(found.from_environment, unsigned{DLCKPT_SETTING_DIR} | unsigned{DLCKPT_SETTING_KEEP});
  }
  {
    const Environment env({{"DL_CHECKPOINT", "/asked,every=10m"}});
    ASSERT_EQ(dlckpt_resolve(&options, &found), DLCKPT_OK);
    EXPECT_EQ(found.every_steps, 0) << "every= by time stands instead of train steps, not beside them";
    EXPECT_EQ(found.every_s, 600);
    EXPECT_EQ(found.keep, 5);
    options.keep = -1;
    EXPECT_EQ(dlckpt_resolve(&options, &found), DLCKPT_E_INVALID);
    EXPECT_NE(std::string(dlckpt_open_error()).find("keep is -1; allowed: 1 to"), std::string::npos);
    found.struct_size = 4;
    EXPECT_EQ(dlckpt_resolve(nullptr, &found), DLCKPT_E_INVALID);
    EXPECT_EQ(dlckpt_resolve(nullptr, nullptr), DLCKPT_E_INVALID);
  }
}

TEST(CheckpointSettings, TheLocalLevelOfTheEnvironmentMayHaveAPartner) {
  const Environment env({{"DL_CHECKPOINT_DIR", "/a"}});
  for (const auto& [text, local, partner] :
       {std::tuple("/local", "/local", false), std::tuple("/local,partner", "/local", true),
        std::tuple("/a,b", "/a,b", false)}) {
    setenv("DL_CHECKPOINT_LOCAL", text, 1);
    const auto settings = resolve_settings(nullptr);
    ASSERT_TRUE(settings) << settings.error().text;
    EXPECT_EQ(settings->local_dir, local);
    EXPECT_EQ(settings->partner, partner);
  }
  setenv("DL_CHECKPOINT_LOCAL", ",partner", 1);
  EXPECT_FALSE(resolve_settings(nullptr)) << "no path";
  unsetenv("DL_CHECKPOINT_LOCAL");
}

TEST(CheckpointSettings, TheObjectStoreThatWasAskedForIsOfTheDirectoryThatWasAskedFor) {
  const auto objects_of = [](const char* dir) {
    dlckpt_options options{};
    options.struct_size = sizeof options;
    options.dir = dir;
    const auto settings = resolve_settings(&options);
    EXPECT_TRUE(settings) << settings.error().text;
    return settings ? settings->objects : "";
  };
  {
    const Environment env({{"DL_CHECKPOINT", "/b,objects=lab:x"}});
    EXPECT_EQ(objects_of(nullptr), "lab:x");
    EXPECT_EQ(objects_of("/c/..//b/"), "lab:x");
    EXPECT_EQ(objects_of("/c"), "") << "another directory of the program";
  }
  const Environment env({{"DL_CHECKPOINT", "b,objects=lab:x"}, {"DL_CHECKPOINT_DIR", "/run/b"}});
  EXPECT_EQ(objects_of("/run/b"), "lab:x") << "as dlrun has expanded it";
  EXPECT_EQ(objects_of("/run/c"), "");
}

TEST(CheckpointSettings, WrongValuesAreRefusedWithTheirName) {
  const std::vector<std::pair<std::map<std::string, std::string>, std::string>> cases = {
      {{}, "no checkpoint directory"},
      {{{"DL_CHECKPOINT_DIR", "/a"}, {"RANK", "x"}, {"WORLD_SIZE", "2"}}, "RANK"},
      {{{"DL_CHECKPOINT_DIR", "/a"}, {"RANK", "2"}, {"WORLD_SIZE", "2"}, {"DL_RUN_ID", "r"}}, "rank 2 of world size 2"},
      {{{"DL_CHECKPOINT_DIR", "/a"}, {"RANK", "-1"}, {"WORLD_SIZE", "2"}}, "RANK"},
      {{{"DL_CHECKPOINT_DIR", "/a"}, {"RANK", "0"}, {"WORLD_SIZE", "0"}}, "WORLD_SIZE"},
      {{{"DL_CHECKPOINT_DIR", "/a"}, {"RANK", "0"}, {"WORLD_SIZE", "2"}}, "DL_RUN_ID"},
      {{{"DL_CHECKPOINT", "/a,every=never"}}, "DL_CHECKPOINT"},
  };
  for (const auto& [values, words] : cases) {
    const Environment env({});
    for (const auto& [name, value] : values) setenv(name.c_str(), value.c_str(), 1);
    auto settings = resolve_settings(nullptr);
    ASSERT_FALSE(settings) << words;
    EXPECT_NE(settings.error().text.find(words), std::string::npos) << settings.error().text;
  }
  const Environment env({{"DL_CHECKPOINT_DIR", "/a"}});
  const auto refused = [](void (*edit)(dlckpt_options*)) {
    dlckpt_options options{};
    options.struct_size = sizeof options;
    edit(&options);
    return !resolve_settings(&options);
  };
  EXPECT_TRUE(refused([](dlckpt_options* o) { o->struct_size = 3; }));
  EXPECT_TRUE(refused([](dlckpt_options* o) { o->struct_size = 1000; }));
  EXPECT_TRUE(refused([](dlckpt_options* o) { o->world_size = -1; }));
  EXPECT_TRUE(refused([](dlckpt_options* o) { o->keep = -1; }));
  EXPECT_TRUE(refused([](dlckpt_options* o) { o->every_s = -2; }));
  EXPECT_TRUE(refused([](dlckpt_options* o) { o->every_steps = -1; }));
  EXPECT_TRUE(refused([](dlckpt_options* o) { o->timeout_s = -1; }));
}

}  // namespace
}  // namespace dl::ckpt::test
