// SPDX-License-Identifier: Apache-2.0
// dl_metric of dllearner.h.
#include <cstdlib>
#include <cstring>

#include "common/contract/env_names.h"
#include "launcher/collectives/c_result.h"
#include "launcher/collectives/metric_file.h"

namespace {

// nullptr: this process reports nothing. Workers that learner 0 starts, as torchrun does, inherit the name of its file;
// where all of them reported, there would be as many values of each step.
const char* file_of_this_process() {
  for (const char* name : {"RANK", "LOCAL_RANK"}) {
    const char* rank = std::getenv(name);
    if (rank != nullptr && std::strcmp(rank, "0") != 0) return nullptr;
  }
  return std::getenv(dl::env::kMetricsFile);
}

}  // namespace

extern "C" dllearner_result dl_metric(const dl_metric_value* values, size_t count, int64_t step,
                                      dl_metric_group group) {
  using dl::Errc;
  using dl::Status;
  dllearner_result of_file = DLLEARNER_OK;
  const dllearner_result result = dl::learner::answer([&]() -> Status {
    Status reported = dl::learner::report_metric(file_of_this_process(), values, count, step, group);
    if (reported || reported.error().code == Errc::kInvalid) return reported;
    of_file = dl::learner::keep_error(DLLEARNER_E_IO, reported.error().text.c_str());
    return {};
  });
  return result == DLLEARNER_OK ? of_file : result;
}
