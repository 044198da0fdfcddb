// SPDX-License-Identifier: Apache-2.0
// dlctl why JOB: what a job waits for, who holds it, and what would have to end. It reports Slurm's view of any job,
// and the policy's view if there are tenants.
#include "slurm-plugin/policy/why.h"

#include "common/base/count.h"
#include "common/json/json.h"

#include <fmt/core.h>

#include <cstdio>
#include <memory>
#include <optional>

#include "common/base/parse.h"
#include "launcher/ctl/act_as.h"
#include "launcher/ctl/cluster_now.h"
#include "launcher/ctl/job_view.h"
#include "launcher/ctl/leaving.h"
#include "launcher/ctl/quota_table.h"
#include "launcher/ctl/subcommand.h"
#include "launcher/ctl/wait_look.h"
#include "slurm-plugin/observe/sizes_now.h"
#include "slurm-plugin/policy/job_id.h"
#include "slurm-plugin/policy/job_label.h"
#include "slurm-plugin/policy/sizes/why_size.h"

namespace dl::ctl {
namespace {

struct WhyOptions {
  std::string job;
  bool json = false;
};

std::string held_as(const policy::Job& holder) {
  const int own = holder.own_of(holder.gpus());
  if (own == holder.gpus()) return "its own";
  return own == 0 ? "borrowed ones" : fmt::format("{} its own and {} borrowed ones", own, holder.gpus() - own);
}

// An explanation if the job belongs to a tenant that dl.toml does not declare any more.
std::optional<std::string> uncharged(const ClusterNow& now, int64_t id) {
  for (const observe::Uncharged& job : now.view.uncharged) {
    const observe::JobRecord& its = now.records.jobs[job.record];
    if (its.id != id && its.array != policy::array_of(id)) continue;
    return fmt::format(
        "job {} is of tenant '{}', which is not in dl.toml any more: {}; an administrator declares "
        "the tenant again, or scancel {} and submit it with another --account",
        policy::job_name(id), printable(job.label.tenant),
        job.gpus > 0 ? "it runs, and nobody is charged for its GPUs" : "it is held", policy::job_name(id));
  }
  return std::nullopt;
}

// The answer of the tenants' policy. It is empty if there are no tenants, if there is no module for this Slurm, or if
// the policy has nothing to decide about the job.
struct PolicyAnswer {
  std::optional<std::string> sentence;
  bool can_ever_run = true;
  std::vector<std::string> lines;
  Json json = Json::object();
};

// Of a job that has companions, or has asked for one.
std::string growth_of(const ClusterNow& now, int job) {
  const policy::Job& its = now.view.state.jobs[job];
  std::vector<std::string> nodes, ids;
  std::string waits;
  int more = 0;
  bool borrows = true;
  for (const size_t record : now.view.jobs[job].companions) {
    const observe::JobRecord& companion = now.records.jobs[record];
    const std::string id = std::to_string(companion.id);
    if (companion.nodes.empty()) {
      waits = "its companion " + id + " waits for free nodes";
      continue;
    }
    ids.push_back(id);
    nodes.push_back(companion.nodes);
    for (size_t i = 0; i < now.view.jobs.size(); ++i) {
      if (now.view.jobs[i].record != record) continue;
      more += now.view.state.jobs[i].gpus() / its.gpus_per_learner;
      borrows = borrows && now.view.state.jobs[i].companion;
    }
  }
  if (ids.empty())
    return fmt::format("it has {} and is to have more: {}", count_text(its.learners(), "learner"), waits);
  const bool one = ids.size() == 1;
  const bool several = !one || nodes.front().find_first_of(",[") != std::string::npos;
  std::string text =
      fmt::format("it grew from {} to {}: {} {} free, and now {} to its {} {}", its.learners(),
                  count_text(its.learners() + more, "learner"), join(nodes, ","), several ? "were" : "was",
                  several ? "belong" : "belongs", one ? "companion" : "companions", join(ids, ", "));
  if (borrows && one) text += ", which is given back as soon as a job within its tenant's quota needs it";
  if (borrows && !one) text += ", each of which is given back as soon as a job within its tenant's quota needs it";
  return waits.empty() ? text : text + "; " + waits;
}

// Why a running elastic job has its size, where the optimiser chooses sizes.
std::string size_of(ClusterNow* now, int job) {
  if (!now->view.jobs[job].companions.empty()) return growth_of(*now, job);
  if (!now->site.elastic.optimise) return "";
  const std::vector<policy::JobSpeeds> speeds = observe::sizes_now(now->records, &now->view);
  policy::SizeOptions options;
  options.each_s = now->site.elastic.interval.count();
  return policy::why_size(&now->view.state, speeds, options, job);
}

PolicyAnswer ask_policy(ClusterNow* cluster, int64_t id) {
  const ClusterNow& now = *cluster;
  PolicyAnswer answer;
  const int job = now.find(id);
  if (job < 0) {
    answer.sentence = uncharged(now, id);
    return answer;
  }
  const policy::ClusterState& state = now.view.state;
  const policy::Why why = policy::why(state, now.decision, job);
  answer.sentence = why.sentence;
  answer.can_ever_run = why.can_ever_run;
  answer.json["unused_gpus"] = state.jobs[job].idle_gpus;
  if (why.waiting.reserved_for >= 0) answer.json["reserved_for"] = job_json(state.jobs[why.waiting.reserved_for].id);
  if (const std::string size = size_of(cluster, job); !size.empty()) {
    answer.json["size"] = size;
    answer.lines.push_back("size: " + size);
  }
  answer.json["would_have_to_end"] = Json::array();
  if (state.jobs[job].idle_gpus > 0) answer.lines.push_back(unused_text(state, state.jobs[job]));
  answer.json["leaving"] = Json::array();
  for (const std::string& line : leaving_for(now, job)) {
    answer.json["leaving"].push_back(line);
    answer.lines.push_back("  " + line);
  }
  for (const int other : why.would_have_to_end) {
    const policy::Job& holder = state.jobs[other];
    Json its = job_json(holder.id);
    its["tenant"] = state.tenants[holder.tenant].name;
    its["gpus"] = holder.gpus();
    its["charge"] = policy::charge_name(holder.charge);
    its["own_gpus"] = holder.own_of(holder.gpus());
    answer.json["would_have_to_end"].push_back(std::move(its));
    answer.lines.push_back(fmt::format("  job {} of '{}' holds {} as {}", policy::job_name(holder.id),
                                       state.tenants[holder.tenant].name, count_text(holder.gpus(), "GPU"),
                                       held_as(holder)));
  }
  return answer;
}

// What speaks for another size of a job: how an elastic one scales, which is why it runs at the size that it has, and
// how the learners of a running one vote.
struct SizeTexts {
  std::string scaling, votes;  // empty: nothing is known
};

SizeTexts size_texts_of(const std::string& id, bool runs) {
  const auto job = find_job(id, "");
  if (!job || !job->has_dir()) return {};
  constexpr char kBetween = '\x1f';
  const auto text = made_as_owner(*job, [&] {
    const JobView view = view_job(*job, runs);
    return vote_text(view.vote) + kBetween + view.scaling;
  });
  const size_t end = text ? text->find(kBetween) : std::string::npos;
  if (end == std::string::npos) return {};
  return {text->substr(end + 1), text->substr(0, end)};
}

Status run(const WhyOptions& options) {
  DL_TRY_ASSIGN(const int64_t id, parse_job_option(options.job));
  DL_TRY_ASSIGN(const WaitTexts texts, look_at_wait(policy::job_name(id)));
  const WaitAnswer slurm = explain_wait(texts);
  PolicyAnswer tenants;
  if (auto now = look_at_cluster()) {
    tenants = ask_policy(&*now, id);
  } else if (now.error().code != Errc::kNotFound) {
    // dl.toml has a fault, or there is no module for this Slurm. What Slurm itself reports is valid all the same.
    std::fprintf(stderr, "dlctl why: tenants are left out of the answer: %s\n", now.error().text.c_str());
  }
  const bool waits = texts.job.value("JobState") == "PENDING";
  const SizeTexts size = size_texts_of(policy::job_name(id), texts.job.value("JobState") == "RUNNING");
  if (options.json) {
    Json json = job_json(id);
    json["why"] = tenants.sentence ? *tenants.sentence : slurm.sentence;
    json["can_ever_run"] = tenants.can_ever_run && slurm.can_ever_run;
    for (const JsonMember& member : tenants.json.members()) json[member.name] = member.value;
    if (!size.scaling.empty()) json["scaling"] = size.scaling;
    if (!size.votes.empty()) json["votes"] = size.votes;
    json["slurm"] = slurm.json;
    json["slurm"]["why"] = slurm.sentence;
    std::printf("%s\n", json.dump_sorted(2).c_str());
    return {};
  }
  const auto tell_size = [&] {
    if (!size.scaling.empty())
      std::printf("scaling: %s (dlctl scaling %s)\n", printable(size.scaling, 300).c_str(),
                  policy::job_name(id).c_str());
    if (!size.votes.empty()) std::printf("votes: %s\n", printable(size.votes, 1000).c_str());
  };
  if (tenants.sentence) {
    std::printf("%s\n", printable(*tenants.sentence, 1000).c_str());
    for (const std::string& line : tenants.lines) std::printf("%s\n", line.c_str());
    if (!waits) {
      tell_size();
      return {};
    }
    std::printf("Slurm: %s\n", slurm.sentence.c_str());
  } else {
    std::printf("%s\n", slurm.sentence.c_str());
  }
  for (const std::string& line : slurm.lines) std::printf("  %s\n", line.c_str());
  tell_size();
  if (!slurm.advice.empty()) std::printf("what you can do: %s\n", slurm.advice.c_str());
  return {};
}

}  // namespace

Run add_why(CommandLine* line) {
  auto options = std::make_shared<WhyOptions>();
  line->argument("JOB", &options->job, "job id").required();
  line->flag("--json", &options->json, "for programs");
  return [options] { return run(*options); };
}

}  // namespace dl::ctl
