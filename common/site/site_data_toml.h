// SPDX-License-Identifier: Apache-2.0
// The [data] table of dl.toml.
#pragma once

#include <string>

#include "common/base/result.h"
#include "common/site/site_config.h"
#include "common/site/toml_text.h"

namespace dl {

// Fills config->data. kInvalid "FILE:LINE: data.KEY: ...; allowed: ...".
Status read_site_data(const toml::node& node, const std::string& file, SiteConfig* config);

}  // namespace dl
