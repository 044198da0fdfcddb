// SPDX-License-Identifier: Apache-2.0
// dlckpt.hpp and dlckpt_read.hpp as a C++ program uses them: over the installed headers and the library alone. Compiled
// as C++17 and as C++20.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "checkpoint/include/dlckpt.hpp"
#include "checkpoint/include/dlckpt_read.hpp"

struct Bfloat16 {
  std::uint16_t bits;
};
template <>
struct dlckpt::Element<Bfloat16> {
  static constexpr dlckpt_dtype value = DLCKPT_BF16;
};

namespace {

using dlckpt::Checkpoint;
using dlckpt::Dims;
using dlckpt::Options;
using dlckpt::Reader;

template <typename T>
constexpr bool moves_only = std::is_nothrow_move_constructible_v<T>&& std::is_nothrow_move_assignable_v<T> &&
                            !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T>;
static_assert(moves_only<Checkpoint> && moves_only<Reader> && moves_only<dlckpt::Save>);
static_assert(dlckpt::Element<double>::value == DLCKPT_F64 && dlckpt::Element<bool>::value == DLCKPT_BOOL &&
              dlckpt::Element<unsigned char>::value == DLCKPT_U8 &&
              dlckpt::Element<std::int16_t>::value == DLCKPT_I16 &&
              dlckpt::Element<unsigned long long>::value == DLCKPT_U64 &&
              dlckpt::Element<std::complex<float>>::value == DLCKPT_C64 &&
              dlckpt::Element<Bfloat16>::value == DLCKPT_BF16);

class DlckptCpp : public testing::Test {
 protected:
  DlckptCpp() {
    std::string pattern = (std::filesystem::temp_directory_path() / "dlckpt-cpp-XXXXXX").string();
    if (!mkdtemp(pattern.data())) std::abort();
    folder_ = pattern;
    for (const char* name : {"DL_CHECKPOINT", "DL_CHECKPOINT_DIR", "CHECKPOINT_DIR", "DL_RANK", "DL_WORLD_SIZE", "RANK",
                             "WORLD_SIZE", "DL_RUN_ID", "DL_PROGRESS", "DL_CHECKPOINT_LEASE", "DL_CHECKPOINT_LOCAL",
                             "DL_CHECKPOINT_MODE", "SLURM_PROCID", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"})
      unsetenv(name);
  }
  ~DlckptCpp() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Options options() const {
    Options o;
    o.dir = folder_ + "/ckpt";
    return o;
  }
  std::string dir() const { return options().dir; }

  std::string folder_;
};

struct Heat {
  std::vector<double> u = std::vector<double>(12, 1.0);
  std::int32_t seed = 7;
  void step() {
    for (std::size_t i = 1; i < u.size(); ++i) u[i] += 0.25 * (u[i - 1] - u[i]) + seed;
  }
};

// Trains from wherever the directory stands up to `total`, and exits after `stop` if that comes first.
std::string train(const Options& options, Heat* heat, std::int64_t total, std::int64_t stop, std::int64_t* began) {
  auto checkpoint = Checkpoint::open(options);
  if (!checkpoint) return checkpoint.message();
  if (auto s = checkpoint->tensor("u", heat->u.data(), {3, 4}); !s) return s.message();
  if (auto s = checkpoint->tensor("seed", &heat->seed, {}); !s) return s.message();
  auto found = checkpoint->restore();
  if (!found) return found.message();
  *began = found->value_or(0);
  for (std::int64_t step = *began; step < total && step < stop; ++step) {
    const dlckpt::Want want = checkpoint->want(step);
    if (want.save)
      if (auto save = checkpoint->save(step); !save) return save.message();
    if (want.exit) return "asked to exit";
    if (auto s = checkpoint->before_mutation(); !s) return s.message();
    heat->step();
    if (auto s = checkpoint->blob("cursor", "after " + std::to_string(step)); !s) return s.message();
  }
  if (stop < total) return "";
  auto save = checkpoint->save(total);
  if (!save) return save.message();
  if (auto s = save->wait(); !s) return s.message();
  checkpoint->finished();
  return "";
}

TEST_F(DlckptCpp, AProgramSavesResumesAndIsReadByAnother) {
  Heat straight, killed, resumed;
  for (int i = 0; i < 20; ++i) straight.step();
  Options o = options();
  o.every_steps = 5;
  std::int64_t began = -1;
  ASSERT_EQ(train(o, &killed, 20, 13, &began), "");
  EXPECT_EQ(began, 0);
  ASSERT_EQ(train(o, &resumed, 20, 20, &began), "");
  EXPECT_EQ(began, 10);
  EXPECT_EQ(resumed.u, straight.u);

  auto reader = Reader::open(dir());
  ASSERT_TRUE(reader) << reader.message();
  EXPECT_EQ(reader->step(), 20);
  auto steps = reader->steps();
  ASSERT_TRUE(steps) << steps.message();
  EXPECT_EQ(*steps, (Dims{20, 15, 10}));
  ASSERT_EQ(reader->size(), 2U);
  auto info = reader->tensor(1);
  ASSERT_TRUE(info) << info.message();
  EXPECT_EQ(info->path, "u");
  EXPECT_EQ(info->shape, (Dims{3, 4}));
  EXPECT_EQ(info->bytes, 96U);
  EXPECT_EQ(dlckpt::name_of(info->dtype), "float64");
  auto u = reader->load<double>("u");
  ASSERT_TRUE(u) << u.message();
  EXPECT_EQ(*u, straight.u);
  double middle[2] = {};
  auto boxed = reader->load_into("u", middle, sizeof middle, {1, 1}, {1, 2});
  ASSERT_TRUE(boxed) << boxed.message();
  EXPECT_EQ(middle[0], straight.u[5]);
  EXPECT_EQ(middle[1], straight.u[6]);
  EXPECT_EQ(reader->load<std::int32_t>("seed")->at(0), 7);
  EXPECT_EQ(*reader->blob("cursor"), "after 19");
  auto older = reader->older();
  ASSERT_TRUE(older) << older.message();
  EXPECT_EQ(reader->step(), 15);
  EXPECT_EQ(*reader->blob("cursor"), "after 14");
}

TEST_F(DlckptCpp, NoCheckpointYetIsNoErrorButAMissingTrainStepIs) {
  auto checkpoint = Checkpoint::open(options());
  ASSERT_TRUE(checkpoint) << checkpoint.message();
  auto found = checkpoint->restore();
  EXPECT_TRUE(found) << found.message();
  EXPECT_EQ(*found, std::nullopt);
  EXPECT_NE(found.message(), "");
  EXPECT_EQ(*checkpoint->peek(), std::nullopt);
  EXPECT_EQ(checkpoint->latest(), std::nullopt);
  const dlckpt::Status missing = checkpoint->restore(3);
  EXPECT_FALSE(missing);
  EXPECT_EQ(missing.code(), DLCKPT_E_NOT_FOUND);
  EXPECT_STREQ(missing.name(), "DLCKPT_E_NOT_FOUND");
  EXPECT_NE(missing.message().find(dir()), std::string::npos) << missing.message();
  EXPECT_EQ(Reader::open(dir()).code(), DLCKPT_E_NOT_FOUND);
}

TEST_F(DlckptCpp, PartsWithGapsOfTwoRanksAreReadAsOne) {
  // Rank r holds columns 2r and 2r+1 of a 3 x 4 matrix, in rows that are 5 numbers apart.
  const auto rank = [this](int r, std::string* wrong) {
    Options o = options();
    o.rank = r;
    o.world_size = 2;
    o.run_id = "two";
    auto checkpoint = Checkpoint::open(o);
    if (!checkpoint) return void(*wrong = checkpoint.message());
    std::vector<float> memory(15, -1);
    for (int row = 0; row < 3; ++row)
      for (int column = 0; column < 2; ++column)
        memory[static_cast<std::size_t>(row * 5 + column)] = static_cast<float>(row * 4 + 2 * r + column);
    if (auto s = checkpoint->part("m", memory.data(), {3, 4}, {{0, 2 * r}, {3, 2}, {20, 4}}); !s)
      return void(*wrong = s.message());
    if (auto s = checkpoint->blob("mine", "rank " + std::to_string(r), true); !s) return void(*wrong = s.message());
    auto save = checkpoint->save(1, DLCKPT_SYNC);
    if (!save) *wrong = save.message();
  };
  std::string wrong[2];
  std::thread other([&] { rank(1, &wrong[1]); });
  rank(0, &wrong[0]);
  other.join();
  ASSERT_EQ(wrong[0] + wrong[1], "");
  auto reader = Reader::open(dir(), 1);
  ASSERT_TRUE(reader) << reader.message();
  EXPECT_EQ(*reader->load<float>("m"), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(*reader->blob("mine", 1), "rank 1");
  EXPECT_EQ(reader->blob("mine").code(), DLCKPT_E_NOT_FOUND);
}

TEST_F(DlckptCpp, TheOtherFunctionsDoWhatTheirCounterpartsInCDo) {
  Options o = options();
  o.best = "loss:min:1";
  o.keep = 1;
  auto resolved = dlckpt::resolve(o);
  ASSERT_TRUE(resolved) << resolved.message();
  EXPECT_EQ(resolved->dir, dir());
  EXPECT_EQ(resolved->keep, 1);
  EXPECT_EQ(dlckpt::resolve()->dir, std::nullopt);

  const std::string file = folder_ + "/log.txt";
  std::ofstream(file) << "first";
  std::vector<Bfloat16> w(8, Bfloat16{0x3f80});
  float gone = 1;
  auto checkpoint = Checkpoint::open(o);
  ASSERT_TRUE(checkpoint) << checkpoint.message();
  ASSERT_TRUE(checkpoint->tensor("w", w.data(), {8}));
  ASSERT_TRUE(checkpoint->tensor("gone", &gone, {1}));
  ASSERT_TRUE(checkpoint->forget("gone"));
  ASSERT_TRUE(checkpoint->member("log", file));
  ASSERT_TRUE(checkpoint->blob("words", std::string_view("a\0b", 3)));
  for (const auto& [step, loss] : {std::pair(1, 0.5), std::pair(2, 0.7), std::pair(3, 0.6)}) {
    ASSERT_TRUE(checkpoint->metric("loss", loss));
    ASSERT_TRUE(checkpoint->save(step, DLCKPT_SYNC));
  }
  EXPECT_EQ(*checkpoint->wait(), 3);
  EXPECT_EQ(checkpoint->latest(), 3);
  EXPECT_EQ(checkpoint->stats()->saves, 3U);
  EXPECT_EQ(checkpoint->exit_code(), 76);

  std::ofstream(file) << "second";
  w.assign(8, Bfloat16{0});
  EXPECT_EQ(**checkpoint->peek(), 3);
  EXPECT_EQ(*checkpoint->get_blob("words"), std::string_view("a\0b", 3));
  ASSERT_TRUE(checkpoint->restore(1)) << "the best is kept";
  EXPECT_EQ(checkpoint->restore_stats()->step, 1);
  EXPECT_EQ(w[7].bits, 0x3f80);
  std::string text;
  std::getline(std::ifstream(file), text);
  EXPECT_EQ(text, "first");
  checkpoint->close();
  EXPECT_EQ(Reader::open(dir())->find("gone").code(), DLCKPT_E_NOT_FOUND);

  EXPECT_EQ(dlckpt::where(w.data()), DLCKPT_ON_HOST);
  EXPECT_EQ(dlckpt::size_of(DLCKPT_C128), 16U);
  EXPECT_EQ(dlckpt::name_of(static_cast<dlckpt_dtype>(99)), "");
  EXPECT_STREQ(dlckpt::version(), dlckpt_version());
}

TEST_F(DlckptCpp, WrongArgumentsAreRefusedWithASentence) {
  auto checkpoint = Checkpoint::open(options());
  ASSERT_TRUE(checkpoint) << checkpoint.message();
  double values[6] = {};
  const dlckpt::Status box = checkpoint->part("u", values, {2, 3}, {{0}, {2}, {}});
  EXPECT_EQ(box.code(), DLCKPT_E_INVALID);
  EXPECT_EQ(box.message(), "u: offset has 1 numbers, and the tensor 2 dimensions");
  EXPECT_EQ(checkpoint->part("u", values, {2, 3}, {{}, {}, {8}}).code(), DLCKPT_E_INVALID);
  EXPECT_EQ(checkpoint->tensor(std::string("u\0v", 3), values, {6}).code(), DLCKPT_E_INVALID);
  EXPECT_EQ(checkpoint->tensor("a//b", values, {6}).code(), DLCKPT_E_INVALID);
  ASSERT_TRUE(checkpoint->tensor("u", values, {2, 3}));
  EXPECT_EQ(checkpoint->save(-1).code(), DLCKPT_E_INVALID);
  ASSERT_TRUE(checkpoint->save(1, DLCKPT_SYNC));

  auto reader = Reader::open(dir());
  ASSERT_TRUE(reader) << reader.message();
  const auto other = reader->load<float>("u");
  EXPECT_EQ(other.code(), DLCKPT_E_MISMATCH);
  EXPECT_EQ(other.message(), "u holds float64, not float32");
  EXPECT_EQ(reader->load_into("u", values, 8, {0}, {1}).code(), DLCKPT_E_INVALID);
  EXPECT_EQ(reader->load_into("u", values, 9).code(), DLCKPT_E_INVALID);
  EXPECT_EQ(reader->tensor(5).code(), DLCKPT_E_NOT_FOUND);
  EXPECT_EQ(Reader::open("").code(), DLCKPT_E_INVALID);
}

TEST_F(DlckptCpp, WhatIsClosedOrMovedOrOvertakenIsRefusedAndNotTouched) {
  double value = 1;
  auto opened = Checkpoint::open(options());
  ASSERT_TRUE(opened) << opened.message();
  Checkpoint checkpoint = std::move(*opened);
  EXPECT_EQ(opened->get(), nullptr);
  EXPECT_EQ(opened->tensor("x", &value, {}).code(), DLCKPT_E_INVALID);
  EXPECT_EQ(opened->save(1).code(), DLCKPT_E_INVALID);
  EXPECT_EQ(opened->restore().code(), DLCKPT_E_INVALID);
  EXPECT_EQ(opened->latest(), std::nullopt);
  EXPECT_FALSE(opened->want(1).save);
  ASSERT_TRUE(checkpoint.tensor("x", &value, {}));
  auto first = checkpoint.save(1);
  auto second = checkpoint.save(2);
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->wait().message().find("a later one was asked for"), std::string::npos);
  EXPECT_TRUE(second->wait());
  EXPECT_EQ(second->step(), 2);
  // The directory is free for another as soon as the handle lets go, whatever Saves are still about.
  checkpoint.close();
  EXPECT_EQ(second->wait().code(), DLCKPT_E_INVALID);
  EXPECT_TRUE(Checkpoint::open(options()));
  auto reader = Reader::open(dir());
  ASSERT_TRUE(reader) << reader.message();
  reader->close();
  EXPECT_EQ(reader->find("x").code(), DLCKPT_E_INVALID);
  EXPECT_EQ(reader->step(), -1);
}

TEST_F(DlckptCpp, ASaveIsNotToldTheOutcomeOfALaterOneThatFailedAtOnce) {
  double value = 1;
  auto checkpoint = Checkpoint::open(options());
  ASSERT_TRUE(checkpoint) << checkpoint.message();
  ASSERT_TRUE(checkpoint->tensor("x", &value, {}));
  ASSERT_TRUE(checkpoint->member("state", folder_ + "/state"));
  std::ofstream(folder_ + "/state") << "first";
  auto first = checkpoint->save(1);
  ASSERT_TRUE(first) << first.message();
  ASSERT_TRUE(first->wait());
  std::filesystem::remove(folder_ + "/state");
  const auto second = checkpoint->save(2, DLCKPT_SYNC);
  ASSERT_FALSE(second);
  const dlckpt::Status asked = first->wait();
  EXPECT_EQ(asked.code(), DLCKPT_E_INVALID);
  EXPECT_NE(asked.message().find("the save of train step 1 cannot be waited for"), std::string::npos)
      << asked.message();
}

// The tensors have their values then: "there is no checkpoint yet" would have the program train from the beginning on
// top of them.
TEST_F(DlckptCpp, AMemberThatCannotBePutBackIsAnErrorAndNotNoCheckpoint) {
  double value = 1;
  std::filesystem::create_directory(folder_ + "/sub");
  std::ofstream(folder_ + "/sub/state") << "first";
  {
    auto checkpoint = Checkpoint::open(options());
    ASSERT_TRUE(checkpoint) << checkpoint.message();
    ASSERT_TRUE(checkpoint->tensor("x", &value, {}));
    ASSERT_TRUE(checkpoint->member("state", folder_ + "/sub/state"));
    ASSERT_TRUE(checkpoint->save(1, DLCKPT_SYNC));
  }
  std::filesystem::remove_all(folder_ + "/sub");
  auto again = Checkpoint::open(options());
  ASSERT_TRUE(again) << again.message();
  ASSERT_TRUE(again->tensor("x", &value, {}));
  ASSERT_TRUE(again->member("state", folder_ + "/sub/state"));
  const auto found = again->restore();
  EXPECT_FALSE(found);
  EXPECT_EQ(found.code(), DLCKPT_E_IO);
}

}  // namespace
