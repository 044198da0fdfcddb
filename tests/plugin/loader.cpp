// SPDX-License-Identifier: Apache-2.0
// job_submit_dl.so, which every slurmctld loads, and the part of it that is for one release of Slurm: the part that
// fits is used, also if it comes later, and without one slurmctld goes on and refuses new jobs.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "slurm-plugin/slurm_abi.h"
#include "tests/plugin/slurm_symbols.h"

namespace {

// A Slurm for which nothing was built: 27.11, as its libslurm would tell it.
constexpr long kOther = 27 << 16 | 11 << 8, kApiOfOther = 48;
long api = 0;  // of the Slurm that this program is; 0: it does not tell

}  // namespace

extern "C" long slurm_api_version(void) {
  return api << 16;
}

namespace dl::test {
namespace {

using Init = int();
using Submit = int(job_desc_msg_t*, uint32_t, char**);
using Modify = int(job_desc_msg_t*, job_record*, uint32_t, char**);

// A folder of plugins of its own, so that each test loads a fresh one.
class Loader : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dl-loader-XXXXXX";
    folder_ = ::mkdtemp(name);
    ::setenv("SLURM_CONF", (folder_ + "/slurm.conf").c_str(), 1);
    std::filesystem::create_directory(folder_ + "/frameworks.d");
    std::filesystem::copy_file(source_folder() + "/frameworks/generic/generic.toml",
                               folder_ + "/frameworks.d/generic.toml");
    std::ofstream(folder_ + "/dl.toml") << "[frameworks]\ncatalogue = [\"" + folder_ + "/frameworks.d\"]\n";
    std::filesystem::copy_file(built("job_submit_dl.so"), folder_ + "/job_submit_dl.so");
    clear_log();
  }
  void TearDown() override {
    if (plugin_ != nullptr) {
      fini_();
      ::dlclose(plugin_);
    }
    api = 0;
    if (own_ != nullptr) ::dlclose(own_);
    std::filesystem::remove_all(folder_);
  }
  static std::string built(const std::string& name) {
    const char* top = std::getenv("top_builddir");
    return std::string(top == nullptr ? "." : top) + "/slurm-plugin/.libs/" + name;
  }
  static std::string release(long version) {
    char text[16];
    (void)std::snprintf(text, sizeof text, "%ld.%02ld", version >> 16 & 0xff, version >> 8 & 0xff);
    return text;
  }
  std::string place(long version) const { return folder_ + "/slurm-dl/" + release(version) + "/job_submit.so"; }
  void put_part(long version) const {
    std::filesystem::create_directories(folder_ + "/slurm-dl/" + release(version));
    std::filesystem::copy_file(built("job_submit.so"), place(version));
  }
  void load() {
    plugin_ = ::dlopen((folder_ + "/job_submit_dl.so").c_str(), RTLD_LAZY | RTLD_LOCAL);
    ASSERT_NE(plugin_, nullptr) << ::dlerror();
    submit_ = symbol<Submit>(plugin_, "job_submit");
    modify_ = symbol<Modify>(plugin_, "job_modify");
    fini_ = symbol<Init>(plugin_, "fini");
  }
  // A plugin of Slurm's own, as its programs load them before ours.
  void load_own(const std::string& name) {
    const char* top = std::getenv("top_builddir");
    const std::string file = std::string(top == nullptr ? "." : top) + "/tests/plugin/.libs/slurms_own.so";
    std::filesystem::copy_file(file, folder_ + "/" + name);
    own_ = ::dlopen((folder_ + "/" + name).c_str(), RTLD_LAZY | RTLD_LOCAL);
    ASSERT_NE(own_, nullptr) << ::dlerror();
  }
  int start() { return symbol<Init>(plugin_, "init")(); }
  // Submits a plain job; the message that its user gets.
  std::string submit(int* status) {
    job_desc_msg_t job{};
    slurm_init_job_desc_msg(&job);
    job.het_job_offset = NO_VAL;
    char* message = nullptr;
    *status = submit_(&job, 1000, &message);
    std::string text = abi::text_of(message);
    slurm_xfree(reinterpret_cast<void**>(&message));
    return text;
  }
  static std::string said(const std::vector<std::string>& lines) {
    std::string all;
    for (const std::string& line : lines) all += line + "\n";
    return all;
  }

  std::string folder_;
  void* plugin_ = nullptr;
  void* own_ = nullptr;
  Submit* submit_ = nullptr;
  Modify* modify_ = nullptr;
  Init* fini_ = nullptr;
};

TEST_F(Loader, tells_each_slurm_that_loads_it_that_very_version) {
  for (const long version : {long{SLURM_VERSION_NUMBER}, kOther}) {
    api = version == kOther ? kApiOfOther : 0;
    load();
    EXPECT_EQ(*symbol<const unsigned int>(plugin_, "plugin_version"), static_cast<unsigned int>(version));
    EXPECT_STREQ(symbol<const char>(plugin_, "plugin_type"), "job_submit/dl");
    ::dlclose(plugin_);
    plugin_ = nullptr;
  }
}

TEST_F(Loader, knows_the_micro_release_from_a_plugin_of_slurms_own_that_is_loaded) {
  api = 38;
  load_own("auth_munge.so");
  load();
  EXPECT_EQ(*symbol<const unsigned int>(plugin_, "plugin_version"), 0x1d0b4dU);
}

TEST_F(Loader, uses_the_part_for_this_slurm_also_in_another_micro_release) {
  put_part(SLURM_VERSION_NUMBER);
  load();
  *symbol<unsigned int>(plugin_, "plugin_version") = (SLURM_VERSION_NUMBER & ~0xff) | 77;
  EXPECT_EQ(start(), SLURM_SUCCESS);
  int status = -1;
  EXPECT_EQ(submit(&status), "");
  EXPECT_EQ(status, SLURM_SUCCESS);
  EXPECT_EQ(said(logged_errors()), "");
}

TEST_F(Loader, without_a_part_for_this_slurm_it_starts_and_refuses_new_jobs_with_a_sentence) {
  put_part(SLURM_VERSION_NUMBER);
  api = kApiOfOther;
  load();
  EXPECT_EQ(start(), SLURM_SUCCESS);
  EXPECT_EQ(said(logged_errors()),
            "dl: " + place(kOther) +
                " is not there: slurmctld and the jobs that it has go on, but it refuses new jobs until the file is "
                "there; install slurm-dl-plugins for Slurm 27.11, or take dl out of JobSubmitPlugins and restart "
                "slurmctld\n");
  int status = 0;
  EXPECT_EQ(submit(&status),
            "dl: no job can be accepted at the moment: the controller has no part of slurm-dl for Slurm 27.11, as "
            "slurmctld's log says; try again when an administrator has installed it");
  EXPECT_EQ(status, ESLURM_NOT_SUPPORTED);
  // Programs of jobs that run put them back into the queue.
  EXPECT_EQ(modify_(nullptr, nullptr, 1000, nullptr), SLURM_SUCCESS);
}

TEST_F(Loader, a_part_that_comes_later_is_used_without_a_restart) {
  load();
  EXPECT_EQ(start(), SLURM_SUCCESS);
  int status = 0;
  EXPECT_NE(submit(&status), "");
  put_part(SLURM_VERSION_NUMBER);
  ::usleep(2100 * 1000);  // it looks once a second
  EXPECT_EQ(submit(&status), "");
  EXPECT_EQ(status, SLURM_SUCCESS);
  EXPECT_NE(
      said(logged_infos()).find("dl: " + place(SLURM_VERSION_NUMBER) + " is there: new jobs are accepted again\n"),
      std::string::npos);
}

TEST_F(Loader, a_part_for_another_slurm_and_a_file_that_is_none_are_never_used) {
  // The layout of a job description is another one in each release: such a part would write into other fields.
  api = kApiOfOther;
  std::filesystem::create_directories(folder_ + "/slurm-dl/27.11");
  std::filesystem::copy_file(built("job_submit.so"), place(kOther));
  load();
  EXPECT_EQ(start(), SLURM_SUCCESS);
  EXPECT_NE(said(logged_errors()).find("job_submit.so is no part for Slurm 27.11: slurmctld"), std::string::npos);
  clear_log();
  int status = 0;
  EXPECT_NE(submit(&status), "");
  ::usleep(2100 * 1000);  // it looks once a second
  EXPECT_NE(submit(&status), "");
  EXPECT_EQ(said(logged_errors()), "");  // the same fault is told once
  std::ofstream(place(kOther), std::ios::trunc) << "no shared object";
  ::usleep(2100 * 1000);  // it looks once a second
  EXPECT_NE(submit(&status), "");
  EXPECT_NE(said(logged_errors()).find("job_submit.so cannot be loaded ("), std::string::npos);
}

}  // namespace
}  // namespace dl::test
