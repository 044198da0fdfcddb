// SPDX-License-Identifier: Apache-2.0
// Conversions: exact values of the small floats, differences, ranges of tensors as boxes, checksums of HDF5 metadata.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "checkpoint/convert/compare.h"
#include "checkpoint/convert/float_value.h"
#include "checkpoint/convert/hdf5_message.h"
#include "checkpoint/convert/python_record.h"
#include "checkpoint/convert/safetensors.h"
#include "checkpoint/read/tensor_stream.h"

namespace dl::ckpt {
namespace {

TEST(FloatValue, SmallFloatsHaveTheirExactValues) {
  EXPECT_EQ(f16_value(0x3c00), 1.0F);
  EXPECT_EQ(f16_value(0xfbff), -65504.0F);
  EXPECT_EQ(f16_value(0x0001), std::ldexp(1.0F, -24));
  EXPECT_EQ(f16_value(0x03ff), std::ldexp(1023.0F, -24));
  EXPECT_EQ(f16_value(0x7c00), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(f16_value(0x7e00)));
  EXPECT_EQ(bf16_value(0x3f80), 1.0F);
  EXPECT_EQ(bf16_value(0xc2f7), -123.5F);
  EXPECT_EQ(f8e4m3_value(0x7e), 448.0F);
  EXPECT_EQ(f8e4m3_value(0x01), std::ldexp(1.0F, -9));
  EXPECT_EQ(f8e4m3_value(0xb8), -1.0F);
  EXPECT_TRUE(std::isnan(f8e4m3_value(0x7f)));
  EXPECT_EQ(f8e5m2_value(0x7b), 57344.0F);
  EXPECT_EQ(f8e5m2_value(0x01), std::ldexp(1.0F, -16));
  EXPECT_EQ(f8e5m2_value(0xfc), -std::numeric_limits<float>::infinity());
}

template <typename T>
Difference difference(dlckpt_dtype dtype, const std::vector<T>& a, const std::vector<T>& b) {
  const DtypeInfo& info = *find_dtype(static_cast<int>(dtype));
  return compare(info, reinterpret_cast<const unsigned char*>(a.data()),
                 reinterpret_cast<const unsigned char*>(b.data()), a.size() * sizeof(T) / info.size, 100);
}

TEST(Compare, CountsHowFarFloatsAreApart) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const Difference d = difference<float>(DLCKPT_F32, {1, 2, nan, nan, 0.0F, inf, 4}, {1, 3, nan, 5, -0.0F, inf, 2});
  EXPECT_EQ(d.elements, 7U);
  EXPECT_EQ(d.bits_differ, 4U);
  EXPECT_EQ(d.nan_a, 2U);
  EXPECT_EQ(d.nan_b, 1U);
  EXPECT_EQ(d.nan_apart, 1U);
  EXPECT_EQ(d.max_abs, 2);
  EXPECT_EQ(d.max_at, 106U);
  EXPECT_EQ(d.sum_abs, 3);
  EXPECT_EQ(d.max_relative, 0.5);
  EXPECT_FALSE(d.within(10));
  EXPECT_EQ(difference<float>(DLCKPT_F32, {inf}, {-inf}).max_abs, inf);
}

TEST(Compare, IntegersAreSubtractedExactly) {
  EXPECT_EQ(difference<int64_t>(DLCKPT_I64, {INT64_MIN}, {INT64_MAX}).max_abs, 18446744073709551615.0);
  EXPECT_EQ(difference<uint64_t>(DLCKPT_U64, {UINT64_MAX}, {UINT64_MAX - 1}).max_abs, 1);
  EXPECT_EQ(difference<int8_t>(DLCKPT_I8, {-128}, {127}).max_abs, 255);
  EXPECT_EQ(difference<float>(DLCKPT_C64, {3, 4}, {0, 0}).max_abs, 5);
  EXPECT_EQ(difference<float>(DLCKPT_C64, {3, 4}, {0, 0}).elements, 1U);
}

TEST(Compare, PiecesAddUpToTheWhole) {
  Difference all = difference<float>(DLCKPT_F32, {1, 2}, {1, 4});
  all.merge(difference<float>(DLCKPT_F32, {1, 9}, {2, 9}));
  EXPECT_EQ(all.elements, 4U);
  EXPECT_EQ(all.max_abs, 2);
  EXPECT_EQ(all.max_at, 101U);
  EXPECT_EQ(all.mean_abs(), 0.75);
}

// Indices in C order of a box's elements.
std::vector<uint64_t> indices(const Dims& shape, const Box& box) {
  std::vector<uint64_t> out;
  const uint64_t count = volume(shape).value();
  for (uint64_t index = 0; index < count; ++index) {
    uint64_t rest = index;
    bool inside = true;
    for (size_t d = shape.size(); d > 0; --d) {
      const auto at = static_cast<int64_t>(rest % static_cast<uint64_t>(shape[d - 1]));
      rest /= static_cast<uint64_t>(shape[d - 1]);
      inside = inside && at >= box.offset[d - 1] && at < box.offset[d - 1] + box.extent[d - 1];
    }
    if (inside) out.push_back(index);
  }
  return out;
}

TEST(Boxes, EveryRangeOfATensorIsARowOfBoxes) {
  for (const Dims& shape : {Dims{}, Dims{5}, Dims{3, 4}, Dims{2, 3, 4}, Dims{1, 3, 1, 2}}) {
    const uint64_t count = volume(shape).value();
    for (uint64_t first = 0; first <= count; ++first) {
      for (uint64_t last = first; last <= count; ++last) {
        std::vector<uint64_t> found, wanted(last - first);
        std::iota(wanted.begin(), wanted.end(), first);
        for (const Box& box : boxes_of_range(shape, first, last))
          for (const uint64_t index : indices(shape, box)) found.push_back(index);
        ASSERT_EQ(found, wanted);
      }
    }
  }
}

TEST(Boxes, ArePrintedWithoutOverflow) {
  EXPECT_EQ(describe(Box{{2, 0}, {3, 0}}), "[2:5, 0:0]");
  EXPECT_EQ(describe(Box{{INT64_MAX - 1}, {1}}), "[9223372036854775806:9223372036854775807]");
  EXPECT_EQ(describe(Box{{INT64_MAX}, {INT64_MAX}}), "[9223372036854775807:9223372036854775807+9223372036854775807]");
  EXPECT_EQ(describe(Box{{INT64_MIN}, {-1}}), "[-9223372036854775808:-9223372036854775808+-1]");
}

TEST(Hdf5, ChecksumIsLookup3) {
  // The values of its author's own driver5().
  EXPECT_EQ(lookup3(""), 0xdeadbeefU);
  EXPECT_EQ(lookup3("Four score and seven years ago"), 0x17770551U);
}

TEST(PythonRecord, ScalarsOfTheStateAreTensorsUnderThePathsThatTensorsHave) {
  const auto found = recorded_tensors(R"({"schema": 1, "objects": {
    "model": {"$": "odict", "v": [["norm.count", {"$": "array", "dtype": "int64", "shape": [], "v": "BQAAAAAAAAA="}],
                                  ["w", {"$": "tensor", "path": "model/w", "dtype": "float32", "shape": [2]}]]},
    "a/b": {"$": "dict", "v": [[0, {"step": {"$": "array", "dtype": "float32", "shape": [], "v": "AACAPw=="}}],
                               ["0", {"$": "tuple", "v": [1, {"$": "array", "dtype": "bool", "shape": [], "v": "AQ=="}]}]]}},
    "state": {"": [{"$": "array", "dtype": "uint8", "shape": [2, 1], "v": "/+8="}], "n": {"$": "bytes", "v": "AQ=="}}})");
  ASSERT_TRUE(found) << found.error().text;
  ASSERT_EQ(found->size(), 4U);
  EXPECT_EQ((*found)[0].path, "model/norm.count");
  EXPECT_EQ((*found)[0].bytes, std::string("\5\0\0\0\0\0\0\0", 8));
  EXPECT_TRUE((*found)[0].shape.empty());
  EXPECT_EQ((*found)[1].path, "a%2Fb/0/step");
  EXPECT_EQ((*found)[1].bytes, std::string("\0\0\x80\x3f", 4));
  EXPECT_EQ((*found)[2].path, "a%2Fb/%str:0/1");
  EXPECT_STREQ((*found)[2].dtype->name, "bool");
  EXPECT_EQ((*found)[3].path, "state/%/0");
  EXPECT_EQ((*found)[3].shape, (Dims{2, 1}));
  EXPECT_EQ((*found)[3].bytes, "\xff\xef");
}

TEST(PythonRecord, WhatNoVersionHasWrittenIsNotTakenForAScalar) {
  EXPECT_FALSE(recorded_tensors("nothing"));
  EXPECT_FALSE(recorded_tensors("[]"));
  EXPECT_FALSE(recorded_tensors(R"({"schema": 2, "objects": {}})"));
  for (const char* value : {R"({"$": 1})", R"({"$": "array"})", R"({"$": "dict"})", R"({"$": "dict", "v": [1]})",
                            R"({"$": "array", "dtype": "int64", "shape": [], "v": "AQ=="})",
                            R"({"$": "array", "dtype": "int9", "shape": [], "v": "AQ=="})",
                            R"({"$": "array", "dtype": "int8", "shape": [-1], "v": "AQ=="})",
                            R"({"$": "array", "dtype": "int8", "shape": [4294967296, 4294967296, 4], "v": ""})",
                            R"({"$": "array", "dtype": "int8", "shape": [], "v": "A!=="})",
                            R"({"$": "array", "dtype": "int8", "shape": [], "v": "AQ="})"}) {
    const auto found = recorded_tensors(std::string(R"({"schema": 1, "objects": {"a": )") + value + "}}");
    ASSERT_FALSE(found) << value;
    EXPECT_EQ(found.error().code, Errc::kCorrupt);
  }
}

TEST(Safetensors, LayoutIsReadBackAsItIs) {
  SafetensorsHeader header;
  header.metadata["quote"] = "\"\n\x01";
  for (const char* name : {"b", "a", "c"}) {
    SafetensorsEntry entry;
    entry.name = name;
    entry.dtype = find_dtype(std::string_view(*name == 'c' ? "float64" : "bfloat16"));
    entry.shape = {3, 5};
    header.entries.push_back(entry);
  }
  const std::string bytes = lay_out_safetensors(&header);
  EXPECT_EQ(bytes.size() % 8, 0U);
  EXPECT_EQ(header.entries[0].name, "c");
  const auto parsed = parse_safetensors(std::string_view(bytes).substr(8), header.data_bytes);
  ASSERT_TRUE(parsed) << parsed.error().text;
  EXPECT_EQ(parsed->metadata.at("quote"), "\"\n\x01");
  ASSERT_EQ(parsed->entries.size(), 3U);
  EXPECT_EQ(parsed->entries[1].name, "a");
  EXPECT_EQ(parsed->entries[1].at, 120U);
  EXPECT_EQ(parsed->data_at, header.data_at);
}

TEST(Safetensors, AHeaderOfManyTensorsIsReadQuickly) {
  SafetensorsHeader header;
  for (int i = 0; i < 100000; ++i) {
    header.entries.emplace_back();
    header.entries.back().name = "t" + std::to_string(i);
    header.entries.back().dtype = find_dtype(DLCKPT_U8);
  }
  const std::string bytes = lay_out_safetensors(&header);
  const auto begin = std::chrono::steady_clock::now();
  const auto parsed = parse_safetensors(std::string_view(bytes).substr(8), header.data_bytes);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));  // once more than a minute
  ASSERT_TRUE(parsed) << parsed.error().text;
  EXPECT_EQ(parsed->entries.size(), 100000U);
}

}  // namespace
}  // namespace dl::ckpt
