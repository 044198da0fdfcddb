// SPDX-License-Identifier: Apache-2.0
// Removes secrets from what other programs say, before it is shown, logged or kept. Pure but for variables().
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dl::data {

// The text with "***" in the place of: user and password and the query of a URL; the values of names that sound like
// secrets ("secret_access_key = x", "token":"x", "Authorization: Bearer x"); access keys of AWS; and each of `secrets`
// of at least 4 letters. Control characters are made visible.
std::string scrubbed(std::string_view text, const std::vector<std::string>& secrets = {});

// The values of variables of the environment that hold secrets of rclone or of object stores.
std::vector<std::string> secrets_of_environment();

}  // namespace dl::data
