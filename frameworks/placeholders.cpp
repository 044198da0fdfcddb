// SPDX-License-Identifier: Apache-2.0
#include "frameworks/placeholders.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include "common/base/parse.h"

namespace dl {
namespace {

constexpr std::string_view kOpen = "%{";

struct Placeholder {
  std::string_view name;
  bool differs;                                 // between learners of a job
  bool needs_peers;                             // the entry must have the family "peers"
  std::string (*value)(const LearnerContext&);  // an empty result: the value is not known
};

// THE table. To add a placeholder, add a row here and a line in dl-frameworks(7).
const Placeholder kPlaceholders[] = {
    {"address", false, false, [](const LearnerContext& c) { return c.master_addr; }},
    {"attempt", false, false, [](const LearnerContext& c) { return std::to_string(c.attempt); }},
    {"checkpoint_dir", false, false, [](const LearnerContext& c) { return c.checkpoint_dir; }},
    {"cpus", false, false,
     [](const LearnerContext& c) { return c.cpus_per_learner > 0 ? std::to_string(c.cpus_per_learner) : ""; }},
    {"gpus", true, false, [](const LearnerContext& c) { return std::to_string(c.gpus_per_learner); }},
    {"job_dir", false, false, [](const LearnerContext& c) { return c.job_dir; }},
    {"job_id", false, false, [](const LearnerContext& c) { return c.job_id; }},
    {"local_gpus", true, false,
     [](const LearnerContext& c) {
       std::string list;
       for (int i = 0; i < c.gpus_per_learner; ++i)
         list += (i > 0 ? "," : "") + std::to_string(c.local_rank * c.gpus_per_learner + i);
       return list;
     }},
    {"local_rank", true, false, [](const LearnerContext& c) { return std::to_string(c.local_rank); }},
    {"local_world_size", true, false, [](const LearnerContext& c) { return std::to_string(c.local_world_size); }},
    {"log_dir", false, false, [](const LearnerContext& c) { return c.log_dir; }},
    {"node_rank", true, false, [](const LearnerContext& c) { return std::to_string(c.node_rank); }},
    {"num_nodes", false, false, [](const LearnerContext& c) { return std::to_string(c.num_nodes); }},
    {"peer", true, true,
     [](const LearnerContext& c) {
       const auto rank = static_cast<size_t>(std::max(0, c.rank));
       return rank < c.peers.size() ? c.peers[rank] : std::string();
     }},
    {"peers", false, true, [](const LearnerContext& c) { return join(c.peers, ","); }},
    {"port", true, true,
     [](const LearnerContext& c) { return c.ports.empty() ? std::string() : std::to_string(c.ports.front()); }},
    {"rank", true, false, [](const LearnerContext& c) { return std::to_string(c.rank); }},
    {"world_size", false, false, [](const LearnerContext& c) { return std::to_string(c.world_size); }},
};

const Placeholder* find_placeholder(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kPlaceholders), std::end(kPlaceholders),
                                         [&](const Placeholder& row) { return row.name == name; });
  return found == std::end(kPlaceholders) ? nullptr : found;
}

// Calls `placeholder` with each name between %{ and }, and `plain` with the text between placeholders; stops when
// `placeholder` returns false. A placeholder that is not closed reaches to the end of the text.
void walk(const std::string& text, const std::function<bool(std::string_view name)>& placeholder,
          const std::function<void(std::string_view plain)>& plain) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t open = rest.find(kOpen);
    plain(rest.substr(0, open));
    if (open == std::string_view::npos) return;
    rest.remove_prefix(open + kOpen.size());
    const size_t close = rest.find('}');
    if (!placeholder(rest.substr(0, close))) return;
    rest.remove_prefix(close == std::string_view::npos ? rest.size() : close + 1);
  }
}

bool any_row(const std::string& text, bool Placeholder::*member) {
  bool found = false;
  walk(
      text,
      [&](std::string_view name) {
        const Placeholder* row = find_placeholder(name);
        found = found || (row != nullptr && row->*member);
        return true;
      },
      [](std::string_view) {});
  return found;
}

}  // namespace

bool has_placeholders(const std::string& text) {
  return text.find(kOpen) != std::string::npos;
}

Status check_placeholders(const std::string& text) {
  std::string bad;
  walk(
      text,
      [&](std::string_view name) {
        if (find_placeholder(name) == nullptr) bad = name.empty() ? " " : std::string(name);
        return bad.empty();
      },
      [](std::string_view) {});
  if (bad.empty()) {
    const size_t last = text.rfind(kOpen);
    if (last == std::string::npos || text.find('}', last) != std::string::npos) return {};
    return Error{Errc::kInvalid, "'" + printable(text.substr(last)) + "' is not closed: write '}' behind the name"};
  }
  std::string allowed;
  for (const Placeholder& row : kPlaceholders)
    allowed.append(allowed.empty() ? "" : ", ").append("%{").append(row.name).append("}");
  return Error{Errc::kInvalid, "'%{" + printable(bad, 40) + "}' is not a placeholder; allowed: " + allowed};
}

bool placeholders_differ(const std::string& text) {
  return any_row(text, &Placeholder::differs);
}

bool placeholders_need_peers(const std::string& text) {
  return any_row(text, &Placeholder::needs_peers);
}

std::string fill_placeholders(const std::string& text, const LearnerContext& context) {
  std::string filled;
  bool known = true;
  walk(
      text,
      [&](std::string_view name) {
        const Placeholder* row = find_placeholder(name);
        const std::string value = row != nullptr ? row->value(context) : std::string();
        known = !value.empty();
        filled += value;
        return known;
      },
      [&](std::string_view plain) { filled += plain; });
  return known ? filled : std::string();
}

}  // namespace dl
