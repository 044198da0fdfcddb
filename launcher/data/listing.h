// SPDX-License-Identifier: Apache-2.0
// What `rclone lsjson` lists, as entries of a source. Pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/base/result.h"
#include "launcher/data/manifest.h"

namespace dl::data {

// One line of `rclone lsjson`. False: it is a bracket. kBusy: it is no such line (the output was cut); kInvalid: a file
// has no size, such as a document of an office suite.
Result<bool> parse_listed(std::string_view line, Entry* entry);
// "2026-11-29T19:00:00.123456789+01:00" in nanoseconds since 1970; 0 if it is no such time.
int64_t parse_time_ns(std::string_view text);

}  // namespace dl::data
