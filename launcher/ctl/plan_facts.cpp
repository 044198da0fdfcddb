// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/plan_facts.h"

#include <chrono>
#include <filesystem>
#include <type_traits>
#include <vector>

#include "common/base/hostlist.h"
#include "common/contract/job_directory.h"
#include "common/contract/request_values.h"
#include "common/json/json.h"
#include "launcher/record/open_below.h"

namespace dl::ctl {
namespace {

constexpr size_t kMaxPlanBytes = 256UL << 20;  // enough for 100,000 learners
// A limit for the file of another user: it may not make root's dlctl slow or large.
constexpr size_t kMaxForeignPlan = 8UL << 20;

// json[key] if it has the type of `fallback`, else `fallback`.
template <typename T>
T value_or(const Json& json, const char* key, T fallback) {
  auto found = json.find(key);
  if (found == nullptr) return fallback;
  if constexpr (std::is_same_v<T, std::string>) {
    return found->is_string() ? found->get<std::string>() : fallback;
  } else {
    return found->is_number_integer() ? found->get<T>() : fallback;
  }
}

}  // namespace

PlanFacts read_plan(const record::JobDir& dir, bool foreign) {
  PlanFacts facts;
  auto text = record::read_below(dir.root(), job_directory::kPlan, foreign ? kMaxForeignPlan : kMaxPlanBytes);
  if (!text) return facts;
  const Json json = Json::parse(*text);
  if (!json.is_object()) return facts;
  facts.framework = value_or<std::string>(json, "framework", "");
  facts.version = value_or<std::string>(json, "version", "");
  facts.work_dir = value_or<std::string>(json, "work_dir", "");
  facts.job_dir = value_or<std::string>(json, "job_dir", "");
  facts.job_id = value_or<std::string>(json, "job_id", "");
  facts.cluster = value_or<std::string>(json, "cluster", "");
  facts.learners = value_or(json, "world_size", 0);
  facts.gpus_per_learner = value_or(json, "gpus_per_learner", 0);
  std::vector<std::string> names;
  if (auto nodes = json.find("nodes"); nodes != nullptr && nodes->is_array()) {
    for (const Json& node : *nodes) {
      if (node.is_object()) names.push_back(value_or<std::string>(node, "name", "?"));
    }
  }
  facts.node_list = compress_hostlist(names);
  if (auto item = json.find("checkpoint"); item != nullptr && item->is_object()) {
    CheckpointSpec spec;
    spec.path = value_or<std::string>(*item, "path", "");
    spec.literal = true;
    spec.keep = value_or(*item, "keep", spec.keep);
    const int64_t every_s = value_or<int64_t>(*item, "every_s", 0);
    const int64_t every_steps = value_or<int64_t>(*item, "every_steps", 0);
    if (every_s > 0) spec.every = std::chrono::seconds(every_s);
    if (every_steps > 0) spec.every_steps = every_steps;
    spec.every_auto = value_or<std::string>(*item, "every", "") == "auto";
    spec.keep_every = value_or<int64_t>(*item, "keep_every", 0);
    if (auto best = parse_best(value_or<std::string>(*item, "best", ""))) spec.best = *std::move(best);
    spec.local = value_or<std::string>(*item, "local", "");
    spec.partner = value_or(*item, "partner", false);
    spec.objects = value_or<std::string>(*item, "objects", "");
    facts.checkpoint = format_checkpoint(spec);
  }
  return facts;
}

bool is_same_folder(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return false;
  std::error_code ignored;
  return a == b || std::filesystem::equivalent(a, b, ignored);
}

bool is_of_other_cluster(const PlanFacts& plan, const std::string& ours) {
  return !plan.cluster.empty() && !ours.empty() && plan.cluster != ours;
}

}  // namespace dl::ctl
