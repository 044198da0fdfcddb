// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/plan_sheet.h"

#include <algorithm>
#include <cmath>

#include "common/base/parse.h"
#include "common/base/shell_word.h"
#include "common/json/json.h"

namespace dl::report {
namespace {

constexpr size_t kMostItems = 100'000;  // of a list
constexpr double kMostNumber = 1e15;

std::string text_of(const Json& json, const char* name) {
  const Json* found = json.find(name);
  return found != nullptr && found->is_string() ? found->text() : std::string();
}

int64_t number_of(const Json& json, const char* name, int64_t otherwise) {
  const Json* found = json.find(name);
  if (found == nullptr || !found->is_number()) return otherwise;
  const auto number = found->get<double>();
  return std::isfinite(number) && std::abs(number) <= kMostNumber ? static_cast<int64_t>(number) : otherwise;
}

std::vector<std::string> texts_of(const Json& json, const char* name) {
  std::vector<std::string> texts;
  if (const Json* found = json.find(name); found != nullptr && found->is_array())
    for (const Json& item : *found)
      if (item.is_string() && texts.size() < kMostItems) texts.push_back(item.text());
  return texts;
}

std::string gpus_of(const Json& learner) {
  std::string text;
  const Json* gpus = learner.find("gpus");
  if (gpus == nullptr) return text;
  for (const Json& gpu : *gpus)
    if (gpu.is_number_integer() && text.size() < 60) text += (text.empty() ? "" : ",") + gpu.dump();
  return text;
}

void read_lists(const Json& json, PlanSheet* plan) {
  if (const Json* nodes = json.find("nodes"); nodes != nullptr)
    for (const Json& node : *nodes)
      if (node.is_object() && plan->nodes.size() < kMostItems)
        plan->nodes.push_back({text_of(node, "name"), number_of(node, "learners", 0), number_of(node, "gpus", -1)});
  if (const Json* learners = json.find("learners"); learners != nullptr)
    for (const Json& learner : *learners)
      if (learner.is_object() && plan->learners.size() < kMostItems)
        plan->learners.push_back({text_of(learner, "node"), gpus_of(learner)});
}

// The options that both `#SBATCH --dl-NAME` and `dlrun --NAME` know, with their values.
std::vector<std::pair<std::string, std::string>> options_of(const PlanSheet& plan, const std::string& checkpoint) {
  std::vector<std::pair<std::string, std::string>> options;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) options.emplace_back(name, value);
  };
  add("framework", plan.version.empty() ? plan.framework : plan.framework + ":" + plan.version);
  const int64_t learners = plan.ranks < 0 ? -1 : plan.ranks - plan.servers;
  if (plan.least > 0 && plan.most > plan.least)
    add("learners", std::to_string(plan.least) + ":" + std::to_string(plan.most));
  else if (learners > 0)
    add("learners", std::to_string(learners));
  if (plan.least_servers > 0)
    add("servers", std::to_string(plan.least_servers) + ":" + std::to_string(plan.servers));
  else if (plan.servers > 0)
    add("servers", std::to_string(plan.servers));
  if (plan.gpus_each >= 0)
    add("gpus", (plan.gpu_type.empty() ? "" : plan.gpu_type + ":") + std::to_string(plan.gpus_each));
  add("batch", plan.batch);
  add("checkpoint", checkpoint);
  if (plan.restarts >= 0) add("restarts", std::to_string(plan.restarts));
  add("image", plan.image);
  add("metrics", join(plan.metrics, " || "));
  if (plan.under_slurm && plan.tier != "auto") add("tier", plan.tier);
  return options;
}

}  // namespace

std::optional<PlanSheet> parse_plan_sheet(std::string_view text) {
  const Json json = Json::parse(text);
  if (!json.is_object()) return std::nullopt;
  PlanSheet plan;
  for (const auto& [name, member] : {std::pair{"job_name", &PlanSheet::job_name},
                                     {"cluster", &PlanSheet::cluster},
                                     {"framework", &PlanSheet::framework},
                                     {"version", &PlanSheet::version},
                                     {"gpu_type", &PlanSheet::gpu_type},
                                     {"placement", &PlanSheet::placement},
                                     {"bind", &PlanSheet::bind},
                                     {"tier", &PlanSheet::tier},
                                     {"work_dir", &PlanSheet::work_dir}})
    plan.*member = text_of(json, name);
  if (const Json* slurm = json.find("under_slurm"); slurm != nullptr && slurm->is_boolean())
    plan.under_slurm = slurm->get<bool>();
  plan.ranks = number_of(json, "world_size", -1);
  plan.servers = std::max<int64_t>(number_of(json, "servers", 0), 0);
  if (const Json* pool = json.find("pool"); pool != nullptr) plan.least_servers = number_of(*pool, "min", 0);
  plan.gpus_each = number_of(json, "gpus_per_learner", -1);
  plan.cpus_each = number_of(json, "cpus_per_learner", -1);
  plan.restarts = number_of(json, "restarts", -1);
  plan.slurm_restarts = number_of(json, "slurm_restart_count", -1);
  if (const Json* asked = json.find("asked"); asked != nullptr) {
    plan.least = number_of(*asked, "min", -1);
    plan.most = number_of(*asked, "max", -1);
  }
  if (const Json* image = json.find("image"); image != nullptr) plan.image = text_of(*image, "path");
  if (const Json* batch = json.find("batch"); batch != nullptr) plan.batch = text_of(*batch, "asked");
  if (const Json* checkpoint = json.find("checkpoint"); checkpoint != nullptr)
    plan.checkpoint = text_of(*checkpoint, "path");
  plan.command = texts_of(json, "command");
  plan.metrics = texts_of(json, "metrics");
  plan.warnings = texts_of(json, "warnings");
  read_lists(json, &plan);
  return plan;
}

std::string start_script(const PlanSheet& plan, const std::string& checkpoint) {
  std::string script, dlrun = "dlrun";
  if (plan.under_slurm) {
    script = "#!/bin/bash\n";
    if (!plan.job_name.empty()) script += "#SBATCH --job-name=" + shell_word(plan.job_name) + "\n";
    if (!plan.work_dir.empty()) script += "#SBATCH --chdir=" + shell_word(plan.work_dir) + "\n";
  } else if (!plan.work_dir.empty()) {
    script = "cd " + shell_word(plan.work_dir) + "\n";
  }
  for (const auto& [name, value] : options_of(plan, checkpoint)) {
    if (plan.under_slurm)
      script += "#SBATCH --dl-" + name + "=" + shell_word(value) + "\n";
    else
      dlrun += " --" + name + " " + shell_word(value);
  }
  if (!plan.placement.empty() && plan.placement != "block") dlrun += " --placement " + shell_word(plan.placement);
  if (!plan.bind.empty()) dlrun += " --bind " + shell_word(plan.bind);
  return script + dlrun + " -- " + shell_words(plan.command) + "\n";
}

}  // namespace dl::report
