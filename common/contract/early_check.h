// SPDX-License-Identifier: Apache-2.0
// What can be told of the places of data before a job is submitted, without starting a program and without asking a
// server: spank_dl.so and dl-data do it, as the caller's user. What cannot be told is no error.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace dl::data {

// The remotes that a configuration of rclone has; none: it is encrypted. Pure.
std::optional<std::vector<std::string>> remotes_of(std::string_view configuration);
// "RCLONE_CONFIG_MY_LAB_TYPE": the variable that makes the remote "my-lab" without a configuration. Pure.
std::string remote_variable(std::string_view remote);
// Looks for the remote of NAME:PATH in the user's configuration, where rclone would look for it, and in the
// environment. kNotFound: it is in neither; kDenied: others can read the configuration.
Status check_remote_here(const std::string& place);

// Whether a job could make this path, which may hold placeholders (path_pattern.h): kDenied or kExists with
// "'PATH' ...: ..." if the lowest folder of it that exists may not be written to, or is no folder. Nothing is said of a
// relative path, which begins where the job does.
Status check_can_store(const std::string& path);

}  // namespace dl::data
