// SPDX-License-Identifier: Apache-2.0
// What a job or one of its learners has used, as events.jsonl has it (dl-job-directory(5)): numbers by name, without
// those that were not measured, in words for people. Numbers may come from a hostile job. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dl::report {

using Numbers = std::map<std::string, double>;

// The number, or none if it was not measured or is none that can be.
std::optional<double> number(const Numbers& numbers, const std::string& name);
// In words; without a number "not measured".
std::string percent_words(std::optional<double> share);
std::string bytes_words(std::optional<double> count);
std::string number_words(std::optional<double> value);

// A column of the tables of what each learner has used.
struct UsedCell {
  const char* short_name;  // in a terminal
  const char* title;       // on a page, as Table takes it
  const char* name;        // of the number
  std::string (*words)(std::optional<double>);
  std::string text(const Numbers& numbers) const { return words(number(numbers, name)); }
};
// Those of a job; of one without GPUs the columns about GPUs are left out.
std::vector<UsedCell> used_columns(bool has_gpus);

}  // namespace dl::report
