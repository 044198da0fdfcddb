// SPDX-License-Identifier: Apache-2.0
// dlckpt.h as a C program uses it: what the environment says, wrong arguments of every kind, directories of every kind,
// and a disk that is full.
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <map>

#include "checkpoint/include/dlckpt.h"
#include "checkpoint/include/dlckpt_lease.h"
#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {
namespace {

// Sets variables for one test; all that libdlckpt looks at are unset before and after.
class Environment {
 public:
  Environment(std::initializer_list<std::pair<const char*, std::string>> values) {
    clear();
    for (const auto& [name, value] : values) setenv(name, value.c_str(), 1);
  }
  ~Environment() { clear(); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  static void clear() {
    for (const char* name : {"DL_CHECKPOINT_DIR",    "DL_CHECKPOINT",
                             "CHECKPOINT_DIR",       "DL_RANK",
                             "DL_WORLD_SIZE",        "RANK",
                             "WORLD_SIZE",           "OMPI_COMM_WORLD_RANK",
                             "OMPI_COMM_WORLD_SIZE", "PMIX_RANK",
                             "SLURM_NTASKS",         "SLURM_PROCID",
                             "SLURM_STEP_NUM_TASKS", "DL_RUN_ID",
                             "TORCHELASTIC_RUN_ID",  "MASTER_ADDR",
                             "MASTER_PORT",          "SLURM_JOB_ID",
                             "SLURM_STEP_ID",        "SLURM_RESTART_COUNT",
                             "DL_PROGRESS",          "DL_CHECKPOINT_LEASE",
                             "DL_CHECKPOINT_MODE"})
      unsetenv(name);
  }
};

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

dlckpt_ctx* open_c(const std::string& dir) {
  dlckpt_options options{};
  options.struct_size = sizeof options;
  options.dir = dir.c_str();
  options.world_size = 1;
  dlckpt_ctx* ctx = nullptr;
  EXPECT_EQ(dlckpt_open(&options, &ctx), DLCKPT_OK) << dlckpt_open_error();
  return ctx;
}

TEST(CheckpointC, AWholeLife) {
  const Environment env({});
  const TempDir dir;
  dlckpt_ctx* ctx = open_c(dir.path() + "/new");
  float w[6] = {1, 2, 3, 4, 5, 6};
  const int64_t shape[] = {2, 3};
  ASSERT_EQ(dlckpt_tensor(ctx, "w", DLCKPT_F32, 2, shape, nullptr, nullptr, w, DLCKPT_REPLICATED), DLCKPT_OK);
  ASSERT_EQ(dlckpt_blob(ctx, "rng", "abc", 3, 1), DLCKPT_OK);
  EXPECT_EQ(dlckpt_latest(ctx), -1);
  int64_t step = 77;
  EXPECT_EQ(dlckpt_restore(ctx, DLCKPT_LATEST, &step), DLCKPT_E_NOT_FOUND);
  EXPECT_EQ(step, 77);
  EXPECT_STRNE(dlckpt_errmsg(ctx), "");
  ASSERT_EQ(dlckpt_save(ctx, 5), DLCKPT_OK) << dlckpt_errmsg(ctx);
  EXPECT_STREQ(dlckpt_errmsg(ctx), "");
  EXPECT_EQ(dlckpt_latest(ctx), 5);
  w[0] = 0;
  ASSERT_EQ(dlckpt_restore(ctx, DLCKPT_LATEST, &step), DLCKPT_OK);
  EXPECT_EQ(step, 5);
  EXPECT_EQ(w[0], 1);
  const void* data = nullptr;
  size_t size = 0;
  ASSERT_EQ(dlckpt_get_blob(ctx, "rng", &data, &size), DLCKPT_OK);
  EXPECT_EQ(std::string(static_cast<const char*>(data), size), "abc");
  EXPECT_EQ(dlckpt_get_blob(ctx, "none", &data, &size), DLCKPT_E_NOT_FOUND);
  EXPECT_EQ(dlckpt_forget(ctx, "w"), DLCKPT_OK);
  EXPECT_EQ(dlckpt_forget(ctx, "w"), DLCKPT_E_NOT_FOUND);
  EXPECT_EQ(dlckpt_restore(ctx, 5, nullptr), DLCKPT_OK);
  dlckpt_finished(ctx);
  EXPECT_EQ(dlckpt_exit_code(ctx), 76);
  dlckpt_close(ctx);
  EXPECT_TRUE(leftovers(dir.path() + "/new").empty());
}

TEST(CheckpointC, WrongArgumentsAreRefusedAndNothingIsDone) {
  const Environment env({});
  const TempDir dir;
  EXPECT_EQ(dlckpt_open(nullptr, nullptr), DLCKPT_E_INVALID);
  dlckpt_ctx* ctx = nullptr;
  EXPECT_EQ(dlckpt_open(nullptr, &ctx), DLCKPT_E_INVALID);
  EXPECT_EQ(ctx, nullptr);
  EXPECT_STRNE(dlckpt_open_error(), "");
  ctx = open_c(dir.path());
  float w[4] = {};
  const int64_t shape[] = {4}, negative[] = {-1}, two[] = {2}, three[] = {3}, zero[] = {0};
  const int64_t far[] = {INT64_MIN};
  const int64_t huge[] = {int64_t{1} << 40, int64_t{1} << 40};
  int64_t many[40];
  std::fill(std::begin(many), std::end(many), 1);
  struct Case {
    const char* what;
    int rc;
  };
  const Case cases[] = {
      {"NULL name", dlckpt_tensor(ctx, nullptr, DLCKPT_F32, 1, shape, nullptr, nullptr, w, 0)},
      {"empty name", dlckpt_tensor(ctx, "", DLCKPT_F32, 1, shape, nullptr, nullptr, w, 0)},
      {"empty part", dlckpt_tensor(ctx, "a//b", DLCKPT_F32, 1, shape, nullptr, nullptr, w, 0)},
      {"control character", dlckpt_tensor(ctx, "a\nb", DLCKPT_F32, 1, shape, nullptr, nullptr, w, 0)},
      {"not UTF-8", dlckpt_tensor(ctx, "\xff", DLCKPT_F32, 1, shape, nullptr, nullptr, w, 0)},
      {"dtype 0", dlckpt_tensor(ctx, "w", static_cast<dlckpt_dtype>(0), 1, shape, nullptr, nullptr, w, 0)},
      {"dtype 18", dlckpt_tensor(ctx, "w", static_cast<dlckpt_dtype>(18), 1, shape, nullptr, nullptr, w, 0)},
      {"-1 dimensions", dlckpt_tensor(ctx, "w", DLCKPT_F32, -1, shape, nullptr, nullptr, w, 0)},
      {"33 dimensions", dlckpt_tensor(ctx, "w", DLCKPT_F32, 33, many, nullptr, nullptr, w, 0)},
      {"no shape", dlckpt_tensor(ctx, "w", DLCKPT_F32, 1, nullptr, nullptr, nullptr, w, 0)},
      {"negative size", dlckpt_tensor(ctx, "w", DLCKPT_F32, 1, negative, nullptr, nullptr, w, 0)},
      {"overflow", dlckpt_tensor(ctx, "w", DLCKPT_F32, 2, huge, nullptr, nullptr, w, 0)},
      {"offset alone", dlckpt_tensor(ctx, "w", DLCKPT_F32, 1, shape, two, nullptr, w, 0)},
      {"outside", dlckpt_tensor(ctx, "w", DLCKPT_F32, 1, shape, two, three, w, 0)},
      {"negative offset", dlckpt_tensor(ctx, "w", DLCKPT_F32, 1, shape, negative, two, w, 0)},
      {"another part of nothing", dlckpt_tensor(ctx, "w", DLCKPT_F32, 1, shape, two, two, w, DLCKPT_ANOTHER_PART)},
      {"huge stride", dlckpt_tensor_strided(ctx, "w", DLCKPT_F32, 1, shape, nullptr, nullptr, far, w, 0)},
      {"NULL data", dlckpt_tensor(ctx, "w", DLCKPT_F32, 1, shape, nullptr, nullptr, nullptr, 0)},
      {"unknown flag", dlckpt_tensor(ctx, "w", DLCKPT_F32, 1, shape, nullptr, nullptr, w, 64)},
      {"NULL blob", dlckpt_blob(ctx, "b", nullptr, 3, 0)},
      {"huge blob", dlckpt_blob(ctx, "b", w, (size_t{1} << 30) + 1, 0)},
      {"negative step", dlckpt_save(ctx, -1)},
      {"huge step", dlckpt_save(ctx, INT64_MAX)},
      {"negative step to restore", dlckpt_restore(ctx, -2, nullptr)},
      {"NULL results", dlckpt_get_blob(ctx, "b", nullptr, nullptr)},
      {"NULL context", dlckpt_save(nullptr, 1)},
  };
  for (const Case& c : cases) EXPECT_EQ(c.rc, DLCKPT_E_INVALID) << c.what;
  EXPECT_EQ(dlckpt_tensor(ctx, "w", DLCKPT_F32, 1, zero, nullptr, nullptr, nullptr, 0), DLCKPT_OK);
  EXPECT_EQ(dlckpt_forget(ctx, "w"), DLCKPT_OK);
  EXPECT_EQ(dlckpt_want(nullptr, 1), 0);
  EXPECT_EQ(dlckpt_latest(nullptr), -1);
  EXPECT_STRNE(dlckpt_errmsg(nullptr), "");
  dlckpt_finished(nullptr);
  dlckpt_close(nullptr);
  EXPECT_EQ(dlckpt_latest(ctx), -1);  // nothing of all this was saved
  dlckpt_close(ctx);
  EXPECT_STREQ(dlckpt_error_name(DLCKPT_E_NO_SPACE), "DLCKPT_E_NO_SPACE");
  EXPECT_STREQ(dlckpt_error_name(99), "unknown error");
  EXPECT_EQ(dlckpt_dtype_size(DLCKPT_C128), 16U);
  EXPECT_EQ(dlckpt_dtype_size(static_cast<dlckpt_dtype>(77)), 0U);
  EXPECT_STREQ(dlckpt_dtype_name(DLCKPT_BF16), "bfloat16");
  EXPECT_EQ(dlckpt_dtype_name(static_cast<dlckpt_dtype>(77)), nullptr);
  EXPECT_STRNE(dlckpt_version(), "");
}

int try_open(const std::string& dir) {
  dlckpt_options options{};
  options.struct_size = sizeof options;
  options.dir = dir.c_str();
  options.world_size = 1;
  dlckpt_ctx* ctx = nullptr;
  const int rc = dlckpt_open(&options, &ctx);
  EXPECT_EQ(rc == DLCKPT_OK, ctx != nullptr);
  if (ctx && rc == DLCKPT_OK) {
    float w = 1;
    dlckpt_tensor(ctx, "w", DLCKPT_F32, 0, nullptr, nullptr, nullptr, &w, 0);
    const int saved = dlckpt_save(ctx, 1);
    dlckpt_close(ctx);
    return saved;
  }
  return rc;
}

TEST(CheckpointC, DirectoriesThatCannotBe) {
  const Environment env({});
  const TempDir dir;
  EXPECT_EQ(try_open(dir.path() + "/no/parent"), DLCKPT_E_NOT_FOUND);
  write_file(dir.path() + "/file", "x");
  EXPECT_EQ(try_open(dir.path() + "/file"), DLCKPT_E_INVALID);
  EXPECT_EQ(try_open(dir.path() + "/file/below"), DLCKPT_E_IO);
  EXPECT_NE(try_open(std::string(5000, 'x')), DLCKPT_OK);
  EXPECT_EQ(try_open(dir.path() + "/" + std::string(255, 'x')), DLCKPT_OK);
  EXPECT_NE(try_open(dir.path() + "/" + std::string(256, 'x')), DLCKPT_OK);
}

TEST(CheckpointC, AContextMayBeClosedInAForkedChild) {
  const Environment env({});
  const TempDir dir;
  dlckpt_ctx* ctx = open_c(dir.path());
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    dlckpt_close(ctx);  // as a data loader's worker does at its end
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(dlckpt_save(ctx, 1), DLCKPT_OK) << dlckpt_errmsg(ctx);  // the lease is still held
  dlckpt_close(ctx);
}

TEST(CheckpointC, EveryCallButCloseIsRefusedInAForkedChild) {
  const Environment env({});
  const TempDir dir;
  dlckpt_ctx* ctx = open_c(dir.path());
  std::vector<float> w(1 << 20, 1.0F);
  const auto n = static_cast<int64_t>(w.size());
  ASSERT_EQ(dlckpt_tensor(ctx, "w", DLCKPT_F32, 1, &n, nullptr, nullptr, w.data(), DLCKPT_REPLICATED), DLCKPT_OK);
  ASSERT_EQ(dlckpt_blob(ctx, "b", "x", 1, 0), DLCKPT_OK);
  ASSERT_EQ(dlckpt_save_flags(ctx, 1, DLCKPT_SYNC), DLCKPT_OK) << dlckpt_errmsg(ctx);
  ASSERT_EQ(dlckpt_restore(ctx, DLCKPT_LATEST, nullptr), DLCKPT_OK);
  ASSERT_EQ(dlckpt_save(ctx, 2), DLCKPT_OK) << "one is in flight when the process forks";
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    alarm(20);  // what hangs ends by a signal
    const auto refused = [&](int rc) { return rc == DLCKPT_E_INVALID && std::strstr(dlckpt_errmsg(ctx), "fork()"); };
    int64_t step = -5;
    const void* bytes = nullptr;
    size_t size = 0;
    dlckpt_save_stats saved{};
    saved.struct_size = sizeof saved;
    dlckpt_load_stats loaded{};
    loaded.struct_size = sizeof loaded;
    const bool good =
        refused(dlckpt_save(ctx, 3)) && refused(dlckpt_save_flags(ctx, 3, DLCKPT_SYNC)) &&
        refused(dlckpt_restore(ctx, DLCKPT_LATEST, &step)) && refused(dlckpt_peek(ctx, DLCKPT_LATEST, &step)) &&
        refused(dlckpt_wait(ctx, -1, &step)) && refused(dlckpt_before_mutation(ctx)) &&
        refused(dlckpt_stats(ctx, &saved)) && refused(dlckpt_restore_stats(ctx, &loaded)) &&
        refused(dlckpt_metric(ctx, "m", 1)) && refused(dlckpt_blob(ctx, "c", "x", 1, 0)) &&
        refused(dlckpt_member(ctx, "m", "/f", 0)) && refused(dlckpt_get_blob(ctx, "b", &bytes, &size)) &&
        refused(dlckpt_forget(ctx, "w")) &&
        refused(dlckpt_tensor(ctx, "v", DLCKPT_F32, 1, &n, nullptr, nullptr, w.data(), 0)) &&
        refused(dlckpt_tensor_strided(ctx, "v", DLCKPT_F32, 1, &n, nullptr, nullptr, nullptr, w.data(), 0));
    bool quiet = dlckpt_want(ctx, 4) == 0 && dlckpt_latest(ctx) == -1 && dlckpt_exit_code(ctx) == 76 && step == -5;
    dlckpt_finished(ctx);
    dlckpt_close(ctx);
    // It may open one of its own.
    const TempDir other;
    dlckpt_ctx* own = open_c(other.path());
    quiet = quiet && dlckpt_save_flags(own, 1, DLCKPT_SYNC) == DLCKPT_OK;
    dlckpt_close(own);
    _exit(good ? quiet ? 0 : 2 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(dlckpt_wait(ctx, -1, nullptr), DLCKPT_OK) << dlckpt_errmsg(ctx);
  EXPECT_EQ(dlckpt_latest(ctx), 2);
  dlckpt_close(ctx);
}

TEST(CheckpointC, ALeaseIsNotRenewedByAForkedChild) {
  const TempDir dir;
  dlckpt_lease* lease = nullptr;
  ASSERT_EQ(dlckpt_lease_acquire(dir.path().c_str(), "test", nullptr, &lease), DLCKPT_OK);
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    const int rc = dlckpt_lease_renew(lease);
    dlckpt_lease_release(lease);
    _exit(rc == DLCKPT_E_INVALID ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(dlckpt_lease_renew(lease), DLCKPT_OK) << dlckpt_open_error();
  dlckpt_lease_release(lease);
}

// In a child with a mount namespace of its own. The result is its exit status; 77: cannot be done here.
template <typename Body>
int with_tmpfs(const std::string& where, const char* options, Body&& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", where.c_str(), "tmpfs", 0, options) != 0)
      _exit(77);
    _exit(body());
  }
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid) return 255;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

TEST(CheckpointFullDisk, AtEveryPointTheOldOneStaysAndTheAttemptGoes) {
  const Environment env({});
  const TempDir dir;
  const int rc = with_tmpfs(dir.path(), "size=2m", [&]() -> int {
    const std::string ckpt = dir.path() + "/c";
    if (!save_pattern(ckpt, 1, posix_io(), 3, 50000)) return 10;
    int64_t step = 1;
    int full = 0, saved = 0;
    // A filler leaves less and less room.
    for (size_t filler = 1000; filler <= 1900; filler += 12) {
      write_file(dir.path() + "/filler", std::string(filler * 1024, 'f'));
      auto outcome = save_pattern(ckpt, step + 1, posix_io(), 1, 50000);
      if (outcome) {
        ++step;
        ++saved;
      } else {
        if (outcome.error().code != Errc::kNoSpace) {
          write(2, outcome.error().text.c_str(), outcome.error().text.size());
          return 11;
        }
        ++full;
      }
      for (const std::string& left : leftovers(ckpt))
        if (left.find(".tmp-step") == 0) return 12;
      std::filesystem::remove(dir.path() + "/filler");
      std::string note;
      auto restored = restore_pattern(ckpt, &note, posix_io(), 50000);
      if (!restored || *restored != step || !note.empty()) return 13;
    }
    if (testing::Test::HasFailure()) return 14;
    return full > 5 && saved > 5 ? 0 : 15;
  });
  if (rc == 77) GTEST_SKIP() << "needs root, to mount a small file system in a namespace of its own";
  EXPECT_EQ(rc, 0);
}

TEST(CheckpointFullDisk, OfSeveralRanksAllAreToldTheSame) {
  const Environment env({});
  const TempDir dir;
  const int rc = with_tmpfs(dir.path(), "size=3m", [&]() -> int {
    if (!save_pattern(dir.path(), 1, posix_io(), 3, 1000)) return 10;
    std::vector<Status> outcome(3);
    run_ranks(3, [&](int rank) {
      Settings settings = settings_for(dir.path(), rank, 3);
      settings.timeout_s = 20;
      auto context = open_context(settings);
      if (!context) return;
      PatternState state(2000000);  // 8 MB over three ranks
      state.fill(2);
      if (state.enroll(**context)) outcome[static_cast<size_t>(rank)] = (*context)->save(2);
    });
    for (const Status& status : outcome)
      if (status || status.error().code != Errc::kNoSpace || status.error().text != outcome[0].error().text) return 11;
    if (!leftovers(dir.path()).empty()) return 12;
    auto restored = restore_pattern(dir.path(), nullptr, posix_io(), 1000);
    return restored && *restored == 1 ? 0 : 13;
  });
  if (rc == 77) GTEST_SKIP() << "needs root, to mount a small file system in a namespace of its own";
  EXPECT_EQ(rc, 0);
}

TEST(CheckpointFullDisk, AReadOnlyFileSystemIsDenied) {
  const Environment env({});
  const TempDir dir;
  const int rc = with_tmpfs(dir.path(), "size=2m", [&]() -> int {
    if (!save_pattern(dir.path(), 1, posix_io(), 3, 1000)) return 10;
    if (mount("none", dir.path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) != 0) return 77;
    return try_open(dir.path()) == DLCKPT_E_DENIED && try_open(dir.path() + "/new") == DLCKPT_E_DENIED ? 0 : 11;
  });
  if (rc == 77) GTEST_SKIP() << "needs root, to mount a small file system in a namespace of its own";
  EXPECT_EQ(rc, 0);
}

TEST(CheckpointC, AnUnwritableDirectoryIsDenied) {
  if (getuid() == 0) {
    // Root may write everywhere; a child that is nobody may not.
    const Environment env({});
    const TempDir dir;
    std::filesystem::create_directory(dir.path() + "/c");
    chmod(dir.path().c_str(), 0755);
    chmod((dir.path() + "/c").c_str(), 0555);
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      if (setgid(65534) != 0 || setuid(65534) != 0) _exit(77);
      _exit(try_open(dir.path() + "/c") == DLCKPT_E_DENIED && try_open(dir.path() + "/d") == DLCKPT_E_DENIED ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
  } else {
    EXPECT_EQ(try_open("/proc/no"), DLCKPT_E_NOT_FOUND);
    EXPECT_EQ(try_open("/no"), DLCKPT_E_DENIED);
  }
}

}  // namespace
}  // namespace dl::ckpt::test
