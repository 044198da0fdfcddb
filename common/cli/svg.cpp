// SPDX-License-Identifier: Apache-2.0
#include "common/cli/svg.h"

#include <fmt/core.h>

#include <cmath>

namespace dl::svg {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

std::string words(double x, double y, const char* style, std::string_view what) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"{}\">{}</text>\n", x, y, style, escaped(what));
}

double nice_step(double range, int count) {
  const double rough = range / count;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

std::string upward_axis(double left, double right, double top, double bottom, double most, double step) {
  std::string text;
  for (int tick = 0; tick * step <= most * 1.0001; ++tick) {
    const double y = bottom - (bottom - top) * tick * step / most;
    text += fmt::format("<line x1=\"{0:.1f}\" y1=\"{2:.1f}\" x2=\"{1:.1f}\" y2=\"{2:.1f}\" class=\"grid\"/>\n", left,
                        right, y);
    text += words(left - 8, y + 4, "tick", fmt::format("{:g}", tick * step));
  }
  return text;
}

std::string document(double width, double height, std::string_view title, std::string_view body, Ground ground) {
  constexpr const char* kDark =
      "@media (prefers-color-scheme: dark) { text { fill: #e6edf3; } .soft, .tick, .time { fill: #9198a1; } "
      ".paper { fill: #0d1117; } .grid { stroke: #3d444d; } .ink { stroke: #e6edf3; } }\n";
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" "
      "role=\"img\">\n<title>{2}</title>\n<style>\n"
      "text {{ font-size: 13px; font-family: system-ui, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif; "
      "fill: #1f2328; }}\n"
      ".title {{ font-size: 18px; font-weight: 600; }} .head {{ font-weight: 600; }} .soft {{ fill: #59636e; }}\n"
      ".tick {{ fill: #59636e; font-size: 12px; text-anchor: end; }} .time {{ fill: #59636e; font-size: 12px; "
      "text-anchor: middle; }}\n"
      ".paper {{ fill: #ffffff; }} .grid {{ stroke: #d1d9e0; stroke-width: 1; }} .ink {{ stroke: #1f2328; }}\n"
      ".line {{ fill: none; stroke-width: 1.8; stroke-linejoin: round; }}\n"
      "{4}</style>\n"
      "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n{3}</svg>\n",
      width, height, escaped(title), body, ground == Ground::kBoth ? kDark : "");
}

}  // namespace dl::svg
