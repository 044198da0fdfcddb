// SPDX-License-Identifier: Apache-2.0
// What was measured: the curves of the training, and what the learners used. What was not measured is said.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "common/base/count.h"
#include "common/base/local_time.h"
#include "common/base/parse.h"
#include "launcher/plot/page_plot.h"
#include "launcher/report/section.h"
#include "launcher/report/used.h"
#include "launcher/report/words.h"

namespace dl::report {
namespace {

constexpr size_t kMostCurveBytes = 700 << 10, kMostUseBytes = 300 << 10;
constexpr size_t kMostUses = 40;

bool ends_in(const std::string& text, std::string_view end) {
  return text.size() > end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// A chart of bytes in a unit with which its numbers are short.
plot::Chart in_units(plot::Chart chart) {
  const bool rate = ends_in(chart.title, "_bytes_per_s");
  if (!rate && !ends_in(chart.title, "_bytes")) return chart;
  double most = 0;
  for (const plot::Curve& curve : chart.curves)
    for (const plot::Sample& sample : curve.samples)
      if (std::isfinite(sample.y)) most = std::max(most, sample.y);
  double unit = 1;
  const char* name = "bytes";
  for (const char* larger : {"KiB", "MiB", "GiB", "TiB"}) {
    if (most < 1024 * unit) break;
    unit *= 1024;
    name = larger;
  }
  chart.title += fmt::format(", in {}{}", name, rate ? " a second" : "");
  for (plot::Curve& curve : chart.curves) {
    for (plot::Sample& sample : curve.samples) sample.y /= unit;
    if (!curve.samples.empty())
      curve.note = fmt::format("last {:.3g}, highest {:.3g}", curve.samples.back().y, most / unit);
  }
  return chart;
}

// Whether there is more to see than a point, which numbers tell as well.
bool has_course(const plot::Chart& chart) {
  return std::any_of(chart.curves.begin(), chart.curves.end(),
                     [](const plot::Curve& curve) { return curve.samples.size() > 1; });
}

void charts(const std::vector<plot::Chart>& charts, size_t most_bytes, Html* html) {
  size_t bytes = 0;
  for (size_t i = 0; i < charts.size(); ++i) {
    const std::string made = plot::page_chart(charts[i]);
    if (bytes + made.size() > most_bytes) {
      html->markup("<p class=\"soft\">");
      html->text(count_text(static_cast<int64_t>(charts.size() - i), "further metric"))
          .markup(" not drawn here; dlctl metrics shows them all.</p>\n");
      return;
    }
    bytes += made.size();
    html->made(made);
  }
}

std::string seconds(std::optional<double> value) {
  return value ? age_text(static_cast<int64_t>(std::min(*value, 1e12) * 1000)) : "not measured";
}
std::string of_asked(const std::string& used, std::optional<double> asked) {
  return asked ? used + " of " + format_bytes(static_cast<uint64_t>(*asked)) + " asked for" : used;
}

void numbers_of(const Numbers& all, Html* html) {
  const auto get = [&](const char* name) { return number(all, name); };
  const auto gpus = get("gpus"), cpus = get("cpus"), joules = get("gpu_joules");
  html->markup("<dl>\n");
  if (gpus && *gpus > 0) {
    html->fact("GPUs", number_words(gpus) + ", of which " + number_words(get("gpus_measured")) +
                           " measured in the newest attempt");
    html->fact("GPU use", percent_words(get("gpu_share")) + (get("gpu_share") ? " of the time a kernel ran" : ""));
    html->fact("multiprocessors (SMs) busy", percent_words(get("gpu_sm_share")));
    html->fact("GPU memory",
               bytes_words(get("gpu_memory_bytes")) + (get("gpu_memory_bytes") ? " at most, on all" : ""));
    html->fact("energy of the GPUs", joules ? fmt::format("{:.3g} kWh", *joules / 3.6e6) : "not measured");
  }
  const auto most = get("most_cpus_used");
  html->fact("CPUs busy", number_words(get("cpus_used")) + (cpus && *cpus > 0 ? " of " + number_words(cpus) : "") +
                              (most ? ", " + number_words(most) + " at most" : ""));
  html->fact("CPU time", seconds(get("cpu_seconds")));
  html->fact("memory", of_asked(bytes_words(get("memory_bytes")), get("memory_asked_bytes")));
  html->fact("read from storage", bytes_words(get("read_bytes")));
  html->fact("written to storage", bytes_words(get("written_bytes")));
  html->markup("</dl>\n");
}

struct Phase {
  const char *name, *colour;  // the class of a state that has the colour
};
constexpr std::array kPhases{Phase{"waiting", "pending"}, Phase{"starting", "deploy"}, Phase{"training", "processing"},
                             Phase{"saving", "storing"}};

void phases_of(const Numbers& all, Html* html) {
  double sum = 0;
  for (const Phase& phase : kPhases) sum += number(all, std::string(phase.name) + "_s").value_or(0);
  if (sum <= 0) return;
  html->markup("<div class=\"share\" role=\"img\" aria-label=\"time by phase\">");
  for (const Phase& phase : kPhases) {
    const double share = number(all, std::string(phase.name) + "_s").value_or(0) / sum;
    html->made(fmt::format("<i class=\"{}\" style=\"width:{:.2f}%\"></i>", phase.colour, 100 * share));
  }
  html->markup("</div><ul class=\"keys across\">");
  for (const Phase& phase : kPhases)
    html->made(fmt::format("<li><i class=\"{}\"></i>{}</li>", phase.colour, phase.name));
  html->markup("</ul>\n");
  Table table(html, {"Phase", "#Time", "#Share", "#GPU use", "#CPUs busy"});
  for (const Phase& phase : kPhases) {
    const std::string name = phase.name;
    const auto lasts = number(all, name + "_s");
    table.row({name, seconds(lasts), lasts ? percent_words(*lasts / sum) : "",
               percent_words(number(all, "gpu_share_" + name)), number_words(number(all, "cpus_used_" + name))});
  }
}

}  // namespace

void write_curves(const Material& of, Html* html) {
  if (of.data.curves.empty()) {
    html->markup("<p>No metrics of the training were found.</p>\n");
    return;
  }
  charts(of.data.curves, kMostCurveBytes, html);
}

void write_use(const Material& of, Html* html) {
  std::vector<const record::Event*> uses;
  for (const record::Event& event : of.data.events)
    if (event.use && !event.learner) uses.push_back(&event);
  if (!of.data.use_now.empty()) html->markup("<p>Now: ").text(of.data.use_now).markup("</p>\n");
  for (size_t i = uses.size() - std::min(uses.size(), kMostUses); i < uses.size(); ++i) {
    html->markup("<p>");
    if (uses.size() > 1)
      html->markup("Until ").text(when(uses[i]->time_ms)).markup(", attempt ").number(uses[i]->attempt).markup(": ");
    html->text(uses[i]->use->text).markup("</p>\n");
  }
  if (!uses.empty()) {
    if (uses.size() > 1) html->markup("<h3>The newest start of the job in numbers</h3>\n");
    numbers_of(uses.back()->use->numbers, html);
    phases_of(uses.back()->use->numbers, html);
  }
  if (uses.empty() && of.data.use_now.empty())
    html->markup("<p>What the learners used is not known: it is recorded when a start of the job ends.</p>\n");
  std::vector<plot::Chart> courses;
  for (const plot::Chart& chart : of.data.use_curves)
    if (has_course(chart)) courses.push_back(in_units(chart));
  charts(courses, kMostUseBytes, html);
}

}  // namespace dl::report
