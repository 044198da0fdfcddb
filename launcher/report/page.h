// SPDX-License-Identifier: Apache-2.0
// The page about a job: one file of HTML without a script and without another file, for light and dark screens, phones
// and paper. Pure, but for the time zone.
#pragma once

#include <string>

#include "launcher/report/report_data.h"

namespace dl::report {

// The page is never longer, whatever the job has done.
constexpr size_t kMostPageBytes = 2 << 20;

// show_letters(true) before, so that texts in other letters than ASCII are shown.
std::string page_of(const ReportData& data);

// "dl-report-12.html". Characters of the id that are not usual in names of files become "_".
std::string page_name(const std::string& job);

}  // namespace dl::report
