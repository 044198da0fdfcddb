// SPDX-License-Identifier: Apache-2.0
// The layout of --help, the same in all our programs.
#include <fmt/core.h>

#include <algorithm>

#include "common/base/parse.h"
#include "common/cli/command_line.h"

namespace dl {
namespace {

constexpr size_t kColumn = 34;

// Adds a line of two columns; a left text that does not fit into its column gets a line of its own.
void add_line(std::string left, const std::string& right, std::string* text) {
  if (right.empty()) {
    *text += left + "\n";
    return;
  }
  if (left.size() + 2 > kColumn) {
    *text += left + "\n";
    left.clear();
  }
  *text += fmt::format("{:<{}}{}\n", left, kColumn, right);
}

}  // namespace

std::string CommandHelp::text(const CommandLine& line) {
  std::string text = line.summary_ + "\nUsage: " + line.full_name() + " [OPTIONS]";
  for (const auto& row : line.arguments_) {
    const std::string name = row->name() + (row->is_list() ? "..." : "");
    text += row->required_ ? " " + name : " [" + name + "]";
  }
  if (!line.subcommands_.empty()) text += line.needs_subcommand_ ? " SUBCOMMAND" : " [SUBCOMMAND]";
  text += "\n";

  if (!line.arguments_.empty()) text += "\nArguments:\n";
  for (const auto& row : line.arguments_) add_line("  " + row->name(), row->help_, &text);

  std::vector<std::string> headings;
  for (const auto& row : line.options_)
    if (std::find(headings.begin(), headings.end(), row->heading_) == headings.end()) headings.push_back(row->heading_);
  for (const std::string& heading : headings) {
    text += "\n" + heading + ":\n";
    for (const auto& row : line.options_) {
      if (row->hidden_ || row->heading_ != heading) continue;
      std::string left = "  ";
      for (const std::string& name : row->names_) left += (left.size() > 2 ? "," : "") + name;
      if (!row->is_flag()) left += " " + row->form_;
      std::string right = row->help_;
      if (row->required_) right += " (required)";
      if (!row->needs_.empty()) right += " (needs " + row->needs_ + ")";
      if (!row->excludes_.empty()) right += " (not with " + row->excludes_ + ")";
      if (row->default_) right += fmt::format(" [{}]", *row->default_);
      add_line(left, right, &text);
    }
  }
  for (const auto& names : line.exactly_one_) text += "\nOne of " + join(names, ", ") + " is required.\n";
  if (!line.subcommands_.empty()) text += "\nSubcommands:\n";
  for (const auto& sub : line.subcommands_) add_line("  " + sub->name_, sub->summary_, &text);
  if (!line.footer_.empty()) text += "\n" + line.footer_ + "\n";
  return text;
}

}  // namespace dl
