// SPDX-License-Identifier: Apache-2.0
// Reads the GPUs from Slurm's texts, of every version since 22.05. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dl::observe {

constexpr int kMaxGpusOfNode = 100000;  // a larger number is nonsense

struct GpuCount {
  std::string type;  // empty: the text gives no type
  int count = 0;
  bool operator==(const GpuCount& other) const { return type == other.type && count == other.count; }
};

// The GPUs of a list such as "gpu:a100:4(S:0-1),gpu:2(IDX:0-1),shard:8", "gres:gpu:2", "gres/gpu:a100=2,cpu=4":
// summed by type, in the order in which types first appear. Entries that are not of the form, are no GPUs, or have a
// count of 0 or above kMaxGpusOfNode are left out; a missing count is 1. If the list has types and also their sum
// ("gres/gpu=4,gres/gpu:a100=4", as TRES do), the result has an untyped entry only for the part of the sum that the
// types do not account for.
std::vector<GpuCount> parse_gpus(std::string_view text);

int total(const std::vector<GpuCount>& gpus);

}  // namespace dl::observe
