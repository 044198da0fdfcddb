// SPDX-License-Identifier: Apache-2.0
#include "launcher/plot/text_plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "common/base/count.h"
#include "launcher/plot/scale.h"
#include "launcher/plot/thin.h"

namespace dl::plot {
namespace {

constexpr int kLeastRows = 3, kRowsOfTick = 3, kColumnsOfTick = 10, kLeastTicks = 2;
constexpr size_t kMostSamples = 20'000;  // of a curve: more than any terminal has dots
constexpr size_t kMostMarkLines = 8;

// Colours that are readable on black and on white: of SGR, "\033[36m" and so on.
constexpr std::array<int, kMostTextCurves> kColours = {36, 33, 35, 32, 34, 31, 96, 95};

struct Frame {
  const char *tick, *side, *corner, *floor, *floor_tick, *mark, *floor_mark;
};
constexpr Frame kLines = {"┤", "│", "└", "─", "┴", "┆", "┼"};
constexpr Frame kAscii = {"+", "|", "+", "-", "+", ":", "^"};

int characters(const std::string& text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string repeated(const char* text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

class TextPlot {
 public:
  TextPlot(const Chart& chart, const TextStyle& style)
      : chart_(chart),
        style_(style),
        ascii_(style.marks == Marks::kLetters),
        frame_(ascii_ ? kAscii : kLines),
        width_(std::max(kLeastWidth, style.width)),
        rows_(std::max(kLeastRows, style.rows)),
        shown_(std::min(chart.curves.size(), kMostTextCurves)),
        letters_(ascii_ || (!style.colour && shown_ > 1)) {}

  std::string draw() {
    line(chart_.title);
    if (const Ranges ranges = ranges_of(chart_); ranges.any) field(ranges);
    legend();
    return std::move(text_);
  }

 private:
  void line(const std::string& text) { text_ += fitted(text, width_, ascii_) + "\n"; }

  void field(const Ranges& ranges) {
    x_ = ranges.x;
    const double step = tick_step(ranges.y, std::max(kLeastTicks, rows_ / kRowsOfTick));
    y_ = rounded(ranges.y, step);
    const std::vector<double> y_ticks = ticks(y_, step);
    std::vector<std::string> labels(static_cast<size_t>(rows_));
    Canvas canvas(1, rows_, marks());
    for (const double tick : y_ticks)
      labels[static_cast<size_t>(y_of(tick, canvas) / canvas.dots_down())] = tick_text(tick, step);
    label_ = 0;
    for (const std::string& label : labels) label_ = std::max(label_, static_cast<int>(label.size()));
    columns_ = std::max(1, width_ - label_ - 2);
    canvas = Canvas(columns_, rows_, marks());
    // The first curve is drawn last, above the others.
    for (size_t i = shown_; i-- > 0;) curve(&canvas, i);
    std::vector<bool> marked(static_cast<size_t>(columns_));
    for (const Mark& mark : chart_.marks)
      if (std::isfinite(mark.x)) marked[static_cast<size_t>(column_of(mark.x, canvas))] = true;
    for (int row = 0; row < rows_; ++row) {
      const std::string& label = labels[static_cast<size_t>(row)];
      text_ += std::string(static_cast<size_t>(label_) - label.size(), ' ') + label + " " +
               (label.empty() ? frame_.side : frame_.tick) + row_of(canvas, row, marked) + "\n";
    }
    floor(canvas, marked);
  }

  Marks marks() const { return letters_ ? Marks::kLetters : style_.marks; }
  int x_of(double value, const Canvas& canvas) const {
    return static_cast<int>(std::lround(x_.part(value) * (canvas.width() - 1)));
  }
  int y_of(double value, const Canvas& canvas) const {
    return static_cast<int>(std::lround((1 - y_.part(value)) * (canvas.height() - 1)));
  }
  int column_of(double value, const Canvas& canvas) const { return x_of(value, canvas) / canvas.dots_across(); }

  void curve(Canvas* canvas, size_t index) {
    const auto number = static_cast<int>(index);
    for (const auto& run : thinned(chart_.curves[index].samples, x_, canvas->width(), kMostSamples)) {
      int x = x_of(run.front().x, *canvas), y = y_of(run.front().y, *canvas);
      if (run.size() == 1) canvas->spot(x, y, number);
      for (size_t i = 1; i < run.size(); ++i) {
        const int next_x = x_of(run[i].x, *canvas), next_y = y_of(run[i].y, *canvas);
        canvas->line(x, y, next_x, next_y, number);
        x = next_x;
        y = next_y;
      }
    }
  }

  // A row of the field, without blanks at its end.
  std::string row_of(const Canvas& canvas, int row, const std::vector<bool>& marked) {
    std::string text, blanks;
    int colour = -1;
    for (int column = 0; column < columns_; ++column) {
      Canvas::Cell cell = canvas.cell(column, row);
      if (cell.curve < 0 && marked[static_cast<size_t>(column)]) cell.text = frame_.mark;
      if (cell.text.empty()) {
        blanks += ' ';
        continue;
      }
      if (style_.colour && cell.curve != colour) {
        text += colour_change(cell.curve);
        colour = cell.curve;
      }
      text += blanks + cell.text;
      blanks.clear();
    }
    return colour >= 0 ? text + colour_change(-1) : text;
  }

  static std::string colour_change(int curve) {
    if (curve < 0) return "\033[0m";
    return "\033[" + std::to_string(kColours[static_cast<size_t>(curve) % kColours.size()]) + "m";
  }

  // The horizontal axis, and its numbers below.
  void floor(const Canvas& canvas, const std::vector<bool>& marked) {
    const double step = tick_step(x_, std::max(kLeastTicks, columns_ / kColumnsOfTick));
    std::vector<bool> ticked(static_cast<size_t>(columns_));
    std::string numbers(static_cast<size_t>(width_), ' ');
    int free = 0;
    const int axis_name = characters(chart_.axis) + 2;
    const int end = width_ - (axis_name < columns_ / 2 ? axis_name : 0);
    for (const double tick : ticks(x_, step)) {
      const int column = column_of(tick, canvas);
      ticked[static_cast<size_t>(column)] = true;
      const std::string label = tick_text(tick, step);
      const auto size = static_cast<int>(label.size());
      const int at = std::clamp(label_ + 2 + column - size / 2, label_ + 1, std::max(label_ + 1, width_ - size));
      if (at < free || at + size > end) continue;
      numbers.replace(static_cast<size_t>(at), label.size(), label);
      free = at + size + 2;
    }
    numbers.erase(numbers.find_last_not_of(' ') + 1);
    std::string axis = std::string(static_cast<size_t>(label_) + 1, ' ') + frame_.corner;
    for (int column = 0; column < columns_; ++column)
      axis += marked[static_cast<size_t>(column)]   ? frame_.floor_mark
              : ticked[static_cast<size_t>(column)] ? frame_.floor_tick
                                                    : frame_.floor;
    text_ += axis + "\n";
    const int left = width_ - static_cast<int>(numbers.size());
    line(left >= axis_name ? numbers + std::string(static_cast<size_t>(left - axis_name + 2), ' ') + chart_.axis
                           : numbers);
  }

  std::string key_of(int curve) const {
    if (letters_) return {letter_of(curve)};
    return repeated(style_.marks == Marks::kBraille ? "⠤" : "▄", 2);
  }

  void legend() {
    for (size_t i = 0; i < shown_; ++i) {
      const Curve& curve = chart_.curves[i];
      const auto number = static_cast<int>(i);
      const std::string key = key_of(number);
      text_ += " " + (style_.colour ? colour_change(number) + key + colour_change(-1) : key);
      text_ += fitted(" " + curve.name + (curve.note.empty() ? "" : ": " + curve.note), width_ - characters(key) - 1,
                      ascii_) +
               "\n";
    }
    if (chart_.curves.size() > shown_)
      line(" " + count_text(static_cast<int64_t>(chart_.curves.size() - shown_), "further curve") + " not drawn");
    const size_t lines = std::min(chart_.marks.size(), kMostMarkLines);
    for (size_t i = 0; i < lines; ++i) line(" " + std::string(frame_.mark) + " " + chart_.marks[i].text);
    if (chart_.marks.size() > lines)
      line(" " + std::string(frame_.mark) + " and " + std::to_string(chart_.marks.size() - lines) + " more");
    for (const std::string& note : chart_.notes) line(" " + note);
  }

  const Chart& chart_;
  const TextStyle& style_;
  const bool ascii_;
  const Frame& frame_;
  const int width_, rows_;
  const size_t shown_;
  const bool letters_;
  Range x_, y_;
  int label_ = 0;    // characters of the numbers on the left
  int columns_ = 1;  // characters of the field
  std::string text_;
};

}  // namespace

std::string fitted(const std::string& text, int characters_wanted, bool ascii) {
  if (characters(text) <= characters_wanted) return text;
  const std::string end = ascii ? "..." : "…";
  int left = characters_wanted - characters(end);
  size_t at = 0;
  for (; at < text.size(); ++at) {
    const bool begins = (static_cast<unsigned char>(text[at]) & 0xc0) != 0x80;
    if (begins && left-- <= 0) break;
  }
  return text.substr(0, at) + end;
}

std::string text_of(const Chart& chart, const TextStyle& style) {
  return TextPlot(chart, style).draw();
}

}  // namespace dl::plot
