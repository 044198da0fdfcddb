// SPDX-License-Identifier: Apache-2.0
// Times, numbers and lines of logs as a page shows them. Pure, but for the time zone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dl::report {

// "2026-11-21 14:05:09" in local time; empty for 0, which is an unknown time.
std::string when(int64_t time_ms);
// "CET (UTC+0100)", the zone of when() at that time.
std::string zone_of(int64_t time_ms);
// Empty for -1, which is an unknown number.
std::string number_or_none(int64_t number);

// A line of a log as a terminal would show it, without colours: what a carriage return has overwritten is left out.
std::string plain_line(std::string_view line);

}  // namespace dl::report
