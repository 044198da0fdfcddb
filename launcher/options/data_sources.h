// SPDX-License-Identifier: Apache-2.0
// The sources that --data asks for, as this user and this site mean them.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/contract/data_request.h"
#include "common/site/site_data.h"

namespace dl {

struct SourcesOf {
  std::string work_dir, home;  // where relative paths and "~/" begin
  std::string tenant;          // the job's account; empty: unknown
  std::string config;          // path of dl.toml
};
// Reads FILE.toml and the site's catalogue if the flag needs them, and makes paths absolute. Errors of
// load_source_file() and resolve_names().
Result<std::vector<data::Source>> sources_of(const data::DataFlag& flag, const SiteData& site, const SourcesOf& of);

}  // namespace dl
