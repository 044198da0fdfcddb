// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/scaling_view.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "common/base/count.h"
#include "common/base/parse.h"
#include "common/cli/svg.h"
#include "launcher/ctl/text.h"

namespace dl::ctl {
namespace {

using scaling::Confidence;

constexpr int kMostRows = 24;

std::string seconds_text(double seconds) {
  if (seconds < 1e-7) return "nothing";
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} s", seconds);
}

std::string number_text(double value) {
  return value >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

const char* unit_of(const ScalingView& view) {
  return view.counts_samples() ? "samples/s" : "train steps/s, summed over learners";
}

// Those that are worth a row: what was run, the ends of the range, and doublings between.
std::set<int> learners_of(const record::ScalingRecord& record) {
  std::set<int> all{record.asked.min, record.asked.max, record.now.learners};
  for (const scaling::Measured& measured : record.measured) all.insert(measured.size.learners);
  for (int n = record.asked.min; n < record.asked.max && all.size() < kMostRows / 2; n *= 2) all.insert(n);
  return all;
}

ScalingRow row_of(const ScalingView& view, const scaling::Size& size) {
  ScalingRow row;
  row.size = size;
  row.prediction = view.model.predict(size);
  if (const auto range = parse_batch(view.record.batch))
    row.efficiency = scaling::efficiency(view.record.noise, range->min, size.batch);
  row.now = size == view.record.now;
  return row;
}

const ScalingRow* row_now(const ScalingView& view) {
  for (const ScalingRow& row : view.rows)
    if (row.now) return &row;
  return nullptr;
}

}  // namespace

Result<ScalingView> view_scaling(const record::ScalingRecord& record) {
  auto model = scaling::Model::fit(record.measured);
  if (!model)
    return Error{
        Errc::kBusy,
        "no train steps were measured yet: that takes a program which counts them (dlckpt), and some seconds of "
        "training"};
  ScalingView view{record, *std::move(model), {}, 1, {}};
  std::vector<scaling::Size> sizes;
  for (const int learners : learners_of(record))
    if (auto size = record::size_of(record, learners)) sizes.push_back(*size);
  sizes.push_back(record.now);
  for (const scaling::Measured& measured : view.model.measured()) sizes.push_back(measured.size);
  std::sort(sizes.begin(), sizes.end(), [](const scaling::Size& a, const scaling::Size& b) {
    return std::tie(a.learners, a.batch, a.nodes, a.passes) < std::tie(b.learners, b.batch, b.nodes, b.passes);
  });
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  for (const scaling::Size& size : sizes) {
    if (!scaling::sane({size, 1, 0, 1, 0})) continue;  // a record that somebody has edited
    if (view.rows.size() < kMostRows || size == record.now) view.rows.push_back(row_of(view, size));
  }
  if (view.rows.empty())
    return Error{
        Errc::kInvalid,
        "the record of the job's train steps (scaling.json) names no number of learners that the job may have"};
  view.base_learners = view.rows.front().size.learners;
  const double base = view.rows.front().goodput();
  for (ScalingRow& row : view.rows) row.speed_up = row.goodput() / base;
  view.probe = scaling::next_to_probe(record.measured, record.now.learners, record.asked.min, record.asked.max);
  return view;
}

std::string scaling_text(const ScalingView& view, const std::string& job) {
  std::string title = "job " + job;
  if (!view.record.name.empty()) title += " " + printable(view.record.name, 60);
  std::string out = title + ": " + scaling_sentence(view) + "\n\n";
  std::vector<std::vector<std::string>> rows{{"", "LEARNERS", "NODES", "BATCH", "STEP", "COMMUNICATION",
                                              view.counts_samples() ? "SAMPLES/S" : "STEPS/S x LEARNERS", "FROM", "TO",
                                              "WORTH", "SPEED-UP", "HOW"}};
  for (const ScalingRow& row : view.rows) {
    const scaling::Prediction& p = row.prediction;
    rows.push_back({row.now ? ">" : " ", std::to_string(row.size.learners), std::to_string(row.size.nodes),
                    view.counts_samples() ? std::to_string(row.size.batch) : "-", seconds_text(p.step_s),
                    fmt::format("{:.0f} %", 100 * p.communication_s / p.step_s), number_text(p.samples_per_s),
                    number_text(p.low), number_text(p.high), fmt::format("{:.2f}", row.efficiency),
                    fmt::format("{:.2f}", row.speed_up), scaling::confidence_name(p.confidence)});
  }
  out += table(rows);
  const scaling::Model& model = view.model;
  out += fmt::format(
      "\nstep = {} for each pass + {} for each sample of a learner + 2(n-1)/n x {} (one node) or {} (several);"
      "\nthe fit is within {:.0f} % of {} that {} measured\n",
      seconds_text(model.per_pass_s()), seconds_text(model.per_sample_s()), seconds_text(model.on_node_s()),
      seconds_text(model.between_nodes_s()), 100 * model.error(),
      count_text(static_cast<int64_t>(model.measured().size()), "size"), model.measured().size() == 1 ? "was" : "were");
  if (view.record.noise >= 0)
    out += fmt::format(
        "the program's gradient noise scale is {} samples; WORTH is what a sample of this batch teaches by it, "
        "against one of the smallest batch\n",
        number_text(view.record.noise));
  if (view.probe)
    out += fmt::format("a run with {} would improve this forecast most\n", count_text(*view.probe, "learner"));
  return out;
}

std::string scaling_sentence(const ScalingView& view) {
  const ScalingRow* now = row_now(view);
  if (now == nullptr) now = &view.rows.front();
  std::string text = fmt::format("{}: {} {}", count_text(now->size.learners, "learner"),
                                 number_text(now->prediction.samples_per_s), unit_of(view));
  if (now->size.learners != view.base_learners)
    text += fmt::format(", {:.2g} times {}", now->speed_up, count_text(view.base_learners, "learner"));
  text += fmt::format(" ({})", scaling::confidence_name(now->prediction.confidence));
  const ScalingRow* best = now;
  for (const ScalingRow& row : view.rows)
    if (row.size.learners <= view.record.asked.max && row.goodput() > best->goodput()) best = &row;
  if (best != now)
    text += fmt::format("; {} would give {:.2g} times that ({})", best->size.learners, best->goodput() / now->goodput(),
                        scaling::confidence_name(best->prediction.confidence));
  return text;
}

Json scaling_json(const ScalingView& view, const std::string& job) {
  Json json;
  json["job"] = job;
  json["name"] = view.record.name;
  json["framework"] = view.record.framework;
  json["noise"] = view.record.noise >= 0 ? Json(view.record.noise) : Json(nullptr);
  json["unit"] = view.counts_samples() ? "samples/s" : "learner-steps/s";
  json["formula"] = {{"per_pass_s", view.model.per_pass_s()},
                     {"per_sample_s", view.model.per_sample_s()},
                     {"on_node_s", view.model.on_node_s()},
                     {"between_nodes_s", view.model.between_nodes_s()},
                     {"error", view.model.error()}};
  json["points"] = Json::array();
  for (const ScalingRow& row : view.rows) {
    const scaling::Prediction& p = row.prediction;
    json["points"].push_back({{"learners", row.size.learners},
                              {"nodes", row.size.nodes},
                              {"batch", row.size.batch},
                              {"passes", row.size.passes},
                              {"now", row.now},
                              {"step_s", p.step_s},
                              {"communication_s", p.communication_s},
                              {"speed", p.samples_per_s},
                              {"speed_low", p.low},
                              {"speed_high", p.high},
                              {"efficiency", row.efficiency},
                              {"goodput", row.goodput()},
                              {"speed_up", row.speed_up},
                              {"confidence", scaling::confidence_name(p.confidence)}});
  }
  json["probe"] = view.probe ? Json(*view.probe) : Json(nullptr);
  return json;
}

// One curve: of several batches with as many learners the fastest is on it. The band is what the speed may be.
std::string scaling_svg(const ScalingView& view, const std::string& job) {
  constexpr double kWidth = 760, kHeight = 440, kLeft = 84, kRight = 24, kTop = 84, kBottom = 384;
  std::vector<const ScalingRow*> curve;
  double most = 0;
  for (const ScalingRow& row : view.rows) {
    most = std::max(most, std::min(row.prediction.high, 4 * row.prediction.samples_per_s));
    if (!curve.empty() && curve.back()->size.learners == row.size.learners) {
      if (row.prediction.samples_per_s > curve.back()->prediction.samples_per_s) curve.back() = &row;
    } else {
      curve.push_back(&row);
    }
  }
  const double step = svg::nice_step(most, 6);
  const double top = step * static_cast<double>(static_cast<int64_t>(most / step) + 1);
  const double widest = std::max(2, curve.back()->size.learners);
  const auto x_of = [&](double learners) { return kLeft + (kWidth - kLeft - kRight) * learners / widest; };
  const auto y_of = [&](double speed) { return kBottom - (kBottom - kTop) * std::min(speed, top) / top; };
  const std::string title = "How job " + job + (view.record.name.empty() ? "" : " " + view.record.name) + " scales";
  std::string body = svg::words(kLeft - 60, 32, "title", printable(title, 80));
  body += svg::words(kLeft - 60, 54, "soft", std::string(unit_of(view)) + " by learners; " + scaling_sentence(view));
  body += svg::upward_axis(kLeft, kWidth - kRight, kTop, kBottom, top, step);
  std::string band, back, line;
  for (const ScalingRow* row : curve) {
    const double x = x_of(row->size.learners);
    band += fmt::format("{}{:.1f},{:.1f}", band.empty() ? "M" : "L", x, y_of(row->prediction.high));
    back = fmt::format("L{:.1f},{:.1f}", x, y_of(row->prediction.low)) + back;
    line += fmt::format("{}{:.1f},{:.1f}", line.empty() ? "M" : "L", x, y_of(row->prediction.samples_per_s));
  }
  body += "<path d=\"" + band + back + "Z\" fill=\"#56b4e9\" fill-opacity=\"0.25\"/>\n";
  const ScalingRow& base = *curve.front();
  const double ideal = base.prediction.samples_per_s / base.size.learners;
  const double reach = std::min(widest, top / ideal);
  body += fmt::format("<path d=\"M{:.1f},{:.1f}L{:.1f},{:.1f}\" class=\"line ink\" stroke-dasharray=\"2 4\"/>\n",
                      x_of(base.size.learners), y_of(base.prediction.samples_per_s), x_of(reach), y_of(ideal * reach));
  body += "<path d=\"" + line + "\" class=\"line\" stroke=\"#0072b2\"/>\n";
  double last_x = -100;
  for (const ScalingRow* row : curve) {
    const double x = x_of(row->size.learners), y = y_of(row->prediction.samples_per_s);
    const bool measured = row->prediction.confidence == Confidence::kMeasured;
    body += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" stroke=\"#0072b2\" fill=\"{}\"/>\n", x, y,
                        measured ? "#0072b2" : "none");
    if (row->now)
      body += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"9\" class=\"line\" stroke=\"#d55e00\"/>\n", x, y);
    if (x - last_x < 22) continue;
    body += svg::words(x, kBottom + 20, "time", std::to_string(row->size.learners));
    last_x = x;
  }
  body += svg::words(
      kLeft, kHeight - 14, "soft",
      "full: measured; hollow: by the model; ring: now; dotted: as if nothing were lost; band: what it may be");
  return svg::document(kWidth, kHeight, title, body);
}

}  // namespace dl::ctl
