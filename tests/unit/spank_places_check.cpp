// SPDX-License-Identifier: Apache-2.0
// What sbatch, salloc and srun say at once of places that --dl-data, --dl-results and objects= name.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/base/this_process.h"
#include "slurm-plugin/spank/places_check.h"

namespace dl {
namespace {

class PlacesAtSubmission : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(folder_), nullptr);
    ::unsetenv("RCLONE_CONFIG_LAB_TYPE");
    home_ = environment_value("HOME");
    ::setenv("HOME", folder_, 1);
    ::setenv("RCLONE_CONFIG", at("rclone.conf").c_str(), 1);
    write("rclone.conf", "[lab]\ntype = s3\n");
    ::chmod(at("rclone.conf").c_str(), 0600);
    write("set", "x");
  }
  void TearDown() override {
    std::filesystem::remove_all(folder_);
    ::setenv("HOME", home_.c_str(), 1);
    ::unsetenv("RCLONE_CONFIG");
  }
  std::string at(const std::string& name) const { return folder_ + ("/" + name); }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(at(name)).parent_path());
    std::ofstream(at(name)) << text;
  }
  std::string data(const std::string& value) const {
    JobRequest request;
    auto flag = data::parse_data(value);
    EXPECT_TRUE(flag) << value;
    request.data = *std::move(flag);
    return said(request);
  }
  std::string results(const std::string& value) const {
    JobRequest request;
    request.results = *data::parse_results(value);
    return said(request);
  }
  std::string said(const JobRequest& request) const {
    const Status status = check_places(request, how_);
    return status ? "" : status.error().text;
  }
  char folder_[32] = "/tmp/dl-places-XXXXXX";
  std::string home_;
  PlacesCheck how_;
};

TEST_F(PlacesAtSubmission, paths_remotes_and_files_of_sources) {
  EXPECT_EQ(data(at("set")), "");
  EXPECT_EQ(data("~/set"), "");
  EXPECT_EQ(data("none/here"), "");  // relative: the job may start elsewhere
  EXPECT_EQ(data(at("none")), "--dl-data: '" + at("none") + "': No such file or directory");
  EXPECT_EQ(data("~/none"), "--dl-data: '~/none': No such file or directory");
  EXPECT_EQ(data("lab:bucket"), "");
  EXPECT_NE(data("lap:bucket").find("--dl-data: 'lap:bucket' names a remote that is not"), std::string::npos);
  write("sets.toml", "[[source]]\nfrom = \"lab:a\"\nto = \"a\"\n[[source]]\nfrom = \"lap:b\"\nto = \"b\"\n");
  EXPECT_NE(data(at("sets.toml")).find("'lap:b' names a remote"), std::string::npos);
  how_.own_environment = false;
  EXPECT_EQ(data("lap:bucket"), "");
}

TEST_F(PlacesAtSubmission, names_of_the_catalogue_where_this_host_has_one) {
  how_.config = at("dl.toml");
  EXPECT_EQ(data("@digits"), "");
  write("dl.toml", "");
  write("datasets.d/digits.toml", "path = \"" + at("none") + "\"\nsummary = \"x\"\n");
  EXPECT_EQ(data("@digit"), "--dl-data: '@digit' is not in the site's catalogue; allowed: @digits");
  EXPECT_EQ(data("@digits"), "--dl-data: '" + at("none") + "': No such file or directory");
  write("datasets.d/broken.toml", "path = 3\n");
  EXPECT_EQ(data("@broken"), "");  // the administrator's; the job says it
}

TEST_F(PlacesAtSubmission, where_results_and_checkpoints_go) {
  EXPECT_EQ(results(at("out/%j")), "");
  EXPECT_EQ(results("out"), "");
  EXPECT_NE(results(at("set/out")).find("--dl-results: '" + at("set/out") + "' cannot be made: "), std::string::npos);
  EXPECT_EQ(results("lab:out,checkpoint"), "");
  EXPECT_NE(results("lap:out").find("--dl-results: 'lap:out' names a remote"), std::string::npos);
  JobRequest request;
  request.checkpoint = *parse_checkpoint("ckpt,objects=lap:ckpt/%j");
  EXPECT_NE(said(request).find("--dl-checkpoint: objects: 'lap:ckpt/%j' names a remote"), std::string::npos);
}

}  // namespace
}  // namespace dl
