// SPDX-License-Identifier: Apache-2.0
// dl_metric of dllearner.h.
#include <cstdlib>

#include "common/contract/env_names.h"
#include "launcher/collectives/c_result.h"
#include "launcher/collectives/metric_file.h"

extern "C" dllearner_result dl_metric(const dl_metric_value* values, size_t count, int64_t step,
                                      dl_metric_group group) {
  using dl::Errc;
  using dl::Status;
  dllearner_result of_file = DLLEARNER_OK;
  const dllearner_result result = dl::learner::answer([&]() -> Status {
    Status reported = dl::learner::report_metric(std::getenv(dl::env::kMetricsFile), values, count, step, group);
    if (reported || reported.error().code == Errc::kInvalid) return reported;
    of_file = dl::learner::keep_error(DLLEARNER_E_IO, reported.error().text.c_str());
    return {};
  });
  return result == DLLEARNER_OK ? of_file : result;
}
