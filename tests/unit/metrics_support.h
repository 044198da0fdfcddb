// SPDX-License-Identifier: Apache-2.0
// A folder for files, and short forms of points, for the tests of launcher/metrics.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "common/base/atomic_file.h"
#include "launcher/metrics/found.h"
#include "launcher/metrics/series.h"

namespace dl::metrics {

class MetricsFolder : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dl-metrics-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { ASSERT_EQ(std::system(("rm -rf '" + folder_ + "'").c_str()), 0); }

  std::string path(const std::string& name = "learner-0.series") const { return folder_ + "/" + name; }
  void append(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::app | std::ios::binary) << text;
  }
  std::string content(const std::string& name = "learner-0.series") const {
    auto text = read_small_file(path(name), size_t{1} << 30);
    return text ? *text : "";
  }
  SeriesFile file(const std::string& name = "learner-0.series") const {
    auto parsed = parse_series(content(name));
    EXPECT_TRUE(parsed) << parsed.error().text;
    return parsed ? *parsed : SeriesFile{};
  }

  std::string folder_;
};

// "train/loss=0.33@10,1789000000000 validate/acc=0.5": @ is the train step, and the time in ms follows, where there
// are.
inline std::string shown(const std::vector<Found>& found) {
  std::string text;
  for (const Found& one : found) {
    char value[40];
    std::snprintf(value, sizeof value, "%g", one.value);
    text += (text.empty() ? "" : " ") + one.group + "/" + one.name + "=" + value;
    if (one.step != kNoStep) text += "@" + std::to_string(one.step);
    if (one.time_ms > 0) text += "," + std::to_string(one.time_ms);
  }
  return text;
}

// "train/loss: 1=0.5 2=0.25"; a point without a train step is "-=0.5".
inline std::string shown(const SeriesFile& file) {
  std::string text;
  for (const Series& series : file.series) {
    text += (text.empty() ? "" : "; ") + series.group + "/" + series.name + ":";
    for (const Point& point : series.points) {
      char value[40];
      std::snprintf(value, sizeof value, "%g", point.value);
      text += " " + (point.step == kNoStep ? "-" : std::to_string(point.step)) + "=" + value;
    }
  }
  return text;
}

}  // namespace dl::metrics
