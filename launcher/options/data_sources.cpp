// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/data_sources.h"

#include <filesystem>

#include "launcher/record/sources_file.h"

namespace dl {

Result<std::vector<data::Source>> sources_of(const data::DataFlag& flag, const SiteData& site, const SourcesOf& of) {
  std::vector<data::Source> sources = {flag.source};
  if (!flag.file.empty()) {
    const bool home = flag.file.rfind("~/", 0) == 0;
    const auto path = std::filesystem::path(of.work_dir) / (home ? of.home + flag.file.substr(1) : flag.file);
    DL_TRY_ASSIGN(sources, data::load_source_file(path.lexically_normal().string()));
  }
  DL_TRY(data::resolve_names(data::catalogue_folders(site, of.config), of.tenant, &sources));
  record::make_absolute(of.work_dir, of.home, &sources);
  return sources;
}

}  // namespace dl
