// SPDX-License-Identifier: Apache-2.0
// The [[failure]] tables of dl.toml.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/contract/failure_row.h"
#include "common/site/toml_text.h"

namespace dl {

// `file` stands for the path in messages. kInvalid "FILE:LINE: failure.KEY: ...; allowed: ...".
Result<std::vector<FailureRow>> read_failure_rows(const toml::node& node, const std::string& file);

}  // namespace dl
