// SPDX-License-Identifier: Apache-2.0
// spank_dl.so as sbatch, srun and slurmstepd load and call it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "slurm-plugin/slurm_abi.h"
#include "tests/plugin/slurm_symbols.h"

// What Slurm keeps for a plugin; one for the process, as in Slurm's own programs.
struct spank_handle {
  spank_context_t where = S_CTX_ERROR;
  uint32_t step_id = 0;
  std::map<std::string, std::string> job_environment;      // on the node
  std::map<std::string, std::string> control_environment;  // sent with the job
  struct Registered {
    std::string form, help;
    int value;
    spank_opt_cb_f callback;
  };
  std::map<std::string, Registered> options;
  std::vector<std::string> entries;
  std::vector<char*> list;
};

namespace {
spank_handle handle;
// As libslurm of 28.05 would tell it: one for each release, and 22.05's was 38.
constexpr long kApi = 49 << 16;
}  // namespace

extern "C" {

long slurm_api_version(void) {
  return kApi;
}

spank_context_t spank_context(void) {
  return handle.where;
}
const char* spank_strerror(spank_err_t) {
  return "an error";
}

spank_err_t spank_option_register(spank_t spank, struct spank_option* option) {
  spank->options[option->name] = {option->arginfo, option->usage, option->val, option->cb};
  return static_cast<spank_err_t>(ESPANK_SUCCESS);
}

spank_err_t spank_getenv(spank_t spank, const char* name, char* buffer, int length) {
  auto found = spank->job_environment.find(name);
  if (found == spank->job_environment.end()) return static_cast<spank_err_t>(ESPANK_ENV_NOEXIST);
  if (found->second.size() >= static_cast<size_t>(length)) return static_cast<spank_err_t>(ESPANK_NOSPACE);
  std::strcpy(buffer, found->second.c_str());  // NOLINT(clang-analyzer-security.insecureAPI.strcpy): it fits
  return static_cast<spank_err_t>(ESPANK_SUCCESS);
}

spank_err_t spank_setenv(spank_t spank, const char* name, const char* value, int overwrite) {
  if (overwrite == 0 && spank->job_environment.count(name) != 0) return static_cast<spank_err_t>(ESPANK_ENV_EXISTS);
  spank->job_environment[name] = value;
  return static_cast<spank_err_t>(ESPANK_SUCCESS);
}

spank_err_t spank_unsetenv(spank_t spank, const char* name) {
  spank->job_environment.erase(name);
  return static_cast<spank_err_t>(ESPANK_SUCCESS);
}

spank_err_t spank_job_control_setenv(spank_t spank, const char* name, const char* value, int) {
  spank->control_environment[name] = value;
  return static_cast<spank_err_t>(ESPANK_SUCCESS);
}

spank_err_t spank_get_item(spank_t spank, spank_item_t item, ...) {
  va_list arguments;
  va_start(arguments, item);
  if (item == S_JOB_ENV) {
    spank->entries.clear();
    spank->list.clear();
    for (const auto& [name, value] : spank->job_environment) spank->entries.push_back(name + "=" + value);
    for (std::string& entry : spank->entries) spank->list.push_back(entry.data());
    spank->list.push_back(nullptr);
    *va_arg(arguments, char***) = spank->list.data();
  } else {
    auto* number = va_arg(arguments, uint32_t*);
    switch (item) {
      case S_JOB_STEPID:
        *number = spank->step_id;
        break;
      case S_JOB_ID:
        *number = 42;
        break;
      case S_JOB_TOTAL_TASK_COUNT:
        *number = 4;
        break;
      case S_JOB_LOCAL_TASK_COUNT:
      case S_JOB_NNODES:
        *number = 2;
        break;
      case S_STEP_CPUS_PER_TASK:
        *number = 3;
        break;
      default:
        *number = 0;
        break;
    }
  }
  va_end(arguments);
  return static_cast<spank_err_t>(ESPANK_SUCCESS);
}

}  // extern "C"

namespace dl::test {
namespace {

using Hook = int(spank_t, int, char**);

constexpr const char* kFlags[] = {"dl-framework", "dl-learners",     "dl-servers",   "dl-gpus",  "dl-checkpoint",
                                  "dl-restarts",  "dl-hang-timeout", "dl-preflight", "dl-image", "dl-placement",
                                  "dl-tier",      "dl-batch",        "dl-metrics",   "dl-data",  "dl-results"};
const std::string kInherited = "SLURM_SPANK__SLURM_SPANK_OPTION_dl_dl_";

class Spank : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    char name[] = "/tmp/dl-spank-XXXXXX";
    folder_ = ::mkdtemp(name);
    ::setenv("SLURM_CONF", (folder_ + "/slurm.conf").c_str(), 1);
    std::filesystem::create_directory(folder_ + "/frameworks.d");
    for (const char* framework : {"generic", "pytorch"})
      std::filesystem::copy_file(source_folder() + "/frameworks/" + framework + "/" + framework + ".toml",
                                 folder_ + "/frameworks.d/" + framework + ".toml");
    std::ofstream(folder_ + "/dl.toml") << "[frameworks]\ncatalogue = [\"" + folder_ + "/frameworks.d\"]\n";
    plugin_ = load_plugin("spank_dl.so");
    init_ = symbol<Hook>(plugin_, "slurm_spank_init");
    post_opt_ = symbol<Hook>(plugin_, "slurm_spank_init_post_opt");
    task_init_ = symbol<Hook>(plugin_, "slurm_spank_task_init");
    exit_ = symbol<Hook>(plugin_, "slurm_spank_exit");
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }
  void SetUp() override {
    clear_log();
    handle = {};
    for (const char* flag : kFlags) {
      ::unsetenv((kInherited + canonical(flag + 3)).c_str());
      ::unsetenv(variable(flag).c_str());
    }
    for (const char* name : {"SLURM_JOB_ID", "SLURM_NTASKS", "DL_CONTROL"}) ::unsetenv(name);
  }
  void TearDown() override { exit_(&handle, 0, nullptr); }

  static std::string canonical(std::string flag) {
    for (char& c : flag)
      if (c == '-') c = '_';
    return flag;
  }
  static std::string variable(std::string flag) {  // dl-gpus -> DL_GPUS
    flag = canonical(flag);
    for (char& c : flag) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return flag;
  }
  static std::string own(const std::string& name) {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? "(none)" : value;
  }

  static int start(spank_context_t where, std::vector<std::string> arguments = {}, uint32_t step = 0) {
    handle.where = where;
    handle.step_id = step;
    std::vector<char*> list;
    for (std::string& argument : arguments) list.push_back(argument.data());
    return init_(&handle, static_cast<int>(list.size()), list.data());
  }
  static int option(const std::string& flag, const char* value, bool remote = false) {
    auto found = handle.options.find(flag);
    EXPECT_NE(found, handle.options.end()) << flag;
    return found == handle.options.end() ? 0 : found->second.callback(found->second.value, value, remote ? 1 : 0);
  }
  static int post_opt() { return post_opt_(&handle, 0, nullptr); }
  static int task(int rank = 0, int local = 0, int node = 0) {
    handle.job_environment["SLURM_PROCID"] = std::to_string(rank);
    handle.job_environment["SLURM_LOCALID"] = std::to_string(local);
    handle.job_environment["SLURM_NODEID"] = std::to_string(node);
    return task_init_(&handle, 0, nullptr);
  }
  static std::string in_job(const std::string& name) {
    auto found = handle.job_environment.find(name);
    return found == handle.job_environment.end() ? "(none)" : found->second;
  }
  static std::string errors() {
    std::string all;
    for (const std::string& line : logged_errors()) all += line + "\n";
    return all;
  }

  static std::string folder_;
  static void* plugin_;
  static Hook *init_, *post_opt_, *task_init_, *exit_;
};
std::string Spank::folder_;
void* Spank::plugin_;
Hook *Spank::init_, *Spank::post_opt_, *Spank::task_init_, *Spank::exit_;

TEST_F(Spank, is_called_dl_which_the_names_of_the_options_depend_on) {
  EXPECT_STREQ(symbol<const char>(plugin_, "plugin_name"), "dl");
  EXPECT_STREQ(symbol<const char>(plugin_, "plugin_type"), "spank");
}

TEST_F(Spank, tells_each_slurm_that_loads_it_that_very_version) {
  EXPECT_EQ(*symbol<const unsigned int>(plugin_, "plugin_version"), 28U << 16 | 5U << 8);
}

TEST_F(Spank, registers_every_flag_with_help_where_jobs_are_made_and_run) {
  for (spank_context_t where : {S_CTX_ALLOCATOR, S_CTX_LOCAL, S_CTX_REMOTE}) {
    handle = {};
    ASSERT_EQ(start(where), 0);
    EXPECT_EQ(handle.options.size(), std::size(kFlags));
    for (const char* flag : kFlags) {
      ASSERT_EQ(handle.options.count(flag), 1U) << flag;
      EXPECT_FALSE(handle.options[flag].form.empty());
      EXPECT_EQ(handle.options[flag].help.rfind("[dl] ", 0), 0U);
    }
    exit_(&handle, 0, nullptr);
  }
}

TEST_F(Spank, does_nothing_in_slurmd_in_prologs_and_in_the_extern_step) {
  for (spank_context_t where : {S_CTX_SLURMD, S_CTX_JOB_SCRIPT, S_CTX_ERROR}) {
    EXPECT_EQ(start(where), 0);
    EXPECT_TRUE(handle.options.empty());
    EXPECT_EQ(post_opt(), 0);
    EXPECT_EQ(task(), 0);
  }
  handle = {};
  handle.job_environment[kInherited + "learners"] = "nonsense";
  EXPECT_EQ(start(S_CTX_REMOTE, {}, abi::kStepExtern), 0);
  EXPECT_TRUE(handle.options.empty());
  EXPECT_EQ(post_opt(), 0);
  EXPECT_EQ(task(), 0);
  EXPECT_EQ(in_job("DL_LEARNERS"), "(none)");
  EXPECT_EQ(errors(), "");
}

TEST_F(Spank, refuses_bad_values_at_submission) {
  ASSERT_EQ(start(S_CTX_ALLOCATOR), 0);
  EXPECT_EQ(option("dl-gpus", "two"), -1);
  EXPECT_EQ(errors().rfind("dl: --dl-gpus: 'two' is not a number of GPUs; allowed: ", 0), 0U) << errors();
  EXPECT_EQ(option("dl-gpus", nullptr), -1);
}

TEST_F(Spank, refuses_an_unknown_framework_at_submission_with_the_known_ones) {
  ASSERT_EQ(start(S_CTX_ALLOCATOR), 0);
  ASSERT_EQ(option("dl-framework", "torch"), 0);
  EXPECT_EQ(post_opt(), -1);
  EXPECT_EQ(errors(),
            "dl: --dl-framework: 'torch' is not a known framework; known: generic, pytorch; did you mean 'pytorch'?\n");
}

TEST_F(Spank, lets_slurmctld_decide_if_the_configuration_is_broken_here) {
  ASSERT_EQ(start(S_CTX_ALLOCATOR, {"config=/dev/null"}), 0);
  ASSERT_EQ(option("dl-framework", "torch"), 0);
  EXPECT_EQ(post_opt(), 0);
  ASSERT_EQ(logged_infos().size(), 1U);
  EXPECT_NE(logged_infos()[0].find("/dev/null"), std::string::npos);
}

TEST_F(Spank, refuses_an_unknown_argument_in_plugstack_conf_where_the_administrator_sees_it) {
  EXPECT_EQ(start(S_CTX_ALLOCATOR, {"conf=/x"}), -1);
  EXPECT_EQ(errors(),
            "dl: plugstack.conf: 'conf=/x' is not an argument of spank_dl.so; allowed: config=/path/dl.toml\n");
  clear_log();
  handle = {};
  EXPECT_EQ(start(S_CTX_REMOTE, {"conf=/x"}), 0);  // a failure here would drain the node
  EXPECT_EQ(post_opt(), 0);
  EXPECT_EQ(task(), 0) << "a job without our flags is not concerned";
}

TEST_F(Spank, gives_the_request_to_the_shell_of_salloc) {
  ASSERT_EQ(start(S_CTX_ALLOCATOR), 0);
  ASSERT_EQ(option("dl-learners", "4"), 0);
  ASSERT_EQ(option("dl-learners", "3"), 0);
  ASSERT_EQ(option("dl-checkpoint", "ck,every=10m"), 0);
  EXPECT_EQ(post_opt(), 0);
  EXPECT_EQ(own("DL_LEARNERS"), "3");
  EXPECT_EQ(own("DL_CHECKPOINT"), "ck,every=10m");
  EXPECT_EQ(own("SLURM_NTASKS"), "3");
  EXPECT_EQ(own("DL_GPUS"), "(none)");
}

TEST_F(Spank, turns_presets_into_what_slurm_takes_for_options) {
  ::setenv("DL_GPUS", "2", 1);
  ::setenv("DL_TIER", "", 1);
  ASSERT_EQ(start(S_CTX_ALLOCATOR), 0);
  EXPECT_EQ(own(kInherited + "gpus"), "2");
  EXPECT_EQ(own(kInherited + "tier"), "(none)");
  EXPECT_EQ(own(kInherited + "learners"), "(none)");
  ::setenv("DL_GPUS", "x", 1);
  exit_(&handle, 0, nullptr);
  ASSERT_EQ(start(S_CTX_ALLOCATOR), 0);
  EXPECT_EQ(option("dl-gpus", "x"), -1);
  EXPECT_EQ(errors().rfind("dl: DL_GPUS in the environment: 'x' is not", 0), 0U) << errors();
}

TEST_F(Spank, does_not_hand_a_jobs_request_on_to_a_job_submitted_from_it) {
  ::setenv("SLURM_JOB_ID", "7", 1);
  ::setenv("DL_CONTROL", "n1:1", 1);
  ::setenv("DL_FRAMEWORK", "pytorch", 1);
  ::setenv((kInherited + "framework").c_str(), "pytorch", 1);
  ::setenv("DL_LEARNERS", "2", 1);  // set anew in the script, for what comes
  ::setenv((kInherited + "learners").c_str(), "4", 1);
  ::setenv("DL_GPUS", "1", 1);  // likewise
  ASSERT_EQ(start(S_CTX_ALLOCATOR), 0);
  EXPECT_EQ(own("DL_FRAMEWORK"), "(none)");
  EXPECT_EQ(own(kInherited + "framework"), "(none)");
  EXPECT_EQ(own(kInherited + "learners"), "2");
  EXPECT_EQ(own("DL_CONTROL"), "(none)");
  // What the job itself did not have is the user's.
  EXPECT_EQ(own(kInherited + "gpus"), "1");
}

TEST_F(Spank, hands_a_jobs_request_on_to_its_sruns) {
  ::setenv("SLURM_JOB_ID", "7", 1);
  ::setenv("SLURM_NTASKS", "4", 1);
  ::setenv("DL_LEARNERS", "4", 1);
  ::setenv((kInherited + "framework").c_str(), "pytorch", 1);
  ASSERT_EQ(start(S_CTX_LOCAL), 0);
  EXPECT_EQ(own(kInherited + "framework"), "pytorch");
  EXPECT_EQ(own(kInherited + "learners"), "4");
  EXPECT_EQ(own("SLURM_NTASKS"), "4");
  ASSERT_EQ(option("dl-framework", "pytorch"), 0);
  EXPECT_EQ(post_opt(), 0);
  EXPECT_EQ(handle.control_environment["DL_CLIENT"], "srun");
}

TEST_F(Spank, tells_srun_the_number_of_tasks_from_a_preset) {
  ::setenv("DL_LEARNERS", "3:6", 1);
  ASSERT_EQ(start(S_CTX_LOCAL), 0);
  EXPECT_EQ(own("SLURM_NTASKS"), "3");
}

TEST_F(Spank, gives_the_request_to_the_batch_step) {
  ASSERT_EQ(start(S_CTX_REMOTE, {}, abi::kStepBatch), 0);
  EXPECT_EQ(option("dl-framework", "pytorch", true), 0);
  EXPECT_EQ(option("dl-framework", "pytorch", true), 0);  // 22.05 calls twice
  EXPECT_EQ(option("dl-learners", "2:4", true), 0);
  EXPECT_EQ(post_opt(), 0);
  EXPECT_EQ(in_job("DL_FRAMEWORK"), "pytorch");
  EXPECT_EQ(in_job("DL_LEARNERS"), "2:4");
  EXPECT_EQ(task(), 0);
  EXPECT_EQ(in_job("RANK"), "(none)") << "the script is no learner";
}

TEST_F(Spank, takes_away_the_mark_by_which_dlrun_sees_that_no_plugin_ran) {
  ASSERT_EQ(start(S_CTX_REMOTE, {}, abi::kStepBatch), 0);
  handle.job_environment["DL_NODE_SIDE"] = "awaited";
  EXPECT_EQ(post_opt(), 0);
  EXPECT_EQ(in_job("DL_NODE_SIDE"), "(none)");
}

TEST_F(Spank, finds_the_request_also_where_slurm_lost_it_to_export_none) {
  handle.job_environment[kInherited + "learners"] = "4";
  ASSERT_EQ(start(S_CTX_REMOTE, {}, abi::kStepBatch), 0);
  EXPECT_EQ(post_opt(), 0);
  EXPECT_EQ(in_job("DL_LEARNERS"), "4");
}

TEST_F(Spank, gives_plain_tasks_their_frameworks_environment) {
  handle.job_environment = {{"MASTER_PORT", "1234"}, {"RANK", "99"}, {"SLURM_STEP_NODELIST", "n[1-2]"}};
  ASSERT_EQ(start(S_CTX_REMOTE, {}, 5), 0);
  option("dl-framework", "pytorch", true);
  option("dl-gpus", "1", true);
  option("dl-checkpoint", "ck", true);
  ASSERT_EQ(post_opt(), 0);
  ASSERT_EQ(task(3, 1, 1), 0) << errors();
  EXPECT_EQ(in_job("RANK"), "3");
  EXPECT_EQ(in_job("LOCAL_RANK"), "1");
  EXPECT_EQ(in_job("WORLD_SIZE"), "4");
  EXPECT_EQ(in_job("MASTER_ADDR"), "n1");
  EXPECT_EQ(in_job("MASTER_PORT"), "1234") << "what the user set stays";
  EXPECT_EQ(in_job("DL_RANK"), "3");
  EXPECT_EQ(in_job("DL_CHECKPOINT_DIR"), std::filesystem::current_path().string() + "/ck");
  EXPECT_EQ(in_job("OMP_NUM_THREADS"), "3");
}

TEST_F(Spank, tells_a_task_what_it_added_and_takes_back_what_it_added_to_the_task_around_it) {
  handle.job_environment = {{"MASTER_PORT", "1234"}, {"SLURM_STEP_NODELIST", "n[1-2]"}};
  ASSERT_EQ(start(S_CTX_REMOTE, {}, 5), 0);
  option("dl-framework", "pytorch", true);
  ASSERT_EQ(post_opt(), 0);
  ASSERT_EQ(task(0, 0, 0), 0) << errors();
  const std::string given = in_job("DL_GIVEN");
  EXPECT_NE(given.find("MASTER_ADDR=n1"), std::string::npos) << given;
  EXPECT_EQ(given.find("MASTER_PORT"), std::string::npos) << "the user's";
  // The same in a task of that task, on another node.
  handle.job_environment["SLURM_STEP_NODELIST"] = "n2";
  handle.job_environment["OMP_NUM_THREADS"] = "7";  // changed in the task around it
  ASSERT_EQ(start(S_CTX_REMOTE, {}, 6), 0);
  option("dl-framework", "pytorch", true);
  ASSERT_EQ(post_opt(), 0);
  ASSERT_EQ(task(0, 0, 0), 0) << errors();
  EXPECT_EQ(in_job("MASTER_ADDR"), "n2");
  EXPECT_EQ(in_job("MASTER_PORT"), "1234");
  EXPECT_EQ(in_job("OMP_NUM_THREADS"), "7");
  EXPECT_NE(in_job("DL_GIVEN").find("MASTER_ADDR=n2"), std::string::npos);
}

TEST_F(Spank, fails_no_task_for_a_fault_in_dl_toml) {
  std::ofstream(folder_ + "/faulty.toml") << "[launcher]\ngrase = 30\n";
  handle.job_environment = {{"SLURM_STEP_NODELIST", "n1"}, {"SLURM_PROCID", "0"}};
  ASSERT_EQ(start(S_CTX_REMOTE, {"config=" + folder_ + "/faulty.toml"}, 5), 0);
  option("dl-framework", "pytorch", true);
  ASSERT_EQ(post_opt(), 0);
  ASSERT_EQ(task(), 0) << errors();
  EXPECT_EQ(in_job("WORLD_SIZE"), "4");
  EXPECT_NE(errors().find("faulty.toml:2: launcher.grase: "), std::string::npos) << errors();
  EXPECT_NE(errors().find("; the catalogue is looked for where it is by default"), std::string::npos) << errors();
}

TEST_F(Spank, fails_no_task_for_a_fault_in_the_entry_of_another_framework) {
  const std::string entries = folder_ + "/entries";
  std::filesystem::create_directory(entries);
  std::ofstream(entries + "/faulty.toml") << "sumary = \"typo\"\n";
  std::ofstream(entries + "/ours.toml") << "families = [\"torch\"]\n[environment]\nOURS_ID = \"%{rank}\"\n";
  std::ofstream(folder_ + "/own.toml") << "[frameworks]\ncatalogue = [\"" << entries << "\"]\n";
  handle.job_environment = {{"SLURM_STEP_NODELIST", "n1"}, {"SLURM_PROCID", "0"}};
  ASSERT_EQ(start(S_CTX_REMOTE, {"config=" + folder_ + "/own.toml"}, 5), 0);
  option("dl-framework", "ours", true);
  ASSERT_EQ(post_opt(), 0);
  ASSERT_EQ(task(3, 1, 1), 0) << errors();
  EXPECT_EQ(in_job("WORLD_SIZE"), "4");
  EXPECT_EQ(in_job("OURS_ID"), "3");
}

TEST_F(Spank, leaves_the_environment_of_learners_to_dlruns_agents) {
  handle.job_environment = {{"DL_CONTROL", "n1:1234"}, {"SLURM_STEP_NODELIST", "n1"}};
  ASSERT_EQ(start(S_CTX_REMOTE, {}, 5), 0);
  option("dl-framework", "pytorch", true);
  ASSERT_EQ(post_opt(), 0);
  ASSERT_EQ(task(), 0);
  EXPECT_EQ(in_job("RANK"), "(none)");
  EXPECT_EQ(in_job("DL_FRAMEWORK"), "pytorch");
}

TEST_F(Spank, keeps_a_users_fault_until_the_task_starts_and_says_it_once_per_node) {
  const std::pair<const char*, const char*> bad[] = {
      {"dl-gpus", "two"},        {"dl-learners", ""},       {"dl-tier", "cheap"},     {"dl-gpus", "a:0"},
      {"dl-restarts", "(null)"}, {"dl-framework", "torch"}, {"dl-checkpoint", "a\nb"}};
  for (const auto& [flag, value] : bad) {
    handle = {};
    clear_log();
    ASSERT_EQ(start(S_CTX_REMOTE, {}, 5), 0);
    EXPECT_EQ(option(flag, value, true), 0) << "Slurm would only log it";
    EXPECT_EQ(post_opt(), 0) << "a failure here would drain the node";
    EXPECT_EQ(errors(), "");
    EXPECT_EQ(task(), -1) << flag;
    ASSERT_EQ(logged_errors().size(), 1U);
    EXPECT_EQ(errors().rfind(std::string("dl: --") + flag, 0), 0U) << errors();
    exit_(&handle, 0, nullptr);
  }
}

TEST_F(Spank, believes_the_last_value_of_a_flag) {
  ASSERT_EQ(start(S_CTX_REMOTE, {}, abi::kStepBatch), 0);
  option("dl-gpus", "two", true);
  option("dl-gpus", "2", true);
  EXPECT_EQ(post_opt(), 0);
  EXPECT_EQ(task(), 0);
  EXPECT_EQ(in_job("DL_GPUS"), "2");
}

TEST_F(Spank, survives_hostile_values_on_the_node) {
  std::string control;
  for (int c = 1; c < 256; ++c) control += static_cast<char>(c);
  for (const std::string& value : {std::string(1000000, 'x'), control, std::string("%s%n%n"), std::string("$(reboot)"),
                                   std::string("LD_PRELOAD=/x"), std::string(100000, ',')})
    for (const char* flag : kFlags) {
      handle = {};
      clear_log();
      handle.job_environment[kInherited + canonical(flag + 3)] = value;
      ASSERT_EQ(start(S_CTX_REMOTE, {}, 5), 0);
      option(flag, value.c_str(), true);
      EXPECT_EQ(post_opt(), 0);
      (void)task();
      EXPECT_LT(errors().size(), 1024U);
      for (char c : errors()) EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 || c == '\n');
      for (const auto& [name, text] : handle.job_environment)
        EXPECT_EQ(name.rfind("LD_", 0), std::string::npos) << text;
      exit_(&handle, 0, nullptr);
    }
}

TEST_F(Spank, may_be_told_of_an_option_that_it_never_registered) {
  ASSERT_EQ(start(S_CTX_ALLOCATOR), 0);
  const auto callback = handle.options["dl-gpus"].callback;
  EXPECT_EQ(callback(99, "x", 0), -1);
  EXPECT_EQ(callback(-1, "x", 0), -1);
  exit_(&handle, 0, nullptr);
  EXPECT_EQ(callback(0, "x", 0), 0);  // after exit there is nobody to tell
}

}  // namespace
}  // namespace dl::test
