// SPDX-License-Identifier: Apache-2.0
// Which tensors a command takes, and the names that they get in another format: no two get the same one.
#include "checkpoint/tools/selection.h"

#include <gtest/gtest.h>

namespace dl::ckpt::tool {
namespace {

Manifest manifest_of(const std::vector<std::string>& paths, bool of_python = false) {
  Manifest manifest;
  for (const std::string& path : paths) {
    TensorRecord tensor;
    tensor.path = path;
    tensor.dtype = find_dtype(DLCKPT_F32);
    manifest.tensors.push_back(tensor);
  }
  if (of_python) {
    manifest.blobs.emplace_back();
    manifest.blobs.back().path = "dlckpt.python/state.json";
  }
  return manifest;
}

// Names in the other format, or the error's text.
std::vector<std::string> names(const Manifest& manifest, const Selection& selection, const std::string& strip = "") {
  const auto selected = select_tensors(manifest, selection, strip);
  if (!selected) return {selected.error().text};
  std::vector<std::string> names;
  for (const NamedTensor& tensor : *selected) names.push_back(tensor.name);
  return names;
}
using Names = std::vector<std::string>;

TEST(SelectTensors, PatternsMatchWholeNamesAndAsterisksSlashesToo) {
  const Manifest manifest = manifest_of({"model/a", "model/b/c", "optimizer/a"});
  EXPECT_EQ(names(manifest, {}), (Names{"model/a", "model/b/c", "optimizer/a"}));
  EXPECT_EQ(names(manifest, {{"model/*"}, {}}), (Names{"model/a", "model/b/c"}));
  EXPECT_EQ(names(manifest, {{"*/a"}, {"opt*"}}), (Names{"model/a"}));
  EXPECT_EQ(names(manifest, {{"*/c", "optimizer/?"}, {}}), (Names{"model/b/c", "optimizer/a"}));
  EXPECT_EQ(names(manifest, {{"model"}, {"x"}}), (Names{"no tensor matches --select 'model' --exclude 'x'"}));
  EXPECT_EQ(names({}, {}), (Names{"the checkpoint holds no tensor"}));
  EXPECT_EQ(select_tensors({}, {}, "").error().code, Errc::kNotFound);
}

TEST(SelectTensors, APrefixIsStrippedWhereEachTensorKeepsANameOfItsOwn) {
  EXPECT_EQ(names(manifest_of({"model/a", "other"}), {}, "model/"), (Names{"a", "other"}));
  EXPECT_EQ(names(manifest_of({"model/a", "a"}), {}, "model/"),
            (Names{"--strip 'model/' leaves 'a' with the name of another tensor"}));
  EXPECT_EQ(names(manifest_of({"model/a", "a"}), {{"model/*"}, {}}, "model/"), (Names{"a"}));
  EXPECT_EQ(names(manifest_of({"model"}), {}, "model"), (Names{"--strip 'model' leaves 'model' without a name"}));
  EXPECT_EQ(select_tensors(manifest_of({"m"}), {}, "m").error().code, Errc::kConflict);
}

TEST(SelectTensors, WhatPythonWroteWithPercentSignsIsWrittenPlain) {
  EXPECT_EQ(names(manifest_of({"m/a%3Fb", "m/%25"}, true), {}), (Names{"m/a?b", "m/%"}));
  EXPECT_EQ(names(manifest_of({"m/a%3Fb"}, true), {}, "m/a?"), (Names{"b"}));
  // Programs in other languages mean what they wrote.
  EXPECT_EQ(names(manifest_of({"m/a%3Fb"}), {}), (Names{"m/a%3Fb"}));
  // Of no such form, a dot, no name of a dataset, and the name of another tensor.
  for (const char* path : {"m/a%3fb", "m/%2", "m/%", "m/%2E", "m/%2F"})
    EXPECT_EQ(names(manifest_of({path}, true), {}), (Names{path}));
  EXPECT_EQ(names(manifest_of({"m/a%3Fb", "m/a?b"}, true), {}), (Names{"m/a%3Fb", "m/a?b"}));
}

}  // namespace
}  // namespace dl::ckpt::tool
