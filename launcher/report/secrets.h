// SPDX-License-Identifier: Apache-2.0
// Takes out of a text what looks like a secret: a report is sent to others, and command lines and logs hold tokens. It
// knows names and forms, and so cannot find each secret. Pure.
#pragma once

#include <string>
#include <string_view>

namespace dl::report {

// The text with "…" in place of
//   - the values of names that end in token, secret, password, api_key and such: NAME=VALUE, NAME: VALUE, --NAME VALUE
//   - user and password in the address of a URL, and what follows its "?"
//   - words that begin as tokens of known services do
std::string without_secrets(std::string_view text);

// Whether the value of a variable, option or member with this name is to be hidden.
bool is_secret_name(std::string_view name);

}  // namespace dl::report
