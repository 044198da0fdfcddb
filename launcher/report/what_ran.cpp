// SPDX-License-Identifier: Apache-2.0
// The head of the page: which job, how it stands, and what it was asked to do.
#include <algorithm>

#include "common/base/count.h"
#include "common/base/hostlist.h"
#include "common/base/local_time.h"
#include "common/base/shell_word.h"
#include "launcher/report/section.h"
#include "launcher/report/timeline.h"
#include "launcher/report/words.h"

namespace dl::report {
namespace {

constexpr size_t kMostCommand = 1000;

std::string badge_class(const std::string& state) {
  const auto known = record::parse_state(state);
  return state == "CANCELLED" ? "failed" : known ? state_class(*known) : "pending";
}

std::string learners_words(const PlanSheet& plan) {
  if (plan.ranks < 0) return "";
  std::string text = count_text(plan.ranks - plan.servers, "learner");
  if (plan.least > 0 && plan.most > plan.least)
    text += " (" + std::to_string(plan.least) + " to " + std::to_string(plan.most) + " asked for)";
  if (plan.gpus_each > 0)
    text += " with " + count_text(plan.gpus_each, plan.gpu_type.empty() ? "GPU" : plan.gpu_type + " GPU") + " each";
  if (plan.least_servers > 0)
    text += " and " + std::to_string(plan.least_servers) + " to " + std::to_string(plan.servers) + " parameter servers";
  else if (plan.servers > 0)
    text += " and " + count_text(plan.servers, "parameter server");
  std::vector<std::string> names;
  for (const PlanNode& node : plan.nodes) names.push_back(node.name);
  return names.empty() ? text : text + ", on " + compress_hostlist(names);
}

std::string attempt_words(const ReportData& data) {
  if (data.attempt <= 0) return data.events.empty() ? "" : "none has begun";
  return std::to_string(data.attempt) +
         (data.restarts > 0 ? ", " + count_text(data.restarts, "restart") + " after failures in it" : "");
}

std::string step_words(const ReportData& data) {
  if (data.step < 0) return "";
  return std::to_string(data.step) +
         (data.saved_step < 0 ? ", none known to be saved" : ", saved at " + std::to_string(data.saved_step));
}

void times(const Course& course, bool goes_on, Html* html) {
  if (course.attempts.empty()) return;
  int64_t trained = 0;
  for (const AttemptLine& line : course.attempts) trained += line.trained_ms;
  html->fact("began", when(course.attempts.front().began_ms));
  if (!goes_on && !course.cut_off) html->fact("ended", when(course.to_ms));
  html->fact("all learners ran", age_text(trained) + " of " + age_text(course.to_ms - course.from_ms));
}

}  // namespace

void write_what_ran(const Material& of, Html* html) {
  const ReportData& data = of.data;
  const PlanSheet plan = data.plan.value_or(PlanSheet());
  const std::string& name = data.name.empty() ? plan.job_name : data.name;
  html->markup("<h1>Job ");
  html->text(data.job, 100);
  if (!name.empty()) html->markup(": ").text(name, 120);
  html->markup("</h1>\n<p><span class=\"badge\"><i class=\"");
  html->text(badge_class(data.state)).markup("\"></i>");
  html->text(data.state, 20).markup("</span>");
  html->text(data.why);
  if (data.since_ms > 0) html->markup(" <span class=\"soft\">since ").text(when(data.since_ms)).markup("</span>");
  html->markup("</p>\n<dl>\n");
  html->fact("user", data.user, 60);
  html->fact("framework", plan.version.empty() ? plan.framework : plan.framework + " " + plan.version, 100);
  html->fact("command", shell_words(plan.command), kMostCommand);
  html->fact("learners", learners_words(plan));
  html->fact("container image", plan.image);
  html->fact("batch", plan.batch, 100);
  html->fact("tier", plan.tier, 60);
  times(of.course, data.goes_on, html);
  html->fact("attempt", attempt_words(data));
  html->fact("train step", step_words(data));
  html->fact("rate", data.rate);
  html->fact("left", data.left);
  html->fact("expected end", data.expected_end);
  html->fact("scaling", data.scaling);
  html->fact("cluster", plan.cluster, 60);
  html->fact("working directory", plan.work_dir);
  html->fact("job directory", data.dir);
  html->markup("</dl>\n");
  if (!data.plan)
    html->markup("<p>The launch plan of the job could not be read: its command and learners are not known.</p>\n");
  for (size_t i = 0; i < std::min<size_t>(plan.warnings.size(), 10); ++i)
    html->markup("<p class=\"soft\">Warning of dlrun: ").text(plan.warnings[i]).markup("</p>\n");
}

}  // namespace dl::report
