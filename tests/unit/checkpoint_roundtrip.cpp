// SPDX-License-Identifier: Apache-2.0
// What is saved is restored, bit for bit: every dtype and odd shape, and every N -> M over all shardings, against an
// oracle.
#include <memory>
#include <random>

#include "checkpoint/include/dlckpt_read.h"
#include "tests/unit/checkpoint_support.h"

namespace dl::ckpt::test {
namespace {

struct Sample {
  std::string path;
  int dtype;
  Dims shape;
  std::vector<unsigned char> bytes, copy;
};

TEST(CheckpointRoundTrip, EveryDtypeAndShape) {
  std::mt19937 random(5);
  std::vector<Sample> samples;
  for (int dtype = DLCKPT_F64; dtype <= DLCKPT_C128; ++dtype) {
    const std::vector<Dims> shapes = {{},      {0},    {1},    {7},         {3, 5},       {0, 4},    {4, 0, 2},
                                      {65536}, {2, 1}, {1, 1}, Dims(32, 1), {2, 3, 4, 5}, {300, 301}};
    for (size_t s = 0; s < shapes.size(); ++s) {
      Sample sample;
      sample.path = std::string(dlckpt_dtype_name(static_cast<dlckpt_dtype>(dtype))) + "/shape" + std::to_string(s);
      sample.dtype = dtype;
      sample.shape = shapes[s];
      sample.bytes.resize(*volume(sample.shape) * find_dtype(dtype)->size);
      for (unsigned char& byte : sample.bytes) byte = static_cast<unsigned char>(random());  // NaN payloads too
      sample.copy.assign(sample.bytes.size(), 0xEE);
      samples.push_back(std::move(sample));
    }
  }
  const TempDir dir;
  {
    auto context = open_context(settings_for(dir.path()));
    ASSERT_TRUE(context) << context.error().text;
    for (Sample& s : samples)
      ASSERT_TRUE((*context)->registry().add_tensor(s.path.c_str(), s.dtype, static_cast<int>(s.shape.size()),
                                                    s.shape.data(), nullptr, nullptr, s.bytes.data(), 0));
    auto saved = (*context)->save(0);
    ASSERT_TRUE(saved) << saved.error().text;
  }
  auto context = open_context(settings_for(dir.path()));
  ASSERT_TRUE(context);
  for (Sample& s : samples)
    ASSERT_TRUE((*context)->registry().add_tensor(s.path.c_str(), s.dtype, static_cast<int>(s.shape.size()),
                                                  s.shape.data(), nullptr, nullptr, s.copy.data(), 0));
  std::string note;
  auto restored = (*context)->restore(DLCKPT_LATEST, &note);
  ASSERT_TRUE(restored) << restored.error().text;
  EXPECT_EQ(*restored, 0);
  EXPECT_EQ(note, "");
  for (const Sample& s : samples) EXPECT_TRUE(s.copy == s.bytes) << s.path;
}

TEST(CheckpointRoundTrip, AwkwardNames) {
  const TempDir dir;
  const std::vector<std::string> names = {"a",
                                          "a/s0",
                                          "a/s0/s0",
                                          "a/b0",
                                          ".",
                                          "..",
                                          "./..",
                                          "%",
                                          "%2E",
                                          "_dlckpt",
                                          "_dlckpt/blocks",
                                          "größe/π",
                                          "a b",
                                          "x.y.z",
                                          std::string(512, 'n')};
  std::vector<int32_t> values(names.size()), copies(names.size(), -1);
  {
    auto context = open_context(settings_for(dir.path()));
    for (size_t i = 0; i < names.size(); ++i) {
      values[i] = static_cast<int32_t>(i * 7 + 1);
      ASSERT_TRUE(
          (*context)->registry().add_tensor(names[i].c_str(), DLCKPT_I32, 0, nullptr, nullptr, nullptr, &values[i], 0));
    }
    auto saved = (*context)->save(1);
    ASSERT_TRUE(saved) << saved.error().text;
  }
  auto context = open_context(settings_for(dir.path()));
  for (size_t i = 0; i < names.size(); ++i)
    ASSERT_TRUE(
        (*context)->registry().add_tensor(names[i].c_str(), DLCKPT_I32, 0, nullptr, nullptr, nullptr, &copies[i], 0));
  std::string note;
  ASSERT_TRUE((*context)->restore(DLCKPT_LATEST, &note));
  EXPECT_EQ(copies, values);
}

TEST(CheckpointRoundTrip, NothingRegisteredIsACheckpointToo) {
  const TempDir dir;
  auto context = open_context(settings_for(dir.path()));
  ASSERT_TRUE((*context)->save(3));
  std::string note;
  auto restored = (*context)->restore(DLCKPT_LATEST, &note);
  ASSERT_TRUE(restored);
  EXPECT_EQ(*restored, 3);
}

TEST(CheckpointRoundTrip, ManySmallTensors) {
  const TempDir dir;
  std::vector<float> values(3000), copies(3000, -1);
  const int64_t one = 1;
  const auto enroll = [&](Context& c, std::vector<float>& v) {
    for (size_t i = 0; i < v.size(); ++i)
      EXPECT_TRUE(c.registry().add_tensor(("layer" + std::to_string(i % 100) + "/p" + std::to_string(i)).c_str(),
                                          DLCKPT_F32, 1, &one, nullptr, nullptr, &v[i], 0));
  };
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  {
    auto context = open_context(settings_for(dir.path()));
    enroll(**context, values);
    auto saved = (*context)->save(1);
    ASSERT_TRUE(saved) << saved.error().text;
  }
  auto context = open_context(settings_for(dir.path()));
  enroll(**context, copies);
  std::string note;
  ASSERT_TRUE((*context)->restore(1, &note));
  EXPECT_EQ(copies, values);
}

// Cuts `size` among `ranks` unevenly; some may get nothing.
Box uneven_part(const Dims& shape, size_t dim, int rank, int ranks) {
  Box box = whole(shape);
  const auto cut = [&](int r) { return shape[dim] * r * r / (ranks * ranks); };
  box.offset[dim] = cut(rank);
  box.extent[dim] = cut(rank + 1) - cut(rank);
  return box;
}

// A grid over dimensions 0 and 1 where the number of ranks allows, else rows.
Box mesh_part(const Dims& shape, int rank, int ranks) {
  if (ranks % 2 != 0) return uneven_part(shape, 0, rank, ranks);
  Box box = whole(shape);
  const int64_t rows = ranks / 2, r = rank / 2, c = rank % 2;
  box.offset[0] = shape[0] * r / rows;
  box.extent[0] = shape[0] * (r + 1) / rows - box.offset[0];
  box.offset[1] = shape[1] * c / 2;
  box.extent[1] = shape[1] * (c + 1) / 2 - box.offset[1];
  return box;
}

struct ElasticTensor {
  std::string path;
  Dims shape;
  enum Kind { kReplicated, kDim0, kDim1, kDim2, kMesh } kind;
  Box part(int rank, int ranks) const {
    switch (kind) {
      case kReplicated:
        return whole(shape);
      case kDim0:
        return uneven_part(shape, 0, rank, ranks);
      case kDim1:
        return uneven_part(shape, 1, rank, ranks);
      case kDim2:
        return uneven_part(shape, 2, rank, ranks);
      case kMesh:
        return mesh_part(shape, rank, ranks);
    }
    return {};
  }
  // The oracle: the value of the element at a global position.
  static uint32_t value(const std::string& path, int64_t linear) {
    return static_cast<uint32_t>(std::hash<std::string>()(path) + static_cast<uint64_t>(linear) * 2654435761U);
  }
  std::vector<uint32_t> content(const Box& box) const {
    std::vector<uint32_t> out;
    Dims at = box.offset;
    const uint64_t count = *volume(box.extent);
    for (uint64_t i = 0; i < count; ++i) {
      int64_t linear = 0;
      for (size_t d = 0; d < shape.size(); ++d) linear = linear * shape[d] + at[d];
      out.push_back(value(path, linear));
      for (size_t d = shape.size(); d-- > 0;) {
        if (++at[d] < box.offset[d] + box.extent[d]) break;
        at[d] = box.offset[d];
      }
    }
    return out;
  }
};

std::vector<ElasticTensor> elastic_tensors() {
  return {{"replicated/small", {13}, ElasticTensor::kReplicated},
          {"replicated/scalar", {}, ElasticTensor::kReplicated},
          {"replicated/large", {700, 2000}, ElasticTensor::kReplicated},  // 5.6 MB: cut among the ranks
          {"rows", {37, 11}, ElasticTensor::kDim0},
          {"rows/long", {40000, 3}, ElasticTensor::kDim0},
          {"columns", {11, 37}, ElasticTensor::kDim1},
          {"deep", {3, 5, 19}, ElasticTensor::kDim2},
          {"mesh", {64, 50}, ElasticTensor::kMesh},
          {"fewer rows than ranks", {2, 4}, ElasticTensor::kDim0},
          {"empty", {0, 4}, ElasticTensor::kDim0}};
}

Status enroll(Context& context, const ElasticTensor& tensor, int rank, int ranks, std::vector<uint32_t>& data) {
  const Box box = tensor.part(rank, ranks);
  const bool replicated = tensor.kind == ElasticTensor::kReplicated;
  return context.registry().add_tensor(tensor.path.c_str(), DLCKPT_U32, static_cast<int>(tensor.shape.size()),
                                       tensor.shape.data(), replicated ? nullptr : box.offset.data(),
                                       replicated ? nullptr : box.extent.data(), data.data(),
                                       replicated ? static_cast<unsigned>(DLCKPT_REPLICATED) : 0U);
}

void save_elastic(const std::string& dir, int ranks) {
  const auto tensors = elastic_tensors();
  run_ranks(ranks, [&](int rank) {
    auto context = open_context(settings_for(dir, rank, ranks, "save" + std::to_string(ranks)));
    ASSERT_TRUE(context) << context.error().text;
    std::vector<std::vector<uint32_t>> data;
    for (const ElasticTensor& tensor : tensors) data.push_back(tensor.content(tensor.part(rank, ranks)));
    for (size_t i = 0; i < tensors.size(); ++i) ASSERT_TRUE(enroll(**context, tensors[i], rank, ranks, data[i]));
    const std::string own = "rank " + std::to_string(rank);
    ASSERT_TRUE((*context)->registry().add_blob("own", own.data(), own.size(), true));
    const std::string shared = rank == 0 ? "shared" : "not this one";
    ASSERT_TRUE((*context)->registry().add_blob("shared", shared.data(), shared.size(), false));
    auto saved = (*context)->save(100 + ranks);
    ASSERT_TRUE(saved) << saved.error().text;
  });
}

void restore_elastic(const std::string& dir, int saved_by, int ranks) {
  const auto tensors = elastic_tensors();
  run_ranks(ranks, [&](int rank) {
    auto context = open_context(settings_for(dir, rank, ranks, "load" + std::to_string(ranks)));
    ASSERT_TRUE(context) << context.error().text;
    std::vector<std::vector<uint32_t>> data;
    for (const ElasticTensor& tensor : tensors)
      data.emplace_back(*volume(tensor.part(rank, ranks).extent), 0xEEEEEEEEU);
    for (size_t i = 0; i < tensors.size(); ++i) ASSERT_TRUE(enroll(**context, tensors[i], rank, ranks, data[i]));
    std::string note;
    auto restored = (*context)->restore(100 + saved_by, &note);
    ASSERT_TRUE(restored) << restored.error().text;
    for (size_t i = 0; i < tensors.size(); ++i)
      EXPECT_TRUE(data[i] == tensors[i].content(tensors[i].part(rank, ranks)))
          << tensors[i].path << " " << saved_by << " -> " << ranks << " rank " << rank;
    const std::string* own = (*context)->restored_blob("own");
    ASSERT_EQ(own != nullptr, rank < saved_by);
    if (own) {
      EXPECT_EQ(*own, "rank " + std::to_string(rank));
    }
    const std::string* shared = (*context)->restored_blob("shared");
    ASSERT_TRUE(shared);
    EXPECT_EQ(*shared, "shared");
  });
}

TEST(CheckpointElastic, AnyNumberOfRanksLoadsWhatAnyNumberSaved) {
  const TempDir dir;
  const std::vector<int> counts = {1, 2, 3, 4, 8};
  for (const int n : counts) {
    save_elastic(dir.path(), n);
    for (const int m : counts) restore_elastic(dir.path(), n, m);
  }
  EXPECT_TRUE(leftovers(dir.path()).empty());
}

struct CloseReader {
  void operator()(dlckpt_reader* reader) const { dlckpt_reader_close(reader); }
};
using ReaderPtr = std::unique_ptr<dlckpt_reader, CloseReader>;
ReaderPtr open_reader(const std::string& dir, int64_t step) {
  dlckpt_reader* reader = nullptr;
  EXPECT_EQ(dlckpt_reader_open(dir.c_str(), step, &reader), DLCKPT_OK) << dlckpt_open_error();
  return ReaderPtr(reader);
}

TEST(CheckpointReader, LoadsAnyBoxOfWhatAnyNumberOfRanksSaved) {
  const TempDir dir;
  std::mt19937 random(3);
  for (const int ranks : {1, 3, 4}) {
    save_elastic(dir.path(), ranks);
    const ReaderPtr reader = open_reader(dir.path(), DLCKPT_LATEST);
    ASSERT_TRUE(reader);
    EXPECT_EQ(dlckpt_reader_step(reader.get()), 100 + ranks);
    EXPECT_EQ(dlckpt_reader_count(reader.get()), elastic_tensors().size());
    for (const ElasticTensor& tensor : elastic_tensors()) {
      dlckpt_tensor_info info{};
      info.struct_size = sizeof info;
      ASSERT_EQ(dlckpt_reader_find(reader.get(), tensor.path.c_str(), &info), DLCKPT_OK);
      EXPECT_EQ(Dims(info.shape, info.shape + info.ndim), tensor.shape);
      EXPECT_EQ(info.dtype, DLCKPT_U32);
      const Box all = whole(tensor.shape);
      std::vector<uint32_t> data(info.bytes / 4);
      ASSERT_EQ(dlckpt_reader_load(reader.get(), info.path, nullptr, nullptr, data.data(), info.bytes), DLCKPT_OK)
          << dlckpt_reader_errmsg(reader.get());
      EXPECT_TRUE(data == tensor.content(all)) << tensor.path;
      for (int n = 0; n < 20; ++n) {
        Box box = all;
        for (size_t d = 0; d < box.extent.size(); ++d) {
          box.offset[d] = static_cast<int64_t>(random() % static_cast<uint64_t>(tensor.shape[d] + 1));
          box.extent[d] = static_cast<int64_t>(random() % static_cast<uint64_t>(tensor.shape[d] - box.offset[d] + 1));
        }
        data.assign(*volume(box.extent), 0xEEEEEEEEU);
        ASSERT_EQ(dlckpt_reader_load(reader.get(), info.path, box.offset.data(), box.extent.data(), data.data(),
                                     data.size() * 4),
                  DLCKPT_OK)
            << dlckpt_reader_errmsg(reader.get());
        EXPECT_TRUE(data == tensor.content(box)) << tensor.path << describe(box);
      }
    }
    const void* blob = nullptr;
    size_t size = 0;
    ASSERT_EQ(dlckpt_reader_blob(reader.get(), "own", ranks - 1, &blob, &size), DLCKPT_OK);
    EXPECT_EQ(std::string(static_cast<const char*>(blob), size), "rank " + std::to_string(ranks - 1));
    ASSERT_EQ(dlckpt_reader_blob(reader.get(), "shared", -1, &blob, &size), DLCKPT_OK);
    EXPECT_EQ(std::string(static_cast<const char*>(blob), size), "shared");
    EXPECT_EQ(dlckpt_reader_blob(reader.get(), "own", ranks, &blob, &size), DLCKPT_E_NOT_FOUND);
  }
  const ReaderPtr reader = open_reader(dir.path(), 103);
  ASSERT_TRUE(reader);
  EXPECT_EQ(dlckpt_reader_step(reader.get()), 103);
  int64_t steps[2] = {};
  size_t count = 0;
  EXPECT_EQ(dlckpt_reader_steps(reader.get(), steps, 2, &count), DLCKPT_OK);
  EXPECT_EQ(count, 3U);
  EXPECT_EQ(steps[0], 104);
  EXPECT_EQ(dlckpt_reader_older(reader.get()), DLCKPT_OK);
  EXPECT_EQ(dlckpt_reader_step(reader.get()), 101);
  EXPECT_EQ(dlckpt_reader_older(reader.get()), DLCKPT_E_NOT_FOUND);
  EXPECT_EQ(dlckpt_reader_step(reader.get()), 101);
}

TEST(CheckpointReader, RefusesWhatCannotBe) {
  const TempDir dir;
  ASSERT_TRUE(save_pattern(dir.path(), 7));
  dlckpt_reader* none = nullptr;
  EXPECT_EQ(dlckpt_reader_open(dir.path().c_str(), DLCKPT_LATEST, nullptr), DLCKPT_E_INVALID);
  EXPECT_EQ(dlckpt_reader_open(nullptr, DLCKPT_LATEST, &none), DLCKPT_E_INVALID);
  EXPECT_EQ(dlckpt_reader_open(dir.path().c_str(), -2, &none), DLCKPT_E_INVALID);
  EXPECT_EQ(dlckpt_reader_open(dir.path().c_str(), 8, &none), DLCKPT_E_NOT_FOUND);
  EXPECT_EQ(none, nullptr);
  const ReaderPtr reader = open_reader(dir.path(), 7);
  ASSERT_TRUE(reader);
  dlckpt_tensor_info info{};
  EXPECT_EQ(dlckpt_reader_tensor(reader.get(), 0, &info), DLCKPT_E_INVALID);  // struct_size
  info.struct_size = sizeof info;
  EXPECT_EQ(dlckpt_reader_tensor(reader.get(), 0, nullptr), DLCKPT_E_INVALID);
  EXPECT_EQ(dlckpt_reader_tensor(reader.get(), 99, &info), DLCKPT_E_NOT_FOUND);
  ASSERT_EQ(dlckpt_reader_find(reader.get(), "model/bias", &info), DLCKPT_OK);
  std::vector<uint16_t> data(100);
  const int64_t past[] = {60}, much[] = {41}, negative[] = {-1};
  const auto load = [&](const int64_t* offset, const int64_t* extent, size_t size, void* to) {
    return dlckpt_reader_load(reader.get(), "model/bias", offset, extent, to, size);
  };
  EXPECT_EQ(load(past, much, 82, data.data()), DLCKPT_E_INVALID);
  EXPECT_EQ(load(negative, much, 82, data.data()), DLCKPT_E_INVALID);
  EXPECT_EQ(load(past, nullptr, 200, data.data()), DLCKPT_E_INVALID);
  EXPECT_EQ(load(nullptr, nullptr, 199, data.data()), DLCKPT_E_INVALID);
  EXPECT_EQ(load(nullptr, nullptr, 200, nullptr), DLCKPT_E_INVALID);
  EXPECT_EQ(load(nullptr, nullptr, 200, data.data()), DLCKPT_OK);
  EXPECT_STREQ(dlckpt_reader_errmsg(reader.get()), "");
  EXPECT_EQ(dlckpt_reader_load(reader.get(), nullptr, nullptr, nullptr, data.data(), 200), DLCKPT_E_NOT_FOUND);
  EXPECT_EQ(dlckpt_reader_step(nullptr), -1);
  EXPECT_EQ(dlckpt_reader_count(nullptr), 0U);
  EXPECT_EQ(dlckpt_reader_older(nullptr), DLCKPT_E_INVALID);
  dlckpt_reader_close(nullptr);
}

TEST(CheckpointElastic, ReplicatedBytesAreWrittenOnceAndSpread) {
  const TempDir dir;
  save_elastic(dir.path(), 4);
  auto names = scan_checkpoints(posix_io(), dir.path());
  auto manifest = load_manifest(posix_io(), dir.path(), names->front());
  ASSERT_TRUE(manifest);
  uint64_t least = UINT64_MAX, most = 0, data = 0;
  for (const FileRecord& file : manifest->files) {
    least = std::min(least, file.size);
    most = std::max(most, file.size);
  }
  for (const TensorRecord& tensor : manifest->tensors) data += tensor.bytes();
  EXPECT_LT(manifest->total_bytes(), data + 4 * 100000);
  EXPECT_LT(most - least, 2 << 20);
}

TEST(CheckpointElastic, HolesOverlapsAndDifferentRegistrationsAreRefusedOnAllRanks) {
  const TempDir dir;
  const int64_t shape[] = {10};
  const auto attempt = [&](const std::string& what, const std::function<void(Context&, int)>& enroll_all) {
    std::vector<std::string> texts(2);
    run_ranks(2, [&](int rank) {
      auto context = open_context(settings_for(dir.path(), rank, 2, what));
      ASSERT_TRUE(context);
      enroll_all(**context, rank);
      auto saved = (*context)->save(5);
      ASSERT_FALSE(saved) << what;
      EXPECT_EQ(saved.error().code, Errc::kInvalid) << what << saved.error().text;
      texts[static_cast<size_t>(rank)] = saved.error().text;
    });
    EXPECT_EQ(texts[0], texts[1]);
    EXPECT_TRUE(scan_checkpoints(posix_io(), dir.path())->empty());
    EXPECT_TRUE(leftovers(dir.path()).empty());
    return texts[0];
  };
  float data[10] = {};
  EXPECT_NE(attempt("hole",
                    [&](Context& c, int rank) {
                      const int64_t offset[] = {rank * 6}, extent[] = {4};
                      ASSERT_TRUE(c.registry().add_tensor("w", DLCKPT_F32, 1, shape, offset, extent, data, 0));
                    })
                .find("w: the parts leave a hole"),
            std::string::npos);
  EXPECT_NE(attempt("overlap",
                    [&](Context& c, int) {
                      ASSERT_TRUE(c.registry().add_tensor("w", DLCKPT_F32, 1, shape, nullptr, nullptr, data, 0));
                    })
                .find("overlap"),
            std::string::npos);
  EXPECT_NE(attempt("different",
                    [&](Context& c, int rank) {
                      ASSERT_TRUE(c.registry().add_tensor(rank ? "v" : "w", DLCKPT_F32, 1, shape, nullptr, nullptr,
                                                          data, DLCKPT_REPLICATED));
                    })
                .find("registered other tensors"),
            std::string::npos);
}

TEST(CheckpointElastic, RanksThatSaveDifferentStepsAreTold) {
  const TempDir dir;
  run_ranks(2, [&](int rank) {
    Settings settings = settings_for(dir.path(), rank, 2);
    settings.timeout_s = 0.5;
    auto context = open_context(settings);
    EXPECT_FALSE((*context)->save(5 + rank));
  });
  EXPECT_TRUE(scan_checkpoints(posix_io(), dir.path())->empty());
}

TEST(CheckpointElastic, AMissingRankTimesOutAndIsNamed) {
  const TempDir dir;
  Settings settings = settings_for(dir.path(), 0, 3);
  settings.timeout_s = 0.3;
  auto context = open_context(settings);
  auto saved = (*context)->save(5);
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, Errc::kTimeout);
  EXPECT_NE(saved.error().text.find("rank 1, 2 of 3"), std::string::npos) << saved.error().text;
}

// A run id that was used before: messages of the old run are in the directory, and must not be taken for new ones.
TEST(CheckpointElastic, AnOldRunWithTheSameRunIdDoesNoHarm) {
  const TempDir dir;
  for (int round = 0; round < 5; ++round) {
    // Old ranks that never said good-bye: as after kill -9.
    std::filesystem::create_directories(dir.path() + "/" + run_folder("same") + "/00000000000000aa/up");
    std::filesystem::create_directories(dir.path() + "/" + run_folder("same") + "/00000000000000aa/down");
    write_file(dir.path() + "/" + run_folder("same") + "/hello-1", "00000000000000bb");
    write_file(dir.path() + "/" + run_folder("same") + "/new-1", "torn");
    write_file(dir.path() + "/" + run_folder("same") + "/welcome",
               "00000000000000aa 00000000000000aa 00000000000000bb");
    run_ranks(2, [&](int rank) {
      if (rank == round % 2) std::this_thread::sleep_for(std::chrono::milliseconds(5 * round));
      auto context = open_context(settings_for(dir.path(), rank, 2, "same"));
      ASSERT_TRUE(context) << context.error().text;
      PatternState state(1000);
      state.fill(round);
      ASSERT_TRUE(state.enroll(**context));
      auto saved = (*context)->save(round);
      ASSERT_TRUE(saved) << saved.error().text;
    });
    EXPECT_TRUE(leftovers(dir.path()).empty());
  }
}

// Nothing in this program has loaded a CUDA driver; nor does the library.
TEST(CheckpointRoundTrip, AProgramWithoutTheCudaDriverStaysWithoutIt) {
  const TempDir dir;
  ASSERT_TRUE(save_pattern(dir.path(), 1));
  ASSERT_TRUE(restore_pattern(dir.path()));
  EXPECT_EQ(dlckpt_where(&dir), DLCKPT_ON_HOST);
  EXPECT_EQ(read_file("/proc/self/maps").find("libcuda.so"), std::string::npos);
}

// The plan of the tensors is kept from save to save; whatever changes them must end it.
TEST(CheckpointRoundTrip, WhatIsRegisteredAnewIsPlannedAnew) {
  const TempDir dir;
  const int64_t shape[] = {4}, low[] = {0}, high[] = {2}, half[] = {2};
  uint32_t first[] = {1, 2, 3, 4}, other[] = {5, 6, 7, 8}, found[4] = {};
  auto context = *open_context(settings_for(dir.path()));
  Registry& registry = context->registry();
  int64_t step = 0;
  const auto expect_stored = [&](const std::vector<uint32_t>& values) {
    ASSERT_TRUE(context->save(++step));
    const TempDir copy;
    std::filesystem::copy(dir.path(), copy.path(), std::filesystem::copy_options::recursive);
    std::filesystem::remove(copy.path() + "/LEASE");
    auto reader = *open_context(settings_for(copy.path()));
    ASSERT_TRUE(reader->registry().add_tensor("t", DLCKPT_U32, 1, shape, nullptr, nullptr, found, 0));
    std::string note;
    const auto restored = reader->restore(step, &note);
    ASSERT_TRUE(restored) << restored.error().text;
    EXPECT_EQ(std::vector<uint32_t>(found, found + 4), values) << "train step " << step;
  };
  ASSERT_TRUE(registry.add_tensor("t", DLCKPT_U32, 1, shape, nullptr, nullptr, first, 0));
  expect_stored({1, 2, 3, 4});
  first[0] = 9;
  expect_stored({9, 2, 3, 4});
  ASSERT_TRUE(registry.add_tensor("t", DLCKPT_U32, 1, shape, nullptr, nullptr, other, 0));
  expect_stored({5, 6, 7, 8});
  ASSERT_TRUE(registry.add_tensor("t", DLCKPT_U32, 1, shape, low, half, first, 0));
  ASSERT_FALSE(context->save(++step)) << "half of it is missing";
  ASSERT_TRUE(registry.add_tensor("t", DLCKPT_U32, 1, shape, high, half, other, DLCKPT_ANOTHER_PART));
  expect_stored({9, 2, 5, 6});
  ASSERT_TRUE(registry.add_blob("t", "bytes", 5, false));
  ASSERT_TRUE(context->save(++step));
  std::string note;
  EXPECT_FALSE(registry.remove("u"));
  ASSERT_TRUE(context->restore(step, &note)) << "nothing but the blob is stored";
  ASSERT_TRUE(registry.add_tensor("t", DLCKPT_U32, 1, shape, nullptr, nullptr, other, 0));
  ASSERT_TRUE(registry.add_tensor("u", DLCKPT_U32, 1, shape, nullptr, nullptr, first, 0));
  expect_stored({5, 6, 7, 8});
  ASSERT_TRUE(registry.remove("u"));
  expect_stored({5, 6, 7, 8});
  EXPECT_FALSE(registry.remove("u"));
}

}  // namespace
}  // namespace dl::ckpt::test
