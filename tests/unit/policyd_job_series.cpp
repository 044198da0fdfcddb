// SPDX-License-Identifier: Apache-2.0
// The metrics of single jobs: what is told of them, of how many, and that no user's words break the text.
#include "slurm-plugin/policyd/job_series.h"

#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>

#include "common/base/letters.h"
#include "launcher/record/job_state.h"
#include "slurm-plugin/policyd/exposition.h"
#include "slurm-plugin/policyd/job_counts.h"
#include "slurm-plugin/policyd/memory.h"
#include "tests/unit/policyd_support.h"

namespace dl::policyd {
namespace {

using policy::Charge;
using testing::add_pending;
using testing::add_running;
using testing::cluster;
using testing::kNow;
using testing::label;
using testing::site;

observe::ClusterView view_of(const observe::Records& records) {
  return observe::view_cluster(site(), records, {});
}

std::string series_of(const observe::Records& records, size_t most = 100) {
  return job_series_text(view_of(records), records, most);
}

void expect_lines(const std::string& text, const std::vector<std::string>& lines) {
  for (const std::string& line : lines)
    EXPECT_NE(("\n" + text).find("\n" + line + "\n"), std::string::npos) << line << "\nis not in\n" << text;
}

std::vector<std::string> samples_of(const std::string& text, const std::string& name) {
  std::vector<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.rfind(name + "{", 0) == 0) found.push_back(line);
  return found;
}

TEST(LabelValueTest, AUsersWordsCannotEndALabelOrTheText) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "\"\""},
      {"digits", "\"digits\""},
      {"a\"} 1\nb", "\"a\\\"} 1\\nb\""},
      {"C:\\n", "\"C:\\\\n\""},
      {std::string("\x01\r\t\x7f\0z", 6), "\"?????z\""},
      {"caf\xc3\xa9 \xe6\xbc\xa2", "\"caf\xc3\xa9 \xe6\xbc\xa2\""},
      {"\xff\xc3(\xed\xa0\x80",
       "\"?"
       "?(???\""},  // not UTF-8, a surrogate
      {"a\xe2\x80\xae"
       "b\xc2\x9b"
       "c",
       "\"a???b??c\""},  // turns the direction of writing; a C1 control
      {std::string(64, 'x'), "\"" + std::string(64, 'x') + "\""},
      {std::string(5000, '"'), "\"" +
                                   [] {
                                     std::string quotes;
                                     for (int i = 0; i < 64; ++i) quotes += "\\\"";
                                     return quotes;
                                   }() +
                                   "\xe2\x80\xa6\""},
  };
  for (const auto& [text, value] : cases) EXPECT_EQ(label_value(text), value) << text;
}

TEST(JobSeriesTest, TellsWhatSlurmAndDlrunSayOfARunningJob) {
  auto records = cluster(2, 4);
  auto& job = add_running(&records, 7, label("nlp", 4, Charge::kBorrowed), "n1", {4});
  job.user = "ada";
  job.name = "digits";
  job.requeues = 2;
  job.submit_s = kNow - 1600;
  job.comment = "dl:PROCESSING attempt=3 step=40 pace=57/2.5/12.5@" + std::to_string(kNow - 20) + " dir=/x/dl-7";
  expect_lines(
      series_of(records),
      {"dl_job_info{job_id=\"7\",tenant=\"nlp\",user=\"ada\",name=\"digits\"} 1",
       "dl_job_state{job_id=\"7\",tenant=\"nlp\",state=\"PROCESSING\"} 1",
       "dl_job_learners{job_id=\"7\",tenant=\"nlp\"} 4", "dl_job_gpus{job_id=\"7\",tenant=\"nlp\"} 4",
       "dl_job_borrowed_gpus{job_id=\"7\",tenant=\"nlp\"} 4", "dl_job_queue_seconds{job_id=\"7\",tenant=\"nlp\"} 600",
       "dl_job_run_seconds{job_id=\"7\",tenant=\"nlp\"} 1000", "dl_job_requeues{job_id=\"7\",tenant=\"nlp\"} 2",
       "dl_job_attempts{job_id=\"7\",tenant=\"nlp\"} 3", "dl_job_asked_to_yield{job_id=\"7\",tenant=\"nlp\"} 0",
       "dl_job_saved_step{job_id=\"7\",tenant=\"nlp\"} 40", "dl_job_unsaved_seconds{job_id=\"7\",tenant=\"nlp\"} 1000",
       "dl_job_train_step{job_id=\"7\",tenant=\"nlp\"} 57", "dl_job_steps_per_second{job_id=\"7\",tenant=\"nlp\"} 2.5",
       "dl_job_blocked_seconds{job_id=\"7\",tenant=\"nlp\"} 12.5",
       "dl_job_told_timestamp_seconds{job_id=\"7\",tenant=\"nlp\"} " + std::to_string(kNow - 20),
       "dl_jobs_left_out 0"});
}

TEST(JobSeriesTest, WhatIsNotKnownIsLeftOut) {
  auto records = cluster(2, 4);
  auto& waiting = add_pending(&records, 8, label("vision", 2, Charge::kOwn));
  waiting.wait = observe::Wait::kLicenses;
  waiting.comment = "dl:PENDING attempt=1 step=30 pace=33/2/1@" + std::to_string(kNow - 200) + " dir=/x/dl-8";
  auto& plain = add_running(&records, 9, label("nlp", 2, Charge::kOwn), "n2", {2});
  plain.comment = "";
  const std::string text = series_of(records);
  expect_lines(text, {"dl_job_state{job_id=\"8\",tenant=\"vision\",state=\"QUEUED\"} 1",
                      "dl_job_pending_gpus{job_id=\"8\",tenant=\"vision\"} 2",
                      "dl_job_queue_seconds{job_id=\"8\",tenant=\"vision\"} 92",
                      "dl_job_saved_step{job_id=\"8\",tenant=\"vision\"} 30",
                      "dl_job_state{job_id=\"9\",tenant=\"nlp\",state=\"RUNNING\"} 1",
                      "dl_job_borrowed_gpus{job_id=\"9\",tenant=\"nlp\"} 0"});
  for (const char* name : {"dl_job_train_step", "dl_job_steps_per_second", "dl_job_blocked_seconds"})
    EXPECT_EQ(samples_of(text, name).size(), 0U) << name;
  for (const char* name : {"dl_job_gpus", "dl_job_run_seconds", "dl_job_pending_gpus", "dl_job_attempts"})
    EXPECT_EQ(samples_of(text, name).size(), 1U) << name;
}

TEST(JobSeriesTest, APaceOfAnEarlierStartOrOfTheFutureIsNotTold) {
  for (const int64_t at : {kNow - 2000, kNow + 100}) {
    auto records = cluster(1, 4);
    auto& job = add_running(&records, 7, label("nlp", 2, Charge::kOwn), "n1", {2});
    job.comment = "dl:PROCESSING attempt=3 pace=57/2.5/12.5@" + std::to_string(at) + " dir=/x/dl-7";
    EXPECT_TRUE(samples_of(series_of(records), "dl_job_train_step").empty()) << at;
  }
}

TEST(JobSeriesTest, StatesAreThoseThatDlrunWrites) {
  observe::JobRecord job;
  job.phase = observe::JobPhase::kRunning;
  for (const record::JobState state : record::kAllJobStates) {
    job.comment = std::string("my own dl:X | dl:") + record::state_name(state) + " attempt=1 dir=/x";
    const bool before = state == record::JobState::kQueued || state == record::JobState::kPending;
    EXPECT_STREQ(job_state_name(job, nullptr), before ? "DEPLOY" : record::state_name(state));
  }
  for (const char* comment : {"", "dl:", "dl:running", "dl:PROCESSING\"} 1", "mine"}) {
    job.comment = comment;
    EXPECT_STREQ(job_state_name(job, nullptr), "RUNNING") << comment;
  }
  job.phase = observe::JobPhase::kPending;
  job.comment = "dl:HALTED attempt=1 dir=/x";
  EXPECT_STREQ(job_state_name(job, nullptr), "PENDING");
  job.held = true;
  EXPECT_STREQ(job_state_name(job, nullptr), "HALTED");
}

TEST(JobSeriesTest, AHostileJobChangesNobodyElsesLines) {
  const std::regex sample(
      R"re(([a-z_]+)(\{[a-z_]+="(\\[\\"n]|[^"\\\n])*"(,[a-z_]+="(\\[\\"n]|[^"\\\n])*")*\})? -?[0-9.e+]+)re");
  auto records = cluster(1, 4);
  auto& job = add_running(&records, 7, label("nlp", 2, Charge::kOwn), "n1", {2});
  job.name = "x\"} 1\ndl_free_gpus{gpu_type=\"a100\"} 1000\n# \xff\\";
  job.user = "\"\n\\";
  job.comment = "dl:PROCESSING\"} attempt=1\n2 step=4\n pace=1/1/1@5\ndl_gpus 7 dir=/x";
  const std::string text = series_of(records) + tenant_jobs_text(view_of(records), records);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    EXPECT_TRUE(line.rfind("# ", 0) == 0 || std::regex_match(line, sample)) << line;
  EXPECT_EQ(("\n" + text).find("\ndl_free_gpus"), std::string::npos);
  EXPECT_EQ(samples_of(text, "dl_job_info").size(), 1U);
  for (std::string_view rest = text; !rest.empty();) {
    uint32_t code = 0;
    const size_t size = static_cast<unsigned char>(rest[0]) < 0x80 ? 1 : utf8_at(rest, &code);
    ASSERT_GT(size, 0U) << "not UTF-8";
    rest.remove_prefix(size);
  }
}

TEST(JobSeriesTest, OfTenThousandJobsThoseThatRunLongestAndWaitLongestAreKept) {
  auto records = cluster(1, 4);
  for (int64_t id = 10000; id > 2; --id) add_pending(&records, id, label("vision", 1, Charge::kOwn));
  add_running(&records, 2, label("nlp", 2, Charge::kOwn), "n1", {2}).start_s = kNow - 10;
  add_running(&records, 1, label("nlp", 2, Charge::kOwn), "n1", {2}).start_s = kNow - 20;
  for (auto& job : records.jobs) job.name = std::string(4000, 'n');
  const std::string text = series_of(records, 4);
  const auto infos = samples_of(text, "dl_job_info");
  ASSERT_EQ(infos.size(), 4U);
  for (size_t i = 0; i < infos.size(); ++i)
    EXPECT_NE(infos[i].find("{job_id=\"" + std::to_string(i + 1) + "\","), std::string::npos) << infos[i];
  expect_lines(text, {"dl_jobs_left_out 9996"});
  EXPECT_LT(text.size(), 20'000U);
  // The numbers of jobs are told whatever the limit is.
  expect_lines(tenant_jobs_text(view_of(records), records), {"dl_tenant_jobs{tenant=\"nlp\",state=\"PROCESSING\"} 2",
                                                             "dl_tenant_jobs{tenant=\"vision\",state=\"PENDING\"} 9998",
                                                             "dl_tenant_longest_wait_seconds{tenant=\"nlp\"} 0",
                                                             "dl_tenant_longest_wait_seconds{tenant=\"vision\"} 97"});
  EXPECT_LT(series_of(records, 10000).size(), 10'000U * 2000);
}

TEST(JobSeriesTest, JobsWithoutGpusCountIfDlrunRunsThem) {
  auto records = cluster(1, 4);
  for (int64_t id = 1; id <= 3; ++id) {
    observe::JobRecord job;
    job.id = id;
    job.phase = observe::JobPhase::kRunning;
    job.start_s = job.submit_s = kNow - 5;
    job.account = id == 1 ? "vision" : "of\"my own";
    job.comment = id == 3 ? "train" : "dl:PROCESSING attempt=1 dir=/x";
    records.jobs.push_back(job);
  }
  expect_lines(tenant_jobs_text(view_of(records), records),
               {"dl_tenant_jobs{tenant=\"\",state=\"PROCESSING\"} 1",
                "dl_tenant_jobs{tenant=\"vision\",state=\"PROCESSING\"} 1"});
  EXPECT_EQ(samples_of(series_of(records), "dl_job_info").size(), 2U);
}

TEST(JobSeriesTest, AnElementOfAJobArrayIsCalledAsSlurmCallsIt) {
  auto records = cluster(1, 4);
  auto& element = add_running(&records, 12, label("nlp", 2, Charge::kOwn), "n1", {2});
  element.array = 10;
  element.element = 3;
  auto& rest = add_pending(&records, 10, label("nlp", 1, Charge::kOwn));
  rest.array = 10;
  rest.elements = "4-9";
  const std::string text = series_of(records);
  expect_lines(
      text, {"dl_job_gpus{job_id=\"10_3\",tenant=\"nlp\"} 2", "dl_job_pending_gpus{job_id=\"10\",tenant=\"nlp\"} 1"});
  EXPECT_EQ(samples_of(text, "dl_job_info").size(), 2U);
}

TEST(JobCountsTest, FollowJobsFromTheirSubmissionToTheirEnd) {
  JobCounts counts;
  const policy::ClusterState state = site();
  observe::Records records;
  const auto job = [&](int64_t id, bool runs) -> observe::JobRecord& {
    observe::JobRecord record;
    record.id = id;
    record.account = "nlp";
    record.phase = runs ? observe::JobPhase::kRunning : observe::JobPhase::kPending;
    records.jobs.push_back(record);
    return records.jobs.back();
  };
  const auto ends = [&](int64_t id, observe::EndedRecord::How how, bool element = false) {
    records.ended.push_back({id, element, how, "nlp"});
  };
  using How = observe::EndedRecord::How;
  const auto round = [&] {
    counts.update(state, records);
    records.jobs.clear();
  };
  job(1, true);
  ends(99, How::kFailed);
  round();  // what the first round finds is not counted
  expect_lines(counts.text(), {"trainer_trainings_create_total{tenant=\"nlp\"} 0",
                               "trainer_trainings_failed_total{tenant=\"vision\",type=\"client\"} 0"});
  job(1, true);
  job(2, false);             // submitted
  ends(3, How::kCancelled);  // came and went between two rounds
  round();
  job(1, false);  // put back
  auto& paused = job(2, false);
  paused.held = true;
  paused.comment = "dl:HALTED attempt=1 dir=/x";
  round();
  job(1, true);  // started again
  job(2, false);
  auto& element = job(5, true);  // an element of an array that was counted when it was submitted
  element.array = 4;
  element.element = 0;
  round();
  ends(1, How::kCompleted);
  ends(2, How::kFailed);
  ends(5, How::kSystem, true);
  round();
  job(2, false);  // it was requeued after its end
  round();
  round();  // what slurmctld still remembers is not counted twice
  expect_lines(counts.text(),
               {"trainer_trainings_create_total{tenant=\"nlp\"} 2", "trainer_jobs_dequeued_total{tenant=\"nlp\"} 2",
                "dl_requeues_total{tenant=\"nlp\"} 2", "trainer_trainings_halt_total{tenant=\"nlp\"} 1",
                "trainer_trainings_success_total{tenant=\"nlp\"} 1", "trainer_trainings_delete_total{tenant=\"nlp\"} 1",
                "trainer_trainings_failed_total{tenant=\"nlp\",type=\"client\"} 1",
                "trainer_trainings_failed_total{tenant=\"nlp\",type=\"server\"} 1"});
}

}  // namespace
}  // namespace dl::policyd
