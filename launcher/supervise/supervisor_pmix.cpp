// SPDX-License-Identifier: Apache-2.0
// Opens the PMIx servers of an attempt, and acts on what they report.
#include <fmt/core.h>

#include "launcher/supervise/supervisor.h"

namespace dl::supervise {

using namespace protocol;

void Supervisor::open_pmix() {
  auto random = make_secret();
  pmix_->open(plan(), fmt::format("dl.{}.{}.{}", plan().job_id.substr(0, 64), attempts_, random ? *random : secret_));
}

PmixServers::Now Supervisor::now_for_pmix() const {
  return {awake_ms(), state_.phase, attempt_.learners()};
}

void Supervisor::follow(const PmixServers::News& news) {
  for (const std::string& line : news.lines) voice_.say(line);
  if (!news.not_started.empty()) return agents_not_started(news.not_started);
  if (news.end_learners_ms) handle(EndLearners{*news.end_learners_ms});
  if (news.lost) learner_failed(news.lost->first, news.lost->second);
}

}  // namespace dl::supervise
