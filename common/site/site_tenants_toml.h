// SPDX-License-Identifier: Apache-2.0
// The [tenants.NAME] tables of dl.toml.
#pragma once

#include <string>

#include "common/base/result.h"
#include "common/site/site_config.h"
#include "common/site/toml_text.h"

namespace dl {

// Fills config->tenants, sorted by name. `file` stands for the path in messages. kInvalid "FILE:LINE: tenants.NAME.KEY:
// ...; allowed: ...". [nodes] and [quota] must have been read before: a quota may name no GPU type that [nodes.types]
// lacks.
Status read_site_tenants(const toml::node& node, const std::string& file, SiteConfig* config);

// Reads the [tenant_groups.NAME] tables; must be called before read_site_tenants(). check_site_groups(), called after
// both, checks that tenants and groups name only groups that exist.
Status read_site_groups(const toml::node& node, const std::string& file, SiteConfig* config);
Status check_site_groups(const std::string& file, const SiteConfig& config);

// A whole number of GPUs, or a table of them by type.
Status set_gpus(const toml::node& node, const SiteConfig& config, SiteGpus* out);

// kInvalid if `type` is not a valid name of a GPU type, or not in [nodes.types] if that table has entries.
Status check_type_name(std::string_view type, const SiteConfig& config);

// True if a dl.toml that cannot be parsed may declare tenants: it contains the word, or cannot be read. Implemented in
// site_config.cpp, which reads the file.
bool may_name_tenants(const std::string& path);
// True if such a dl.toml may declare a tenant with network = "job".
bool may_require_network(const std::string& path);

}  // namespace dl
