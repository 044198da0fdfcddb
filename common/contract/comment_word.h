// SPDX-License-Identifier: Apache-2.0
// Words "KEY=VALUE" that dlrun writes into its job's comment for dlpolicyd (launcher/record/job_comment.h). Pure.
#pragma once

#include <string_view>

namespace dl {

// The value of the first word "KEY=VALUE" of ours in a job's whole comment, a part of `comment`; empty: there is none.
// What stands before "dl:" is the user's text, and what follows " dir=" a path or free text: neither is looked at.
std::string_view comment_word(std::string_view comment, std::string_view key);

}  // namespace dl
