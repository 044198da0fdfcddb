// SPDX-License-Identifier: Apache-2.0
// The [[failure]] tables of dl.toml.
#pragma once

#include <string>
#include <vector>

#include "launcher/common/failure_row.h"
#include "launcher/common/result.h"
#include "launcher/common/toml_text.h"

namespace dl {

// `file` stands for the path in messages. kInvalid "FILE:LINE: failure.KEY: ...; allowed: ...".
Result<std::vector<FailureRow>> read_failure_rows(const toml::node& node, const std::string& file);

}  // namespace dl
