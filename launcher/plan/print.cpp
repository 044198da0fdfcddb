// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/common/hostlist.h"
#include "launcher/common/parse.h"

namespace dl::plan {
namespace {

using Json = nlohmann::ordered_json;

// What a family's learners find that only the running job knows.
struct FoundLater {
  const char* family;
  const char* name;
  const char* what;
};
const FoundLater kFoundLater[] = {
    {"horovod", "HOROVOD_GLOO_RENDEZVOUS_ADDR", "the address of dlrun, which hosts the rendezvous"},
    {"horovod", "HOROVOD_GLOO_IFACE", "the interface that leads to the other learners, found by each agent"},
    {"jax", "JAX_COORDINATOR_ADDRESS", "the address of rank 0, and a port there that its agent holds"},
    {"network", "GLOO_SOCKET_IFNAME", "the interface that leads to the other learners, found by each agent"},
    {"network", "NCCL_SOCKET_IFNAME", "the same"},
    {"peers", "DL_PEERS", "the addresses of all learners, with ports that their agents hold"},
    {"tensorflow", "TF_CONFIG", "the addresses of all learners, with ports that their agents hold"},
};

// What the plan does to the environment of the learners, as far as it is the same for all of them, and for each.
struct EnvironmentView {
  Environment common;             // set for every learner alike
  std::vector<Environment> own;   // index = rank: differs between learners
  std::vector<std::string> kept;  // set by the user, and left as it is
  bool port_is_users = false;     // MASTER_PORT is among them
};

// What one learner finds beyond, or other than, what it inherits.
Environment added(const LaunchPlan& plan, int rank, const RunFacts& facts, const Environment& inherited) {
  Environment whole = inherited;
  Environment result;
  if (!add_learner_environment(plan, rank, facts, &whole)) return result;
  for (const auto& item : whole) {
    auto found = inherited.find(item.first);
    if (found == inherited.end() || found->second != item.second) result.insert(item);
  }
  return result;
}

EnvironmentView view_environment(const LaunchPlan& plan, const RunFacts& facts, const Environment& inherited) {
  EnvironmentView view;
  // Only variables that the plan knows matter; a big user environment would be copied for each rank.
  Environment known;
  RunFacts any_port = facts;
  // Known only to the run, but a variable of ours.
  if (any_port.master_port == 0) any_port.master_port = 1;
  if (any_port.store_port == 0) any_port.store_port = 1;
  if (any_port.http_store_port == 0) any_port.http_store_port = 1;
  if (any_port.coordinator_port == 0) any_port.coordinator_port = any_port.ras_port = 1;
  ignore(add_learner_environment(plan, 0, any_port, &known), "make_plan() has tried the same");
  Environment relevant;
  for (const auto& item : inherited) {
    if (known.count(item.first) != 0) relevant.insert(item);
  }
  view.common = added(plan, 0, facts, relevant);
  for (const auto& item : relevant) {
    if (view.common.count(item.first) == 0 && known.at(item.first) != item.second) {
      view.kept.push_back(item.first + "=" + item.second);
      if (item.first == "MASTER_PORT") view.port_is_users = true;
    }
  }
  std::vector<Environment> all;
  for (int rank = 0; rank < plan.world_size(); ++rank) {
    all.push_back(added(plan, rank, facts, relevant));
    for (auto item = view.common.begin(); item != view.common.end();) {
      auto found = all.back().find(item->first);
      const bool same = found != all.back().end() && found->second == item->second;
      item = same ? std::next(item) : view.common.erase(item);
    }
  }
  for (Environment& environment : all) {
    Environment own;
    for (const auto& item : environment) {
      if (view.common.count(item.first) == 0) own.insert(item);
    }
    view.own.push_back(std::move(own));
  }
  return view;
}

std::string plural(int64_t count, const char* word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

std::string gpu_text(const PlannedLearner& learner) {
  if (learner.gpus.empty()) return "-";
  if (learner.gpus.size() == 1) return std::to_string(learner.gpus.front());
  return fmt::format("{}-{}", learner.gpus.front(), learner.gpus.back());
}

std::string learners_text(const LaunchPlan& plan) {
  std::string text = std::to_string(plan.learner_count());
  if (plan.asked.elastic()) text += fmt::format(" (of {}:{})", plan.asked.min, plan.asked.max);
  if (plan.gpus_per_learner > 0) {
    text += fmt::format(" x {}{} GPU{}", plan.gpu_type.empty() ? "" : plan.gpu_type + ":", plan.gpus_per_learner,
                        plan.gpus_per_learner == 1 ? "" : "s");
  }
  if (plan.servers > 0) text += " and " + plural(plan.servers, "parameter server");
  return text + " on " + plural(static_cast<int64_t>(plan.nodes.size()), "node");
}

void row(std::string* out, const char* name, const std::string& value) {
  *out += fmt::format("{:<15}{}\n", name, value);
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

void print_learners(const LaunchPlan& plan, std::string* out) {
  size_t width = 4;
  for (const PlannedNode& node : plan.nodes) width = std::max(width, node.name.size());
  *out += fmt::format("\n{:>6}  {:<{}}  {:>9}  {:>10}  {}\n", "rank", "node", width, "node rank", "local rank", "GPUs");
  for (const PlannedLearner& learner : plan.learners) {
    *out += fmt::format("{:>6}  {:<{}}  {:>9}  {:>10}  {}\n", learner.rank,
                        plan.nodes[static_cast<size_t>(learner.node)].name, width, learner.node, learner.local_rank,
                        learner.rank < plan.learner_count() ? gpu_text(learner) : "- (server)");
  }
}

void print_environment(const LaunchPlan& plan, const RunFacts& facts, const EnvironmentView& view,
                       const Environment& inherited, std::string* out) {
  *out += "\nenvironment of every learner\n";
  for (const auto& [name, value] : view.common) *out += fmt::format("  {}={}\n", name, value);
  if (facts.master_port == 0 && std::find(plan.families.begin(), plan.families.end(), "torch") != plan.families.end() &&
      std::none_of(view.kept.begin(), view.kept.end(),
                   [](const std::string& item) { return item.rfind("MASTER_PORT=", 0) == 0; })) {
    *out += plan.launcher_store ? "  MASTER_PORT=(of the store that dlrun hosts)\n"
                                : "  MASTER_PORT=(a free port, found and held by the agent of rank 0)\n";
  }
  for (const FoundLater& later : kFoundLater) {
    const bool wanted = std::find(plan.families.begin(), plan.families.end(), later.family) != plan.families.end();
    if (wanted && inherited.count(later.name) == 0) *out += fmt::format("  {}=({})\n", later.name, later.what);
  }
  if (plan.world_size() > 1) {
    const auto last = static_cast<size_t>(plan.world_size() - 1);
    for (const size_t rank : {size_t{0}, last}) {
      *out += fmt::format("\nof rank {} alone\n", rank);
      for (const auto& [name, value] : view.own[rank]) *out += fmt::format("  {}={}\n", name, value);
    }
  }
  if (!view.kept.empty()) {
    *out += "\nkept as you have set it\n";
    for (const std::string& item : view.kept) *out += fmt::format("  {}\n", item);
  }
}

}  // namespace

std::string plan_text(const LaunchPlan& plan, const RunFacts& facts, const Environment& inherited) {
  const EnvironmentView view = view_environment(plan, facts, inherited);
  std::string out;
  std::vector<std::string> names;
  names.reserve(plan.nodes.size());
  for (const PlannedNode& node : plan.nodes) names.push_back(node.name);
  row(&out, "job", plan.job_id + (plan.job_name.empty() ? "" : " (" + printable(plan.job_name) + ")"));
  row(&out, "framework",
      plan.framework + (plan.version.empty() ? "" : " " + plan.version) + ", environment: dl " + joined(plan.families));
  row(&out, "learners", learners_text(plan));
  row(&out, "nodes", compress_hostlist(names));
  row(&out, "placement", plan.placement);
  if (plan.cpus_per_learner > 0) row(&out, "CPUs", plural(plan.cpus_per_learner, "CPU") + " per learner");
  row(&out, "command", quote_command(plan.command));
  row(&out, "directory", plan.work_dir);
  if (!plan.container.image.empty())
    row(&out, "image", printable(plan.container.image, 400) + " (" + plan.container.runtime + ")");
  if (!plan.activate.empty()) row(&out, "activation", printable(plan.activate, 400));
  row(&out, "checkpoint", plan.checkpoint ? format_checkpoint(*plan.checkpoint) : "none: a stopped job begins anew");
  row(&out, "restarts", std::to_string(plan.restarts));
  row(&out, "tier", tier_name(plan.tier));
  row(&out, "grace", format_duration(plan.grace));
  row(&out, "job directory", plan.job_dir);
  row(&out, "logs", log_dir(plan, facts.attempt) + "/learner-RANK.log");
  row(&out, "started by",
      quote_command(plan.argv) + (plan.method == LaunchMethod::kDirect ? ", once per learner" : ""));
  for (const std::string& warning : plan.warnings) row(&out, "warning", warning);
  print_learners(plan, &out);
  print_environment(plan, facts, view, inherited, &out);
  return out;
}

std::string plan_json(const LaunchPlan& plan, const RunFacts& facts, const Environment& inherited) {
  const EnvironmentView view = view_environment(plan, facts, inherited);
  Json json;
  json["job_id"] = plan.job_id;
  json["job_name"] = plan.job_name;
  json["under_slurm"] = plan.under_slurm;
  json["framework"] = plan.framework;
  json["version"] = plan.version;
  json["families"] = plan.families;
  json["activate"] = plan.activate;
  json["world_size"] = plan.world_size();
  if (plan.servers > 0) json["servers"] = plan.servers;
  json["asked"] = {{"min", plan.asked.min}, {"max", plan.asked.max}};
  json["gpus_per_learner"] = plan.gpus_per_learner;
  json["gpu_type"] = plan.gpu_type;
  json["cpus_per_learner"] = plan.cpus_per_learner;
  json["placement"] = plan.placement;
  json["command"] = plan.command;
  if (plan.ports > 0) json["ports_per_learner"] = plan.ports;
  if (!plan.container.image.empty()) {
    const image::Container& container = plan.container;
    json["image"] = {{"path", container.image}, {"runtime", container.runtime}, {"binds", container.binds}};
  }
  json["work_dir"] = plan.work_dir;
  json["job_dir"] = plan.job_dir;
  json["log_dir"] = log_dir(plan, facts.attempt);
  json["attempt"] = facts.attempt;
  json["checkpoint"] = nullptr;
  if (plan.checkpoint) {
    const CheckpointSpec& spec = *plan.checkpoint;
    Json item = {{"path", spec.path}, {"keep", spec.keep}, {"every_s", nullptr}, {"every_steps", nullptr}};
    if (spec.every) item["every_s"] = spec.every->count();
    if (spec.every_steps) item["every_steps"] = *spec.every_steps;
    // Only where asked for, so that the plans of other jobs stay as they are.
    if (spec.every_auto) item["every"] = "auto";
    if (spec.keep_every > 0) item["keep_every"] = spec.keep_every;
    if (spec.best) item["best"] = format_best(*spec.best);
    if (!spec.local.empty()) item["local"] = spec.local;
    if (spec.partner) item["partner"] = true;
    json["checkpoint"] = std::move(item);
  }
  json["restarts"] = plan.restarts;
  json["tier"] = tier_name(plan.tier);
  json["grace_s"] = plan.grace.count();
  json["end_time_s"] = nullptr;
  if (plan.end_time_s) json["end_time_s"] = *plan.end_time_s;
  json["slurm_restart_count"] = plan.slurm_restart_count;
  json["method"] = launch_method_name(plan.method);
  json["argv"] = plan.argv;
  json["scrub"] = plan.scrub;
  json["hostfile"] = plan.hostfile_path;
  json["warnings"] = plan.warnings;
  json["nodes"] = Json::array();
  for (const PlannedNode& node : plan.nodes) {
    Json item = {{"name", node.name}, {"learners", node.learners}, {"gpus", nullptr}};
    if (node.gpus >= 0) item["gpus"] = node.gpus;
    json["nodes"].push_back(std::move(item));
  }
  json["environment"] = view.common;
  json["kept"] = view.kept;
  json["learners"] = Json::array();
  for (const PlannedLearner& learner : plan.learners) {
    json["learners"].push_back({{"rank", learner.rank},
                                {"node", plan.nodes[static_cast<size_t>(learner.node)].name},
                                {"node_rank", learner.node},
                                {"local_rank", learner.local_rank},
                                {"gpus", learner.gpus},
                                {"log", learner_log(plan, facts.attempt, learner.rank)},
                                {"environment", view.own[static_cast<size_t>(learner.rank)]}});
  }
  // Paths and names need not be UTF-8: shown with replacement characters rather than refused.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace dl::plan
