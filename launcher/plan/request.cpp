// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/request.h"

#include "common/base/parse.h"
#include "common/contract/env_names.h"

namespace dl::plan {
namespace {

// A value and its source, which messages name.
struct Given {
  std::string source;
  std::string text;
};

// The option if it is given; otherwise the variable if it is set and not empty.
std::optional<Given> find_value(const Environment& environment, const char* variable,
                                const std::optional<std::string>& value, const char* option) {
  if (value) return Given{option, *value};
  auto found = environment.find(variable);
  if (found == environment.end() || found->second.empty()) return std::nullopt;
  return Given{variable, found->second};
}

// Parses the value, if there is one, into *out, and puts its source in front of an error.
template <typename T, typename Out>
Status read_value(const std::optional<Given>& given, Result<T> (*parse)(std::string_view), Out* out) {
  if (!given) return {};
  auto parsed = parse(given->text);
  if (!parsed) return std::move(parsed).error().with_context(given->source);
  *out = std::move(parsed).value();
  return {};
}

}  // namespace

Result<Request> read_request(const Environment& environment, const RequestOptions& options, const SiteConfig& site) {
  Request request;
  request.tier = site.tier;
  request.restarts = site.restarts;

  const auto framework = find_value(environment, env::kFramework, options.framework, "--framework");
  DL_TRY(read_value(framework, parse_framework_ref, &request.framework));
  if (!framework) request.framework.name = site.framework;
  request.framework_from = framework ? framework->source : "dl.toml, framework";

  request.learners_by_gpus = options.learners == "auto";
  const auto learners = find_value(environment, env::kLearners, options.learners, "--learners");
  if (!request.learners_by_gpus) DL_TRY(read_value(learners, parse_learners, &request.learners));
  const auto servers = find_value(environment, env::kServers, options.servers, "--servers");
  DL_TRY(read_value(servers, parse_servers, &request.servers));
  const auto gpus = find_value(environment, env::kGpus, options.gpus, "--gpus");
  DL_TRY(read_value(gpus, parse_gpus, &request.gpus));
  const auto batch = find_value(environment, env::kBatch, options.batch, "--batch");
  DL_TRY(read_value(batch, parse_batch, &request.batch));
  const auto checkpoint = find_value(environment, env::kCheckpoint, options.checkpoint, "--checkpoint");
  DL_TRY(read_value(checkpoint, parse_checkpoint, &request.checkpoint));
  const auto restarts = find_value(environment, env::kRestarts, options.restarts, "--restarts");
  DL_TRY(read_value(restarts, parse_restarts, &request.restarts));
  const auto tier = find_value(environment, env::kTier, std::nullopt, "");
  DL_TRY(read_value(tier, parse_tier, &request.tier));
  request.preflight = site.preflight;
  const auto preflight = find_value(environment, env::kPreflight, options.preflight, "--preflight");
  DL_TRY(read_value(preflight, parse_preflight, &request.preflight));
  request.hang_timeout = site.hang_timeout;
  const auto hang = find_value(environment, env::kHangTimeout, options.hang_timeout, "--hang-timeout");
  DL_TRY(read_value(hang, parse_hang_timeout, &request.hang_timeout));
  const auto metrics = find_value(environment, env::kMetrics, options.metrics, "--metrics");
  DL_TRY(read_value(metrics, parse_metrics, &request.metrics));
  const auto image = find_value(environment, env::kImage, options.image, "--image");
  DL_TRY(read_value(image, parse_image, &request.image));
  DL_TRY(read_value(find_value(environment, env::kData, options.data, "--data"), data::parse_data, &request.data));
  const auto results = find_value(environment, env::kResults, options.results, "--results");
  DL_TRY(read_value(results, data::parse_results, &request.results));
  const auto bind = find_value(environment, env::kBind, options.bind, "--bind");
  DL_TRY(read_value(bind, bind::parse_bind, &request.bind));
  request.alone = options.alone;
  if (options.rank_placement) request.rank_placement = *options.rank_placement;
  return request;
}

}  // namespace dl::plan
