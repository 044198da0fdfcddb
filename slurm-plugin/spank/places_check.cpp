// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/spank/places_check.h"

#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "common/base/parse.h"
#include "common/base/this_process.h"
#include "common/contract/early_check.h"
#include "common/site/site_config.h"
#include "common/site/site_data.h"

namespace dl {
namespace {

using data::Place;
using data::place_of;

// A path as the job will find it; one that is relative stays so.
std::string at_home(const std::string& path) {
  const std::string home = environment_value("HOME");
  return path.rfind("~/", 0) == 0 && !home.empty() ? home + path.substr(1) : path;
}

// Replaces the names of the site's catalogue. A fault of dl.toml or of an entry is the administrator's, who finds it in
// the job's message: this host may have another state of the files than the nodes.
Status resolve(const std::string& config, std::vector<data::Source>* sources) {
  if (::access(config.c_str(), R_OK) != 0) return {};
  const auto site = load_site_config(config);
  if (!site) return {};
  Status known = data::resolve_names(data::catalogue_folders(site->data, config), "", sources);
  return known || known.error().code == Errc::kInvalid ? Status() : known;
}

Status check_sources(const data::DataFlag& asked, const PlacesCheck& how) {
  std::vector<data::Source> sources = {asked.source};
  if (!asked.file.empty()) {
    auto read = data::load_source_file(at_home(asked.file));
    if (!read && asked.file.front() != '/' && read.error().code == Errc::kNotFound) return {};
    if (!read) return std::move(read).error();
    sources = *std::move(read);
  }
  DL_TRY(resolve(how.config, &sources));
  for (const data::Source& source : sources) {
    const std::string from = at_home(source.from);
    if (from.front() == '/' && ::access(from.c_str(), R_OK) != 0)
      return errno_error("'" + printable(source.from) + "'", errno);
    if (how.own_environment && place_of(from) == Place::kRemote) DL_TRY(data::check_remote_here(from));
  }
  return {};
}

Status check_destination(const std::string& to, const PlacesCheck& how) {
  if (place_of(to) == Place::kPath) return data::check_can_store(at_home(to));
  return how.own_environment ? data::check_remote_here(to) : Status();
}

Status with_flag(Status status, const char* flag) {
  return status ? std::move(status) : Status(std::move(status).error().with_context(flag));
}

}  // namespace

Status check_places(const JobRequest& request, const PlacesCheck& how) {
  if (request.data) DL_TRY(with_flag(check_sources(*request.data, how), "--dl-data"));
  if (request.results) DL_TRY(with_flag(check_destination(request.results->to, how), "--dl-results"));
  if (request.checkpoint && !request.checkpoint->objects.empty())
    DL_TRY(with_flag(check_destination(request.checkpoint->objects, how), "--dl-checkpoint: objects"));
  return {};
}

}  // namespace dl
