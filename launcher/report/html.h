// SPDX-License-Identifier: Apache-2.0
// Writes HTML. Markup can only be a literal of our own; every other text goes through text(), the one way for texts of
// a job into the page. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dl::report {

// Characters of a text that are shown unless the caller says otherwise.
constexpr size_t kMostText = 300;

// What the page shows of a text: without secrets (secrets.h), without what changes more than its own place, cut to
// `most` characters, and escaped. Six bytes for each character at most.
std::string shown(std::string_view text, size_t most = kMostText);

class Html {
 public:
  // Markup of our own.
  template <size_t N>
  Html& markup(const char (&literal)[N]) {
    html_.append(literal, N - 1);
    return *this;
  }
  Html& text(std::string_view text, size_t most = kMostText);
  Html& number(int64_t number);
  // Each line of the text as a line; at most so many lines of so many characters.
  Html& lines(std::string_view text, size_t most_lines, size_t most);
  // What another writer of pages has made, with every text of others escaped.
  Html& made(const std::string& html);
  // A row of a list of facts; none if `value` is empty.
  template <size_t N>
  Html& fact(const char (&name)[N], std::string_view value, size_t most = kMostText) {
    if (value.empty()) return *this;
    return markup("<dt>").markup(name).markup("</dt><dd>").text(value, most).markup("</dd>\n");
  }

  size_t size() const { return html_.size(); }
  std::string take() { return std::move(html_); }

 private:
  std::string html_;
};

// A table whose cells are texts of others, of which the last one in a row may be long. The head is ours.
constexpr size_t kMostCell = 60;
class Table {
 public:
  Table(Html* html, const std::vector<const char*>& head);
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  ~Table();
  // "-" stands for an empty text. Columns whose names begin with a "#" have numbers.
  void row(const std::vector<std::string>& cells);
  // One line over all columns.
  void line(std::string_view text);

 private:
  Html* html_;
  std::vector<bool> numbers_;
};

}  // namespace dl::report
