// SPDX-License-Identifier: Apache-2.0
// Prints all that dlpolicyd tells Prometheus, of a made-up cluster in which each metric has a value, with a user's
// words that could break the text. `exposition N`: N jobs wait besides.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

#include "slurm-plugin/policyd/job_counts.h"
#include "slurm-plugin/policyd/job_series.h"
#include "slurm-plugin/policyd/metrics.h"
#include "tests/unit/policyd_support.h"

int main(int argc, char** argv) {
  using namespace dl;
  using namespace dl::policyd;
  namespace made = dl::policyd::testing;
  using policy::Charge;
  observe::Records records = made::cluster(4, 4);
  const auto runs = [&](int64_t id, const char* tenant, Charge charge, const char* nodes, const std::string& words) {
    observe::JobRecord& job = made::add_running(&records, id, made::label(tenant, 4, charge), nodes, {4});
    job.user = "ada";
    job.name = "digits";
    job.account = tenant;
    job.comment = "dl:PROCESSING attempt=2 step=40 " + words + " dir=/x/dl-" + std::to_string(id);
    return &job;
  };
  const std::string now = std::to_string(made::kNow - 5);
  runs(1, "vision", Charge::kOwn, "n1", "pace=57/2.5/12.5@" + now)->requeues = 2;
  runs(2, "nlp", Charge::kBorrowed, "n2", "idle=4@" + now);
  records.jobs.back().name = "x\"} 1\ndl_free_gpus{gpu_type=\"a100\"} 1000\n# \xff\\ caf\xc3\xa9";
  runs(3, "gone", Charge::kOwn, "n3", "");
  made::add_pending(&records, 4, made::label("vision", 8, Charge::kOwn)).account = "vision";
  const int64_t most = argc > 1 ? std::atoll(argv[1]) : 0;
  for (int64_t id = 100; id < 100 + most; ++id)
    made::add_pending(&records, id, made::label("nlp", 1, Charge::kBorrowed));
  JobCounts counts;
  const policy::ClusterState site = made::site(4);
  counts.update(site, {});
  records.ended.push_back({9, false, observe::EndedRecord::How::kCompleted, "nlp"});
  counts.update(site, records);
  const observe::ClusterView view = observe::view_cluster(site, records, {});
  const std::string text = metrics_text(view, policy::decide(view.state), {}) + counts.text() +
                           tenant_jobs_text(view, records) + job_series_text(view, records, 1000);
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : 1;
}
