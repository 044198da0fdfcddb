// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/job_id.h"

#include <limits>

#include "common/base/parse.h"

namespace dl::policy {
namespace {

constexpr int kTaskBit = 32;
constexpr int64_t kMaxJob = std::numeric_limits<uint32_t>::max();
constexpr int64_t kMaxTask = (int64_t{1} << 30) - 1;

}  // namespace

int64_t element_id(int64_t array, int64_t task) {
  return (task + 1) * (int64_t{1} << kTaskBit) + array;
}

bool is_element(int64_t id) {
  return id > kMaxJob;
}

int64_t array_of(int64_t id) {
  return id % (int64_t{1} << kTaskBit);
}

std::string job_name(int64_t id) {
  if (!is_element(id)) return std::to_string(id);
  return std::to_string(array_of(id)) + "_" + std::to_string(id / (int64_t{1} << kTaskBit) - 1);
}

std::optional<int64_t> parse_job_name(std::string_view text) {
  const size_t mark = text.find('_');
  const auto job = parse_int(text.substr(0, mark), 1, kMaxJob);
  if (!job) return std::nullopt;
  if (mark == std::string_view::npos) return *job;
  const auto task = parse_int(text.substr(mark + 1), 0, kMaxTask);
  if (!task) return std::nullopt;
  return element_id(*job, *task);
}

}  // namespace dl::policy
