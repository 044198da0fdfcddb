// SPDX-License-Identifier: Apache-2.0
// Formats a JobView as text and as JSON.
#include <fmt/core.h>

#include "common/base/count.h"
#include "common/base/parse.h"
#include "common/json/json.h"
#include "launcher/ctl/job_view.h"
#include "launcher/ctl/text.h"
#include "launcher/report/used.h"

namespace dl::ctl {
namespace {

constexpr size_t kShownEvents = 12;
constexpr size_t kShownLearners = 32;

std::string clean(const std::string& text) {
  return printable(text, 300);
}

std::string step_text(int64_t step) {
  return step < 0 ? "-" : std::to_string(step);
}

void row(std::string* out, const char* name, const std::string& value) {
  if (!value.empty()) *out += fmt::format("{:<13}{}\n", name, value);
}

std::string learners_text(const PlanFacts& plan) {
  if (plan.learners == 0) return "";
  std::string text = std::to_string(plan.learners);
  if (plan.gpus_per_learner > 0)
    text += fmt::format(" x {} GPU{}", plan.gpus_per_learner, plan.gpus_per_learner == 1 ? "" : "s");
  if (!plan.node_list.empty()) text += " on " + clean(plan.node_list);
  return text;
}

std::string unused_text(const IdleHint& idle) {
  if (idle.gpus == 0) return "";
  return fmt::format("{} GPU{} for {}", idle.gpus, idle.gpus == 1 ? "" : "s", age_text(now_ms() - idle.since_s * 1000));
}

Json vote_json(const protocol::VoteStatus& vote) {
  if (vote.voted <= 0) return nullptr;
  return {{"change", vote.change},
          {"wanted", vote.wanted},
          {"voted", vote.voted},
          {"learners", vote.learners},
          {"reason", vote.reason}};
}

// "2 of 1 to 4, 3 wanted; 512 slots of their state move"
std::string pool_text(const protocol::PoolStatus& pool) {
  if (pool.max <= 0) return "";
  std::string text = fmt::format("{} of {} to {}", pool.serving, pool.min, pool.max);
  if (pool.wanted != pool.serving) text += fmt::format(", {} wanted", pool.wanted);
  if (pool.unsettled > 0) text += fmt::format("; {} of their state move", count_text(pool.unsettled, "slot"));
  return text;
}

Json pool_json(const protocol::PoolStatus& pool) {
  if (pool.max <= 0) return nullptr;
  return {{"min", pool.min},
          {"max", pool.max},
          {"serving", pool.serving},
          {"wanted", pool.wanted},
          {"unsettled", pool.unsettled}};
}

Json use_json(const std::optional<record::UsedInAll>& use) {
  if (!use) return nullptr;
  Json json = {{"text", use->text}};
  for (const auto& [name, number] : use->numbers) json[name] = number;
  return json;
}

Json numbers_json(const std::map<std::string, double>& numbers) {
  if (numbers.empty()) return nullptr;
  Json json = Json::object();
  for (const auto& [name, number] : numbers) json[name] = number;
  return json;
}

void print_timeline(const JobView& view, int64_t now, std::string* out) {
  if (view.history.empty()) return;
  *out += "\n";
  const size_t skipped = view.history.size() > kShownEvents ? view.history.size() - kShownEvents : 0;
  if (skipped > 0) *out += fmt::format("({} earlier changes: dlctl status --json, or events.jsonl)\n", skipped);
  std::vector<std::vector<std::string>> rows{{"TIME", "ATTEMPT", "STATE", "STEP", "WHY"}};
  for (size_t i = skipped; i < view.history.size(); ++i) {
    const record::Event& event = view.history[i];
    std::string why = clean(event.reason);
    if (!event.code.empty()) why += " [" + clean(event.code) + "]";
    rows.push_back({clock_text(event.time_ms, now), event.attempt > 0 ? std::to_string(event.attempt) : "-",
                    record::state_name(event.state), event.step ? step_text(*event.step) : "-", why});
  }
  *out += table(rows);
}

void print_learners(const JobView& view, std::string* out) {
  if (view.learners.empty()) return;
  std::vector<std::vector<std::string>> rows{{"LEARNER", "NODE", "STATE", "STEP", "SAVED", "WHY"}};
  for (const LearnerView& learner : view.learners) {
    if (rows.size() > kShownLearners) break;
    rows.push_back({std::to_string(learner.rank), learner.host.empty() ? "-" : clean(learner.host),
                    learner.state.empty() ? "-" : clean(learner.state), step_text(learner.step),
                    step_text(learner.saved_step), clean(learner.reason)});
  }
  *out += "\n" + table(rows);
  if (view.learners.size() > kShownLearners) {
    *out += fmt::format("({} more: dlctl status --json)\n", view.learners.size() - kShownLearners);
  }
}

void print_learners_use(const JobView& view, std::string* out) {
  if (view.learners.empty()) return;
  const std::vector<report::UsedCell> columns = report::used_columns(view.plan.gpus_per_learner > 0);
  std::vector<std::vector<std::string>> rows{{"LEARNER"}};
  for (const report::UsedCell& column : columns) rows[0].emplace_back(column.short_name);
  for (const LearnerView& learner : view.learners) {
    rows.push_back({std::to_string(learner.rank)});
    for (const report::UsedCell& column : columns) rows.back().push_back(column.text(learner.use));
  }
  *out += "\n" + table(rows);
}

}  // namespace

std::string vote_text(const protocol::VoteStatus& vote) {
  if (vote.voted <= 0) return "";
  const std::string change = vote.change == 0 ? "no change" : fmt::format("{:+}", vote.change);
  std::string text =
      fmt::format("{} by {} of {} learner{}", change, vote.voted, vote.learners, vote.learners == 1 ? "" : "s");
  // dlrun may be another user's, whose numbers are anything.
  const int64_t wanted = int64_t{vote.learners} + vote.change;
  if (wanted > vote.wanted) text += fmt::format(" (at most {} were asked for)", vote.wanted);
  if (wanted < vote.wanted) text += fmt::format(" (at least {} were asked for)", vote.wanted);
  return text + (vote.reason.empty() ? "" : ": " + clean(vote.reason));
}

std::string view_text(const JobView& view, bool with_use) {
  const int64_t now = now_ms();
  std::string out;
  std::string job = view.job.name();
  if (!view.name.empty()) job += " " + clean(view.name);
  if (!view.user.empty()) job += " of " + clean(view.user);
  row(&out, "job", job);
  std::string state = shown_name(view.shown);
  if (view.shown.since_ms) {
    state += fmt::format(" since {} ({})", clock_text(*view.shown.since_ms, now), age_text(now - *view.shown.since_ms));
  }
  row(&out, "state", state);
  row(&out, "why", clean(view.shown.reason));
  row(&out, "data", clean(view.data));
  row(&out, "servers", pool_text(view.pool));
  if (view.attempt > 0) {
    row(&out, "attempt",
        std::to_string(view.attempt) + (view.restarts > 0 ? fmt::format(", restarts in it: {}", view.restarts) : ""));
  }
  if (view.step >= 0) {
    row(&out, "train step",
        std::to_string(view.step) +
            (view.saved_step >= 0 ? fmt::format(", saved at {}", view.saved_step) : ", none saved yet"));
  }
  row(&out, "rate", rate_words(view.pace));
  row(&out, "left", left_words(view.pace));
  row(&out, "expected end", end_words(view.pace, now));
  if (view.pace.next_save_ms > now) row(&out, "next save", "in " + age_text(view.pace.next_save_ms - now));
  if (!view.plan.framework.empty()) {
    row(&out, "framework", clean(view.plan.framework + (view.plan.version.empty() ? "" : " " + view.plan.version)));
  }
  row(&out, "learners", learners_text(view.plan));
  row(&out, "scaling", clean(view.scaling));
  row(&out, "votes", vote_text(view.vote));
  row(&out, "use", view.use ? clean(view.use->text) : "");
  row(&out, "not used", unused_text(unused_gpus(view)));
  row(&out, "checkpoint", clean(view.plan.checkpoint));
  row(&out, "directory", clean(view.job.dir.root()));
  print_timeline(view, now, &out);
  print_learners(view, &out);
  if (with_use) print_learners_use(view, &out);
  return out;
}

Json view_json(const JobView& view) {
  Json json;
  const auto step = [](int64_t value) { return value < 0 ? Json(nullptr) : Json(value); };
  json["job"] = view.job.id;
  if (view.job.run > 0) json["run"] = view.job.run;
  json["name"] = view.name;
  json["user"] = view.user;
  json["state"] = state_word(view.shown);
  json["cancelled"] = view.shown.cancelled;
  json["since_ms"] = view.shown.since_ms ? Json(*view.shown.since_ms) : Json(nullptr);
  json["reason"] = view.shown.reason;
  json["slurm_state"] = view.job.slurm ? Json(view.job.slurm->state) : Json(nullptr);
  json["slurm_reason"] = view.job.slurm ? Json(view.job.slurm->reason) : Json(nullptr);
  json["attempt"] = view.attempt;
  json["restarts"] = view.restarts;
  json["step"] = step(view.step);
  json["saved_step"] = step(view.saved_step);
  json["alive"] = view.alive;
  add_pace(view.pace, &json);
  json["framework"] = view.plan.framework;
  json["version"] = view.plan.version;
  json["learners"] = view.plan.learners;
  json["gpus_per_learner"] = view.plan.gpus_per_learner;
  json["nodes"] = view.plan.node_list;
  json["unused_gpus"] = unused_gpus(view).gpus;
  json["scaling"] = view.scaling;
  if (!view.data.empty()) json["data"] = view.data;
  json["servers"] = pool_json(view.pool);
  json["votes"] = vote_json(view.vote);
  json["use"] = use_json(view.use);
  json["checkpoint"] = view.plan.checkpoint;
  json["dir"] = view.job.dir.root();
  json["events"] = Json::array();
  for (const record::Event& event : view.history) {
    Json item = {{"time_ms", event.time_ms},
                 {"attempt", event.attempt},
                 {"state", record::state_name(event.state)},
                 {"reason", event.reason}};
    if (event.step) item["step"] = *event.step;
    if (!event.code.empty()) item["code"] = event.code;
    if (event.exit) item["exit"] = *event.exit;
    json["events"].push_back(std::move(item));
  }
  json["ranks"] = Json::array();
  for (const LearnerView& learner : view.learners) {
    json["ranks"].push_back({{"rank", learner.rank},
                             {"host", learner.host},
                             {"state", learner.state},
                             {"step", step(learner.step)},
                             {"saved_step", step(learner.saved_step)},
                             {"reason", learner.reason},
                             {"use", numbers_json(learner.use)}});
  }
  return json;
}

}  // namespace dl::ctl
