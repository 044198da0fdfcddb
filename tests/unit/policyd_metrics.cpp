// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policyd/metrics.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "slurm-plugin/policyd/report.h"
#include "tests/unit/policyd_support.h"

namespace dl::policyd {
namespace {

using policy::Charge;

std::string metrics_of(const observe::Records& records) {
  const auto view = observe::view_cluster(testing::site(), records, {});
  Totals totals;
  for (const Action& action : needed_actions(view, records, policy::decide(view.state), {}))
    count_action(action.kind, &totals);
  return metrics_text(view, policy::decide(view.state), totals);
}

observe::Records claimed() {
  auto records = testing::cluster(2, 2);
  testing::add_running(&records, 1, testing::label("nlp", 2, Charge::kOwn), "n1", {2});
  testing::add_running(&records, 2, testing::label("nlp", 2, Charge::kBorrowed), "n2", {2});
  testing::add_pending(&records, 3, testing::label("vision", 2, Charge::kOwn));
  return records;
}

TEST(MetricsTest, EveryLineIsOfPrometheusFormAndEverySampleHasItsType) {
  const std::regex sample(R"(([a-z_]+)(\{([a-z_]+="[^"\n]*",?)+\})? -?[0-9.e+]+)");
  std::set<std::string> typed;
  std::istringstream lines(metrics_of(claimed()));
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (line.rfind("# TYPE ", 0) == 0) {
      typed.insert(line.substr(7, line.find(' ', 7) - 7));
    } else if (line.rfind("# HELP ", 0) != 0) {
      ASSERT_TRUE(std::regex_match(line, match, sample)) << line;
      EXPECT_EQ(typed.count(match[1]), 1U) << line;
    }
  }
  EXPECT_GT(typed.size(), 10U);
}

TEST(MetricsTest, NameTheJobThatDoesNotUseItsGpus) {
  auto records = claimed();
  records.jobs[0].comment = "dl:PROCESSING attempt=1 idle=2@" + std::to_string(testing::kNow - 500) + " dir=/x/dl-1";
  const std::string text = metrics_of(records);
  EXPECT_NE(text.find("dl_job_idle_gpus{job_id=\"1\",tenant=\"nlp\"} 2\n"), std::string::npos) << text;
  EXPECT_NE(text.find("dl_tenant_idle_gpus{tenant=\"nlp\"} 2\n"), std::string::npos) << text;
  EXPECT_EQ(metrics_of(claimed()).find("dl_job_idle_gpus{"), std::string::npos);
}

TEST(MetricsTest, CountWhatIsThere) {
  const std::string text = metrics_of(claimed());
  for (const char* line :
       {"dl_tenant_own_gpus{tenant=\"nlp\"} 2\n", "dl_tenant_borrowed_gpus{tenant=\"nlp\"} 2\n",
        "dl_tenant_pending_gpus{tenant=\"vision\"} 2\n", "trainer_cluster_wide_gpu_usage{gpu_type=\"a100\"} 4\n",
        "dl_free_gpus{gpu_type=\"a100\"} 0\n", "trainer_queue_size{gpu_type=\"any\"} 1\n", "dl_waiting_claims 1\n",
        "dl_largest_free_gpus{gpu_type=\"a100\"} 0\n", "dl_kept_gpus{gpu_type=\"a100\"} 0\n",
        "dl_fragmentation{gpu_type=\"a100\",learner_gpus=\"2\"} 0\n", "dl_reclaims_total{what=\"asked\"} 1\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "is not in\n" << text;
}

TEST(MetricsTest, TellOfChangesThatFailedAndOfAConfigurationThatIsNotTheFiles) {
  Totals totals;
  for (const Errc code : {Errc::kDenied, Errc::kDenied, Errc::kBusy, Errc::kIo, Errc::kConflict, Errc::kNotFound})
    count_failure(code, &totals);
  const auto view = observe::view_cluster(testing::site(), claimed(), {});
  const policy::Decision decision = policy::decide(view.state);
  EXPECT_NE(metrics_text(view, decision, totals).find("dl_policyd_config_in_force 1\n"), std::string::npos);
  totals.config_in_force = false;
  totals.changes_late = 7;
  totals.gates_later = 900;
  const std::string text = metrics_text(view, decision, totals);
  for (const char* line : {"dl_policyd_failed_updates_total{reason=\"denied\"} 2\n",
                           "dl_policyd_failed_updates_total{reason=\"unreachable\"} 1\n",
                           "dl_policyd_failed_updates_total{reason=\"refused\"} 1\n", "dl_policyd_config_in_force 0\n",
                           "dl_policyd_late_changes 7\n", "dl_policyd_later_gates 900\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "is not in\n" << text;
}

TEST(ReportTest, SaysWhatWouldBeDoneAndWhy) {
  const auto records = claimed();
  const auto view = observe::view_cluster(testing::site(), records, {});
  const auto actions = needed_actions(view, records, policy::decide(view.state), {});
  EXPECT_NE(as_text(actions).find("job 2: yield: yields 2 GPUs to job 3 of 'vision' within 120 s"), std::string::npos);
  EXPECT_EQ(as_text({}), "nothing to do\n");
  const auto json = nlohmann::json::parse(as_json(actions));
  ASSERT_FALSE(json.empty());
  EXPECT_EQ(json[0]["job"], 2);
  EXPECT_EQ(json[0]["action"], "yield");
  EXPECT_EQ(json[0]["signal"], true);
  EXPECT_FALSE(json[0].contains("requeue"));
}

}  // namespace
}  // namespace dl::policyd
