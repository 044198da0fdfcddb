// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "slurm-plugin/sim/trace/trace.h"

namespace dl::sim {
namespace {

std::string refusal(const std::string& text) {
  const auto trace = parse_trace(text, "t.csv");
  return trace ? "accepted" : trace.error().text;
}

TEST(SimTrace, reads_csv_with_columns_in_any_order_and_comments) {
  const auto trace = parse_trace(
      "# from somewhere\n\n"
      "tenant,run,gpus,id,submit,learners,limit,tier,placement,checkpoint,restart\r\n"
      "\"vision\",1h30m,a100:2,7,10m,2:4,2h,borrow,spread,600,30\r\n"
      " nlp , 60 ,1,3,0,,,,,,\n",
      "t.csv");
  ASSERT_TRUE(trace) << trace.error().text;
  ASSERT_EQ(trace->jobs.size(), 2U);
  const TraceJob& first = trace->jobs[0];
  EXPECT_EQ(first.id, 3);
  EXPECT_EQ(first.tenant, "nlp");
  EXPECT_EQ(first.run_s, 60);
  EXPECT_EQ(first.max_learners, 1);
  EXPECT_EQ(first.tier, Tier::kAuto);
  EXPECT_EQ(first.restart_s, 60);
  const TraceJob& second = trace->jobs[1];
  EXPECT_EQ(second.submit_s, 600);
  EXPECT_EQ(second.type, "a100");
  EXPECT_EQ(second.gpus, 2);
  EXPECT_EQ(second.min_learners, 2);
  EXPECT_EQ(second.max_learners, 4);
  EXPECT_EQ(second.run_s, 5400);
  EXPECT_EQ(second.limit_s, 7200);
  EXPECT_EQ(second.tier, Tier::kBorrow);
  EXPECT_EQ(second.placement, policy::Placement::kSpread);
  EXPECT_EQ(second.checkpoint_s, 600);
  EXPECT_EQ(second.restart_s, 30);
}

TEST(SimTrace, reads_json_lines_with_numbers_and_texts) {
  const auto trace = parse_trace(
      "{\"id\": 1, \"submit\": 5, \"tenant\": \"a\", \"gpus\": 4, \"run\": \"10m\"}\n"
      "{\"run\": 20, \"gpus\": \"k80:1\", \"tenant\": \"b\", \"submit\": \"1m\", \"id\": 2, \"learners\": 8}",
      "t.json");
  ASSERT_TRUE(trace) << trace.error().text;
  ASSERT_EQ(trace->jobs.size(), 2U);
  EXPECT_EQ(trace->jobs[0].gpus, 4);
  EXPECT_EQ(trace->jobs[0].run_s, 600);
  EXPECT_EQ(trace->jobs[1].type, "k80");
  EXPECT_EQ(trace->jobs[1].min_learners, 8);
  EXPECT_EQ(trace->tenants(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(trace->types(), (std::vector<std::string>{"k80"}));
}

TEST(SimTrace, both_formats_read_back_what_was_written) {
  const auto trace = parse_trace(
      "id,submit,tenant,gpus,run,learners,limit,tier,placement,checkpoint,restart\n"
      "1,0,a,2,100,1:3,200,guaranteed,pack,30,5\n2,9,b,h100:8,5,2,0,auto,spread,0,60\n",
      "t.csv");
  ASSERT_TRUE(trace);
  const auto written = [](const Trace& jobs, TraceFormat format) {
    std::string text;
    EXPECT_TRUE(print_trace(jobs, format, [&](std::string_view piece) -> Status {
      text += piece;
      return {};
    }));
    return text;
  };
  const std::string csv = written(*trace, TraceFormat::kCsv);
  const std::string json = written(*trace, TraceFormat::kJsonLines);
  EXPECT_EQ(json.substr(0, json.find('\n')),
            "{\"id\": 1, \"submit\": 0, \"tenant\": \"a\", \"gpus\": \"2\", \"learners\": \"1:3\", \"run\": 100, "
            "\"limit\": 200, \"tier\": \"guaranteed\", \"placement\": \"pack\", \"checkpoint\": 30, \"restart\": 5}");
  const auto from_json = parse_trace(json, "t.json");
  ASSERT_TRUE(from_json) << from_json.error().text;
  EXPECT_EQ(written(*from_json, TraceFormat::kCsv), csv);
  const auto from_csv = parse_trace(csv, "t.csv");
  ASSERT_TRUE(from_csv) << from_csv.error().text;
  EXPECT_EQ(written(*from_csv, TraceFormat::kJsonLines), json);
}

TEST(SimTrace, refuses_bad_lines_with_file_line_field_and_what_is_allowed) {
  const std::string head = "id,submit,tenant,gpus,run\n";
  const struct {
    std::string text;
    const char* message;
  } kCases[] = {
      {"", "t.csv: has no job"},
      {head, "t.csv: has no job"},
      {"id,submit,tenant,gpus\n", "t.csv:1: heading: field 'run' is missing; needed: id, submit, tenant, gpus, run"},
      {"id,id,submit\n", "t.csv:1: heading: 'id' is given twice; allowed: once"},
      {"job,submit\n", "t.csv:1: heading: 'job' is not a field; allowed: id, submit,"},
      {head + "1,0,a,1\n", "t.csv:2: the line has 4 fields; the heading has 5"},
      {head + "1,0,a,1,60,7\n", "t.csv:2: the line has 6 fields; the heading has 5"},
      {head + "x,0,a,1,60\n", "t.csv:2: id: 'x' is not a whole number from 1 to"},
      {head + "1,0,a,1,60\n\n1,0,a,1,60\n", "t.csv:4: id: 1 is also in line 2; allowed: each once"},
      {head + "1,-5,a,1,60\n", "t.csv:2: submit: '-5' is not accepted; allowed: a time from 0s"},
      {head + "1,0,a b,1,60\n", "t.csv:2: tenant: 'a b' is not a name; allowed:"},
      {head + "1,0,,1,60\n", "t.csv:2: tenant: '' is not a name"},
      {head + "1,0,a,0,60\n", "t.csv:2: gpus: '0' asks for no GPU; allowed: [TYPE:]N"},
      {head + "1,0,a,many,60\n", "t.csv:2: gpus: 'many'"},
      {head + "1,0,a,1,0\n", "t.csv:2: run: '0' is not accepted; allowed: a time from 1s"},
      {head + "1,0,a,1,99999d\n", "t.csv:2: run: '99999d' is not accepted"},
      {head + "1,0,\"a,1,60\n", "t.csv:2: a quoted field has no end"},
      {head + "1,0,\"a\"b,1,60\n", "t.csv:2: text follows a quoted field"},
      {"id,submit,tenant,gpus,run,tier\n1,0,a,1,60,best\n", "t.csv:2: tier: 'best'"},
      {"id,submit,tenant,gpus,run,placement\n1,0,a,1,60,tight\n",
       "t.csv:2: placement: 'tight' is not a placement; allowed: pack, spread"},
      {"id,submit,tenant,gpus,run,learners\n1,0,a,1,60,4:2\n", "t.csv:2: learners: '4:2'"},
      {"{\"id\": 1\n", "t.csv:1: is not a JSON object; allowed: {\"id\": 1"},
      {"{\"id\": 1}\n", "t.csv:1: field 'submit' is missing"},
      {"{\"id\": 1, \"size\": 2}\n", "t.csv:1: 'size' is not a field; allowed: id,"},
      {"{\"id\": [1]}\n", "t.csv:1: id: [1] is not accepted; allowed: a whole number or a text in quotes"},
      {"{\"id\": 1.5}\n", "t.csv:1: id: 1.5 is not accepted"},
      {"{\"id\": -1}\n", "t.csv:1: id: '-1'"},
      {"{\"id\": 1, \"submit\": 0, \"tenant\": \"a\", \"gpus\": 1, \"run\": 5}\n[]\n", "t.csv:2: is not a JSON object"},
      {std::string(70000, 'x'), "t.csv:1: the line is longer than 65536 bytes"},
  };
  for (const auto& row : kCases) {
    const std::string said = refusal(row.text);
    EXPECT_EQ(said.substr(0, std::string(row.message).size()), row.message) << row.text.substr(0, 80) << "\n" << said;
  }
}

TEST(SimTrace, a_deeply_nested_line_is_refused_and_does_no_harm) {
  EXPECT_NE(refusal("{\"id\": " + std::string(60000, '[')), "accepted");
}

TEST(SimTrace, a_missing_file_is_named) {
  const auto trace = read_trace("/nonexistent/t.csv");
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().code, Errc::kNotFound);
  EXPECT_NE(trace.error().text.find("/nonexistent/t.csv"), std::string::npos);
}

}  // namespace
}  // namespace dl::sim
