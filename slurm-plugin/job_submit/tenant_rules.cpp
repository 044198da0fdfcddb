// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/job_submit/tenant_rules.h"

#include <fmt/core.h>
#include <fnmatch.h>

#include <algorithm>

#include "common/base/parse.h"
#include "common/contract/image_file.h"
#include "slurm-plugin/policy/admission.h"
#include "slurm-plugin/policy/group_quota.h"
#include "slurm-plugin/policy/site_state.h"
#include "slurm-plugin/policy/tokens.h"

namespace dl {
namespace {

constexpr size_t kNamesShown = 20;

std::string gpus_text(int64_t count) {
  return fmt::format("{} GPU{}", count, count == 1 ? "" : "s");
}

std::string accounts_text(const SiteConfig& site) {
  std::string text;
  for (size_t i = 0; i < site.tenants.size() && i < kNamesShown; ++i)
    text += (i == 0 ? "" : ", ") + site.tenants[i].name;
  if (site.tenants.size() > kNamesShown) text += ", ...";
  return text;
}

// "a/./b//c" -> "a/b/c". None if the path contains "..": where that leads depends on the file system.
std::optional<std::string> plain_path(const std::string& folder, const std::string& path) {
  const std::string whole = path.empty() || path.front() == '/' ? path : folder + "/" + path;
  std::string plain;
  for (const std::string& part : split(whole, '/')) {
    if (part == "..") return std::nullopt;
    if (!part.empty() && part != ".") plain += "/" + part;
  }
  return plain;
}

class Rules {
 public:
  explicit Rules(const TenantJob& job) : job_(job) {}

  Result<Ruling> rule() {
    DL_TRY(find_tenant_of_job());
    DL_TRY(check_what_runs());
    DL_TRY(make_policy_job());
    DL_TRY(check_limits());
    DL_TRY(choose_charge());
    DL_TRY(bound_nodes());
    DL_TRY(hold_tokens());
    set_gate();
    write_label();
    write_message();
    return ruling_;
  }

 private:
  Status find_tenant_of_job() {
    const std::string& account = job_.given.account;
    if (account.empty())
      return Error{Errc::kDenied, fmt::format("GPUs belong to tenants, and this job has no account; allowed: "
                                              "--account=NAME with one of {}",
                                              accounts_text(job_.site))};
    const auto found = policy::tenant_index(job_.state, account);
    if (!found)
      return Error{Errc::kDenied,
                   fmt::format("account '{}' is not a tenant with GPUs; allowed: --account=NAME with one "
                               "of {}",
                               printable(account), accounts_text(job_.site))};
    index_ = *found;
    ruling_.account = tenant().name;
    if (!job_.user_allowed)
      return Error{Errc::kDenied,
                   fmt::format("this user is not one of tenant '{}'; allowed: the users that dl.toml names "
                               "for it",
                               tenant().name)};
    return {};
  }

  Status check_what_runs() {
    const SiteTenant& own = tenant();
    const std::string framework = job_.request.framework ? job_.request.framework->name : job_.site.framework;
    if (!own.frameworks.empty() &&
        std::find(own.frameworks.begin(), own.frameworks.end(), framework) == own.frameworks.end())
      return Error{Errc::kDenied,
                   fmt::format("framework '{}' is not one of tenant '{}'; allowed: --dl-framework with {}", framework,
                               own.name, join(own.frameworks, ", "))};
    if (!job_.request.image) return {};
    const ImageName image = split_image(*job_.request.image);
    if (own.image_digests && image.digest.empty())
      return Error{Errc::kDenied,
                   fmt::format("tenant '{}' takes images by their digest alone; allowed: --dl-image=PATH@sha256:DIGEST "
                               "(sha256sum PATH)",
                               own.name)};
    if (own.images.empty()) return {};
    const auto path = plain_path(job_.given.work_dir, image.path);
    for (const std::string& pattern : own.images)
      if (path && ::fnmatch(pattern.c_str(), path->c_str(), FNM_PATHNAME | FNM_PERIOD) == 0) return {};
    return Error{Errc::kDenied, fmt::format("image '{}' is not one of tenant '{}'; allowed: {}",
                                            printable(*job_.request.image), own.name, join(own.images, ", "))};
  }

  Status make_policy_job() {
    const auto type = policy::type_index(job_.state, job_.gpus.type);
    if (!type)
      return Error{Errc::kNoSpace, fmt::format("GPU type '{}' is not one of this cluster's; allowed: {}",
                                               printable(job_.gpus.type), join(job_.state.types, ", "))};
    type_ = *type;
    if (type_ == policy::kAnyType && job_.state.type_count() == 1) type_ = 0;
    per_learner_ = job_.gpus.per_learner;
    const int64_t asked = job_.request.gpus ? job_.request.gpus->count : 0;
    if (asked > 0 && job_.gpus.least % asked == 0 && job_.gpus.most % asked == 0) per_learner_ = asked;
    if (per_learner_ > kMaxGpusPerLearner || job_.gpus.most / per_learner_ > kMaxLearners)
      return Error{Errc::kNoSpace, fmt::format("the job asks for {} with {} on a node together; allowed: up to {} on a "
                                               "node",
                                               gpus_text(job_.gpus.most), per_learner_, kMaxGpusPerLearner)};
    as_policy_.tenant = index_;
    as_policy_.tier = wanted_tier();
    as_policy_.type = type_;
    as_policy_.gpus_per_learner = static_cast<int>(per_learner_);
    as_policy_.min_learners = static_cast<int>(job_.gpus.least / per_learner_);
    as_policy_.max_learners = static_cast<int>(job_.gpus.most / per_learner_);
    return {};
  }

  Tier wanted_tier() const {
    if (job_.request.tier && *job_.request.tier != Tier::kAuto) return *job_.request.tier;
    return tenant().default_tier.value_or(job_.site.tier);
  }

  Status check_limits() {
    const policy::Admission found = policy::admit(job_.state, as_policy_);
    return found.admitted() ? Status() : Error{Errc::kNoSpace, found.sentence};
  }

  // A job that names no GPU type is charged as own only if it fits into the quota for any type, or if it can be
  // restricted to one type whose quota it fits into. Otherwise it would be charged to one type and run on another.
  Status choose_charge() {
    const policy::Tenant& own = job_.state.tenants[index_];
    const bool may_be_own = as_policy_.tier != Tier::kBorrow;
    own_gpus_ = policy::most_own(job_.state, index_, type_);
    if (may_be_own && job_.gpus.least <= own_gpus_) return {};
    if (may_be_own && type_ == policy::kAnyType && names_gpus()) {
      policy::Job typed = as_policy_;
      for (int type = 0; type < job_.state.type_count(); ++type) {
        typed.type = type;
        const int quota = policy::most_own(job_.state, index_, type);
        if (job_.gpus.least > quota || !policy::admit(job_.state, typed).admitted()) continue;
        own_gpus_ = quota;
        type_ = type;
        ruling_.gpu_type = job_.state.types[type];
        return {};
      }
    }
    if (as_policy_.tier == Tier::kGuaranteed)
      return Error{Errc::kNoSpace,
                   fmt::format("a guaranteed job of {} without a type exceeds the quota of tenant '{}' for "
                               "any type, {}; allowed: a job that names its GPU type",
                               gpus_text(job_.gpus.least), own.name, gpus_text(own_gpus_))};
    ruling_.charge = policy::Charge::kBorrowed;
    if (may_be_own) within_ = own_gpus_;
    if (own.borrow_limit != policy::kNoLimit && job_.gpus.least - within_ > own.borrow_limit)
      return Error{Errc::kNoSpace, fmt::format("{} would be borrowed, and tenant '{}' may borrow {}",
                                               gpus_text(job_.gpus.least), own.name, gpus_text(own.borrow_limit))};
    if (job_.site.quota.require_pausable && !pausable())
      return Error{Errc::kConflict,
                   fmt::format("{} would be borrowed, which needs a job that can give them back; allowed: "
                               "sbatch with --dl-checkpoint, or up to {} of tenant '{}' itself",
                               gpus_text(job_.gpus.least), gpus_text(own_gpus_), own.name)};
    return {};
  }

  bool names_gpus() const {
    for (const std::string* tres :
         {&job_.given.tres_per_job, &job_.given.tres_per_node, &job_.given.tres_per_task, &job_.given.tres_per_socket})
      if (asks_for_gpus(*tres)) return true;
    return false;
  }

  bool pausable() const { return job_.request.checkpoint && job_.given.batch; }
  policy::GiveBack gives_back() const {
    if (pausable()) return policy::GiveBack::kSave;
    const bool comes_back = job_.given.batch && job_.given.requeue.value_or(true);
    return comes_back ? policy::GiveBack::kRequeue : policy::GiveBack::kEnd;
  }

  // Cuts a range of nodes at the quota, or at what the tenant may borrow.
  Status bound_nodes() {
    most_ = job_.gpus.most;
    if (job_.gpus.pinned_nodes > 0)
      ruling_.min_nodes = ruling_.max_nodes = static_cast<uint32_t>(job_.gpus.pinned_nodes);
    if (job_.gpus.per_node == 0 || most_ == job_.gpus.least) return {};
    const SiteTenant& own = tenant();
    int64_t limit = most_;
    if (own.max_job_gpus) limit = std::min<int64_t>(limit, *own.max_job_gpus);
    if (own.max_user_gpus) limit = std::min<int64_t>(limit, *own.max_user_gpus);
    if (ruling_.charge == policy::Charge::kOwn) limit = std::min<int64_t>(limit, own_gpus_);
    if (ruling_.charge == policy::Charge::kBorrowed && own.borrow_limit)
      limit = std::min<int64_t>(limit, int64_t{*own.borrow_limit} + within_);
    if (limit >= most_) return {};
    const int64_t nodes = limit / job_.gpus.per_node;
    most_ = nodes * job_.gpus.per_node;
    ruling_.max_nodes = static_cast<uint32_t>(nodes);
    return {};
  }

  Status hold_tokens() {
    if (ruling_.charge == policy::Charge::kBorrowed)
      own_part_ = policy::least_own_part(job_.state, index_, as_policy_.tier, static_cast<int>(most_));
    const auto tokens =
        policy::tokens_for(job_.state, index_, type_, static_cast<int>(most_), ruling_.charge, nullptr, own_part_);
    if (!tokens)
      return Error{Errc::kInternal, "no licences stand for the GPUs of a job that was admitted (a fault of slurm-dl)"};
    ruling_.licences = policy::with_tokens(job_.given.licences, policy::format_licences(*tokens));
    if (ruling_.licences.size() > 1000)
      return Error{Errc::kInvalid, "the list of licences is longer than Slurm takes; allowed: up to 1000 characters"};
    return {};
  }

  void set_gate() {
    const int64_t opens = job_.now_s + kUserGateS;
    if (tenant().max_user_gpus && !job_.slurm_limits_users && job_.given.begin_s.value_or(0) < opens)
      ruling_.begin_s = opens;
  }

  void write_label() {
    policy::JobLabel label;
    label.tenant = tenant().name;
    label.tier = as_policy_.tier;
    label.learners = {as_policy_.min_learners, as_policy_.max_learners};
    label.gpus = as_policy_.gpus_per_learner;
    label.batch = job_.request.batch;
    // The label names a type only if the user or this ruling did: a type that merely appears in [nodes.types] might not
    // exist in Slurm.
    label.type = ruling_.gpu_type.empty() ? job_.gpus.type : ruling_.gpu_type;
    const int64_t nodes = job_.gpus.pinned_nodes;
    label.min_nodes =
        static_cast<int>(std::min<int64_t>(nodes > 0 ? nodes : job_.given.min_nodes.value_or(0), 1'000'000));
    label.max_nodes =
        static_cast<int>(std::min<int64_t>(nodes > 0 ? nodes : job_.given.max_nodes.value_or(0), 1'000'000));
    // We chose the number of nodes of a spread job, so dlpolicyd may find it a place on fewer.
    if (job_.given.fewest_nodes > 0 && label.min_nodes > 0 && nodes == 0)
      label.min_nodes = static_cast<int>(job_.given.fewest_nodes);
    label.placement = job_.given.placement;
    label.pausable = pausable();
    label.back = gives_back();
    label.charge = ruling_.charge;
    label.own_part = own_part_;
    if (job_.given.begin_s) label.begin_s = std::min(*job_.given.begin_s, policy::kFarthestS);
    ruling_.label = policy::with_label(job_.given.admin_comment, std::move(label));
  }

  void write_message() {
    const bool own = ruling_.charge == policy::Charge::kOwn;
    const bool bounded = most_ < job_.gpus.most;
    const bool warned = own && may_become_borrowed();
    if (own && !bounded && !warned && ruling_.gpu_type.empty() && job_.request.empty()) return;
    const std::string size = most_ > job_.gpus.least ? fmt::format("{} to {}", job_.gpus.least, gpus_text(most_))
                                                     : gpus_text(job_.gpus.least);
    std::string text = fmt::format("dl: tenant {}: {}", tenant().name, size);
    if (!ruling_.gpu_type.empty()) text += " of type " + ruling_.gpu_type;
    text += own ? " of its own" : " borrowed, to be given back when their owner needs them";
    if (bounded) text += fmt::format(" (asked for up to {})", job_.gpus.most);
    if (warned) text += ", or borrowed while its quota is in use, to be given back when their owner needs them";
    if (!own || warned) text += what_then();
    ruling_.message = text;
  }

  // True for a job that cannot save and may become borrowed later: its user is warned at submission.
  bool may_become_borrowed() const {
    return as_policy_.tier == Tier::kAuto && gives_back() != policy::GiveBack::kSave && tenant().borrow_limit != 0;
  }

  std::string what_then() const {
    const std::string within = format_duration(job_.site.quota.grace);
    switch (gives_back()) {
      case policy::GiveBack::kSave:
        return fmt::format(": the job is then asked to save, and goes back into the queue within {}", within);
      case policy::GiveBack::kRequeue:
        return fmt::format(
            ": the job cannot save, so it then goes back into the queue within {} and begins anew; with "
            "--dl-checkpoint it would go on where it was",
            within);
      default:
        return fmt::format(
            ": the job can neither save nor go back into the queue, so it is then ended within {}; "
            "allowed, too: sbatch with --dl-checkpoint",
            within);
    }
  }

  const SiteTenant& tenant() const { return job_.site.tenants[static_cast<size_t>(index_)]; }

  const TenantJob& job_;
  Ruling ruling_;
  policy::Job as_policy_;
  int index_ = 0;
  int type_ = policy::kAnyType;
  int64_t per_learner_ = 1;
  int own_gpus_ = 0;  // the most GPUs that the quota could ever give to this job
  int within_ = 0;    // of a borrowed job: the most GPUs that could be within the quota
  int64_t most_ = 0;  // number of GPUs that the job is charged for
  int own_part_ = 0;  // how many of these exceed the borrowing limit, until dlpolicyd computes it exactly
};

}  // namespace

Result<Ruling> rule_job(const TenantJob& job) {
  return Rules(job).rule();
}

Result<bool> must_be_alone(const SiteConfig& site, int tenant) {
  if (tenant < 0 || !site.tenants[static_cast<size_t>(tenant)].network_job) return false;
  if (site.network.enforced) return true;
  return Error{Errc::kUnsupported,
               fmt::format("tenant '{}' requires network = \"job\", and dl.toml does not say that the nodes can keep a "
                           "job to itself; allowed, by an administrator: [network] enforce = \"nftables\"",
                           site.tenants[static_cast<size_t>(tenant)].name)};
}

Status check_declared(const std::string& licences, const std::string& declared) {
  const std::vector<policy::Licence> all = policy::parse_licences(declared);
  for (const policy::Licence& licence : policy::parse_licences(licences)) {
    const auto same = [&](const policy::Licence& other) { return other.name == licence.name; };
    if (licence.name.rfind(policy::kTokenPrefix, 0) != 0 || std::any_of(all.begin(), all.end(), same)) continue;
    return Error{
        Errc::kUnsupported,
        fmt::format("slurm.conf does not have the licence '{}', which stands for GPUs of this job's tenant; allowed, "
                    "by an administrator: dlctl quota sync",
                    licence.name)};
  }
  return {};
}

Status check_licences(const std::string& licences) {
  if (!policy::names_token(licences)) return {};
  return Error{Errc::kDenied,
               fmt::format("--licenses={}: names that begin with {} stand for GPUs of tenants and cannot be "
                           "asked for; allowed: --account=NAME with --dl-gpus or --gpus",
                           printable(licences), policy::kTokenPrefix)};
}

Submission with_shape(Submission given, const Shape& shape) {
  if (shape.tasks) given.tasks = *shape.tasks;
  if (shape.min_nodes) given.min_nodes = *shape.min_nodes;
  if (shape.max_nodes) given.max_nodes = *shape.max_nodes;
  if (shape.exact_tasks_on_node) given.tasks_per_node = *shape.exact_tasks_on_node;
  if (shape.cpus_per_task) given.cpus_per_task = *shape.cpus_per_task;
  if (shape.cpus_per_node)
    given.cpus_per_node = std::max<int64_t>(given.cpus_per_node.value_or(0), *shape.cpus_per_node);
  if (shape.min_cpus) given.min_cpus = *shape.min_cpus;
  given.placement = shape.placement;
  given.fewest_nodes = shape.fewest_nodes;
  const auto add = [&](std::string* field, int count) {
    if (count == 0) return;
    if (!field->empty()) *field += ',';
    *field += shape.gpu_type.empty() ? fmt::format("gpu:{}", count) : fmt::format("gpu:{}:{}", shape.gpu_type, count);
  };
  add(&given.tres_per_task, shape.gpus_per_task);
  add(&given.tres_per_node, shape.gpus_per_node);
  if (!shape.qos.empty()) given.qos = shape.qos;
  if (!shape.partition.empty()) given.partition = shape.partition;
  return given;
}

}  // namespace dl
