// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/site/site_config.h"
#include "launcher/image/container.h"
#include "launcher/image/runtimes.h"

namespace dl::image {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// A folder with programs named as given, which is the PATH of this process until the end of the test.
class Image : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/var/tmp/dl-image-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    root_ = name;
    fs::create_directories(root_ + "/bin");
    fs::create_directories(root_ + "/system/usr");
    for (const char* file : {"/a.sqfs", "/a.squashfs", "/a.sqsh", "/a.sif", "/a.tar"}) std::ofstream(root_ + file);
    path_ = std::getenv("PATH");
    ::setenv("PATH", (root_ + "/bin").c_str(), 1);
  }
  void TearDown() override {
    ::setenv("PATH", path_.c_str(), 1);
    fs::remove_all(root_);
  }
  std::string program(const std::string& name) {
    const std::string path = root_ + "/bin/" + name;
    std::ofstream(path) << "#!/bin/sh\n";
    fs::permissions(path, fs::perms::owner_all);
    return path;
  }
  std::string chosen(const std::string& file, const std::string& runtime = "auto") {
    auto container = choose_container(root_ + file, runtime);
    return container ? container->runtime : container.error().text;
  }
  std::string root_, path_;
};

TEST_F(Image, is_known_by_its_name_and_a_directory_by_what_it_holds) {
  EXPECT_EQ(*image_form(root_ + "/system"), ImageForm::kDirectory);
  EXPECT_EQ(*image_form(root_ + "/a.sif"), ImageForm::kSif);
  for (const char* file : {"/a.sqfs", "/a.squashfs", "/a.sqsh"})
    EXPECT_EQ(*image_form(root_ + file), ImageForm::kSquashfs);
  fs::create_directory(root_ + "/empty");
  for (const char* file : {"/a.tar", "/empty", "/none.sqfs"}) {
    auto form = image_form(root_ + file);
    ASSERT_FALSE(form) << file;
    EXPECT_EQ(form.error().text.rfind("'" + root_ + file + "'", 0), 0U) << form.error().text;
    EXPECT_NE(form.error().text.find("; allowed: a directory that holds a system, or a file *.sqfs"),
              std::string::npos);
  }
}

TEST_F(Image, is_run_by_the_first_runtime_that_takes_it_or_by_the_sites) {
  EXPECT_EQ(chosen("/system"), "'" + root_ +
                                   "/system' is a directory, and nothing on this node runs it; looked for "
                                   "ch-run, apptainer or singularity");
  program("singularity");
  EXPECT_EQ(chosen("/system"), "apptainer");
  EXPECT_EQ(chosen("/a.sif"), "apptainer");
  program("ch-run");
  EXPECT_EQ(chosen("/system"), "charliecloud");
  EXPECT_EQ(chosen("/a.sqfs"), "charliecloud");
  EXPECT_EQ(chosen("/a.sif"), "apptainer");
  EXPECT_EQ(chosen("/a.sqfs", "apptainer"), "apptainer");
  EXPECT_EQ(chosen("/a.sif", "charliecloud"),
            "'" + root_ + "/a.sif' is a SIF image, which charliecloud does not run here ([image] in dl.toml)");
}

TEST_F(Image, of_a_directory_gets_the_folders_at_which_those_of_the_node_are_seen) {
  const std::string ch_run = program("ch-run");
  const std::string work = root_ + "/work", local = root_ + "/local/level";
  fs::create_directory(work);
  const Container container = {
      root_ + "/system", ImageForm::kDirectory, "charliecloud", {work, "/tmp/x", work + "/job", "/dev/shm", local}};
  Environment environment = {{"USER", "ada"}, {"TMPDIR", root_ + "/scratch"}, {"A", "b"}};
  auto argv = in_container(container, {{"python3", "train.py"}, work, true}, &environment);
  ASSERT_TRUE(argv) << argv.error().text;
  EXPECT_EQ(*argv, (Words{ch_run, "--cd=" + work, "--bind=" + local, "--bind=" + root_ + "/scratch", "--bind=" + work,
                          "--env-no-expand", "--set-env=TMPDIR=" + root_ + "/scratch", root_ + "/system", "--",
                          "python3", "train.py"}));
  EXPECT_TRUE(fs::is_directory(root_ + "/system" + work));
  EXPECT_TRUE(fs::is_directory(root_ + "/system" + local));
  EXPECT_TRUE(fs::is_directory(local)) << "the local level of a checkpoint is made on the node";
  EXPECT_EQ(environment.count("TMPDIR"), 0U);
  EXPECT_EQ(environment["PMIX_MCA_gds"], "hash");
}

TEST_F(Image, in_a_file_is_not_touched_and_what_it_cannot_show_is_said) {
  const std::string apptainer = program("apptainer");
  Environment environment = {{"PMIX_MCA_gds", "ds21"}};
  Container container = {root_ + "/a.sif", ImageForm::kSif, "apptainer", {root_}};
  EXPECT_EQ(*in_container(container, {{"true"}, "/w", true}, &environment),
            (Words{apptainer, "exec", "--pwd", "/w", "--bind", root_, "--nv", root_ + "/a.sif", "true"}));
  EXPECT_EQ(*in_container(container, {{"true"}, "/w", false}, &environment),
            (Words{apptainer, "exec", "--pwd", "/w", "--bind", root_, root_ + "/a.sif", "true"}));
  EXPECT_EQ(environment["PMIX_MCA_gds"], "ds21") << "what the user set stays";
  container.binds = {"/var/a,b"};
  auto refused = in_container(container, {{"true"}, "/w", false}, &environment);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text.find("'/var/a,b' cannot be seen in a container of apptainer; allowed: a path without"),
            std::string::npos);
  container.runtime = "charliecloud";
  EXPECT_EQ(in_container(container, {{"true"}, "/w", false}, &environment).error().text,
            "ch-run: No such file or directory on this node, but the image needs one of these programs");
}

// site_config.cpp names the runtimes once more, since it may not include this room.
TEST(Runtimes, can_be_chosen_in_dl_toml) {
  for (const Runtime& runtime : runtimes()) {
    const auto config = parse_site_config(std::string("[image]\nruntime = \"") + runtime.name + "\"", "dl.toml");
    ASSERT_TRUE(config) << config.error().text;
    EXPECT_EQ(config->image_runtime, runtime.name);
  }
}

TEST(Binds, are_the_outermost_folders_each_once) {
  EXPECT_EQ(outermost({"/a/b", "/a", "/ab", "/a", "/a-b/c", "/tmp/x", "/tmpx"}, {"/tmp"}),
            (Words{"/a", "/a-b/c", "/ab", "/tmpx"}));
}

}  // namespace
}  // namespace dl::image
