// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "common/contract/request_values.h"

namespace dl {
namespace {

// Every refusal shows the value (unless there is none) and what is allowed.
template <typename T>
void expect_refused(const Result<T>& got, const std::string& value) {
  ASSERT_FALSE(got) << "'" << value << "' was taken";
  EXPECT_EQ(got.error().code, Errc::kInvalid) << value;
  EXPECT_NE(got.error().text.find("; allowed: "), std::string::npos) << got.error().text;
  for (char c : got.error().text) EXPECT_GE(static_cast<unsigned char>(c), 0x20) << got.error().text;
  EXPECT_LT(got.error().text.size(), 600U);
}

const std::string kHuge(5000, '1');
const std::vector<std::string> kHostile{
    "",   " ",  "\n", "\x01", "\xff\xfe", "%s%n",   "$(reboot)",          "a b", "/", ":", ",", "=",
    "-1", "+1", "1 ", " 1",   "1:",       "(null)", std::string(1, '\0'), kHuge};

TEST(FrameworkRef, takes_a_name_with_or_without_a_version) {
  auto plain = parse_framework_ref("pytorch");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->name, "pytorch");
  EXPECT_EQ(plain->version, "");
  auto with = parse_framework_ref("my-frame_work+x:2.1.0-rc1");
  ASSERT_TRUE(with);
  EXPECT_EQ(with->name, "my-frame_work+x");
  EXPECT_EQ(with->version, "2.1.0-rc1");
}

TEST(FrameworkRef, refuses_what_is_not_a_plain_name) {
  for (const char* bad : {"../pytorch", "pytorch:", ":1", "a:b:c", ".hidden", "a/b", "a;b", "pytorch:1 3"})
    expect_refused(parse_framework_ref(bad), bad);
  expect_refused(parse_framework_ref(std::string(65, 'a')), "65 letters");
  EXPECT_TRUE(parse_framework_ref(std::string(64, 'a')));
  for (const std::string& bad : kHostile) expect_refused(parse_framework_ref(bad), bad);
}

TEST(Learners, are_a_number_or_a_range) {
  auto one = parse_learners("4");
  ASSERT_TRUE(one);
  EXPECT_EQ(one->min, 4);
  EXPECT_EQ(one->max, 4);
  EXPECT_FALSE(one->elastic());
  auto range = parse_learners("2:8");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->min, 2);
  EXPECT_EQ(range->max, 8);
  EXPECT_TRUE(range->elastic());
  EXPECT_FALSE(parse_learners("3:3")->elastic());
  EXPECT_TRUE(parse_learners("100000"));
}

TEST(Learners, below_one_above_the_limit_or_reversed_are_refused) {
  for (const char* bad :
       {"0", "0:4", "100001", "1:100001", "8:2", "2:", ":2", "2:4:6", "two", "2-4", "1.5", "0x10", "1e3"})
    expect_refused(parse_learners(bad), bad);
  for (const std::string& bad : kHostile) expect_refused(parse_learners(bad), bad);
}

TEST(Gpus, are_a_number_with_or_without_a_type) {
  EXPECT_EQ(parse_gpus("2")->count, 2);
  EXPECT_EQ(parse_gpus("2")->type, "");
  EXPECT_EQ(parse_gpus("0")->count, 0);
  EXPECT_EQ(parse_gpus("a100:8")->count, 8);
  EXPECT_EQ(parse_gpus("a100_80gb:8")->type, "a100_80gb");
  EXPECT_EQ(parse_gpus("1024")->count, 1024);
}

TEST(Gpus, of_other_forms_are_refused) {
  for (const char* bad : {"1025", "a100", "a100:", ":2", "gpu:a100:2", "gres/gpu:2", "a100=2", "1,2", "two"})
    expect_refused(parse_gpus(bad), bad);
  for (const std::string& bad : kHostile) expect_refused(parse_gpus(bad), bad);
}

TEST(Checkpoint, options_come_in_any_order_and_may_be_left_out) {
  auto bare = parse_checkpoint("/scratch/run 1/ck");
  ASSERT_TRUE(bare);
  EXPECT_EQ(bare->path, "/scratch/run 1/ck");
  EXPECT_FALSE(bare->every);
  EXPECT_FALSE(bare->every_steps);
  EXPECT_EQ(bare->keep, 3);
  auto timed = parse_checkpoint("ck,every=10m,keep=5");
  ASSERT_TRUE(timed);
  EXPECT_EQ(timed->every->count(), 600);
  EXPECT_EQ(timed->keep, 5);
  auto stepped = parse_checkpoint("ck,keep=1,every=50steps");
  ASSERT_TRUE(stepped);
  EXPECT_FALSE(stepped->every);
  EXPECT_EQ(*stepped->every_steps, 50);
  EXPECT_EQ(stepped->keep, 1);
  EXPECT_EQ(parse_checkpoint("ck,every=90")->every->count(), 90);
  auto full = parse_checkpoint("ck,partner,local=/dev/shm,best=val.loss:max:4,keep-every=1000,every=auto");
  ASSERT_TRUE(full);
  EXPECT_TRUE(full->every_auto);
  EXPECT_FALSE(full->every);
  EXPECT_EQ(full->keep_every, 1000);
  EXPECT_EQ(full->best->metric, "val.loss");
  EXPECT_FALSE(full->best->lowest);
  EXPECT_EQ(full->best->count, 4);
  EXPECT_EQ(full->local, "/dev/shm");
  EXPECT_TRUE(full->partner);
  EXPECT_EQ(bare->keep_every, 0);
  EXPECT_FALSE(bare->best);
  EXPECT_EQ(bare->local, "");
  EXPECT_FALSE(bare->partner);
  EXPECT_EQ(bare->objects, "");
  EXPECT_EQ(parse_checkpoint("ck,objects=lab:bucket/%j/a b,keep=2")->objects, "lab:bucket/%j/a b");
  EXPECT_EQ(parse_checkpoint("./every=10m")->path, "./every=10m");
  EXPECT_EQ(parse_checkpoint("/d\xc3\xa9j\xc3\xa0")->path, "/d\xc3\xa9j\xc3\xa0");
}

TEST(Checkpoint, of_other_forms_is_refused) {
  for (const char* bad : {",every=10m",
                          "every=10m",
                          "keep=3",
                          "ck,",
                          "ck,,",
                          "ck,every",
                          "ck,every=",
                          "ck,every=0",
                          "ck,every=0steps",
                          "ck,every=steps",
                          "ck,every=50step",
                          "ck,every=31d",
                          "ck,every=1m,every=2m",
                          "ck,every=1m,every=2steps",
                          "ck,keep=0",
                          "ck,keep=1001",
                          "ck,keep=",
                          "ck,keep=3,keep=4",
                          "ck,Every=1m",
                          "ck,every=auto,every=1m",
                          "ck,every=automatic",
                          "ck,keep-every=0",
                          "ck,keep-every=5steps",
                          "ck,keep-every=5,keep-every=6",
                          "keep-every=5",
                          "local=/tmp",
                          "ck,best=loss",
                          "ck,best=loss:min",
                          "ck,best=loss:low:2",
                          "ck,best=loss:min:0",
                          "ck,best=:min:1",
                          "ck,best=lo ss:min:1",
                          "ck,best=loss:min:1:2",
                          "ck,best=a:min:1,best=b:min:1",
                          "ck,local=",
                          "ck,local=tmp",
                          "ck,local=/a\nb",
                          "ck,local=/scratch/$SLURM_JOB_ID",
                          "ck,local=/tmp/%q",
                          "ck,local=/tmp/%",
                          "ck,partner",
                          "ck,local=/tmp,partner=1",
                          "ck,local=/tmp,partner,partner",
                          "objects=lab:x",
                          "ck,objects=",
                          "ck,objects=/tmp/x",
                          "ck,objects=lab:",
                          "ck,objects=lab:/",
                          "ck,objects=lab:a/../b",
                          "ck,objects=lab:%q",
                          "ck,objects=https://host/x",
                          "ck,objects=@name",
                          "ck,objects=:s3:bucket",
                          "ck,objects=lab:x,objects=lab:y",
                          "ck,retain=2",
                          "a,b",
                          "c\nk",
                          "c\x7fk",
                          "ck-%q",
                          "s3://bucket/ck",
                          "file:///tmp/ck,keep=2",
                          "`pwd`/ck",
                          "ck-%",
                          "ck-%99j",
                          "$HOME/ck",
                          "~ada/ck",
                          "\"ck",
                          "\"\",keep=2",
                          "\"ck\"x",
                          "ck,every=-5steps"})
    expect_refused(parse_checkpoint(bad), bad);
  expect_refused(parse_checkpoint(""), "");
  expect_refused(parse_checkpoint("/" + std::string(1024, 'x')), "1025 bytes");
  EXPECT_TRUE(parse_checkpoint("/" + std::string(1023, 'x')));
  expect_refused(parse_checkpoint(kHuge), "huge");
  expect_refused(parse_checkpoint(std::string("ck\0x", 4)), "NUL");
}

TEST(Checkpoint, does_not_repeat_a_credential_that_it_refuses) {
  for (const char* bad : {"ck,objects=:s3,secret_access_key=planted:bucket",
                          "ck,objects=lab,secret_access_key=planted:x", "ck,objects=https://user:planted@host/x"}) {
    const auto refused = parse_checkpoint(bad);
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().text.find("planted"), std::string::npos) << refused.error().text;
  }
}

TEST(Checkpoint, survives_writing_and_reading) {
  for (const char* text : {"/a", "ck,every=10m", "ck,every=1h30m,keep=7", "a b,every=50steps,keep=1000",
                           "ck,every=auto,keep-every=7,best=acc:max:3,local=/dev/shm,partner", "ck,local=/tmp/x y",
                           "ck,objects=lab:bucket/%j,keep=2", "ck-%a,local=/tmp/%u/%A_%a", "\"a,b\",local=/tmp/%j",
                           "~/ck-%j,keep=2", "\"/lr=0.1,bs=32/$x/%q \\\" \\\\\",every=5m", "\"~x\""}) {
    auto first = parse_checkpoint(text);
    ASSERT_TRUE(first) << text;
    auto second = parse_checkpoint(format_checkpoint(*first));
    ASSERT_TRUE(second) << format_checkpoint(*first);
    EXPECT_EQ(first->path, second->path);
    EXPECT_EQ(first->every, second->every);
    EXPECT_EQ(first->every_steps, second->every_steps);
    EXPECT_EQ(first->keep, second->keep);
    EXPECT_EQ(format_checkpoint(*first), format_checkpoint(*second));
  }
}

std::string expanded(const std::string& text, const PathNames& names) {
  auto spec = parse_checkpoint(text);
  if (!spec) return spec.error().text;
  for (int i = 0; i < 2; ++i)  // once more changes nothing
    if (Status done = expand_checkpoint(names, &*spec); !done) return done.error().text;
  const std::string written = format_checkpoint(*spec);
  auto read = parse_checkpoint(written);
  return read && format_checkpoint(*read) == written ? written : "is read as another one: " + written;
}

TEST(Checkpoint, has_names_of_the_job_in_its_path_and_in_that_of_the_node) {
  PathNames names;
  name_job("12_3", &names);
  names.name = "lr=0.1,b";
  names.user = "ada";
  names.home = "/home/ada";
  EXPECT_EQ(expanded("ck-%A_%a,local=/tmp/%u/%j", names), "ck-12_3,keep=3,local=/tmp/ada/12_3");
  EXPECT_EQ(expanded("~/%x,local=/tmp/%4a", names), "\"/home/ada/lr=0.1,b\",keep=3,local=/tmp/0003");
  EXPECT_EQ(expanded("\"ck-%j\",local=/tmp/%j", names), "\"ck-%j\",keep=3,local=/tmp/12_3");
  EXPECT_EQ(expanded("ck,local=/tmp/%x", names),
            "'/tmp/lr=0.1,b' holds a ',', which local= cannot; allowed: another job name, or local=DIR without %x and "
            "%%");
  EXPECT_EQ(expanded("ck,objects=lab:bucket/%u/%j", names), "ck,keep=3,objects=lab:bucket/ada/12_3");
  EXPECT_NE(expanded("ck,objects=lab:%x", names).find("holds a ',', which objects= cannot"), std::string::npos);
  PathNames alone;
  name_job("12", &alone);
  EXPECT_NE(expanded("ck,local=/tmp/%a", alone).find("local: '/tmp/%a': '%a' is the index in a job array"),
            std::string::npos);
}

TEST(Tier, is_one_of_three_words) {
  for (Tier tier : {Tier::kAuto, Tier::kGuaranteed, Tier::kBorrow}) EXPECT_EQ(*parse_tier(tier_name(tier)), tier);
  for (const char* bad : {"Borrow", "guarantee", "auto ", "low"}) expect_refused(parse_tier(bad), bad);
  for (const std::string& bad : kHostile) expect_refused(parse_tier(bad), bad);
}

TEST(Restarts, are_bounded) {
  EXPECT_EQ(*parse_restarts("0"), 0);
  EXPECT_EQ(*parse_restarts("1000"), 1000);
  for (const char* bad : {"1001", "-1", "many", "1:2"}) expect_refused(parse_restarts(bad), bad);
  for (const std::string& bad : kHostile) expect_refused(parse_restarts(bad), bad);
}

TEST(Image, is_a_path_and_no_address) {
  for (const char* good : {"/images/a.sqfs", "a", "./x y.sif"}) EXPECT_EQ(*parse_image(good), good);
  const std::string digest = "a.sif@sha256:" + std::string(64, '0');
  EXPECT_EQ(*parse_image(digest), digest);
  expect_refused(parse_image("a.sif@sha256:12"), "a.sif@sha256:12");
  for (const char* bad : {"docker://debian", "a\nb", "a\x7f", "~/a.sif", "~ada/a.sif", "$HOME/a.sif", "a/${X}.sqfs"})
    expect_refused(parse_image(bad), bad);
  expect_refused(parse_image(""), "");
  expect_refused(parse_image(std::string(1025, 'x')), "1025 bytes");
  expect_refused(parse_image(kHuge), "huge");
}

}  // namespace
}  // namespace dl
