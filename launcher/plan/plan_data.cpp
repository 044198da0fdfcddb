// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/plan_data.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "common/base/parse.h"

namespace dl::plan {
namespace {

using data::Cache;
using data::Place;

// Whether the nodes read from the cache that all of them see. A shard differs from node to node, and prefetch does not
// fetch shards; such jobs use the nodes' own caches.
bool from_shared(const PlanInput& input) {
  return input.prefetched && std::none_of(input.sources.begin(), input.sources.end(),
                                          [](const dl::data::Source& source) { return source.cache == Cache::kShard; });
}

// The folder of caches on each node. Without one of the site's there is no disk that is known to outlive the job.
std::string cache_of(const PlanInput& input) {
  if (from_shared(input)) return input.site.data.shared;
  if (input.site.data.cache.empty()) return fmt::format("/tmp/slurm-dl-data-{}", input.uid);
  return input.site.data.cache;
}

void choose_sources(const PlanInput& input, LaunchPlan* plan) {
  if (input.sources.empty()) return;
  PlannedData data;
  data.sources = input.sources;
  data.cache = cache_of(input);
  data.limit = from_shared(input) ? 0 : input.site.data.limit;
  data.folder = fmt::format("{}/{}/jobs/{}", data.cache, input.uid, plan->job_id);
  if (input.run_number > 1) data.folder += "." + std::to_string(input.run_number);
  // A set that is read where it lies needs no other path, and tools that do not follow a link see it, too.
  const dl::data::Source& first = data.sources.front();
  const bool in_place = data.sources.size() == 1 && first.cache == Cache::kNone && first.to.empty();
  data.dir = in_place ? first.from : data.folder;
  if (!plan->container.image.empty()) {
    plan->container.binds.push_back(fmt::format("{}/{}", data.cache, input.uid));
    for (const dl::data::Source& source : data.sources)
      if (source.cache == Cache::kNone) plan->container.binds.push_back(source.from);
  }
  const auto set = input.environment.find("DATA_DIR");
  if (set != input.environment.end() && !set->second.empty() && set->second != data.dir)
    plan->warnings.push_back("DATA_DIR=" + printable(set->second) +
                             " is set in your environment and stays; unset it to have that of --data");
  plan->data = std::move(data);
}

Status choose_results(const PlanInput& input, LaunchPlan* plan) {
  if (!input.request.results) return {};
  const dl::data::ResultsFlag& asked = *input.request.results;
  PlannedResults results;
  results.checkpoint = asked.checkpoint;
  auto to = expand_path(asked.to, names_of(input));
  if (!to) return std::move(to).error().with_context("--results");
  results.to = *std::move(to);
  if (dl::data::place_of(results.to) == Place::kPath) results.to = absolute_path(input.work_dir, results.to);
  if (!path_holds(asked.to, "j")) {
    const bool closed = results.to.back() == '/' || results.to.back() == ':';
    results.to += (closed ? "" : "/") + plan->job_id;
  }
  if (input.run_number > 1) results.to += "." + std::to_string(input.run_number);
  if (asked.checkpoint && !plan->checkpoint)
    return Error{Errc::kConflict,
                 "--results: ',checkpoint' stores the newest checkpoint, and the job has none; "
                 "allowed: with --checkpoint, or without ',checkpoint'"};
  plan->results = std::move(results);
  return {};
}

}  // namespace

PathNames names_of(const PlanInput& input) {
  PathNames names;
  name_job(input.allocation.job_id, &names);
  // Without Slurm no job has a name, so the command names it, as in Slurm.
  const std::string command = input.command.empty() ? std::string() : input.command.front();
  names.name = input.allocation.job_name.empty() ? command.substr(command.rfind('/') + 1) : input.allocation.job_name;
  names.user = input.user;
  names.home = input.home;
  return names;
}

std::string absolute_path(const std::string& base, const std::string& path) {
  // An absolute path replaces the base.
  std::string text = (std::filesystem::path(base) / path).lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

Status plan_data(const PlanInput& input, LaunchPlan* plan) {
  choose_sources(input, plan);
  DL_TRY(choose_results(input, plan));
  if (plan->data || plan->results) plan->data_program = input.data_program;
  return {};
}

}  // namespace dl::plan
