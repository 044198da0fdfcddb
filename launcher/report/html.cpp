// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/html.h"

#include <algorithm>

#include "common/base/parse.h"
#include "common/cli/svg.h"
#include "launcher/report/secrets.h"

namespace dl::report {

std::string shown(std::string_view text, size_t most) {
  // A character has four bytes at most. What lies further back can only be cut away.
  return svg::escaped(printable(without_secrets(text.substr(0, 4 * most + 4)), most));
}

Html& Html::text(std::string_view text, size_t most) {
  html_ += shown(text, most);
  return *this;
}

Html& Html::number(int64_t number) {
  html_ += std::to_string(number);
  return *this;
}

Html& Html::lines(std::string_view text, size_t most_lines, size_t most) {
  for (; !text.empty() && most_lines > 0; --most_lines) {
    const size_t end = std::min(text.find('\n'), text.size());
    this->text(text.substr(0, end), most).markup("\n");
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (!text.empty()) html_ += "\u2026\n";
  return *this;
}

Html& Html::made(const std::string& html) {
  html_ += html;
  return *this;
}

Table::Table(Html* html, const std::vector<const char*>& head) : html_(html) {
  html->markup("<div class=\"wide\"><table><thead><tr>");
  for (const char* title : head) {
    numbers_.push_back(*title == '#');
    if (numbers_.back())
      html->markup("<th class=\"n\">");
    else
      html->markup("<th>");
    html->text(numbers_.back() ? title + 1 : title).markup("</th>");
  }
  html->markup("</tr></thead><tbody>\n");
}

Table::~Table() {
  html_->markup("</tbody></table></div>\n");
}

void Table::row(const std::vector<std::string>& cells) {
  html_->markup("<tr>");
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i < numbers_.size() && numbers_[i])
      html_->markup("<td class=\"n\">");
    else if (i > 0 && i + 1 == cells.size())
      html_->markup("<td class=\"why\">");
    else
      html_->markup("<td>");
    html_->text(cells[i].empty() ? "-" : cells[i], i + 1 < cells.size() ? kMostCell : kMostText).markup("</td>");
  }
  html_->markup("</tr>\n");
}

void Table::line(std::string_view text) {
  html_->markup("<tr><td class=\"gap\" colspan=\"");
  html_->number(static_cast<int64_t>(numbers_.size())).markup("\">");
  html_->text(text).markup("</td></tr>\n");
}

}  // namespace dl::report
