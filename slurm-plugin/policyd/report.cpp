// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policyd/report.h"

#include <fmt/core.h>

#include "common/base/parse.h"
#include "common/json/json.h"
#include "slurm-plugin/policy/job_id.h"

namespace dl::policyd {

std::string describe(const Action& action) {
  const observe::JobUpdate& update = action.update;
  std::vector<std::string> changes;
  if (update.licenses) changes.push_back(fmt::format("licences '{}'", *update.licenses));
  if (update.begin_s) changes.push_back(fmt::format("begins at {}", *update.begin_s));
  if (update.site_factor) changes.push_back(fmt::format("site factor {}", *update.site_factor));
  if (update.min_nodes) changes.push_back(fmt::format("at least {} nodes", *update.min_nodes));
  if (update.max_nodes) changes.push_back(fmt::format("at most {} nodes", *update.max_nodes));
  if (update.admin_comment) changes.push_back(fmt::format("label '{}'", *update.admin_comment));
  if (update.hold) changes.emplace_back(*update.hold ? "hold" : "release");
  if (action.signal) changes.emplace_back("signal");
  if (update.requeue) changes.emplace_back("may be requeued");
  if (action.requeue) changes.emplace_back("requeue");
  if (action.end) changes.emplace_back("end");
  return fmt::format("job {}: {}: {} ({})", policy::job_name(action.job), action_name(action.kind), action.why,
                     join(changes, ", "));
}

std::string as_text(const std::vector<Action>& actions) {
  if (actions.empty()) return "nothing to do\n";
  std::string text;
  for (const Action& action : actions) text += describe(action) + "\n";
  return text;
}

std::string as_json(const std::vector<Action>& actions) {
  auto list = Json::array();
  for (const Action& action : actions) {
    const observe::JobUpdate& update = action.update;
    Json item = {{"job", policy::array_of(action.job)}, {"action", action_name(action.kind)}, {"why", action.why}};
    if (policy::is_element(action.job)) item["element"] = policy::job_name(action.job);
    if (update.licenses) item["licenses"] = *update.licenses;
    if (update.admin_comment) item["admin_comment"] = *update.admin_comment;
    if (update.begin_s) item["begin"] = *update.begin_s;
    if (update.site_factor) item["site_factor"] = *update.site_factor;
    if (update.min_nodes) item["min_nodes"] = *update.min_nodes;
    if (update.max_nodes) item["max_nodes"] = *update.max_nodes;
    if (update.hold) item["hold"] = *update.hold;
    if (action.signal) item["signal"] = true;
    if (update.requeue) item["may_be_requeued"] = *update.requeue;
    if (action.requeue) item["requeue"] = true;
    if (action.end) item["end"] = true;
    if (!action.notice.empty()) item["notice"] = action.notice;
    list.push_back(std::move(item));
  }
  return list.dump_sorted(2) + "\n";
}

}  // namespace dl::policyd
