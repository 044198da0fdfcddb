// SPDX-License-Identifier: Apache-2.0
// The course of a job as a picture over time: its states, its attempts, what was saved and what failed. Pure, but for
// the time zone of its labels.
#pragma once

#include <string>

#include "launcher/report/course.h"

namespace dl::report {

// The word by which the styles of the page know a state: "processing".
std::string state_class(record::JobState state);

// Rules of CSS for the colours of states, and for timeline(); once on a page.
std::string timeline_styles();

// A <figure> as wide as the page, whatever the number of spans: what is narrower than can be seen is joined. Empty
// without a span.
std::string timeline(const Course& course);

}  // namespace dl::report
