// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/sim/elastic/curves.h"

#include <fmt/core.h>

#include <algorithm>

#include "slurm-plugin/sim/decide/fields.h"

namespace dl::sim {
namespace {

constexpr size_t kMostCategories = 1000, kMostPoints = 10'000;
constexpr int64_t kMostCurveGpus = 1024, kMostBatch = 1'000'000'000;
constexpr double kSlowest = 1e-9, kFastest = 1e15;  // samples per second

Result<CurvePoint> read_point(const Json& json, const std::string& path) {
  Fields fields(json, path);
  int64_t gpus = 0;
  CurvePoint point;
  fields.needs("gpus").needs("batch").needs("samples_s");
  fields.whole("gpus", 1, kMostCurveGpus, &gpus).whole("batch", 1, kMostBatch, &point.speed.batch);
  fields.number("samples_s", kSlowest, kFastest, &point.speed.samples_s);
  DL_TRY(fields.end());
  point.gpus = static_cast<int>(gpus);
  return point;
}

Result<Category> read_category(const Json& json, const std::string& path) {
  Fields fields(json, path);
  Category category;
  category.part = 1;
  int64_t asked = 0;
  fields.needs("name").needs("batch").needs("speeds").text("name", &category.name);
  fields.number("part", kSlowest, kFastest, &category.part).whole("batch", 1, kMostBatch, &category.batch);
  fields.whole("asked", 1, kMostCurveGpus, &asked);
  const Json* points = fields.array("speeds");
  DL_TRY(fields.end());
  if (points->size() > kMostPoints)
    return Error{Errc::kInvalid,
                 fmt::format("{}.speeds: {} are too many; allowed: at most {}", path, points->size(), kMostPoints)};
  category.asked = static_cast<int>(asked);
  bool users = false;
  for (size_t i = 0; i < points->size(); ++i) {
    DL_TRY_ASSIGN(const CurvePoint point, read_point((*points)[i], fmt::format("{}.speeds[{}]", path, i)));
    users = users || point.speed.batch == category.batch;
    category.most_batch = std::max(category.most_batch, point.speed.batch);
    category.most_gpus = std::max(category.most_gpus, point.gpus);
    category.curve.push_back(point);
  }
  if (!users)
    return Error{Errc::kInvalid, fmt::format("{}.speeds: none is at the user's batch, {}; allowed: at least one", path,
                                             category.batch)};
  return category;
}

}  // namespace

Result<std::vector<Category>> read_curves(std::string_view text) {
  const Json json = Json::parse(text);
  if (json.is_broken()) return Error{Errc::kInvalid, "the text is not JSON; allowed: an object in { } with \"jobs\""};
  Fields fields(json, "");
  fields.needs("jobs");
  const Json* jobs = fields.array("jobs");
  DL_TRY(fields.end());
  if (jobs->empty() || jobs->size() > kMostCategories)
    return Error{Errc::kInvalid,
                 fmt::format("jobs: {} are not accepted; allowed: 1 to {}", jobs->size(), kMostCategories)};
  std::vector<Category> found;
  for (size_t i = 0; i < jobs->size(); ++i) {
    DL_TRY_ASSIGN(Category category, read_category((*jobs)[i], fmt::format("jobs[{}]", i)));
    found.push_back(std::move(category));
  }
  return found;
}

}  // namespace dl::sim
