// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/print.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include "common/base/count.h"
#include "common/base/hostlist.h"
#include "common/base/parse.h"
#include "common/base/shell_word.h"
#include "common/contract/env_names.h"
#include "common/contract/job_directory.h"
#include "common/json/json.h"

namespace dl::plan {
namespace {

// Descriptions of variables that are known only when the job runs. A variable that is missing here is printed as well.
struct FoundLater {
  const char* name;
  const char* what;
};
const FoundLater kFoundLater[] = {
    {"DL_PEERS", "the addresses of all learners, with ports that their agents hold"},
    {"DL_PORTS", "the ports that its agent holds for it"},
    {"DL_RUN_ID", "a name of its own for each start of the learners"},
    {"GLOO_SOCKET_IFNAME", "the interface that leads to the other learners, found by each agent"},
    {"HOROVOD_GLOO_IFACE", "the interface that leads to the other learners, found by each agent"},
    {"HOROVOD_GLOO_RENDEZVOUS_ADDR", "the address of dlrun, which hosts the rendezvous"},
    {"HOROVOD_GLOO_RENDEZVOUS_PORT", "the port of dlrun's rendezvous"},
    {"JAX_COORDINATOR_ADDRESS", "the address of rank 0, and a port there that its agent holds"},
    {"JAX_COORDINATOR_BIND_ADDRESS", "the same"},
    {"JAX_COORDINATOR_PORT", "the same port"},
    {"NCCL_RAS_ADDR", "where NCCL's status service listens, at a port that the agent of rank 0 holds"},
    {"NCCL_SOCKET_IFNAME", "the interface that leads to the other learners, found by each agent"},
    {"DL_POOL", "where dlrun hosts the directory of the parameter servers"},
    {"TF_CONFIG", "the addresses of all learners, with ports that their agents hold"},
    {"TORCHELASTIC_RUN_ID", "the same as DL_RUN_ID"},
    {"TP_SOCKET_IFNAME", "the interface that leads to the other learners, found by each agent"},
};

std::string in_words(const std::string& name, const LaunchPlan& plan) {
  if (name == "MASTER_PORT")
    return plan.launcher_store ? "of the store that dlrun hosts" : "a free port, found and held by the agent of rank 0";
  const auto* row = std::find_if(std::begin(kFoundLater), std::end(kFoundLater),
                                 [&](const FoundLater& later) { return name == later.name; });
  return row == std::end(kFoundLater) ? "known when the learners start" : row->what;
}

// A learner's context with an example value for each fact that is known only at the start, so that all variables
// appear.
LearnerContext as_it_will_be(const LaunchPlan& plan, RunFacts facts) {
  if (facts.run_id.empty()) facts.run_id = "run";
  if (facts.master_port == 0) facts.master_port = 1;
  if (facts.store_port == 0) facts.store_port = 1;
  if (facts.http_store_port == 0) facts.http_store_port = 1;
  if (facts.http_store_addr.empty()) facts.http_store_addr = "dlrun";
  if (facts.pool_port == 0) facts.pool_port = 1;
  if (facts.pool_addr.empty()) facts.pool_addr = "dlrun";
  if (facts.coordinator_port == 0) facts.coordinator_port = facts.ras_port = 1;
  if (plan.peers && facts.peers.empty()) facts.peers.assign(static_cast<size_t>(plan.world_size()), "peer:1");
  LearnerContext context = learner_context(plan, 0, facts);
  context.interface = "interface";
  context.ports.assign(static_cast<size_t>(plan.ports), 1);
  return context;
}

// The environment of rank 0, including the variables that are known only when the job runs.
Environment known_variables(const LaunchPlan& plan, const RunFacts& facts, Environment inherited) {
  drop_launcher_variables(&inherited);
  const auto with = [&](const RunFacts& its) {
    const LearnerContext context = as_it_will_be(plan, its);
    JobEnvironment job(context, inherited);
    ignore(add_job_environment(plan, &job), "make_plan() has tried the same");
    return job.first();
  };
  Environment known = with(facts);
  if (!facts.master_addr.empty()) return known;
  // Until the job runs only the name of rank 0's node is known. Some variables are set because its address is a number.
  RunFacts numeric = facts;
  numeric.master_addr = "0.0.0.0";
  known.merge(with(numeric));
  return known;
}

// The inherited variables that are also set for learners, and USE_LIBUV. No family sets USE_LIBUV, but it decides what
// families set (has_users_store() in frameworks/families.cpp).
Environment only(const Environment& known, const Environment& inherited) {
  Environment relevant;
  for (const auto& item : inherited)
    if (known.count(item.first) != 0 || item.first == "USE_LIBUV") relevant.insert(item);
  return relevant;
}

// The variables that the plan sets for learners, divided into those that are the same for all learners and those of
// each. For 10,000 learners this is done in one pass, which asks only for variables that may differ, until they do.
class EnvironmentView {
 public:
  EnvironmentView(const LaunchPlan& plan, const RunFacts& facts, const Environment& inherited)
      : EnvironmentView(plan, facts, inherited, known_variables(plan, facts, {})) {}

  const Environment& common() const { return common_; }           // set to the same value for every learner
  const std::vector<std::string>& kept() const { return kept_; }  // set by the user and left unchanged
  // Calls found(name, value), in the order of the names, for each variable that is this learner's alone.
  template <typename Found>
  void each_own(int rank, Found found) {
    move_to_rank(plan_, rank, &context_);
    for (const size_t name : own_)
      if (const auto value = added(name)) found(job_.names()[name], *value);
  }

 private:
  EnvironmentView(const LaunchPlan& plan, const RunFacts& facts, const Environment& inherited, const Environment& known)
      : plan_(plan),
        context_(learner_context(plan, 0, facts)),
        relevant_(only(known, inherited)),
        job_(context_, relevant_) {
    ignore(add_job_environment(plan, &job_), "make_plan() has tried the same");
    for (const auto& item : job_.first()) {
      const auto there = relevant_.find(item.first);
      if (there == relevant_.end() || there->second != item.second) common_.insert(item);
    }
    for (const auto& [name, value] : relevant_) {
      const auto ours = known.find(name);
      if (common_.count(name) == 0 && ours != known.end() && ours->second != value) kept_.push_back(name + "=" + value);
    }
    find_own();
  }

  // The value of names()[name] for the learner of the context, unless the learner inherits the same value.
  std::optional<std::string> added(size_t name) const {
    auto value = job_.value_of(name, context_);
    const auto there = relevant_.find(job_.names()[name]);
    if (value && there != relevant_.end() && there->second == *value) value.reset();
    return value;
  }

  void find_own() {
    std::vector<size_t> alike;  // the same for all ranks so far
    for (size_t name = 0; name < job_.names().size(); ++name)
      (common_.count(job_.names()[name]) != 0 ? alike : own_).push_back(name);
    for (int rank = 1; rank < plan_.world_size() && !alike.empty(); ++rank) {
      move_to_rank(plan_, rank, &context_);
      const auto differs = [&](size_t name) { return added(name) != common_.at(job_.names()[name]); };
      const auto others =
          std::stable_partition(alike.begin(), alike.end(), [&](size_t name) { return !differs(name); });
      own_.insert(own_.end(), others, alike.end());
      alike.erase(others, alike.end());
    }
    std::sort(own_.begin(), own_.end());
    for (const size_t name : own_) common_.erase(job_.names()[name]);
  }

  const LaunchPlan& plan_;
  LearnerContext context_;
  Environment relevant_;  // a copy, since searching a big environment again and again takes long
  JobEnvironment job_;
  Environment common_;
  std::vector<std::string> kept_;
  std::vector<size_t> own_;  // indices into job_.names()
};

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
  if (plan.pool)
    text += fmt::format(" and {} to {} parameter servers", plan.pool->min, plan.pool->max);
  else if (plan.servers > 0)
    text += " and " + count_text(plan.servers, "parameter server");
  return text + " on " + count_text(static_cast<int64_t>(plan.nodes.size()), "node");
}

void row(std::string* out, const char* name, const std::string& value) {
  *out += fmt::format("{:<15}{}\n", name, value);
}

// The batch that a program is given if it asks for one; a program with a batch of its own keeps that.
std::string batch_text(const LaunchPlan& plan) {
  const BatchSplit& split = plan.split;
  std::string text = fmt::format("{} of {}, {} for learner 0", split.batch, format_batch(*plan.batch),
                                 local_batch(split, 0, plan.learner_count()));
  if (split.accumulation > 1) text += fmt::format(" in {} passes", split.accumulation);
  if (plan.batch->rule == BatchRule::kNone) return text;
  return text + ", learning rate x " + format_lr_scale(lr_scale(*plan.batch, split.batch));
}

// "lab:bucket/train in train, cached on each node"
std::string source_text(const dl::data::Source& source) {
  std::string text = dl::data::shown_place(source.from);
  if (!source.to.empty()) text += " in " + printable(source.to, 400);
  constexpr const char* kHow[] = {", cached on each node", ", a part of it cached on each node",
                                  ", read where it lies"};
  return text + kHow[static_cast<size_t>(source.cache)];
}

void print_data(const LaunchPlan& plan, std::string* out) {
  if (plan.data)
    for (const dl::data::Source& source : plan.data->sources) row(out, "data", source_text(source));
  if (plan.results) row(out, "results", printable(plan.results->to, 400));
}

void print_learners(const LaunchPlan& plan, std::string* out) {
  size_t width = 4;
  for (const PlannedNode& node : plan.nodes) width = std::max(width, node.name.size());
  *out += fmt::format("\n{:>6}  {:<{}}  {:>9}  {:>10}  {}\n", "rank", "node", width, "node rank", "local rank", "GPUs");
  for (const PlannedLearner& learner : plan.learners) {
    fmt::format_to(std::back_inserter(*out), "{:>6}  {:<{}}  {:>9}  {:>10}  {}\n", learner.rank,
                   plan.nodes[static_cast<size_t>(learner.node)].name, width, learner.node, learner.local_rank,
                   learner.rank < plan.learner_count() ? gpu_text(learner) : "- (server)");
  }
}

// Name and description of each variable that learners get and that is not known before the run.
std::map<std::string, std::string> found_later(const LaunchPlan& plan, const RunFacts& facts,
                                               const Environment& inherited) {
  std::map<std::string, std::string> later;
  Environment now = inherited;
  ignore(add_learner_environment(plan, 0, facts, &now), "make_plan() has tried the same");
  for (const auto& [name, value] : known_variables(plan, facts, inherited)) {
    const auto there = now.find(name);
    if (there == now.end() || there->second != value) later.emplace(name, in_words(name, plan));
  }
  later[env::kMetricsFile] = "of rank 0 alone: the file to which it reports its metrics";
  later[env::kProgress] = "the page by which it tells its agent how far it is";
  if (plan.checkpoint) later[env::kLease] = "dlrun's lease on the checkpoint directory";
  if (!plan.pmix_server.empty()) later["PMIX_*"] = "where the PMIx server of its node is";
  return later;
}

// The whole value, which users may have set, with escapes for what a terminal would interpret.
std::string shown(const std::string& value) {
  return printable(value, value.size() * 4);
}

void print_environment(const LaunchPlan& plan, const RunFacts& facts, EnvironmentView* view,
                       const Environment& inherited, std::string* out) {
  *out += "\nenvironment of every learner\n";
  for (const auto& [name, value] : view->common()) *out += fmt::format("  {}={}\n", name, shown(value));
  for (const auto& [name, what] : found_later(plan, facts, inherited)) *out += fmt::format("  {}=({})\n", name, what);
  if (plan.world_size() > 1) {
    for (const int rank : {0, plan.world_size() - 1}) {
      *out += fmt::format("\nof rank {} alone\n", rank);
      view->each_own(
          rank, [&](const auto& name, const auto& value) { *out += fmt::format("  {}={}\n", name, shown(value)); });
    }
  }
  if (!view->kept().empty()) {
    *out += "\nkept as you have set it\n";
    for (const std::string& item : view->kept()) *out += fmt::format("  {}\n", shown(item));
  }
}

// Paths and names need not be UTF-8: invalid bytes become replacement characters and are no error.
std::string dumped(const Json& json, int indent) {
  return json.dump(indent);
}

void append_string(const std::string& value, std::string* out) {
  const bool plain =
      std::all_of(value.begin(), value.end(), [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
  if (plain) {
    out->append("\"").append(value).append("\"");
  } else {
    out->append(dumped(value, -1));
  }
}

// Only written if asked for, so that the plans of other jobs do not change.
void add_data(const LaunchPlan& plan, Json* json) {
  if (plan.data) {
    Json sources = Json::array();
    for (const dl::data::Source& source : plan.data->sources) {
      Json item = {{"from", dl::data::shown_place(source.from)},
                   {"to", source.to},
                   {"cache", dl::data::cache_name(source.cache)}};
      if (!source.checksum.empty()) item["checksum"] = source.checksum;
      sources.push_back(std::move(item));
    }
    Json data = {{"dir", plan.data->dir}, {"folder", plan.data->folder}, {"cache", plan.data->cache}};
    data["sources"] = std::move(sources);
    (*json)["data"] = std::move(data);
  }
  if (plan.results) (*json)["results"] = {{"to", plan.results->to}, {"checkpoint", plan.results->checkpoint}};
}

// The same text as dumped(..., 2) makes for an array of objects that contain objects. For 10,000 learners with their
// variables dumped() took ten times as long.
void append_learners(const LaunchPlan& plan, const RunFacts& facts, EnvironmentView* view, std::string* out) {
  const auto to = std::back_inserter(*out);
  *out += '[';
  for (const PlannedLearner& learner : plan.learners) {
    fmt::format_to(to, "{}\n    {{\n      \"rank\": {},\n      \"node\": ", learner.rank > 0 ? "," : "", learner.rank);
    append_string(plan.nodes[static_cast<size_t>(learner.node)].name, out);
    fmt::format_to(to, ",\n      \"node_rank\": {},\n      \"local_rank\": {},\n      \"gpus\": [", learner.node,
                   learner.local_rank);
    for (size_t i = 0; i < learner.gpus.size(); ++i)
      fmt::format_to(to, "{}\n        {}", i > 0 ? "," : "", learner.gpus[i]);
    *out += learner.gpus.empty() ? "],\n      \"log\": " : "\n      ],\n      \"log\": ";
    append_string(learner_log(plan, facts.attempt, learner.rank), out);
    *out += ",\n      \"environment\": {";
    const char* between = "\n        ";
    view->each_own(learner.rank, [&](const std::string& name, const std::string& value) {
      *out += between;
      append_string(name, out);
      *out += ": ";
      append_string(value, out);
      between = ",\n        ";
    });
    *out += *between == ',' ? "\n      }\n    }" : "}\n    }";
  }
  *out += "\n  ]";
}

}  // namespace

std::string plan_text(const LaunchPlan& plan, const RunFacts& facts, const Environment& inherited) {
  EnvironmentView view(plan, facts, inherited);
  std::string out;
  std::vector<std::string> names;
  names.reserve(plan.nodes.size());
  for (const PlannedNode& node : plan.nodes) names.push_back(node.name);
  row(&out, "job", plan.job_id + (plan.job_name.empty() ? "" : " (" + printable(plan.job_name) + ")"));
  row(&out, "framework",
      plan.framework + (plan.version.empty() ? "" : " " + plan.version) + ", environment: dl " +
          join(plan.families, " "));
  row(&out, "learners", learners_text(plan));
  row(&out, "nodes", compress_hostlist(names));
  row(&out, "placement", plan.rank_placement);
  if (plan.cpus_per_learner > 0) row(&out, "CPUs", count_text(plan.cpus_per_learner, "CPU") + " per learner");
  row(&out, "command", shell_words(plan.command));
  row(&out, "directory", plan.work_dir);
  if (!plan.container.image.empty())
    row(&out, "image", printable(plan.container.image, 400) + " (" + plan.container.runtime + ")");
  if (plan.bind != bind::BindMode::kNone) row(&out, "bound to", bind::bind_name(plan.bind));
  if (!plan.activate.empty()) row(&out, "activation", printable(plan.activate, 400));
  for (const std::string& pattern : plan.metrics) row(&out, "metrics", printable(pattern, 400));
  print_data(plan, &out);
  if (plan.batch) row(&out, "batch", batch_text(plan));
  row(&out, "checkpoint", plan.checkpoint ? format_checkpoint(*plan.checkpoint) : "none: a stopped job begins anew");
  row(&out, "restarts", std::to_string(plan.restarts));
  row(&out, "tier", tier_name(plan.tier));
  row(&out, "grace", format_duration(plan.grace));
  row(&out, "job directory", plan.job_dir);
  row(&out, "logs", log_dir(plan, facts.attempt) + "/learner-RANK.log");
  row(&out, "started by", shell_words(plan.argv) + (plan.method == LaunchMethod::kDirect ? ", once per learner" : ""));
  if (!plan.pmix_server.empty()) row(&out, "PMIx", plan.pmix_server + " on each node");
  for (const std::string& warning : plan.warnings) row(&out, "warning", warning);
  print_learners(plan, &out);
  print_environment(plan, facts, &view, inherited, &out);
  return out;
}

std::string plan_json(const LaunchPlan& plan, const RunFacts& facts, const Environment& inherited) {
  EnvironmentView view(plan, facts, inherited);
  Json json;
  json["job_id"] = plan.job_id;
  if (!plan.cluster.empty()) json["cluster"] = plan.cluster;
  json["job_name"] = plan.job_name;
  json["under_slurm"] = plan.under_slurm;
  json["framework"] = plan.framework;
  json["version"] = plan.version;
  json["families"] = plan.families;
  json["activate"] = plan.activate;
  json["world_size"] = plan.world_size();
  if (plan.servers > 0) json["servers"] = plan.servers;
  if (plan.pool) json["pool"] = {{"min", plan.pool->min}, {"max", plan.pool->max}};
  json["asked"] = {{"min", plan.asked.min}, {"max", plan.asked.max}};
  json["gpus_per_learner"] = plan.gpus_per_learner;
  json["gpu_type"] = plan.gpu_type;
  json["cpus_per_learner"] = plan.cpus_per_learner;
  json["placement"] = plan.rank_placement;
  json["command"] = plan.command;
  if (plan.ports > 0) json["ports_per_learner"] = plan.ports;
  if (plan.ports > 0 && !plan.hold_ports) json["ports_held_until"] = "start";
  if (!plan.container.image.empty()) {
    const image::Container& container = plan.container;
    json["image"] = {{"path", container.image}, {"runtime", container.runtime}, {"binds", container.binds}};
  }
  if (plan.bind != bind::BindMode::kNone) json["bind"] = bind::bind_name(plan.bind);
  if (!plan.metrics.empty()) json["metrics"] = plan.metrics;
  json["work_dir"] = plan.work_dir;
  json["job_dir"] = plan.job_dir;
  json["log_dir"] = log_dir(plan, facts.attempt);
  json["attempt"] = facts.attempt;
  json["directory_version"] = job_directory::kVersion;
  json["checkpoint"] = nullptr;
  if (plan.checkpoint) {
    const CheckpointSpec& spec = *plan.checkpoint;
    Json item = {{"path", spec.path}, {"keep", spec.keep}, {"every_s", nullptr}, {"every_steps", nullptr}};
    if (spec.every) item["every_s"] = spec.every->count();
    if (spec.every_steps) item["every_steps"] = *spec.every_steps;
    // Only written if asked for, so that the plans of other jobs do not change.
    if (spec.every_auto) item["every"] = "auto";
    if (spec.keep_every > 0) item["keep_every"] = spec.keep_every;
    if (spec.best) item["best"] = format_best(*spec.best);
    if (!spec.local.empty()) item["local"] = spec.local;
    if (spec.partner) item["partner"] = true;
    if (!spec.objects.empty()) item["objects"] = spec.objects;
    json["checkpoint"] = std::move(item);
  }
  if (plan.batch)
    json["batch"] = {{"asked", format_batch(*plan.batch)},
                     {"global", plan.split.batch},
                     {"accumulation", plan.split.accumulation},
                     {"rule", batch_rule_name(plan.batch->rule)},
                     {"lr_scale", lr_scale(*plan.batch, plan.split.batch)}};
  add_data(plan, &json);
  json["restarts"] = plan.restarts;
  json["tier"] = tier_name(plan.tier);
  json["grace_s"] = plan.grace.count();
  json["end_time_s"] = nullptr;
  if (plan.end_time_s) json["end_time_s"] = *plan.end_time_s;
  json["slurm_restart_count"] = plan.slurm_restart_count;
  json["method"] = launch_method_name(plan.method);
  json["argv"] = plan.argv;
  if (!plan.pmix_server.empty()) json["pmix_server"] = plan.pmix_server;
  json["scrub"] = plan.scrub;
  json["hostfile"] = plan.hostfile_path;
  json["warnings"] = plan.warnings;
  json["nodes"] = Json::array();
  for (const PlannedNode& node : plan.nodes) {
    Json item = {{"name", node.name}, {"learners", node.learners}, {"gpus", nullptr}};
    if (node.gpus >= 0) item["gpus"] = node.gpus;
    json["nodes"].push_back(std::move(item));
  }
  json["environment"] = view.common();
  json["found_later"] = found_later(plan, facts, inherited);
  json["kept"] = view.kept();
  json["learners"] = Json::array();
  std::string text = dumped(json, 2);
  text.resize(text.rfind("[]"));
  append_learners(plan, facts, &view, &text);
  return text + "\n}\n";
}

}  // namespace dl::plan
