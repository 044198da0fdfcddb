// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/used.h"

#include <fmt/core.h>

#include <cmath>
#include <cstdint>
#include <iterator>

#include "common/base/parse.h"

namespace dl::report {
namespace {

constexpr const char* kNotMeasured = "not measured";

constexpr UsedCell kOfGpus[] = {{"GPU", "#GPU use", "gpu_share", percent_words},
                                {"SMS", "#SMs busy", "gpu_sm_share", percent_words},
                                {"GPU-MEMORY", "#GPU memory", "gpu_memory_bytes", bytes_words}};
constexpr UsedCell kOfAll[] = {{"CPUS", "#CPUs busy", "cpus_used", number_words},
                               {"MEMORY", "#Memory", "memory_bytes", bytes_words},
                               {"READ", "#Read", "read_bytes", bytes_words},
                               {"WRITTEN", "#Written", "written_bytes", bytes_words}};

}  // namespace

std::optional<double> number(const Numbers& numbers, const std::string& name) {
  const auto found = numbers.find(name);
  if (found == numbers.end() || !std::isfinite(found->second) || found->second < 0 || found->second > 1e18)
    return std::nullopt;
  return found->second;
}

std::string percent_words(std::optional<double> share) {
  return share ? fmt::format("{:.0f} %", 100 * *share) : kNotMeasured;
}

std::string bytes_words(std::optional<double> count) {
  return count ? format_bytes(static_cast<uint64_t>(*count)) : kNotMeasured;
}

std::string number_words(std::optional<double> value) {
  return value ? fmt::format("{:.3g}", *value) : kNotMeasured;
}

std::vector<UsedCell> used_columns(bool has_gpus) {
  std::vector<UsedCell> columns;
  if (has_gpus) columns.assign(std::begin(kOfGpus), std::end(kOfGpus));
  columns.insert(columns.end(), std::begin(kOfAll), std::end(kOfAll));
  return columns;
}

}  // namespace dl::report
