// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "slurm-plugin/job_submit/site_cache.h"

namespace dl {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

class SiteCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dl-site-cache-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
    std::filesystem::create_directory(folder_ + "/frameworks.d");
    write("frameworks.d/generic.toml", "summary = \"x\"\n");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // By replacement, as editors do: a new file each time.
  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/new") << text;
    std::filesystem::rename(folder_ + "/new", folder_ + "/" + name);
  }
  void configure(const std::string& text) {
    write("dl.toml", "[frameworks]\ncatalogue = [\"" + folder_ + "/frameworks.d\"]\n" + text);
  }
  std::string path() const { return folder_ + "/dl.toml"; }
  SiteCache::Log log() {
    return [this](SiteCache::Level level, const std::string& line) {
      const std::lock_guard<std::mutex> lock(mutex_);
      (level == SiteCache::Level::kError ? errors_ : infos_).push_back(line);
    };
  }

  std::string folder_;
  std::mutex mutex_;
  std::vector<std::string> errors_, infos_;
  Clock::time_point now_ = Clock::now();
};

TEST_F(SiteCacheTest, sees_a_change_after_a_second_and_not_before) {
  configure("[nodes]\ngpus_per_node = 1\n");
  SiteCache cache(path(), log());
  EXPECT_EQ((*cache.get(now_))->config.gpus_per_node, 1);
  configure("[nodes]\ngpus_per_node = 2\n");
  EXPECT_EQ((*cache.get(now_ + milliseconds(500)))->config.gpus_per_node, 1);
  EXPECT_EQ((*cache.get(now_ + milliseconds(1000)))->config.gpus_per_node, 2);
  EXPECT_EQ((*cache.get(now_ + milliseconds(5000)))->config.gpus_per_node, 2);
  EXPECT_EQ(infos_.size(), 2U);
  EXPECT_TRUE(errors_.empty());
}

TEST_F(SiteCacheTest, sees_an_edit_in_place_of_the_same_length) {
  configure("[nodes]\ngpus_per_node = 1\n");
  SiteCache cache(path(), log());
  ASSERT_TRUE(cache.get(now_));
  ::usleep(20000);  // file times have the granularity of a tick
  std::fstream file(path());
  file.seekp(-2, std::ios::end);
  file << '3';
  file.close();
  EXPECT_EQ((*cache.get(now_ + milliseconds(1000)))->config.gpus_per_node, 3);
}

TEST_F(SiteCacheTest, keeps_the_old_configuration_when_the_new_one_is_broken_and_says_so_once) {
  configure("[nodes]\ngpus_per_node = 1\n");
  SiteCache cache(path(), log());
  ASSERT_TRUE(cache.get(now_));
  configure("[nodes]\ngpus_per_node = many\n");
  for (int i = 1; i < 10; ++i) EXPECT_EQ((*cache.get(now_ + milliseconds(1000 * i)))->config.gpus_per_node, 1);
  ASSERT_EQ(errors_.size(), 1U);
  EXPECT_NE(errors_[0].find(path() + ":4:"), std::string::npos) << errors_[0];
  EXPECT_NE(errors_[0].find("the former configuration stays in force"), std::string::npos);
  configure("[nodes]\ngpus_per_node = 4\n");
  EXPECT_EQ((*cache.get(now_ + milliseconds(20000)))->config.gpus_per_node, 4);
  EXPECT_EQ(errors_.size(), 1U);
}

TEST_F(SiteCacheTest, refuses_until_a_first_good_configuration_was_read) {
  configure("[nodez]\n");
  SiteCache cache(path(), log());
  EXPECT_FALSE(cache.get(now_));
  EXPECT_FALSE(cache.get(now_ + milliseconds(2000)));
  EXPECT_EQ(errors_.size(), 1U);
  configure("");
  EXPECT_TRUE(cache.get(now_ + milliseconds(4000)));
}

TEST_F(SiteCacheTest, without_a_file_has_the_defaults_and_sees_the_file_appear) {
  SiteCache cache(path(), log());
  ASSERT_TRUE(cache.get(now_));
  EXPECT_EQ((*cache.get(now_))->config.gpus_per_node, 0);
  configure("[nodes]\ngpus_per_node = 2\n");
  EXPECT_EQ((*cache.get(now_ + milliseconds(1000)))->config.gpus_per_node, 2);
  std::filesystem::remove(path());
  EXPECT_EQ((*cache.get(now_ + milliseconds(2000)))->config.gpus_per_node, 0);
}

TEST_F(SiteCacheTest, sees_the_catalogue_change_and_survives_a_broken_entry) {
  configure("");
  SiteCache cache(path(), log());
  ASSERT_TRUE(cache.get(now_));
  EXPECT_EQ((*cache.get(now_))->catalogue.find("jax"), nullptr);
  write("frameworks.d/jax.toml", "summary = \"JAX\"\n");
  EXPECT_NE((*cache.get(now_ + milliseconds(1000)))->catalogue.find("jax"), nullptr);
  write("frameworks.d/bad.toml", "summary = 3\n");
  EXPECT_NE((*cache.get(now_ + milliseconds(2000)))->catalogue.find("jax"), nullptr);
  ASSERT_EQ(errors_.size(), 1U);
  EXPECT_NE(errors_[0].find("bad.toml:1"), std::string::npos) << errors_[0];
  std::filesystem::remove(folder_ + "/frameworks.d/bad.toml");
  std::filesystem::remove(folder_ + "/frameworks.d/jax.toml");
  EXPECT_EQ((*cache.get(now_ + milliseconds(3000)))->catalogue.find("jax"), nullptr);
}

TEST_F(SiteCacheTest, serves_many_threads_while_the_file_changes) {
  configure("[nodes]\ngpus_per_node = 1\n");
  SiteCache cache(path(), log());
  ASSERT_TRUE(cache.get(now_));  // the file is whole now, and may be half written later
  std::atomic<bool> stop{false};
  std::atomic<int64_t> shift_ms{0};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      while (!stop) {
        auto site = cache.get(now_ + milliseconds(shift_ms.load()));
        if (!site || (*site)->config.gpus_per_node < 1) ++wrong;
      }
    });
  for (int i = 1; i <= 50; ++i) {
    configure(i % 3 == 0 ? "[broken\n" : "[nodes]\ngpus_per_node = " + std::to_string(i) + "\n");
    shift_ms += 1000;
    ::usleep(2000);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ((*cache.get(now_ + milliseconds(shift_ms + 5000)))->config.gpus_per_node, 50);
}

}  // namespace
}  // namespace dl
