// SPDX-License-Identifier: Apache-2.0
// Slurm's compressed lists of host names: "n[1-3,07],rack[0-1]-n[01-16],login". Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace dl {

// The names in the order of the list, duplicates kept. Brackets hold decimal numbers, ranges of them (padded with zeros
// to the width of the lower bound, as Slurm does) and plain words; several pairs in one name multiply, the last varying
// fastest. Names are 1 to 255 of A-Z a-z 0-9 . _ - and start with a letter or digit. kInvalid for anything else, for
// more than max_hosts names and for more than 4 MiB of text.
Result<std::vector<std::string>> expand_hostlist(std::string_view text, size_t max_hosts = 100000);

// Writes the short form. The order is kept: neighbours that differ by one in their last number are folded
// ("n1","n2","n4" -> "n[1-2,4]"). expand_hostlist() gives the names back.
std::string compress_hostlist(const std::vector<std::string>& names);

// Expands Slurm's list of repeated counts: "2(x3),1" -> 2,2,2,1. kInvalid unless it gives exactly `count` numbers of
// 0..1000000.
Result<std::vector<int>> expand_counts(std::string_view text, size_t count);

}  // namespace dl
