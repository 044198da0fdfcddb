// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/job_submit/shape.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "common/base/parse.h"
#include "common/contract/metric_patterns.h"
#include "common/contract/path_pattern.h"
#include "slurm-plugin/job_submit/gpu_count.h"
#include "slurm-plugin/job_submit/room.h"

namespace dl {
namespace {

constexpr int64_t kMaxCpusPerTask = 65000;  // Slurm stores this number in 16 bits

Error conflict(const std::string& text) {
  return Error{Errc::kConflict, text};
}

std::string plural(int64_t n, const char* one, const char* many) {
  return fmt::format("{} {}", n, n == 1 ? one : many);
}

int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Turns one submission into a shape. Each method takes care of one concern, in the order in which shape() calls them.
class Shaper {
 public:
  Shaper(const JobRequest& request, const Submission& given, const SiteConfig& site, const Catalogue& catalogue)
      : request_(request), given_(given), site_(site), catalogue_(catalogue) {}

  Result<Shape> shape() {
    DL_TRY(check_kind());
    DL_TRY(choose_framework());
    DL_TRY(check_gpus());
    DL_TRY(count_learners());
    DL_TRY(check_room(request_, site_));
    DL_TRY(choose_placement());
    DL_TRY(elastic_ ? place_elastic() : place_fixed());
    set_cpus();
    DL_TRY(make_pausable());
    DL_TRY(choose_tier());
    shape_.message = message();
    return shape_;
  }

 private:
  Status check_kind() {
    DL_TRY(check_request(request_));
    if (given_.heterogeneous)
      return Error{Errc::kUnsupported,
                   "--dl-* flags are not available in heterogeneous jobs; allowed: a job of one component"};
    const bool one_at_a_time = given_.array.size() > 2 && given_.array.compare(given_.array.size() - 2, 2, "%1") == 0;
    const bool several = given_.array.find_first_of(",-") != std::string::npos;
    if (request_.metrics)
      for (const std::string& part : *request_.metrics) DL_TRY(check_index("--dl-metrics", event_folder(part)));
    if (request_.checkpoint) DL_TRY(check_index("--dl-checkpoint", request_.checkpoint->local));
    if (!request_.checkpoint || request_.checkpoint->literal) return check_array(several && !one_at_a_time);
    const std::string& path = request_.checkpoint->path;
    DL_TRY(check_index("--dl-checkpoint", path));
    return check_array(several && !one_at_a_time && !path_holds(path, "ja"));
  }

  Status check_index(const char* flag, std::string_view path) {
    if (!given_.array.empty() || !path_holds(path, "a")) return {};
    return conflict(
        fmt::format("{}: '{}': '%a' is the index in a job array, and this job is none; allowed: %j, or --array", flag,
                    printable(path)));
  }

  Status check_array(bool shared) {
    if (request_.checkpoint && shared)
      return conflict(
          fmt::format("--array={} conflicts with --dl-checkpoint: its tasks would share one directory; allowed: a path "
                      "with %a or %j, such as --dl-checkpoint=ckpt-%a, or --array=...%1",
                      printable(given_.array)));
    return {};
  }

  Status choose_framework() {
    FrameworkRef ref{site_.framework, ""};
    if (request_.framework) ref = *request_.framework;
    auto choice = catalogue_.choose(ref);
    if (!choice) return std::move(choice).error().with_context("--dl-framework");
    framework_ = choice->entry->name;
    if (!choice->version_text.empty()) framework_ += " " + choice->version_text;
    return {};
  }

  // GPUs are asked for by --dl-gpus or by Slurm's own options, not by both.
  Status check_gpus() {
    if (!request_.gpus) return {};
    gpus_ = request_.gpus->count;
    const std::pair<const std::string&, const char*> others[] = {{given_.tres_per_job, "--gpus"},
                                                                 {given_.tres_per_node, "--gres or --gpus-per-node"},
                                                                 {given_.tres_per_socket, "--gpus-per-socket"},
                                                                 {given_.tres_per_task, "--gpus-per-task"}};
    for (const auto& [tres, flag] : others)
      if (asks_for_gpus(tres))
        return conflict(fmt::format("{} ({}) conflicts with --dl-gpus={}: both ask for GPUs; leave one of them out",
                                    flag, printable(tres), gpus_));
    if (given_.tasks_per_gpu)
      return conflict(
          fmt::format("--ntasks-per-gpu={} conflicts with --dl-gpus={}: every learner is one task with its "
                      "GPUs; leave one of them out",
                      *given_.tasks_per_gpu, gpus_));
    const auto& types = site_.gpus_per_node_by_type;
    if (auto typed = types.find(request_.gpus->type); typed != types.end())
      node_gpus_ = typed->second;
    else if (request_.gpus->type.empty())
      node_gpus_ = site_.gpus_per_node;
    if (gpus_ > 0 && node_gpus_ > 0 && gpus_ > node_gpus_)
      return conflict(fmt::format("--dl-gpus={}: a node has {}; allowed: up to {} for each learner, and more learners",
                                  gpus_, plural(node_gpus_, "such GPU", "such GPUs"), node_gpus_));
    if (gpus_ > 0 && node_gpus_ > 0) per_node_ = node_gpus_ / gpus_;
    return {};
  }

  // Counts the learners; each is a task. Where Slurm offers no range, a range of learners becomes a number: that of
  // --ntasks, else its lower end, from which the job can grow at its next start.
  Status count_learners() {
    if (!request_.learners) {
      learners_ = implied_learners();
      return {};
    }
    const LearnerRange& range = *request_.learners;
    const bool by_nodes =
        given_.tasks_per_node && given_.tasks == *given_.tasks_per_node * given_.min_nodes.value_or(1);
    if (by_nodes && (*given_.tasks < range.min || *given_.tasks > range.max))
      return conflict(
          fmt::format("--ntasks-per-node={} on {} makes {}, which conflicts with --dl-learners={}: every learner is "
                      "one task; leave --ntasks-per-node out",
                      *given_.tasks_per_node, plural(given_.min_nodes.value_or(1), "node", "nodes"),
                      plural(*given_.tasks, "task", "tasks"), range_text()));
    if (given_.tasks && (*given_.tasks < range.min || *given_.tasks > range.max))
      return conflict(
          fmt::format("--ntasks={} conflicts with --dl-learners={}: every learner is one task; leave --ntasks out",
                      *given_.tasks, range_text()));
    if (!range.elastic() || given_.tasks) {
      learners_ = given_.tasks.value_or(range.min);
      return {};
    }
    if (given_.min_nodes || given_.tasks_per_node)
      return conflict(
          fmt::format("--nodes or --ntasks-per-node conflicts with the range --dl-learners={}: the number of "
                      "nodes follows from the range; leave them out",
                      range_text()));
    learners_ = range.min;
    elastic_ = per_node_ > 0;
    return {};
  }

  // Slurm's own flags override the site's default. If they contradict --dl-placement, the submission is refused.
  Status choose_placement() {
    struct Row {
      bool given;
      const char* flag;
      Placement means;
    };
    const Row rows[] = {{given_.spread_job, "--spread-job", Placement::kSpread},
                        {given_.pack_tasks == false, "--distribution=...,NoPack", Placement::kSpread},
                        {given_.use_min_nodes, "--use-min-nodes", Placement::kPack},
                        {given_.pack_tasks == true, "--distribution=...,Pack", Placement::kPack}};
    shape_.placement = request_.placement.value_or(site_.placement);
    for (const Row& row : rows) {
      if (!row.given || row.means == shape_.placement) continue;
      if (request_.placement)
        return conflict(
            fmt::format("{} conflicts with --dl-placement={}: it asks for the opposite; leave one of them "
                        "out",
                        row.flag, placement_name(*request_.placement)));
      shape_.placement = row.means;
      break;
    }
    return {};
  }
  bool spread() const { return shape_.placement == Placement::kSpread; }

  // The number of nodes that the job could get according to dl.toml; if dl.toml does not say, no limit.
  int64_t nodes_there() const {
    int64_t nodes = 0;
    for (const auto& [type, count] : site_.node_counts)
      if (!request_.gpus || request_.gpus->type.empty() || request_.gpus->type == type) nodes += count;
    return nodes > 0 ? nodes : kMaxLearners;
  }

  // Every task of a GPU job gets GPUs, so parameter servers are no tasks there: they share the CPUs of the learners.
  // In an elastic pool each server that may come has a place.
  int64_t server_tasks() const { return gpus_ == 0 && request_.servers ? request_.servers->max : 0; }

  int64_t implied_learners() const {
    if (given_.tasks) return *given_.tasks;
    if (given_.min_nodes && given_.tasks_per_node) return *given_.min_nodes * *given_.tasks_per_node;
    return std::max<int64_t>(1, given_.min_nodes.value_or(1));
  }

  // Slurm needs a fixed number of GPUs per node, but accepts a range for the number of nodes, and gives as many of them
  // as are free. As many learners are placed on a node as fit and as the range allows, so that the job uses few nodes.
  // The number of tasks is not set: if it were, Slurm 22.05 would wait for as many nodes as the tasks fill, or take no
  // more nodes than they need.
  Status place_elastic() {
    const LearnerRange& range = *request_.learners;
    int64_t k = std::min<int64_t>(per_node_, spread() ? divide_up(range.min, nodes_there()) : range.min);
    while (k > 1 && divide_up(range.min, k) * k > range.max) --k;
    const auto min_nodes = static_cast<uint32_t>(divide_up(range.min, k));
    const auto max_nodes = static_cast<uint32_t>(range.max / k);
    learners_ = min_nodes * k;
    most_learners_ = max_nodes * k;
    shape_.min_nodes = min_nodes;
    shape_.max_nodes = max_nodes;
    shape_.tasks_per_node = static_cast<uint16_t>(k);
    shape_.gpus_per_node = static_cast<int>(k) * gpus_;
    shape_.gpu_type = request_.gpus->type;
    return {};
  }

  // Asks for GPUs for each task, so that three learners fit on two nodes of two GPUs.
  Status place_fixed() {
    const std::string what =
        request_.gpus ? fmt::format("{} x {}", plural(learners_, "learner", "learners"), plural(gpus_, "GPU", "GPUs"))
                      : plural(learners_, "learner", "learners");
    if (given_.srun && !given_.tasks && learners_ > 1)
      return conflict(
          fmt::format("srun starts as many tasks as --ntasks says; allowed: --ntasks={} with --dl-learners={}",
                      learners_, learners_));
    const int64_t processes = learners_ + server_tasks();
    if (given_.min_nodes && *given_.min_nodes > processes)
      return conflict(
          fmt::format("--nodes={} conflicts with --dl-learners={}: a node would be without a learner{}; "
                      "allowed: at most {}",
                      *given_.min_nodes, learners_, server_tasks() > 0 ? " or a parameter server" : "",
                      plural(processes, "node", "nodes")));
    int64_t per_node = per_node_;
    if (given_.tasks_per_node) {
      if (per_node > 0 && *given_.tasks_per_node > per_node)
        return conflict(fmt::format("--ntasks-per-node={} conflicts with --dl-gpus={}: a node has {}, enough for {}",
                                    *given_.tasks_per_node, gpus_, plural(node_gpus_, "GPU", "GPUs"),
                                    plural(per_node, "learner", "learners")));
      per_node = *given_.tasks_per_node;
    }
    if (per_node > 0) {
      const int64_t nodes = divide_up(learners_, per_node);
      if (given_.min_nodes) {
        if (given_.max_nodes && *given_.max_nodes < nodes)
          return conflict(fmt::format("--nodes={} conflicts with {}: they need at least {}", *given_.max_nodes, what,
                                      plural(nodes, "node", "nodes")));
        if (given_.max_nodes == given_.min_nodes) nodes_text_ = plural(*given_.min_nodes, "node", "nodes");
      } else if (request_.gpus) {
        choose_nodes(nodes);
      }
    } else if (spread() && !given_.min_nodes) {
      choose_nodes(1);
    } else if (given_.min_nodes && given_.max_nodes && *given_.min_nodes == *given_.max_nodes) {
      nodes_text_ = plural(*given_.min_nodes, "node", "nodes");
    }
    if (!given_.tasks) shape_.tasks = static_cast<uint32_t>(learners_ + server_tasks());
    spread_evenly();
    if (gpus_ > 0) {
      shape_.gpus_per_task = gpus_;
      shape_.gpu_type = request_.gpus->type;
    }
    return {};
  }

  // Pack: Slurm finds the fewest nodes that are free now, and the fewest switches if it knows the topology. A node with
  // room for all learners may not become free for a long time, so more nodes are allowed. Spread: Slurm's --spread-job
  // stops at the first nodes that have enough GPUs, so the number of nodes has to be given.
  void choose_nodes(int64_t fewest) {
    int64_t least = fewest;
    int64_t most = fewest;
    if (!given_.tasks_per_node) {
      shape_.fewest_nodes = static_cast<uint32_t>(fewest);
      if (spread())
        least = most = std::max(fewest, std::min(learners_, nodes_there()));
      else if (!given_.exclusive)  // an exclusive job would be charged for the largest number of nodes
        most = learners_;
    }
    shape_.few_nodes = least < most;
    shape_.min_nodes = static_cast<uint32_t>(least);
    shape_.max_nodes = static_cast<uint32_t>(most);
  }

  // Slurm fills one node after the other, even if it was given their number, so each node gets a fixed number of tasks.
  // This number is exact: if it did not divide the tasks evenly, Slurm would add tasks and GPUs that nobody asked for.
  void spread_evenly() {
    const int64_t nodes = shape_.min_nodes ? int64_t{*shape_.min_nodes} : given_.min_nodes.value_or(0);
    const bool fixed = shape_.min_nodes ? shape_.min_nodes == shape_.max_nodes : given_.min_nodes == given_.max_nodes;
    const int64_t tasks = learners_ + server_tasks();
    if (!spread() || !fixed || given_.tasks_per_node || nodes < 1 || tasks % nodes != 0) return;
    const int64_t each = tasks / nodes;
    if (each == 1 || each > kMaxCpusPerTask) return;
    shape_.exact_tasks_on_node = static_cast<uint16_t>(each);
    shape_.fewest_nodes = 0;  // on fewer nodes the tasks would not divide evenly
  }

  void set_cpus() {
    int64_t cpus = given_.cpus_per_task.value_or(0);
    if (!given_.cpus_per_task && !given_.cpus_per_gpu) {
      if (gpus_ > 0 && site_.cpus_per_gpu > 0)
        cpus = std::min<int64_t>(kMaxCpusPerTask, int64_t{site_.cpus_per_gpu} * gpus_);
      else if (gpus_ == 0 && site_.cpus_per_learner > 1)
        cpus = site_.cpus_per_learner;
      if (cpus > 0) shape_.cpus_per_task = static_cast<uint16_t>(cpus);
    }
    const int64_t for_one = std::max<int64_t>(1, cpus);
    if (elastic_)
      shape_.cpus_per_node = static_cast<uint16_t>(std::min(kMaxCpusPerTask, *shape_.tasks_per_node * for_one));
    // sbatch computed the CPUs from the number of tasks that it knew, so they are computed again.
    if ((elastic_ || shape_.tasks) && !given_.overcommit)
      shape_.min_cpus =
          static_cast<uint32_t>(std::min<int64_t>(UINT32_MAX / 4, (learners_ + server_tasks()) * for_one));
  }

  // A pausable job goes back into the queue and appends to its output. Interactive jobs cannot be requeued.
  Status make_pausable() {
    if (!request_.checkpoint || !given_.batch) return {};
    if (given_.requeue == false)
      return conflict(
          "--no-requeue conflicts with --dl-checkpoint: a job that is paused or preempted goes back into the "
          "queue; leave one of them out");
    shape_.requeue = true;
    shape_.append = !given_.open_mode;
    if (given_.signal) return {};
    shape_.signal_lead = site_.signal_lead;
    // If the signal came earlier before the limit than the job is long, it would stop the job at each of its starts.
    if (given_.time_limit && *given_.time_limit > std::chrono::minutes(0))
      shape_.signal_lead = std::min(shape_.signal_lead, std::chrono::seconds(*given_.time_limit) / 4);
    return {};
  }

  Status choose_tier() {
    const bool explicit_tier = request_.tier && *request_.tier != Tier::kAuto;
    Tier tier = explicit_tier ? *request_.tier : given_.default_tier.value_or(site_.tier);
    if (tier == Tier::kAuto) tier = given_.borrowed ? Tier::kBorrow : Tier::kGuaranteed;
    const TierTarget& target = tier == Tier::kBorrow ? site_.borrow : site_.guaranteed;
    if (tier == Tier::kBorrow && !given_.of_tenant && target.qos.empty() && target.partition.empty())
      return Error{Errc::kUnsupported,
                   "--dl-tier: 'borrow' is not set up on this cluster ([tiers.borrow] in dl.toml); "
                   "allowed: guaranteed"};
    bool overridden = false;
    const std::pair<const std::string&, const std::string&> both[] = {{target.qos, given_.qos},
                                                                      {target.partition, given_.partition}};
    const char* const flags[] = {"--qos", "--partition"};
    for (size_t i = 0; i < 2; ++i) {
      const auto& [wanted, said] = both[i];
      if (wanted.empty() || said.empty() || wanted == said) continue;
      if (explicit_tier)
        return conflict(fmt::format("{}={} conflicts with --dl-tier={}, which means {}={} here; leave one of them out",
                                    flags[i], printable(said), tier_name(tier), flags[i], wanted));
      overridden = true;
    }
    if (overridden) return {};
    if (given_.qos.empty()) shape_.qos = target.qos;
    if (given_.partition.empty()) shape_.partition = target.partition;
    if (explicit_tier || !target.qos.empty() || !target.partition.empty()) tier_text_ = tier_name(tier);
    reclaimable_ = tier == Tier::kBorrow;
    return {};
  }

  std::string range_text() const {
    const LearnerRange& range = *request_.learners;
    return range.elastic() ? fmt::format("{}:{}", range.min, range.max) : std::to_string(range.min);
  }

  std::string size_text() const {
    std::string text = most_learners_ > learners_ ? fmt::format("{} to {} learners", learners_, most_learners_)
                                                  : plural(learners_, "learner", "learners");
    if (request_.gpus && gpus_ > 0) {
      const std::string type = request_.gpus->type.empty() ? "" : request_.gpus->type + " ";
      text += fmt::format(" x {} {}{}", gpus_, type, gpus_ == 1 ? "GPU" : "GPUs");
      if (gpus_ > 1 && learners_ > 1 && most_learners_ <= learners_)
        text += fmt::format(" ({} in all)", gpus_ * learners_);
    } else if (request_.gpus) {
      text += " on CPUs";
    }
    if (request_.servers && request_.servers->pool)
      text += fmt::format(" and {} to {} parameter servers", request_.servers->min, request_.servers->max);
    else if (request_.servers && request_.servers->max > 0)
      text += " and " + plural(request_.servers->max, "parameter server", "parameter servers");
    if (shape_.min_nodes && shape_.min_nodes != shape_.max_nodes)
      text += fmt::format(" on {} to {} nodes", *shape_.min_nodes, *shape_.max_nodes);
    else if (shape_.min_nodes)
      text += " on " + plural(*shape_.min_nodes, "node", "nodes");
    else if (!nodes_text_.empty())
      text += " on " + nodes_text_;
    if (request_.learners && request_.learners->elastic() && !elastic_)
      text += fmt::format(" (elastic up to {})", request_.learners->max);
    return text;
  }

  std::string batch_text() const {
    const BatchRange& batch = *request_.batch;
    if (batch.smallest() == batch.largest()) return fmt::format("global batch {}", batch.largest());
    return fmt::format("global batch {} to {}", batch.smallest(), batch.largest());
  }

  std::string checkpoint_text() const {
    const CheckpointSpec& spec = *request_.checkpoint;
    if (spec.every_auto) return "checkpoint interval chosen by measurement";
    if (spec.every) return "checkpoint every " + format_duration(*spec.every);
    if (spec.every_steps) return "checkpoint every " + plural(*spec.every_steps, "train step", "train steps");
    return "checkpoint when paused";
  }

  std::string message() const {
    // If Slurm then refuses the job, sbatch prints this as an error: it must not read as the reason.
    std::string text = fmt::format("dl: understood as {}, {}", framework_, size_text());
    if (!tier_text_.empty()) text += fmt::format(", {} tier", tier_text_);
    if (request_.batch) text += ", " + batch_text();
    if (request_.checkpoint) text += ", " + checkpoint_text();
    if (request_.restarts.value_or(0) > 0) text += ", " + plural(*request_.restarts, "restart", "restarts");
    if (reclaimable_ && !request_.checkpoint)
      text += "\ndl: without --dl-checkpoint all progress is lost when the borrowed GPUs are taken back";
    if (given_.one_process && learners_ > 1)
      text += fmt::format(
          "\ndl: the script calls neither dlrun nor srun, so it runs once, on the first node, and what {} learners "
          "were to "
          "use stays idle; start them with: dlrun -- COMMAND",
          learners_);
    if (elastic_ && (learners_ != request_.learners->min || most_learners_ != request_.learners->max))
      text += fmt::format(
          "\ndl: --dl-learners={} becomes {}: an elastic job has the same number of learners, here {}, on each node",
          range_text(),
          learners_ == most_learners_ ? std::to_string(learners_) : fmt::format("{} to {}", learners_, most_learners_),
          *shape_.tasks_per_node);
    return text;
  }

  const JobRequest& request_;
  const Submission& given_;
  const SiteConfig& site_;
  const Catalogue& catalogue_;
  Shape shape_;
  std::string framework_, tier_text_, nodes_text_;
  int gpus_ = 0;          // for each learner
  int node_gpus_ = 0;     // GPUs of one node; 0: unknown
  int64_t per_node_ = 0;  // learners that a node holds; 0: unknown
  int64_t learners_ = 1;  // the least number of learners
  int64_t most_learners_ = 0;
  bool elastic_ = false;  // Slurm may choose the number of nodes from a range
  bool reclaimable_ = false;
};

}  // namespace

Result<Shape> shape_job(const JobRequest& request, const Submission& given, const SiteConfig& site,
                        const Catalogue& catalogue) {
  return Shaper(request, given, site, catalogue).shape();
}

Status check_qos(const std::string& qos, bool slurm_knows_qos) {
  if (qos.empty() || slurm_knows_qos) return {};
  return Error{
      Errc::kUnsupported,
      fmt::format("this job's tier has the QOS '{}' in dl.toml, which Slurm ignores without slurmdbd; allowed, "
                  "by an administrator: partition = \"NAME\" in its place in [tiers]",
                  qos)};
}

}  // namespace dl
