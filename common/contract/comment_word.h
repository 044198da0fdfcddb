// SPDX-License-Identifier: Apache-2.0
// Words "KEY=VALUE" that dlrun writes into its job's comment for dlpolicyd (launcher/record/job_comment.h). Pure.
#pragma once

#include <string_view>

namespace dl {

// The value of the first word "KEY=VALUE" in our part of a job's comment, as a view into `comment`; empty if there is
// none. Neither the user's text before "dl:" nor what follows " dir=" (a path, free text) is searched.
std::string_view comment_word(std::string_view comment, std::string_view key);

}  // namespace dl
