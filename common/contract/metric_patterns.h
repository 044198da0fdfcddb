// SPDX-License-Identifier: Apache-2.0
// Expressions that find metrics in what learners print (--dl-metrics, and patterns of a catalogue entry). They are
// regular expressions with macros such as %{FLOAT}, as in FfDL. Only their form is checked here, since Slurm's daemons
// read them, too; launcher/metrics/log_patterns.h compiles and matches them. Pure.
//
//   loss %{FLOAT:loss} at step %{INT:step}
//   validation: (?<val_accuracy>%{FLOAT}) || perplexity=%{FLOAT:ppl}
//
// "%{FLOAT:loss}" is a macro whose text is the value of loss, short for "(?<loss>%{FLOAT})". " || " stands between
// several expressions. A part may also be a folder in which the program writes TensorBoard's event files:
//
//   events:runs/digits
//
// Its path may hold names of the job, such as %j and ~ (path_pattern.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/contract/path_pattern.h"

namespace dl {

constexpr size_t kMostPatterns = 20;
constexpr size_t kLongestPattern = 1000;  // bytes

// "%{FLOAT}, %{GLOG_STAMP}, %{HEX}, %{INT}, %{INT_ANY}, %{TIMESTAMP}"
std::string macro_names();

// The expression without macros. kInvalid: it is empty or too long, has a macro that is not known, control characters,
// or no name for a value: "'%{FLAOT}' is no macro; allowed: %{FLOAT}, ...".
Result<std::string> expand_pattern(std::string_view pattern);

// The folder of TensorBoard's event files that a part of --dl-metrics names, "events:DIR"; empty if the part is an
// expression. A text with a macro or a named part is one, whatever it begins with.
std::string_view event_folder(std::string_view part);

// --dl-metrics: the parts of it as they were written, each of which names a folder, or is an expression that
// expand_pattern() accepts. kInvalid as there, of a folder as check_path_pattern(), or if there are more than
// kMostPatterns.
Result<std::vector<std::string>> parse_metrics(std::string_view text);
// The same parts, with the job's names in place of the patterns of folders. kInvalid as expand_path().
Result<std::vector<std::string>> expand_metrics(const std::vector<std::string>& parts, const PathNames& names);

}  // namespace dl
