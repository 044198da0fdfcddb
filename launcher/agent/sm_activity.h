// SPDX-License-Identifier: Apache-2.0
// How busy the multiprocessors (SMs) of a GPU are: NVML tells it of GPUs with GPM (Hopper and later), without counters
// that another profiler may want, and without root. "A kernel ran" says less: one block of it may run on one SM.
#pragma once

#include <utility>
#include <vector>

#include "common/process/nvml.h"

namespace dl::agent {

class SmActivity {
 public:
  explicit SmActivity(const Nvml& nvml);
  ~SmActivity();
  SmActivity(const SmActivity&) = delete;
  SmActivity& operator=(const SmActivity&) = delete;

  // The mean percentage of SMs that were busy since the last call for this GPU. Less than 0: it is not measured; so is
  // the first call. A GPU that has failed to tell it is not asked again.
  double percent(Nvml::Device device);

 private:
  using Sample = void*;  // nvmlGpmSample_t
  struct Support {       // nvmlGpmSupport_t
    unsigned version = 1;
    unsigned supported = 0;
  };
  struct Metric {  // nvmlGpmMetric_t
    unsigned id = 0;
    int result = 0;
    double value = 0;
    struct {
      const char *short_name, *long_name, *unit;
    } info{};
  };
  struct Question {  // nvmlGpmMetricsGet_t
    unsigned version = 1;
    unsigned count = 0;
    Sample from = nullptr, to = nullptr;
    Metric metrics[512];  // more than any version of the library has: 98, and 333 in that of 2025
  };
  struct Watched {
    Nvml::Device device = nullptr;
    Sample from = nullptr, to = nullptr;
    bool told = false;  // `from` is filled
  };
  bool begin(Watched* gpu) const;
  double look(Watched* gpu);
  void forget(Watched* gpu) const;

  int (*support_)(Nvml::Device, Support*);
  int (*allocate_)(Sample*);
  int (*free_)(Sample);
  int (*take_)(Nvml::Device, Sample);
  int (*ask_)(Question*);
  std::vector<Watched> gpus_;
};

}  // namespace dl::agent
