// SPDX-License-Identifier: Apache-2.0
// THE table of checks of `dlctl doctor`, and how it goes through it. Pure: each check makes findings from the facts.
#pragma once

#include <string>
#include <vector>

#include "launcher/ctl/doctor_facts.h"

namespace dl::ctl::doctor {

enum class Who { kEverybody, kAdmin };
// What a check cannot be made without; where it is missing, one note says so in place of the check.
enum Needs : unsigned { kNothing = 0, kSlurm = 1, kSite = 2 };

struct Check {
  const char* name;
  Who who;
  unsigned needs;
  const char* summary;  // what it looks at
  Findings (*judge)(const Facts& facts);
};

// To add a check: a row in doctor_checks.cpp, and a function beside its smallest sibling (doctor_judge.h).
const std::vector<Check>& checks();

struct Answer {
  std::string check;
  Finding finding;
};
// All checks that concern the caller, or those named in `only`, in the order of the table.
std::vector<Answer> examine(const Facts& facts, const std::vector<std::string>& only);
int count_wrong(const std::vector<Answer>& answers);
const char* grade_name(Grade grade);
// Lines "wrong  CHECK: sentence"; below those that name a line to change "       FILE: LINE". Safe for a terminal.
std::string answers_text(const std::vector<Answer>& answers);
// An array of {"check", "grade", "text", "file", "line"}; file and line are null where nothing is to be changed.
std::string answers_json(const std::vector<Answer>& answers);

}  // namespace dl::ctl::doctor
