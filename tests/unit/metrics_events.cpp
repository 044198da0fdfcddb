// SPDX-License-Identifier: Apache-2.0
// TensorBoard's event files: records, events, and files that grow, are damaged, or are no files at all.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "launcher/metrics/collector.h"
#include "launcher/metrics/event_files.h"
#include "launcher/metrics/event_message.h"
#include "launcher/metrics/tf_record.h"
#include "tests/unit/event_writer.h"
#include "tests/unit/metrics_support.h"

namespace dl::metrics {
namespace {

using namespace events;

constexpr double kWall = 1'789'000'000;

std::vector<std::string> records_in(const std::string& text, RecordScan* scan) {
  std::vector<std::string> all;
  *scan = scan_records(text, [&](std::string_view data) { all.emplace_back(data); });
  return all;
}

std::string read(const std::string& message, const std::string& folder = "") {
  EventScalars event;
  event.scalars.push_back({"before", 1});
  if (!read_event(message, &event)) return event.scalars.empty() ? "damaged" : "damaged, but something was added";
  std::vector<Found> found;
  for (const Scalar& scalar : event.scalars) {
    name_of_tag(scalar.tag, folder, &found.emplace_back());
    found.back().value = scalar.value;
    found.back().step = event.step;
    found.back().time_ms = event.time_ms;
  }
  return shown(found);
}

std::string shown_look(const EventLook& look) {
  std::vector<Found> found;
  for (const EventLook::Value& one : look.values) {
    const EventLook::Name& name = look.names.at(one.name);
    found.push_back({name.group, name.name, one.point.value, one.point.step, one.point.time_ms});
  }
  return shown(found);
}

std::string named(const std::string& tag, const std::string& folder = "") {
  Found found;
  name_of_tag(tag, folder, &found);
  return found.group + "|" + found.name;
}

TEST(TfRecordTest, TheChecksumIsThatOfTensorFlow) {
  // The first bytes of any event file: the head of a record of 24 bytes.
  EXPECT_EQ(record(std::string(24, 'x')).substr(0, 12), std::string("\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22", 12));
}

TEST(TfRecordTest, EveryCutOfAFileGivesTheRecordsBeforeIt) {
  const std::string one = record("one"), two = record(""), three = record(std::string(300, 'c'));
  const std::string all = one + two + three;
  for (size_t cut = 0; cut <= all.size(); ++cut) {
    RecordScan scan;
    const auto records = records_in(all.substr(0, cut), &scan);
    const size_t whole = cut == all.size() ? 3 : cut >= one.size() + two.size() ? 2 : cut >= one.size() ? 1 : 0;
    EXPECT_EQ(records.size(), whole) << cut;
    EXPECT_EQ(scan.used, whole == 3 ? all.size() : whole == 2 ? one.size() + two.size() : whole == 1 ? one.size() : 0U);
    EXPECT_FALSE(scan.damaged);
    EXPECT_EQ(scan.wrong, 0);
  }
}

TEST(TfRecordTest, DamagedDataIsPassedOverAndADamagedLengthIsTheEnd) {
  const std::string one = record("one"), two = record("two"), three = record("three");
  for (size_t at = 0; at < two.size(); ++at)
    for (const int bit : {1, 128}) {
      std::string all = one + two + three;
      all[one.size() + at] = static_cast<char>(all[one.size() + at] ^ bit);
      RecordScan scan;
      const auto records = records_in(all, &scan);
      if (at < kTfRecordHead) {
        EXPECT_EQ(records.size(), 1U);
        EXPECT_TRUE(scan.damaged);
        EXPECT_EQ(scan.used, one.size());
      } else {
        EXPECT_EQ(records, (std::vector<std::string>{"one", "three"}));
        EXPECT_EQ(scan.wrong, 1);
      }
    }
  // A length of nearly 2^64 that is rightly checked.
  std::string head(8, '\xff');
  head[0] = '\xf0';
  put_little(&head, masked_crc32c(head), 4);
  RecordScan scan;
  EXPECT_TRUE(records_in(head + "rest", &scan).empty());
  EXPECT_TRUE(scan.damaged);
}

TEST(EventMessageTest, ScalarsOfPyTorchAndOfTensorFlow) {
  EXPECT_EQ(read(event(kWall, 10, simple("Loss/train", 0.25F))), "train/Loss=0.25@10,1789000000000");
  EXPECT_EQ(read(event(kWall, 0, simple("loss", 0.5F))), "train/loss=0.5@0,1789000000000");
  EXPECT_EQ(read(event(kWall, 3, tensor("epoch_loss", 1, bytes(4, raw(0.5F)), "scalars")), "runs/validation"),
            "validate/epoch_loss=0.5@3,1789000000000");
  EXPECT_EQ(read(event(kWall, 3, tensor("a", 1, bytes(5, raw(0.5F))))), "train/a=0.5@3,1789000000000");
  EXPECT_EQ(read(event(kWall, 3, tensor("a", 1, fixed(5, 0.5F)))), "train/a=0.5@3,1789000000000");
  EXPECT_EQ(read(event(kWall, 3, tensor("a", 2, bytes(4, raw(0.125))))), "train/a=0.125@3,1789000000000");
  EXPECT_EQ(read(event(kWall, 3, tensor("a", 3, number(7, static_cast<uint64_t>(-4))))), "train/a=-4@3,1789000000000");
  EXPECT_EQ(read(event(kWall, 3, tensor("a", 9, bytes(10, varint(77))))), "train/a=77@3,1789000000000");
  EXPECT_EQ(read(event(kWall, 3, tensor("a", 19, number(13, 0x3c00)))), "train/a=1@3,1789000000000");
  EXPECT_EQ(read(event(kWall, 3, tensor("a", 19, bytes(4, std::string("\x00\xc1", 2))))),
            "train/a=-2.5@3,1789000000000");
  EXPECT_EQ(read(event(kWall, 3, tensor("a", 14, number(13, 0x4040)))), "train/a=3@3,1789000000000");
  EXPECT_EQ(read(event(kWall, 1, simple("a", std::numeric_limits<float>::quiet_NaN()))), "train/a=nan@1,1789000000000");
}

// Whatever the order of its fields is, and however long its parts are: the usual form has a way of its own.
TEST(EventMessageTest, AnEventMeansTheSameInEveryForm) {
  for (const int64_t step : {int64_t{0}, int64_t{1}, int64_t{127}, int64_t{128}, int64_t{1} << 36})
    for (const size_t size : {1U, 20U, 110U, 111U, 112U, 113U, 114U, 200U}) {
      const std::string tag(size, 't'), value = bytes(5, bytes(1, simple(tag, 0.25F)));
      const std::string time = fixed(1, kWall), number_of = step == 0 ? "" : number(2, static_cast<uint64_t>(step));
      const std::string wanted = "train/" + tag + "=0.25@" + std::to_string(step) + ",1789000000000";
      for (const std::string& text : {time + number_of + value, number_of + time + value, value + time + number_of,
                                      time + number_of + bytes(5, bytes(1, fixed(2, 0.25F) + bytes(1, tag))),
                                      time + number_of + value + bytes(99, "x")})
        EXPECT_EQ(read(text), wanted);
      EXPECT_EQ(read(time + number_of + value.substr(0, value.size() - 1)), "damaged");
    }
  EXPECT_EQ(read(fixed(1, kWall) + number(2, ~uint64_t{0}) + bytes(5, bytes(1, simple("a", 1)))),
            "train/a=1,1789000000000");
}

TEST(EventMessageTest, WhatIsNoScalarIsPassedOver) {
  for (const std::string& value :
       {bytes(1, "picture") + bytes(4, std::string(100, 'p')), bytes(1, "nothing"), fixed(2, 1.0F),
        tensor("text", 7, bytes(8, "words"), "text"), tensor("histogram", 2, bytes(4, std::string(240, '\0'))),
        tensor("a", 1, bytes(5, raw(1.0F) + raw(2.0F))), tensor("a", 1, ""), tensor("a", 0, bytes(4, raw(1.0F))),
        tensor("pr", 1, bytes(4, raw(1.0F)), "pr_curves"), tensor("a", 1, bytes(4, "abc"))})
    EXPECT_EQ(read(event(kWall, 1, value)), "");
  EXPECT_EQ(read(""), "");
  EXPECT_EQ(read(fixed(1, kWall) + bytes(3, "brain.Event:2")), "");
}

TEST(EventMessageTest, TimesAndStepsThatAreNoneAreUnknown) {
  EXPECT_EQ(read(event(-5, -1, simple("a", 1))), "train/a=1");
  EXPECT_EQ(read(event(std::numeric_limits<double>::quiet_NaN(), int64_t{1} << 60, simple("a", 1))), "train/a=1");
  EXPECT_EQ(read(event(1e300, 5, simple("a", 1))), "train/a=1@5");
}

TEST(EventMessageTest, NoCutOrFlippedBitDoesHarm) {
  const std::string whole = event(kWall, 7, simple("Loss/train", 0.25F)) +
                            bytes(5, bytes(1, tensor("b", 9, bytes(10, varint(7)), "scalars")));
  for (size_t cut = 0; cut < whole.size(); ++cut) read(whole.substr(0, cut));
  for (size_t at = 0; at < whole.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ 1 << bit);
      EXPECT_EQ(read(flipped).find("something was added"), std::string::npos);
    }
  EXPECT_EQ(read(key(5, 2) + std::string(10, '\xff')), "damaged");
  EXPECT_EQ(read(key(5, 3)), "damaged");
  std::string many;
  for (int i = 0; i < 5000; ++i) many += bytes(1, simple("t" + std::to_string(i), 1));
  EventScalars found;
  EXPECT_TRUE(read_event(bytes(5, many), &found));
  EXPECT_EQ(found.scalars.size(), kMostOfEvent);
}

TEST(EventMessageTest, TagsAreNamesOfAGroup) {
  EXPECT_EQ(named("loss"), "train|loss");
  EXPECT_EQ(named("Loss/train"), "train|Loss");
  EXPECT_EQ(named("eval/loss"), "validate|loss");
  EXPECT_EQ(named("val_acc"), "validate|acc");
  EXPECT_EQ(named("layer/0/grad"), "train|layer/0/grad");
  EXPECT_EQ(named("epoch_loss", "logs/validation"), "validate|epoch_loss");
  EXPECT_EQ(named("loss", "runs/loss_test"), "test|loss");
  EXPECT_EQ(named("val_loss", "logs/train"), "validate|loss");
  EXPECT_EQ(named("train/"), "train|train/");
  EXPECT_EQ(named("/"), "train|/");
  EXPECT_EQ(named("val_"), "validate|val_");
}

class EventFilesTest : public MetricsFolder {
 protected:
  void SetUp() override {
    MetricsFolder::SetUp();
    ASSERT_EQ(::mkdir(path("tb").c_str(), 0777), 0);
  }
  // All that is found until there is no more; then "; " and each note.
  std::string look(EventFiles* files, int64_t now = 0, bool last = true) const {
    std::string text, notes;
    for (EventLook one = files->look(now, last);; one = files->look(now, last)) {
      const std::string found = shown_look(one);
      text += (text.empty() || found.empty() ? "" : " ") + found;
      for (const std::string& note : one.notes) notes += "; " + note;
      if (!one.more) return text + notes;
    }
  }
};

TEST_F(EventFilesTest, AFileIsReadOnAsItGrowsWhateverPartsItComesIn) {
  const std::string all =
      version(kWall) + record(event(kWall, 1, simple("a", 1))) + record(event(kWall, 2, simple("a", 2)));
  EventFiles files(path("tb"), 0);
  std::string text;
  for (const char c : all) {
    append("tb/events.out.tfevents.1.host", std::string(1, c));
    const std::string found = look(&files);
    if (!found.empty()) text += found + ".";
  }
  EXPECT_EQ(text, "train/a=1@1,1789000000000.train/a=2@2,1789000000000.");
}

TEST_F(EventFilesTest, AnotherReaderGoesOnWhereTheFirstWas) {
  append("tb/x.tfevents", version(kWall) + record(event(kWall, 1, simple("a", 1))));
  EventFiles first(path("tb"), 0);
  const EventLook one = first.look(0, true);
  ASSERT_EQ(one.positions.size(), 1U);
  append("tb/x.tfevents", record(event(kWall, 2, simple("a", 2))));
  EventFiles second(path("tb"), 0);
  second.set_position(one.positions[0].first, one.positions[0].second);
  EXPECT_EQ(look(&second), "train/a=2@2,1789000000000");
}

TEST_F(EventFilesTest, EventsOfAnEarlierAttemptAreLeftOut) {
  append("tb/x.tfevents",
         version(kWall) + record(event(kWall, 1, simple("a", 1))) + record(event(kWall + 100, 2, simple("a", 2))));
  EventFiles files(path("tb"), (static_cast<int64_t>(kWall) + 50) * 1000);
  EXPECT_EQ(look(&files), "train/a=2@2,1789000100000");
}

TEST_F(EventFilesTest, ATagIsTheSameNameInWhateverOrderTagsCome) {
  std::string all = version(kWall), wanted;
  const std::vector<std::string> tags = {"loss", "acc",        "loss",     "val_loss", "acc",
                                         "acc",  "loss/train", "val_loss", "lr"};
  for (size_t i = 0; i < tags.size(); ++i) {
    all += record(event(kWall, static_cast<int64_t>(i + 1), simple(tags[i], static_cast<float>(i))));
    const std::string name = tags[i] == "val_loss" ? "validate/loss" : "train/" + tags[i].substr(0, tags[i].find('/'));
    wanted += (i == 0 ? "" : " ") + name + "=" + std::to_string(i) + "@" + std::to_string(i + 1) + ",1789000000000";
  }
  append("tb/x.tfevents", all);
  EventFiles files(path("tb"), 0);
  const EventLook one = files.look(0, true);
  EXPECT_EQ(shown_look(one), wanted);
  EXPECT_EQ(one.names.size(), 5U) << "each tag is looked at once";
}

TEST_F(EventFilesTest, FoldersBelowAreFoundAlsoLater) {
  EventFiles files(path("tb"), 0);
  EXPECT_EQ(look(&files), "");
  ASSERT_EQ(::mkdir(path("tb/validation").c_str(), 0777), 0);
  append("tb/validation/x.tfevents", record(event(kWall, 1, simple("epoch_loss", 1))));
  append("tb/validation/other", record(event(kWall, 1, simple("b", 1))));
  EXPECT_EQ(look(&files, 1, false), "");  // it was searched just now
  EXPECT_EQ(look(&files, EventFiles::kScanMs, false), "validate/epoch_loss=1@1,1789000000000");
  EventFiles nowhere(path("not/there"), 0);
  EXPECT_EQ(look(&nowhere), "");
}

TEST_F(EventFilesTest, ALongRecordIsPassedOverAndADamagedOneIsSaid) {
  const std::string picture = record(std::string(EventFiles::kMostEventBytes + 100, 'p'));
  append("tb/x.tfevents", picture.substr(0, picture.size() - 1));
  EventFiles files(path("tb"), 0);
  EXPECT_EQ(look(&files), "");
  append("tb/x.tfevents", picture.substr(picture.size() - 1) + record(event(kWall, 1, simple("a", 1))));
  EXPECT_EQ(look(&files), "train/a=1@1,1789000000000");
  std::string wrong = record(event(kWall, 2, simple("a", 2)));
  wrong[15] = static_cast<char>(wrong[15] ^ 1);
  append("tb/x.tfevents", wrong + record("no event") + record(event(kWall, 3, simple("a", 3))));
  EXPECT_EQ(look(&files),
            "train/a=3@3,1789000000000; event file " + path("tb/x.tfevents") + ": damaged records were passed over");
  const size_t size = content("tb/x.tfevents").size();
  append("tb/x.tfevents", std::string(64, 'z'));
  EXPECT_EQ(look(&files, 0, false), "");
  EXPECT_EQ(look(&files, EventFiles::kDamageMs - 1, false), "");
  const std::string said = "; event file " + path("tb/x.tfevents") + ": the record at byte " + std::to_string(size) +
                           " is damaged; what follows is not read";
  EXPECT_EQ(look(&files, EventFiles::kDamageMs, false), said);
  EXPECT_EQ(look(&files, 10 * EventFiles::kDamageMs, true), "");
}

TEST_F(EventFilesTest, BytesThatComeAfterTheSizeAreWaitedFor) {
  const std::string one = record(event(kWall, 1, simple("a", 1)));
  append("tb/x.tfevents", std::string(one.size(), '\0'));
  EventFiles files(path("tb"), 0);
  EXPECT_EQ(look(&files, 0, false), "");
  ASSERT_EQ(::truncate(path("tb/x.tfevents").c_str(), 0), 0);
  append("tb/x.tfevents", one);
  EXPECT_EQ(look(&files, 1000, false), "train/a=1@1,1789000000000");
}

TEST_F(EventFilesTest, AFileThatWasCutIsSaidAndWhatIsNoFileIsLeftAlone) {
  append("tb/x.tfevents", record(event(kWall, 1, simple("a", 1))));
  append("elsewhere", record(event(kWall, 9, simple("a", 9))));
  ASSERT_EQ(::symlink(path("elsewhere").c_str(), path("tb/l.tfevents").c_str()), 0);
  ASSERT_EQ(::symlink(folder_.c_str(), path("tb/circle").c_str()), 0);
  ASSERT_EQ(::mkfifo(path("tb/f.tfevents").c_str(), 0666), 0);
  EventFiles files(path("tb"), 0);
  EXPECT_EQ(look(&files), "train/a=1@1,1789000000000");
  ASSERT_EQ(::truncate(path("tb/x.tfevents").c_str(), 3), 0);
  EXPECT_EQ(look(&files), "; event file " + path("tb/x.tfevents") + ": it was cut; what follows is not read");
}

TEST_F(EventFilesTest, AFileThatAnotherOneReplacesIsNotTakenForIt) {
  append("tb/x.tfevents", version(kWall) + record(event(kWall, 1, simple("a", 1))));
  EventFiles files(path("tb"), 0);
  EXPECT_EQ(look(&files, 0, false), "train/a=1@1,1789000000000");
  append("other",
         version(kWall) + record(event(kWall, 2, simple("another", 2))) + record(event(kWall, 3, simple("a", 3))));
  ASSERT_EQ(::rename(path("other").c_str(), path("tb/x.tfevents").c_str()), 0);
  const std::string said = look(&files, 1000, true);
  EXPECT_NE(said.find("is damaged; what follows is not read"), std::string::npos) << said;
  EXPECT_EQ(said.find("another"), std::string::npos);
}

TEST_F(EventFilesTest, OfVeryManyFilesSomeAreReadAndANoteSaysSo) {
  for (size_t i = 0; i < EventFiles::kMostFiles + 10; ++i)
    append("tb/" + std::to_string(i) + ".tfevents", record(event(kWall, 1, simple("a", 1))));
  EventFiles files(path("tb"), 0);
  const EventLook one = files.look(0, true);
  EXPECT_EQ(one.values.size(), EventFiles::kMostFiles);
  ASSERT_EQ(one.notes.size(), 1U);
  EXPECT_NE(one.notes[0].find("more than 256 event files"), std::string::npos);
}

TEST_F(EventFilesTest, TheCollectorTakesThemAndLeavesOutWhatIsPrintedAlike) {
  append("log", "step 1: loss=0.3 lr=0.1\n");
  append("tb/x.tfevents", version(kWall) + record(event(kWall, 1, simple("Loss/train", 0.3125F))));
  CollectorOptions options;
  options.series = path();
  options.log = path("log");
  options.patterns = {"events:" + path("tb") + "/"};
  options.events = path("tb");
  {
    Collector collector(options);
    ASSERT_TRUE(collector.open());
    collector.look(1000);
  }
  append("tb/x.tfevents", record(event(kWall, 2, simple("Loss/train", 0.25F))));
  Collector again(options);
  ASSERT_TRUE(again.open());
  again.finish(2000, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(shown(file()), "train/Loss: 1=0.3125 2=0.25; train/lr: 1=0.1");
}

}  // namespace
}  // namespace dl::metrics
