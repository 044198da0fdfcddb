// SPDX-License-Identifier: Apache-2.0
// Which word was probably meant, and that nothing is guessed for what is like none.
#include <gtest/gtest.h>

#include "common/base/nearest.h"

namespace dl {
namespace {

const std::vector<std::string> kWords = {"status", "pause", "resume", "why", "quota", "logs", "frameworks", "config"};
const std::vector<std::string> kFrameworks = {"pytorch", "tensorflow", "mpi", "jax", "generic", "cpp"};

TEST(Nearest, finds_slips_of_the_fingers) {
  for (const auto& [word, meant] : std::vector<std::pair<std::string, std::string>>{{"stauts", "status"},
                                                                                    {"statu", "status"},
                                                                                    {"pasue", "pause"},
                                                                                    {"log", "logs"},
                                                                                    {"wyh", "why"},
                                                                                    {"qouta", "quota"},
                                                                                    {"confg", "config"}})
    EXPECT_EQ(nearest(word, kWords), meant) << word;
  EXPECT_EQ(nearest("--lerners", {"--learners", "--gpus", "--servers"}), "--learners");
}

TEST(Nearest, finds_what_holds_the_word_or_is_held_by_it) {
  EXPECT_EQ(nearest("torch", kFrameworks), "pytorch");
  EXPECT_EQ(nearest("openmpi", kFrameworks), "mpi");
  EXPECT_EQ(nearest("torch", {"pytorch", "torchrec"}), "");  // either could be meant
}

TEST(Nearest, guesses_nothing_for_what_is_like_none) {
  for (const char* word : {"", "x", "ls", "delete", "--all"}) EXPECT_EQ(nearest(word, kWords), "") << word;
  EXPECT_EQ(nearest(std::string(10000, 's'), kWords), "");
  EXPECT_EQ(nearest("caffe2", kFrameworks), "");
  EXPECT_EQ(did_you_mean("stauts", kWords), "; did you mean 'status'?");
  EXPECT_EQ(did_you_mean("zzz", kWords), "");
}

}  // namespace
}  // namespace dl
