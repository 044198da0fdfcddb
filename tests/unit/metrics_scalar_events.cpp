// SPDX-License-Identifier: Apache-2.0
// The event files of TensorBoard that we write: byte for byte those of a writer of the tests' own, and read back.
#include "launcher/metrics/scalar_events.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "launcher/metrics/event_message.h"
#include "launcher/metrics/tf_record.h"
#include "tests/unit/event_writer.h"

namespace dl::metrics {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double read_back(double value) {
  EventScalars found;
  const std::string text = scalar_event(1'789'000'000'500, 3, "train/loss", value);
  const RecordScan scan = scan_records(text, [&](std::string_view data) { EXPECT_TRUE(read_event(data, &found)); });
  EXPECT_EQ(scan.used, text.size());
  EXPECT_EQ(scan.wrong, 0);
  if (found.scalars.size() != 1) return -1;
  EXPECT_EQ(found.scalars[0].tag, "train/loss");
  EXPECT_EQ(found.step, 3);
  EXPECT_EQ(found.time_ms, 1'789'000'000'500);
  return found.scalars[0].value;
}

TEST(ScalarEventsTest, TheBytesAreThoseOfOtherWriters) {
  EXPECT_EQ(events_begin(1'789'000'000'000), events::version(1'789'000'000));
  for (const int64_t step : {int64_t{0}, int64_t{10}, int64_t{300}, int64_t{-1}, std::numeric_limits<int64_t>::max()})
    EXPECT_EQ(scalar_event(1'789'000'000'250, step, "train/loss", 0.25),
              events::record(events::event(1'789'000'000.25, step, events::simple("train/loss", 0.25F))));
  const std::string long_tag(300, 't');
  EXPECT_EQ(scalar_event(0, 1, long_tag, 1), events::record(events::event(0, 1, events::simple(long_tag, 1))));
}

TEST(ScalarEventsTest, EveryValueIsReadBackAsFarAsSinglePrecisionHasIt) {
  EXPECT_EQ(read_back(0.25), 0.25);
  EXPECT_EQ(read_back(-1e30), static_cast<double>(-1e30F));
  EXPECT_TRUE(std::isnan(read_back(std::numeric_limits<double>::quiet_NaN())));
  EXPECT_EQ(read_back(kInfinity), kInfinity);
  EXPECT_EQ(read_back(-kInfinity), -kInfinity);
  EXPECT_EQ(read_back(1e300), static_cast<double>(std::numeric_limits<float>::max()));
  EXPECT_EQ(read_back(-1e300), static_cast<double>(std::numeric_limits<float>::lowest()));
}

}  // namespace
}  // namespace dl::metrics
