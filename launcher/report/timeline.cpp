// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/timeline.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <set>

#include "common/base/local_time.h"
#include "launcher/plot/page_plot.h"
#include "launcher/report/html.h"
#include "launcher/report/words.h"

namespace dl::report {
namespace {

using record::JobState;

// In units of the picture, which is stretched over the page.
constexpr int kAcross = 2000, kHigh = 100;
constexpr size_t kMostSpans = 400, kMostAttemptLabels = 30;
constexpr int kLeastBar = 4;
constexpr int kTinyColumns = 400;     // into which the course is divided where there are more spans
constexpr double kLeastLabel = 0.05;  // the part of the picture that the number of an attempt takes
constexpr int64_t kHour = 3600, kDay = 86400;

struct StateColour {
  JobState state;
  const char *light, *dark;
};
// FAILED, which people look for, hides all others where they lie too close.
constexpr std::array kStateColours{
    StateColour{JobState::kQueued, "#c3cad1", "#59626c"},    StateColour{JobState::kPending, "#c3cad1", "#59626c"},
    StateColour{JobState::kDeploy, "#8cc5ec", "#3b7ba6"},    StateColour{JobState::kDownloading, "#8cc5ec", "#3b7ba6"},
    StateColour{JobState::kStoring, "#a993e0", "#7d68bd"},   StateColour{JobState::kProcessing, "#009e73", "#1f9d76"},
    StateColour{JobState::kCompleted, "#0072b2", "#4ba3dc"}, StateColour{JobState::kHalted, "#e6a817", "#d19a1c"},
    StateColour{JobState::kFailed, "#c62f2f", "#f06a6a"}};

class Timeline {
 public:
  explicit Timeline(const Course& course) : course_(course) {}

  std::string draw() {
    if (course_.spans.empty()) return "";
    from_ = static_cast<double>(course_.from_ms);
    length_ = std::max(static_cast<double>(course_.to_ms) - from_, 1.0);
    states();
    attempts();
    ticks_of_saves();
    failures();
    time_axis();
    return fmt::format(
               "<figure class=\"course\"><div class=\"plot\"><svg viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" "
               "role=\"img\" aria-label=\"states and attempts over time\">",
               kAcross, kHigh) +
           picture_ + "</svg>" + labels_ + "</div>" + legend() + "</figure>\n";
  }

 private:
  double part(int64_t time_ms) const { return std::clamp((static_cast<double>(time_ms) - from_) / length_, 0.0, 1.0); }
  int right(int64_t time_ms) const { return static_cast<int>(std::lround(kAcross * part(time_ms))); }

  void bar(int from, int to, JobState state, const std::string& title) {
    seen_.insert(state);
    from = std::min(from, kAcross - kLeastBar);
    picture_ += fmt::format("<rect x=\"{}\" y=\"0\" width=\"{}\" height=\"46\" class=\"{}\">", from,
                            std::max(to - from, kLeastBar), state_class(state));
    picture_ += (title.empty() ? "" : "<title>" + shown(title) + "</title>") + "</rect>";
  }

  void states() {
    if (course_.spans.size() > kMostSpans) {
      joined_states();
      return;
    }
    for (const Span& span : course_.spans)
      bar(right(span.from_ms), right(span.to_ms), span.state,
          fmt::format("{}{} from {}, {}", span.attempt > 0 ? fmt::format("attempt {}: ", span.attempt) : "",
                      record::state_name(span.state), when(span.from_ms), age_text(span.to_ms - span.from_ms)));
  }

  // Of the states in one column the one that lasted longest; a failure always.
  void joined_states() {
    size_t at = 0;
    for (int column = 0; column < kTinyColumns; ++column) {
      const double begin = from_ + length_ * column / kTinyColumns, end = from_ + length_ * (column + 1) / kTinyColumns;
      while (at + 1 < course_.spans.size() && static_cast<double>(course_.spans[at].to_ms) < begin) ++at;
      JobState state = course_.spans[at].state;
      double longest = -1;
      for (size_t i = at; i < course_.spans.size() && static_cast<double>(course_.spans[i].from_ms) <= end; ++i) {
        const Span& span = course_.spans[i];
        double lasts =
            std::min(static_cast<double>(span.to_ms), end) - std::max(static_cast<double>(span.from_ms), begin);
        if (span.state == JobState::kFailed) lasts += length_;
        if (lasts > longest) state = span.state;
        longest = std::max(longest, lasts);
      }
      bar(kAcross * column / kTinyColumns, kAcross * (column + 1) / kTinyColumns, state, "");
    }
  }

  void attempts() {
    double free = 0;
    size_t labels = 0;
    int drawn = -kLeastBar;
    for (const AttemptLine& line : course_.attempts) {
      const int64_t until = line.ended_ms > 0 ? line.ended_ms : course_.to_ms;
      const int from = right(line.began_ms), to = std::max(right(until), from + kLeastBar);
      if (to - drawn < kLeastBar) continue;
      picture_ += fmt::format("<rect x=\"{}\" y=\"52\" width=\"{}\" height=\"22\" class=\"{}\"/>", from, to - from,
                              line.number % 2 == 0 ? "even" : "odd");
      drawn = std::max(drawn, to);
      const double begin = part(line.began_ms);
      if (begin < free || begin + kLeastLabel > 1 || labels >= kMostAttemptLabels) continue;
      labels_ += fmt::format("<span class=\"number\" style=\"left:{:.2f}%\">{}</span>", 100 * begin, line.number);
      free = begin + kLeastLabel;
      ++labels;
    }
  }

  void ticks_of_saves() {
    std::set<int> places;
    for (const Save& save : course_.saves) places.insert(right(save.time_ms) / 2 * 2);
    std::string path;
    for (const int place : places) path += fmt::format("M{},78v22", place);
    if (!path.empty()) picture_ += "<path d=\"" + path + "\" class=\"saved\"/>";
  }

  void failures() {
    std::set<int> places;
    for (const record::Event* event : course_.failures) places.insert(right(event->time_ms) / 4 * 4);
    std::string path;
    for (const int place : places) path += fmt::format("M{},0v{}", place, kHigh);
    if (!path.empty()) picture_ += "<path d=\"" + path + "\" class=\"broke\"/>";
    failed_ = !path.empty();
  }

  // Round times of the local clock, and labels as short as they can be.
  void time_axis() {
    const auto from_s = static_cast<int64_t>(from_ / 1000), to_s = from_s + static_cast<int64_t>(length_ / 1000) + 1;
    constexpr std::array<int64_t, 20> kSteps{1,         2,         5,          10,   15,       30,      60,
                                             120,       300,       600,        900,  1800,     kHour,   2 * kHour,
                                             3 * kHour, 6 * kHour, 12 * kHour, kDay, 2 * kDay, 7 * kDay};
    int64_t step = kSteps.back();
    while ((to_s - from_s) / step > plot::kPageTicks - 1) step *= 2;
    for (auto one = kSteps.rbegin(); one != kSteps.rend(); ++one)
      if ((to_s - from_s) / *one <= plot::kPageTicks - 1) step = *one;
    const auto first = static_cast<std::time_t>(from_s);
    std::tm local{};
    const int64_t offset = ::localtime_r(&first, &local) == nullptr ? 0 : local.tm_gmtoff;
    std::string day;
    bool second = false;
    for (int64_t at = ((from_s + offset) / step + 1) * step - offset; at < to_s; at += step) {
      const auto time = static_cast<std::time_t>(at);
      std::string label = step < 60     ? format_local_time(time, "%H:%M:%S")
                          : step < kDay ? format_local_time(time, "%H:%M")
                                        : format_local_time(time, "%b %e");
      // The day, where it has changed since the label before.
      const std::string its_day = format_local_time(time, "%b %e");
      if (step < kDay && !day.empty() && its_day != day) label = its_day;
      day = its_day;
      labels_ += plot::page_label(part(at * 1000), label, second);
      second = !second;
    }
  }

  std::string legend() const {
    std::string text = "<ul class=\"keys across\">";
    for (const StateColour& row : kStateColours)
      if (seen_.count(row.state) != 0)
        text += fmt::format("<li><i class=\"{}\"></i>{}</li>", state_class(row.state), record::state_name(row.state));
    text += "<li><i class=\"odd\"></i>attempts</li>";
    if (!course_.saves.empty()) text += "<li><i class=\"tick saved\"></i>saved</li>";
    if (failed_) text += "<li><i class=\"tick broke\"></i>failure</li>";
    return text + "</ul>";
  }

  const Course& course_;
  double from_ = 0, length_ = 1;
  bool failed_ = false;
  std::set<JobState> seen_;
  std::string picture_, labels_;
};

}  // namespace

std::string state_class(record::JobState state) {
  std::string name = record::state_name(state);
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return name;
}

std::string timeline_styles() {
  std::string light, dark, rules;
  for (const StateColour& row : kStateColours) {
    const std::string name = state_class(row.state);
    light += fmt::format("--{}:{};", name, row.light);
    dark += fmt::format("--{}:{};", name, row.dark);
    rules += fmt::format(".{0}{{fill:var(--{0});background:var(--{0})}}", name);
  }
  return ":root{" + light + "}\n@media screen and (prefers-color-scheme:dark){:root{" + dark + "}}\n" + rules +
         "\n.odd{fill:var(--grid);background:var(--grid)}.even{fill:var(--rise);background:var(--rise)}"
         ".saved,.broke{fill:none;vector-effect:non-scaling-stroke}.saved{stroke:var(--soft)}"
         ".broke{stroke:var(--failed);stroke-width:2px}\n"
         ".course{margin:0}.course .plot{height:7rem;margin:0 0 2rem}"
         ".course .number{top:53%;padding-left:.3em;color:var(--ink)}"
         ".across li{display:inline-block;margin:0 1.1em .2em 0}"
         ".across i{display:inline-block;width:.9em;height:.9em;margin-right:.4em;vertical-align:-.1em}"
         ".across .tick{width:2px}.across .saved{background:var(--soft)}.across .broke{background:var(--failed)}\n";
}

std::string timeline(const Course& course) {
  return Timeline(course).draw();
}

}  // namespace dl::report
