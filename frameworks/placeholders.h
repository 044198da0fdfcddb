// SPDX-License-Identifier: Apache-2.0
// Placeholders %{NAME} in the variables of a catalogue entry, which stand for values of a learner such as its rank.
// With them a framework that finds its peers by variables of its own can be added without a compiler: PADDLE_TRAINER_ID
// = "%{rank}". Pure.
#pragma once

#include <string>

#include "common/base/result.h"
#include "frameworks/families.h"

namespace dl {

// Whether the text has placeholders.
bool has_placeholders(const std::string& text);

// Checks that each placeholder is known and closed by '}'. kInvalid: "'%{rnk}' is not a placeholder; allowed:
// %{address}, ...".
Status check_placeholders(const std::string& text);

// Whether one of the placeholders differs between the learners of a job, as %{rank} does. Such a variable identifies a
// learner, so it replaces an inherited one.
bool placeholders_differ(const std::string& text);

// Whether one of the placeholders needs the ports that agents hold for learners; the family "peers" makes them hold
// these.
bool placeholders_need_peers(const std::string& text);

// The text with its placeholders replaced by their values. Empty if one of the values is not known: the variable is
// then left unset, since half an address would only mislead. Precondition: the text has passed check_placeholders().
std::string fill_placeholders(const std::string& text, const LearnerContext& context);

}  // namespace dl
