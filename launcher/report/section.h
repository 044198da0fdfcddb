// SPDX-License-Identifier: Apache-2.0
// The sections of the page. Each writes what it knows, and says what is not known; one that writes nothing is left out.
// To add one: a function in a file beside these, and a row of the table in page.cpp.
#pragma once

#include "launcher/report/course.h"
#include "launcher/report/html.h"
#include "launcher/report/report_data.h"

namespace dl::report {

// What sections read.
struct Material {
  const ReportData& data;
  const Course& course;
};

// For lists that may be long: calls write(item) for the first and the last items, and skip(count) for those between.
template <typename Item, typename Write, typename Skip>
void first_and_last(const std::vector<Item>& items, size_t first, size_t last, Write write, Skip skip) {
  const bool all = items.size() <= first + last;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!all && i == first) {
      skip(items.size() - first - last);
      i = items.size() - last;
    }
    write(items[i]);
  }
}

using WriteSection = void (*)(const Material& of, Html* html);

void write_what_ran(const Material& of, Html* html);
void write_course(const Material& of, Html* html);
void write_curves(const Material& of, Html* html);
void write_use(const Material& of, Html* html);
void write_learners(const Material& of, Html* html);
void write_failures(const Material& of, Html* html);
void write_last_lines(const Material& of, Html* html);
void write_events(const Material& of, Html* html);
void write_checkpoints(const Material& of, Html* html);
void write_reproduce(const Material& of, Html* html);

}  // namespace dl::report
