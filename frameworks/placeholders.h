// SPDX-License-Identifier: Apache-2.0
// %{NAME} in the variables of a catalogue entry: where a learner stands in its job, put into a text. A framework that
// finds its peers by variables of its own is added with them, without a compiler: PADDLE_TRAINER_ID = "%{rank}". Pure.
#pragma once

#include <string>

#include "common/base/result.h"
#include "frameworks/families.h"

namespace dl {

// Whether the text has any. Without one it stands for itself.
bool has_placeholders(const std::string& text);

// That each of them is known, and closed by '}'. kInvalid: "'%{rnk}' is not a placeholder; allowed: %{address}, ...".
Status check_placeholders(const std::string& text);

// Whether one has a value of its own for each learner of a job, as %{rank} has. Such a variable tells a learner who it
// is: an inherited one is replaced.
bool placeholders_differ(const std::string& text);

// Whether one is about the ports that agents hold for learners, which the family "peers" asks for.
bool placeholders_need_peers(const std::string& text);

// The text with each of them replaced by its value. Empty where the value of one is not known: the variable is left
// unset then, since a half of an address would only mislead. The text has passed check_placeholders().
std::string fill_placeholders(const std::string& text, const LearnerContext& context);

}  // namespace dl
