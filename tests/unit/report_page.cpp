// SPDX-License-Identifier: Apache-2.0
// The page about a job: a file of its own, bounded, with every text of the job harmless, and plain about what is not
// known.
#include "launcher/report/page.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "common/base/letters.h"
#include "launcher/report/words.h"
#include "tests/unit/report_support.h"

namespace dl::report {
namespace {

using record::JobState;

class ReportPageTest : public ::testing::Test {
 protected:
  void SetUp() override { show_letters(true); }
  void TearDown() override { show_letters(false); }
};

constexpr char kPlan[] = R"({"job_id":"12","job_name":"digits","under_slurm":true,"framework":"pytorch","version":"2.1",
  "world_size":2,"asked":{"min":1,"max":4},"gpus_per_learner":2,"gpu_type":"h200","cpus_per_learner":4,
  "placement":"cyclic","bind":"cores","command":["python","train.py","--name","it's"],"work_dir":"/home/bob/a b",
  "checkpoint":{"path":"/scratch/ck","keep":3},"restarts":3,"tier":"borrow","slurm_restart_count":1,
  "environment":{"WANDB_MODE":"sentinel-common"},"kept":["MY_VALUE=sentinel-kept"],
  "warnings":["a warning"],"nodes":[{"name":"n1","learners":1,"gpus":2},{"name":"n2","learners":1,"gpus":null}],
  "learners":[{"rank":0,"node":"n1","gpus":[0,1],"environment":{"X":"sentinel-own"}},{"rank":1,"node":"n2","gpus":[0,1]}]})";

ReportData full() {
  ReportData data;
  data.job = "12";
  data.name = "digits";
  data.user = "bob";
  data.state = "HALTED";
  data.why = "paused by dlctl";
  data.goes_on = true;
  data.now_ms = kBegin + 400'000;
  data.made_by = "slurm-dl 1";
  data.dir = "/home/bob/dl-12";
  data.of_slurm = true;
  data.plan = parse_plan_sheet(kPlan);
  data.checkpoint = "/scratch/ck,keep=3";
  data.events = two_attempts();
  data.attempt = 2;
  data.step = 230;
  data.saved_step = 200;
  data.learners = {{0, "n1", "0,1", "HALTED", "", 230, 200, false}, {1, "n2", "0,1", "HALTED", "", 230, 200, false}};
  data.learners[1].use = {{"gpu_share", 0.915}, {"gpu_sm_share", 0.42}, {"cpus_used", 1.5}, {"memory_bytes", 3 << 20}};
  plot::Chart loss{"loss", "train step", {{"train", "last 0.1", {}}}, {}, {}};
  for (int i = 0; i < 50; ++i) loss.curves[0].samples.push_back({1.0 * i, 5.0 / (i + 1)});
  data.curves = {loss};
  data.last_lines = {{1, 1, {"Traceback (most recent call last):", "ValueError: no"}, ""}};
  record::UsedInAll use{"used 31 % of 4 GPUs",
                        {{"gpus", 4}, {"gpus_measured", 4}, {"gpu_share", 0.31}, {"training_s", 60}}};
  data.events.back().use = use;
  return data;
}

// What no page may have: a script, or anything that a browser would fetch or follow.
void expect_alone(const std::string& page) {
  for (const char* word : {"<script", "src=", "href", "url(", "@import", "http:", "https:", "javascript:", "<iframe",
                           "<img", "<link", "<object", "<embed", "<form", "nan%", "inf%"})
    EXPECT_FALSE(has(page, word)) << word;
  EXPECT_TRUE(has(page, "content=\"default-src 'none'; style-src 'unsafe-inline'\""));
  EXPECT_LE(page.size(), kMostPageBytes);
  // Each tag that is opened is closed, in order.
  std::vector<std::string> open;
  for (size_t at = 0; (at = page.find('<', at)) != std::string::npos; ++at) {
    const size_t end = page.find_first_of(" />", at + 2);
    const size_t close = page.find('>', at);
    ASSERT_NE(close, std::string::npos);
    const std::string name = page.substr(at + 1, end - at - 1);
    if (name[0] == '!' || name == "meta" || page[close - 1] == '/') continue;
    if (name[0] == '/') {
      ASSERT_FALSE(open.empty()) << name;
      EXPECT_EQ("/" + open.back(), name);
      open.pop_back();
    } else {
      open.push_back(name);
    }
  }
  EXPECT_TRUE(open.empty());
}

TEST_F(ReportPageTest, AJobThatWasPausedAndResumedHasAllSections) {
  const std::string page = page_of(full());
  expect_alone(page);
  for (const char* title : {"States and attempts", "Curves", "Use of the machine", "Learners and nodes", "Failures",
                            "Events", "Checkpoints", "How to run it again"})
    EXPECT_EQ(count_of(page, std::string("<h2>") + title + "</h2>"), 1U) << title;
  for (const char* text : {"<h1>Job 12: digits</h1>",
                           "pytorch 2.1",
                           "python train.py --name 'it'",
                           "2 learners (1 to 4 asked for) with 2 h200 GPUs each, on n[1-2]",
                           "230, saved at 200",
                           "ValueError: no",
                           "The last lines of learner 1 in attempt 1",
                           "31 %",
                           "not measured",
                           "What each learner used",
                           "42 %",
                           "3.00 MiB",
                           "#SBATCH --dl-framework=pytorch:2.1",
                           "#SBATCH --dl-learners=1:4",
                           "#SBATCH --dl-gpus=h200:2",
                           "#SBATCH --dl-checkpoint=/scratch/ck,keep=3",
                           "#SBATCH --dl-restarts=3",
                           "#SBATCH --dl-tier=borrow",
                           "dlrun --placement cyclic --bind cores -- python train.py",
                           "prefers-color-scheme:dark",
                           "@media print"})
    EXPECT_TRUE(has(page, text)) << text;
}

TEST_F(ReportPageTest, NoValueOfTheEnvironmentIsOnThePage) {
  EXPECT_FALSE(has(page_of(full()), "sentinel"));
}

TEST_F(ReportPageTest, SecretsOfCommandsReasonsAndLogsAreHidden) {
  ReportData data = full();
  data.plan->command = {"python", "--api-key", "sentinel1", "--data", "https://bob:sentinel2@host/x?sig=sentinel3"};
  data.why = "WANDB_API_KEY=sentinel4 was refused";
  data.events[3].reason = "password: sentinel5";
  data.last_lines[0].lines = {"HF_TOKEN=sentinel6", std::string(500, 'x') + " --token sentinel7"};
  data.plan->checkpoint = data.checkpoint = "s3://u:sentinel8@b/c";
  EXPECT_FALSE(has(page_of(data), "sentinel"));
}

// A text that would end each place it may stand in.
const std::string kHostile =
    "</td></pre></title></style></svg><script>alert(\"1\")</script>'\"><img src=x "
    "onerror=alert(1)>&amp;\x1b]0;x\x07\xe2\x80\xae\xff";

ReportData hostile() {
  ReportData data;
  data.job = data.name = data.user = data.state = data.why = data.made_by = data.dir = data.checkpoint = kHostile;
  data.rate = data.left = data.expected_end = data.scaling = data.use_now = kHostile;
  data.now_ms = kBegin + 900'000;
  PlanSheet plan;
  for (std::string* text :
       {&plan.job_name, &plan.cluster, &plan.framework, &plan.version, &plan.gpu_type, &plan.placement, &plan.bind,
        &plan.image, &plan.tier, &plan.batch, &plan.work_dir, &plan.checkpoint})
    *text = kHostile;
  plan.command = plan.metrics = plan.warnings = {kHostile, kHostile};
  plan.ranks = 2;
  plan.nodes = {{kHostile, 1, 1}, {kHostile, 1, 1}};
  plan.learners = {{kHostile, kHostile}, {kHostile, kHostile}};
  plan.under_slurm = true;
  data.plan = plan;
  data.events = two_attempts();
  for (record::Event& event : data.events)
    event.reason = event.code = event.failure = event.host = event.run = event.command = kHostile;
  data.events.back().use = record::UsedInAll{kHostile, {{kHostile, 1}, {"gpus", 1e300}, {"gpu_share", -5}}};
  data.learners = {{0, kHostile, kHostile, kHostile, kHostile, 1, 1, false}};
  plot::Chart chart{
      kHostile, kHostile, {{kHostile, kHostile, {{0, 1}, {1, 2}}}}, {{0.5, kHostile, kHostile}}, {kHostile}};
  chart.curves[0].samples = {{0, 1}, {1, 2}};
  data.curves = data.use_curves = {chart};
  data.last_lines = {{1, 1, {kHostile}, kHostile}, {1, 0, {}, kHostile}};
  data.not_known = {kHostile};
  return data;
}

TEST_F(ReportPageTest, EveryTextOfAHostileJobIsEscaped) {
  const std::string page = page_of(hostile());
  for (const char* word : {"<script", "<img", "alert(\"", "\x1b", "\x07", "\xe2\x80\xae", "\xff"})
    EXPECT_FALSE(has(page, word)) << word;
  EXPECT_TRUE(has(page, "&lt;script&gt;alert(&quot;1&quot;)"));
  EXPECT_EQ(count_of(page, "<style>"), 1U);
  EXPECT_EQ(count_of(page, "</style>"), 1U);
  EXPECT_EQ(count_of(page, "</title></head>") + count_of(page, "<title>Job "), 1U);
  // A quote in an attribute would end it.
  for (size_t at = 0; (at = page.find("=\"", at)) != std::string::npos; at += 2) {
    const size_t end = page.find('"', at + 2);
    ASSERT_NE(end, std::string::npos);
    EXPECT_EQ(page.substr(at, end - at).find_first_of("<>"), std::string::npos) << page.substr(at, 80);
  }
}

TEST_F(ReportPageTest, WhatIsNotKnownIsSaidAndIsNoZero) {
  ReportData data;
  data.job = "local-1";
  data.state = "UNKNOWN";
  data.now_ms = kBegin;
  const std::string page = page_of(data);
  expect_alone(page);
  for (const char* text : {"The launch plan of the job could not be read", "No state of the job is recorded",
                           "No metrics of the training were found", "What the learners used is not known",
                           "Learners and nodes are not known"})
    EXPECT_TRUE(has(page, text)) << text;
  EXPECT_FALSE(has(page, "<dd>0"));
}

TEST_F(ReportPageTest, NumbersThatWereNotMeasuredAreNotZero) {
  ReportData data = full();
  data.events.back().use = record::UsedInAll{"used 1 CPU", {{"cpus", 8}, {"cpus_used", 1}}};
  const std::string page = page_of(data);
  EXPECT_TRUE(has(page, "<dt>memory</dt><dd>not measured</dd>"));
  EXPECT_TRUE(has(page, "<dt>CPUs busy</dt><dd>1 of 8</dd>"));
  EXPECT_FALSE(has(page, "0 B"));
}

TEST_F(ReportPageTest, BytesAreDrawnInAUnitThatMakesThemShortAndASinglePointIsNotDrawn) {
  ReportData data = full();
  data.use_curves = {
      {"memory_bytes", "minutes", {{"use", "last 3.2e9", {{0, 3.0 * (1 << 30)}, {1, 2.0 * (1 << 30)}}}}, {}, {}},
      {"read_bytes_per_s", "minutes", {{"use", "", {{0, 2048}, {1, 5120}}}}, {}, {}},
      {"cpus_used", "minutes", {{"use", "", {{0, 1}}}}, {}, {}}};
  const std::string page = page_of(data);
  EXPECT_TRUE(has(page, "memory_bytes, in GiB")) << page;
  EXPECT_TRUE(has(page, "last 2, highest 3"));
  EXPECT_TRUE(has(page, "read_bytes_per_s, in KiB a second"));
  EXPECT_FALSE(has(page, "cpus_used</figcaption>"));
}

TEST_F(ReportPageTest, AMillionPointsMakeASmallPage) {
  ReportData data = full();
  plot::Chart& chart = data.curves[0];
  chart.curves[0].samples.clear();
  for (int i = 0; i < 1'000'000; ++i) chart.curves[0].samples.push_back({1.0 * i, i == 777'777 ? 50.0 : i % 2 * 1.0});
  plot::Chart small = chart;
  small.curves[0].samples.resize(5'000);
  data.curves.insert(data.curves.end(), 300, small);
  const std::string page = page_of(data);
  expect_alone(page);
  EXPECT_LT(page.size(), 1'200'000U);
  EXPECT_TRUE(has(page, "further metrics not drawn here"));
}

TEST_F(ReportPageTest, ThePageIsBoundedWhateverTheJobHasDone) {
  ReportData data = hostile();
  const std::string quotes(5000, '"');
  for (int i = 0; i < 3'000; ++i) {
    data.learners.push_back({i, quotes, quotes, quotes, quotes, 1, 1, false});
    data.plan->nodes.push_back({quotes, 1, 1});
    data.plan->command.push_back(quotes + "\n" + quotes);
    data.plan->warnings.push_back(quotes);
    data.not_known.push_back(quotes);
    data.events.push_back(learner_failed(100 + i, 2 + i, i, quotes));
    data.events.push_back(event(100 + i, 2 + i, JobState::kHalted, quotes));
    data.events.back().use = record::UsedInAll{quotes, {}};
    data.last_lines.push_back({i, i, std::vector<std::string>(100, quotes), quotes});
  }
  plot::Chart chart = data.curves[0];
  chart.title = chart.axis = quotes;
  chart.notes.assign(100, quotes);
  chart.marks.assign(1'000, {0.5, quotes, quotes});
  chart.curves.assign(100, {quotes, quotes, {}});
  for (plot::Curve& curve : chart.curves)
    for (int i = 0; i < 3'000; ++i)
      curve.samples.push_back({1.0 * i, i % 3 == 0 ? std::numeric_limits<double>::quiet_NaN() : i % 5 * 1e307});
  data.curves.assign(20, chart);
  data.use_curves = data.curves;
  EXPECT_LE(page_of(data).size(), kMostPageBytes);
}

TEST_F(ReportPageTest, TheNameOfTheFileHasNoFolder) {
  EXPECT_EQ(page_name("12"), "dl-report-12.html");
  EXPECT_EQ(page_name("12_3.2"), "dl-report-12_3.2.html");
  EXPECT_EQ(page_name("../../etc/x y\n"), "dl-report-.._.._etc_x_y_.html");
  EXPECT_EQ(page_name(std::string(500, 'a')).size(), 115U);
}

TEST(PlanSheetTest, WhatIsNoPlanIsNone) {
  for (const char* text : {"", "[]", "null", "{\"a\":", "3"}) EXPECT_FALSE(parse_plan_sheet(text)) << text;
  const auto odd = parse_plan_sheet(
      R"({"command":[1,null,"a"],"nodes":{"a":1},"learners":[3],"world_size":1e300,"restarts":"x","asked":[1]})");
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->command, std::vector<std::string>{"a"});
  EXPECT_EQ(odd->ranks, -1);
  EXPECT_EQ(odd->restarts, -1);
}

TEST(PlanSheetTest, WithoutSlurmTheStartIsOneLineOfAShell) {
  PlanSheet plan;
  plan.framework = "generic";
  plan.ranks = 2;
  plan.gpus_each = 0;
  plan.work_dir = "/a b";
  plan.command = {"sh", "-c", "echo it's"};
  EXPECT_EQ(start_script(plan, ""),
            "cd '/a b'\ndlrun --framework generic --learners 2 --gpus 0 -- sh -c 'echo it'\\''s'\n");
}

TEST(ReportWordsTest, LinesOfLogsLoseColoursAndWhatWasOverwritten) {
  EXPECT_EQ(plain_line("\x1b[31mred\x1b[0m\tx"), "red    x");
  EXPECT_EQ(plain_line(" 10%\r 20%\r"), " 20%");
  EXPECT_EQ(plain_line("\x1b["), "");
  EXPECT_EQ(when(0), "");
}

}  // namespace
}  // namespace dl::report
