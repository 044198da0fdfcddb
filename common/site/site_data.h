// SPDX-License-Identifier: Apache-2.0
// What the site says of data: [data] of dl.toml, and the catalogue of data sets, datasets.d/NAME.toml. And the user's
// own file of sources, --dl-data=FILE.toml. Reads files; nothing else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/contract/data_request.h"

namespace dl {

// [data]
struct SiteData {
  std::string cache;   // folder of the nodes' own disks in which each user has a cache; empty: in /tmp
  uint64_t limit = 0;  // bytes of a user's cache on a node; 0: what the disk holds
  std::string shared;  // folder that all nodes see, for what is fetched before a job has nodes; empty: none
  std::vector<std::string> catalogue;  // folders of data sets; empty: datasets.d beside dl.toml
};

namespace data {

// A data set of the site's catalogue, which users name as @NAME.
struct DataSet {
  std::string name;
  std::string summary;               // one line for people
  std::string source;                // where it is fetched from; empty if `path` is there
  std::string path;                  // where it already lies on the cluster; empty: nowhere
  std::string checksum;              // of a single file
  std::optional<Cache> cache = {};   // none: the usual one
  std::string licence;               // text for people
  std::vector<std::string> tenants;  // Slurm accounts that may use it; empty: all

  // Where it is read from, as a source without a folder.
  Source as_source() const;
};

// The sources of a text such as
//
//   [[source]]
//   from = "lab:bucket/train"
//   to = "train"
//
// kInvalid "NAME:LINE: source.KEY: ...; allowed: ..."; check_sources() has checked them.
Result<std::vector<Source>> parse_source_file(const std::string& text, const std::string& name);
// Reads the file: at most 256 KiB. Errors of the file system, or as above.
Result<std::vector<Source>> load_source_file(const std::string& path);

// The data set of a text; `file` stands for its path in messages. kInvalid as above.
Result<DataSet> parse_data_set(const std::string& text, const std::string& name, const std::string& file);
// All data sets of these folders, sorted by name; one of a later folder replaces one of the same name. A folder that
// does not exist has none. What is wrong with a file is added to *faults, and its data set is missing.
std::vector<DataSet> load_data_sets(const std::vector<std::string>& folders, std::vector<std::string>* faults);
// The folders of the catalogue: those of [data], or datasets.d beside this dl.toml.
std::vector<std::string> catalogue_folders(const SiteData& site, const std::string& config_path);

// Replaces each @NAME by what the catalogue says of it. tenant: the job's account; empty: unknown. kNotFound: there is
// none of this name; kDenied: it is not for this tenant; kInvalid: the entry has a fault. Both name what is allowed.
Status resolve_names(const std::vector<std::string>& folders, const std::string& tenant, std::vector<Source>* sources);

}  // namespace data
}  // namespace dl
