// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/policy/job_label.h"

#include <fmt/core.h>

#include <array>

#include "common/base/count.h"
#include "common/base/parse.h"
#include "slurm-plugin/policy/job_id.h"

namespace dl::policy {
namespace {

constexpr std::string_view kStart = "dl:1 ";
constexpr std::string_view kNoteMark = " | ";
constexpr size_t kMaxLabel = 4096;
constexpr int64_t kMaxTime = kFarthestS;
constexpr int kMaxNodes = 1'000'000;

bool read_int(std::string_view text, int64_t min, int64_t max, int64_t* out) {
  const auto value = parse_int(text, min, max);
  if (value) *out = *value;
  return value.has_value();
}

bool read_int(std::string_view text, int64_t min, int64_t max, int* out) {
  int64_t wide = 0;
  if (!read_int(text, min, max, &wide)) return false;
  *out = static_cast<int>(wide);
  return true;
}

bool read_name(std::string_view text, std::string* out) {
  if (!is_plain_name(text)) return false;
  *out = text;
  return true;
}

bool read_learners(std::string_view text, JobLabel* label) {
  const auto range = parse_learners(text);
  if (range) label->learners = *range;
  return range.has_value();
}

bool read_nodes(std::string_view text, JobLabel* label) {
  const size_t colon = text.find(':');
  return colon != std::string_view::npos && read_int(text.substr(0, colon), 0, kMaxNodes, &label->min_nodes) &&
         read_int(text.substr(colon + 1), 0, kMaxNodes, &label->max_nodes) &&
         (label->max_nodes == 0 || label->max_nodes >= label->min_nodes);
}

bool read_yields(std::string_view text, JobLabel* label) {
  const size_t at = text.find('@');
  const size_t colon = text.find(':', at == std::string_view::npos ? 0 : at);
  if (at == std::string_view::npos || colon == std::string_view::npos) return false;
  Yield yield;
  const std::optional<int64_t> claimant = parse_job_name(text.substr(0, at));
  if (!claimant || !read_int(text.substr(at + 1, colon - at - 1), 0, kMaxTime, &yield.deadline_s) ||
      !read_int(text.substr(colon + 1), 0, kMaxLearners, &yield.learners))
    return false;
  yield.claimant = *claimant;
  label->yields = yield;
  return true;
}

bool read_size(std::string_view text, JobLabel* label) {
  const size_t at = text.find('@');
  ChosenSize size;
  if (at == std::string_view::npos || !read_int(text.substr(0, at), 1, kMaxLearners, &size.learners) ||
      !read_int(text.substr(at + 1), 0, kMaxTime, &size.queued_s))
    return false;
  label->size = size;
  return true;
}

bool read_grow(std::string_view text, JobLabel* label) {
  const size_t at = text.find('@');
  Offer offer;
  if (at == std::string_view::npos || !read_int(text.substr(0, at), 1, kMaxNodes, &offer.nodes) ||
      !read_int(text.substr(at + 1), 0, kMaxTime, &offer.offered_s))
    return false;
  label->grow = offer;
  return true;
}

bool read_dropped(std::string_view text, JobLabel* label) {
  const size_t colon = text.find(':');
  const size_t at = text.find('@');
  Dropped dropped;
  if (colon == std::string_view::npos || at == std::string_view::npos || at < colon ||
      !read_int(text.substr(0, colon), 1, kMostJobGpus, &dropped.gpus) ||
      !read_int(text.substr(colon + 1, at - colon - 1), 0, kMostGpusInAll, &dropped.room) ||
      !read_int(text.substr(at + 1), 0, kMaxTime, &dropped.at_s))
    return false;
  label->dropped = dropped;
  return true;
}

struct Key {
  std::string_view name;
  bool required;
  bool (*read)(std::string_view text, JobLabel* label);
};
using Text = std::string_view;
using Label = JobLabel;
constexpr std::array kKeys{
    Key{"tenant", true, [](Text t, Label* l) { return read_name(t, &l->tenant); }},
    Key{"tier", true,
        [](Text t, Label* l) {
          const auto tier = parse_tier(t);
          if (tier) l->tier = *tier;
          return tier.has_value();
        }},
    Key{"learners", true, read_learners},
    Key{"gpus", true, [](Text t, Label* l) { return read_int(t, 1, kMaxGpusPerLearner, &l->gpus); }},
    Key{"type", false, [](Text t, Label* l) { return read_name(t, &l->type); }},
    Key{"nodes", false, read_nodes},
    Key{"batch", false,
        [](Text t, Label* l) {
          const auto batch = parse_batch(t);
          if (batch) l->batch = *batch;
          return batch.has_value();
        }},
    Key{"pausable", true,
        [](Text t, Label* l) {
          l->pausable = t == "1";
          return t == "0" || t == "1";
        }},
    Key{"back", false,
        [](Text t, Label* l) {
          l->back = t == "requeue" ? GiveBack::kRequeue : GiveBack::kEnd;
          return t == "requeue" || t == "end";
        }},
    Key{"placement", true,
        [](Text t, Label* l) {
          const auto placement = parse_placement(t);
          if (placement) l->placement = *placement;
          return placement.has_value();
        }},
    Key{"charge", true,
        [](Text t, Label* l) {
          l->charge = t == "own" ? Charge::kOwn : Charge::kBorrowed;
          return t == "own" || t == "borrowed";
        }},
    Key{"own", false, [](Text t, Label* l) { return read_int(t, 1, kMostJobGpus, &l->own_part); }},
    Key{"begin", false, [](Text t, Label* l) { return read_int(t, 1, kMaxTime, &l->begin_s.emplace()); }},
    Key{"queued", false, [](Text t, Label* l) { return read_int(t, 1, kMaxTime, &l->queued_s.emplace()); }},
    Key{"yields", false, read_yields},
    Key{"size", false, read_size},
    Key{"grow", false, read_grow},
    Key{"dropped", false, read_dropped},
    Key{"nodes_set", false, [](Text t, Label* l) { return (l->nodes_set = t == "1"); }},
    Key{"shrunk", false, [](Text t, Label* l) { return (l->shrunk = t == "1"); }},
    Key{"unowned", false, [](Text t, Label* l) { return (l->unowned = t == "1"); }},
    Key{"yielded", false, [](Text t, Label* l) { return (l->yielded = parse_job_name(t)).has_value(); }},
};

}  // namespace

GiveBack gives_back(const JobLabel& label) {
  return label.pausable ? GiveBack::kSave : label.back;
}

std::string dropped_text(const Dropped& dropped) {
  return fmt::format(
      "it needs {} at its smallest size, and would have to borrow; if all jobs before it were at their smallest sizes, "
      "{} would be left (admission = \"drop\" in dl.toml)",
      count_text(dropped.gpus, "GPU"), dropped.room);
}

const char* charge_name(Charge charge) {
  return charge == Charge::kOwn ? "own" : "borrowed";
}

std::string format_label(const JobLabel& label) {
  std::string text =
      fmt::format("{}tenant={} tier={} learners={}", kStart, label.tenant, tier_name(label.tier), label.learners.min);
  if (label.learners.elastic()) text += fmt::format(":{}", label.learners.max);
  text += fmt::format(" gpus={}", label.gpus);
  if (!label.type.empty()) text += " type=" + label.type;
  if (label.min_nodes > 0 || label.max_nodes > 0) text += fmt::format(" nodes={}:{}", label.min_nodes, label.max_nodes);
  if (label.batch) text += " batch=" + format_batch(*label.batch);
  text += fmt::format(" pausable={}", label.pausable ? 1 : 0);
  if (gives_back(label) == GiveBack::kRequeue) text += " back=requeue";
  if (gives_back(label) == GiveBack::kEnd) text += " back=end";
  text += fmt::format(" placement={} charge={}", placement_name(label.placement), charge_name(label.charge));
  if (label.own_part > 0) text += fmt::format(" own={}", label.own_part);
  if (label.begin_s) text += fmt::format(" begin={}", *label.begin_s);
  if (label.queued_s) text += fmt::format(" queued={}", *label.queued_s);
  if (label.yields)
    text += fmt::format(" yields={}@{}:{}", job_name(label.yields->claimant), label.yields->deadline_s,
                        label.yields->learners);
  if (label.yielded) text += " yielded=" + job_name(*label.yielded);
  if (label.size) text += fmt::format(" size={}@{}", label.size->learners, label.size->queued_s);
  if (label.grow) text += fmt::format(" grow={}@{}", label.grow->nodes, label.grow->offered_s);
  if (label.dropped)
    text += fmt::format(" dropped={}:{}@{}", label.dropped->gpus, label.dropped->room, label.dropped->at_s);
  if (label.nodes_set) text += " nodes_set=1";
  if (label.shrunk) text += " shrunk=1";
  if (label.unowned) text += " unowned=1";
  if (!label.note.empty()) text.append(kNoteMark).append(label.note);
  return text;
}

std::optional<JobLabel> parse_label(std::string_view text) {
  if (text.substr(0, kStart.size()) != kStart || text.size() > kMaxLabel) return std::nullopt;
  JobLabel label;
  const size_t note = text.find(kNoteMark);
  if (note != std::string_view::npos) label.note = text.substr(note + kNoteMark.size());
  const std::string_view ours =
      text.substr(kStart.size(), note == std::string_view::npos ? note : note - kStart.size());
  std::array<bool, kKeys.size()> seen{};
  for (const std::string& field : split(ours, ' ')) {
    const size_t equals = field.find('=');
    if (field.empty()) continue;
    if (equals == std::string::npos) return std::nullopt;
    for (size_t i = 0; i < kKeys.size(); ++i) {
      if (kKeys[i].name != std::string_view(field).substr(0, equals)) continue;
      if (seen[i] || !kKeys[i].read(std::string_view(field).substr(equals + 1), &label)) return std::nullopt;
      seen[i] = true;
    }
  }
  for (size_t i = 0; i < kKeys.size(); ++i)
    if (kKeys[i].required && !seen[i]) return std::nullopt;
  return label;
}

std::string with_label(std::string_view admin_comment, JobLabel label) {
  label.note.clear();
  if (const auto former = parse_label(admin_comment))
    label.note = former->note;
  else
    label.note = admin_comment;
  return format_label(label);
}

}  // namespace dl::policy
