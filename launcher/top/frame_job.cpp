// SPDX-License-Identifier: Apache-2.0
// An opened job: what is known of it, its curve, the last lines of its log, and what happened to it.
#include <fmt/core.h>

#include <algorithm>

#include "common/base/count.h"
#include "common/base/local_time.h"
#include "common/base/parse.h"
#include "launcher/plot/text_plot.h"
#include "launcher/top/cells.h"
#include "launcher/top/frame.h"

namespace dl::top {
namespace {

constexpr size_t kMostLine = 1000;

std::string clock_text(int64_t time_ms, int64_t now_ms) {
  const bool near = time_ms - now_ms < 20 * 3600'000LL && now_ms - time_ms < 20 * 3600'000LL;
  return format_local_time(time_ms / 1000, near ? "%H:%M:%S" : "%Y-%m-%d %H:%M");
}

class JobText {
 public:
  JobText(const State& state, const Place& place, int body_rows)
      : state_(state), place_(place), body_rows_(body_rows) {}

  std::vector<Line> make() {
    const Row* row = opened_row(state_);
    if (row == nullptr) {
      add("this job is not queued or running any more", Style::kWarning);
    } else {
      facts(*row);
    }
    const auto& detail = state_.snapshot.detail;
    if (!detail || detail->id != state_.opened) {
      if (row != nullptr && !row->unread) add("reading its directory ...");
      return std::move(lines_);
    }
    if (!detail->checkpoint.empty()) fact("checkpoint", harmless(detail->checkpoint, kMostLine));
    if (!detail->dir.empty()) fact("directory", harmless(detail->dir, kMostLine));
    curve(*detail);
    heading("last lines of " + (detail->log_name.empty() ? "its log" : harmless(detail->log_name, kMostLine)));
    if (detail->log.empty()) add("none");
    for (const std::string& line : detail->log) add(harmless(line, kMostLine));
    events(*detail);
    return std::move(lines_);
  }

 private:
  void add(const std::string& text, Style style = Style::kPlain) { lines_.push_back({{text, style}}); }
  void heading(const std::string& text) {
    add("");
    add(text, Style::kBold);
  }
  void fact(const char* name, const std::string& text, Style style = Style::kPlain) {
    lines_.push_back({{fmt::format("{:<11} ", name), Style::kDim}, {text, style}});
  }

  void facts(const Row& row) {
    std::string job = harmless(row.job, kMostLine);
    if (!row.name.empty()) job += " " + harmless(row.name, kMostLine);
    if (!row.user.empty()) job += " of " + harmless(row.user, kMostLine);
    fact("job", job, Style::kBold);
    std::string state = harmless(row.state, kMostLine);
    if (row.since_ms) state += " for " + time_text(place_.now_ms - *row.since_ms);
    if (!row.reason.empty()) state += ": " + harmless(row.reason, kMostLine);
    fact("state", state);
    if (row.unread) fact("note", "its job directory cannot be read, so only what Slurm says is shown", Style::kWarning);
    std::string size = row.attempt > 0 ? "attempt " + std::to_string(row.attempt) : "not started yet";
    if (row.learners > 0) size += ", " + count_text(row.learners, "learner");
    if (row.gpus > 0) size += ", " + count_text(row.gpus, "GPU");
    fact("attempt", size);
    progress(row);
    use(row);
    if (row.next_save_ms)
      fact("next save",
           *row.next_save_ms > place_.now_ms ? "in " + time_text(*row.next_save_ms - place_.now_ms) : "due");
    else
      fact("next save", "not known");
  }

  void progress(const Row& row) {
    std::string step = row.step ? std::to_string(*row.step) : "not known";
    if (row.step && row.total_steps) step += " of " + std::to_string(*row.total_steps);
    if (row.saved_step) step += ", saved at " + std::to_string(*row.saved_step);
    fact("train step", step);
    std::string rate = row.steps_per_s ? number_text(row.steps_per_s) + " train steps a second" : "not known";
    if (row.samples_per_s) rate += ", " + number_text(row.samples_per_s) + " samples a second";
    fact("rate", rate);
    if (row.loss) fact("loss", number_text(row.loss) + " (" + harmless(row.loss_name, 60) + ")");
    if (row.left_ms && row.active)
      fact("left",
           time_text(row.left_ms) + ", expected end " + clock_text(place_.now_ms + *row.left_ms, place_.now_ms));
    else
      fact("left", row.left_ms ? time_text(row.left_ms) + " of training" : "not known");
    if (row.limit_ms && *row.limit_ms > place_.now_ms)
      fact("time limit", "in " + time_text(*row.limit_ms - place_.now_ms));
  }

  void use(const Row& row) {
    std::string text = "GPU " + (row.gpu_use ? fmt::format("{:.0f}%", *row.gpu_use) : std::string("not measured"));
    text += row.cpus_used ? ", " + cpus_text(row.cpus_used) + " CPUs busy" : ", CPU not measured";
    if (row.idle_gpus > 0) text += "; " + count_text(row.idle_gpus, "GPU") + " not used for long";
    fact("use", text);
  }

  void curve(const Detail& detail) {
    if (!detail.chart) {
      heading("curve");
      return add(detail.no_chart.empty() ? "no values" : harmless(detail.no_chart, kMostLine));
    }
    add("");
    plot::TextStyle style;
    style.width = std::max(place_.columns, plot::kLeastWidth);
    style.rows = std::clamp(body_rows_ / 3, 4, 12);
    style.marks = place_.ascii ? plot::Marks::kLetters : plot::Marks::kBraille;
    for (const std::string& line : split(plot::text_of(*detail.chart, style), '\n'))
      if (!line.empty()) add(line);
  }

  void events(const Detail& detail) {
    heading("what happened");
    if (detail.events.empty()) add("nothing is recorded");
    for (const DetailEvent& event : detail.events) {
      std::string text = clock_text(event.time_ms, place_.now_ms) + "  " + harmless(event.state, 20);
      if (event.attempt > 0) text += "  attempt " + std::to_string(event.attempt);
      if (event.step) text += "  step " + std::to_string(*event.step);
      if (!event.reason.empty()) text += "  " + harmless(event.reason, kMostLine);
      add(text);
    }
  }

  const State& state_;
  const Place& place_;
  int body_rows_;
  std::vector<Line> lines_;
};

}  // namespace

std::vector<Line> job_lines(const State& state, const Place& place, int body_rows) {
  return JobText(state, place, body_rows).make();
}

}  // namespace dl::top
