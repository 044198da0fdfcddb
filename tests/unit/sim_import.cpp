// SPDX-License-Identifier: Apache-2.0
// What sacct printed, read as a trace: lines of Slurm 22.05 and 24.11, and lines that no sacct prints.
#include <gtest/gtest.h>

#include <cstdlib>

#include "slurm-plugin/sim/import/sacct.h"

namespace dl::sim {
namespace {

constexpr const char* kHeading =
    "JobIDRaw|Account|Submit|Eligible|Start|ElapsedRaw|TimelimitRaw|State|AllocTRES|ReqTRES|NNodes\n";

Result<Trace> imported(const std::string& text, const ImportOptions& options = {}, SacctReader* reader = nullptr) {
  SacctReader mine("jobs.txt");
  SacctReader& used = reader != nullptr ? *reader : mine;
  size_t from = 0;
  while (from < text.size()) {
    const size_t end = std::min(text.find('\n', from), text.size());
    DL_TRY(used.line(std::string_view(text).substr(from, end - from)));
    from = end + 1;
  }
  return used.end(options);
}

TEST(SimImport, reads_what_sacct_prints_of_gpu_jobs_and_says_what_it_left_out) {
  const std::string text =
      std::string(kHeading) +
      // One node, typed GPUs, waited 100 s.
      "7|vision|1000|1000|1100|600|60|COMPLETED|billing=8,cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=8G,"
      "node=1|billing=8,cpu=8,gres/gpu=2,mem=8G,node=1|1\n"
      // Slurm 22.05 leaves an untyped count away where a type was asked for.
      "8|nlp|1010|1010|1010|50|UNLIMITED|FAILED|cpu=4,gres/gpu:k80=8,node=2|cpu=4,gres/gpu:k80=8|2\n"
      // An element of an array; eligible later than submitted.
      "12|nlp|1020|1500|1700|30|Partition_Limit|TIMEOUT|gres/gpu=3|gres/gpu=3|2\n"
      "13|nlp|1020|1020|Unknown|0|60|PENDING||gres/gpu=1|1\n"
      "14|nlp|1020|1020|None|0|60|CANCELLED by 1000||gres/gpu=1|1\n"
      "15|nlp|1020|1020|1020|90|60|COMPLETED|cpu=4,node=1|cpu=4,node=1|1\n"
      "7.batch|vision|1000|1000|1100|600||COMPLETED|cpu=8,gres/gpu=2|cpu=8|1\n";
  SacctReader reader("jobs.txt");
  const auto trace = imported(text, {1800, 90, false}, &reader);
  ASSERT_TRUE(trace) << trace.error().text;
  ASSERT_EQ(trace->jobs.size(), 3U);
  const TraceJob& first = trace->jobs[0];
  EXPECT_EQ(first.id, 7);
  EXPECT_EQ(first.submit_s, 0);
  EXPECT_EQ(first.waited_s, 100);
  EXPECT_EQ(first.tenant, "vision");
  EXPECT_EQ(first.type, "a100");
  EXPECT_EQ(first.gpus, 2);
  EXPECT_EQ(first.max_learners, 1);
  EXPECT_EQ(first.run_s, 600);
  EXPECT_EQ(first.limit_s, 3600);
  EXPECT_EQ(first.checkpoint_s, 1800);
  EXPECT_EQ(first.restart_s, 90);
  const TraceJob& two_nodes = trace->jobs[1];
  EXPECT_EQ(two_nodes.type, "k80");
  EXPECT_EQ(two_nodes.gpus, 4);
  EXPECT_EQ(two_nodes.max_learners, 2);
  EXPECT_EQ(two_nodes.limit_s, kUnlimitedS);
  const TraceJob& late = trace->jobs[2];
  EXPECT_EQ(late.submit_s, 500);  // it did not wait for GPUs before it was eligible
  EXPECT_EQ(late.waited_s, 200);
  EXPECT_EQ(late.gpus, 1);  // three do not divide among two nodes
  EXPECT_EQ(late.max_learners, 3);
  EXPECT_EQ(late.limit_s, 0);
  EXPECT_EQ(reader.lines(), 8);
  EXPECT_EQ(reader.left_out().at("lines of job steps"), 1);
  EXPECT_EQ(reader.left_out().at("lines of jobs without GPUs"), 1);
  EXPECT_EQ(reader.left_out().at("lines of jobs that did not run: they wait, or were cancelled before"), 2);
  // What was written is read again.
  std::string csv;
  ASSERT_TRUE(print_trace(*trace, TraceFormat::kCsv, [&](std::string_view piece) -> Status {
    csv += piece;
    return {};
  }));
  const auto again = parse_trace(csv, "trace");
  ASSERT_TRUE(again) << again.error().text;
  EXPECT_EQ(again->jobs[0].waited_s, 100);
  EXPECT_EQ(again->jobs[1].gpus, 4);
}

TEST(SimImport, attempts_of_a_requeued_job_are_one_job) {
  const std::string text = std::string(kHeading) +
                           "7|a|5000|5000|5200|300|60|COMPLETED|gres/gpu=1||1\n"
                           "7|a|1000|1000|1060|400|60|REQUEUED|gres/gpu=1||1\n"
                           "7|a|3000|3000|3060|100|60|NODE_FAIL|gres/gpu=1||1\n"
                           "9|a|3000|3000|3060|100|60|RUNNING|gres/gpu=1||1\n";
  SacctReader reader("jobs.txt");
  const auto trace = imported(text, {}, &reader);
  ASSERT_TRUE(trace) << trace.error().text;
  ASSERT_EQ(trace->jobs.size(), 2U);
  EXPECT_EQ(trace->jobs[0].run_s, 800);
  EXPECT_EQ(trace->jobs[0].waited_s, 60);
  EXPECT_EQ(reader.changed().at("jobs that were requeued: their attempts are one job"), 1);
  EXPECT_EQ(reader.changed().at("jobs that still run: they end in the trace when they were read"), 1);
  const auto last = imported(text, {0, 60, true});
  ASSERT_TRUE(last);
  EXPECT_EQ(last->jobs[0].run_s, 300);
}

TEST(SimImport, times_as_people_read_them_other_columns_and_other_orders_are_read_too) {
  ::setenv("TZ", "UTC0", 1);
  const auto trace = imported(
      "State|JobName|jobidraw|Account|ReqTRES|AllocTRES|AllocNodes|Timelimit|Elapsed|Start|Submit|\r\n"
      "COMPLETED|a job|5|we ird|gres/gpu=1|gres/gpu:a100=1,gres/gpu:v100=1|1|1-00:00:00|00:10:00|2026-11-20T12:01:00|"
      "2026-11-20T12:00:00|\r\n\r\n");
  ASSERT_TRUE(trace) << trace.error().text;
  EXPECT_EQ(trace->jobs[0].run_s, 600);
  EXPECT_EQ(trace->jobs[0].limit_s, 86400);
  EXPECT_EQ(trace->jobs[0].waited_s, 60);
  EXPECT_EQ(trace->jobs[0].tenant, "we_ird");
  EXPECT_EQ(trace->jobs[0].gpus, 2);
  EXPECT_EQ(trace->jobs[0].type, "");
}

TEST(SimImport, what_sacct_cannot_have_printed_is_refused_with_its_line) {
  const std::string good = "7|a|5000|5000|5200|300|60|COMPLETED|gres/gpu=1||1\n";
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "jobs.txt: is empty"},
      {"JobIDRaw,Account,Submit\n7,a,b\n", "jobs.txt:1: 'JobIDRaw,Account,Submit' has no '|'; allowed:"},
      {"JobIDRaw|Account\n", "jobs.txt:1: heading: column Submit is missing"},
      {good, "jobs.txt:1: heading: column JobIDRaw is missing"},
      {kHeading, "jobs.txt: has no job with GPUs that ran; 1 lines were read"},
      {kHeading + good + "7|a|5000\n", "jobs.txt:3: 3 fields between '|'; the heading has 11"},
      {kHeading + std::string("x|a|5|5|5|3|6|C|gres/gpu=1||1\n"), "jobs.txt:2: JobIDRaw: 'x' is not a job id"},
      {kHeading + std::string("7|a|gestern|5|5|3|6|C|gres/gpu=1||1\n"), "jobs.txt:2: Submit: 'gestern' is not"},
      {kHeading + std::string("7|a|2026-13-01T00:00:00|5|5|3|6|C|gres/gpu=1||1\n"), "jobs.txt:2: Submit:"},
      {kHeading + std::string("7|a|5|5|5|lang|6|C|gres/gpu=1||1\n"), "jobs.txt:2: ElapsedRaw: 'lang' is not"},
      {kHeading + std::string("7|a|5|5|5|3|6|C|gres/gpu=99999999999||1\n"), "jobs.txt:2: AllocTRES:"},
      {kHeading + std::string("7|a|5|5|5|3|6|C|gpu||1\n"), "jobs.txt:2: AllocTRES: 'gpu' is not accepted"},
      {kHeading + std::string(70'000, 'x') + "\n", "jobs.txt:2: the line is longer than 65536 bytes"}};
  for (const auto& [text, words] : cases) {
    const auto trace = imported(text);
    ASSERT_FALSE(trace) << text.substr(0, 200);
    EXPECT_EQ(trace.error().text.substr(0, words.size()), words) << trace.error().text;
    EXPECT_EQ(trace.error().code, Errc::kInvalid);
  }
}

TEST(SimImport, the_command_has_every_column_that_is_needed) {
  const std::string command = sacct_command();
  const std::string columns = command.substr(command.rfind(' ') + 1);
  EXPECT_NE(command.find("--duplicates"), std::string::npos);
  std::string heading;
  for (const char c : columns) heading += c == ',' ? '|' : c;
  SacctReader reader("x");
  EXPECT_TRUE(reader.line(heading));
}

}  // namespace
}  // namespace dl::sim
