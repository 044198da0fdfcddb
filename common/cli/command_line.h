// SPDX-License-Identifier: Apache-2.0
// Parses the command lines of our programs: one row describes each option, and the rules are the same in all programs.
//
//   CommandLine line("dlctl pause", "Save and hold a job.");
//   line.argument("JOB", &job, "job id").required();
//   line.option("-n,--lines", &lines, "the last so many lines").form("N").between(0, 1000);
//   line.flag("--json", &json, "for programs");
//   const Result<std::string> text = line.parse(argc, argv);
//
// Accepted are --name VALUE, --name=VALUE, -n VALUE, -nVALUE, several flags in one word (-qt), options after arguments,
// and "--", after which every word is an argument. Names cannot be abbreviated. VALUE may look like an option; only
// "--" is not taken as a value, except in --name=--. Nothing here prints. One object must not be used by several
// threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/result.h"

namespace dl {

// The variable that receives a value. A variable of a number refuses other text; a list gets one more value each time
// its option is given; a flag (bool) has no value. The pointer must stay valid until parse() has returned.
using CommandValue = std::variant<bool*, std::string*, std::optional<std::string>*, std::vector<std::string>*, int*,
                                  int64_t*, uint64_t*, double*, std::optional<int64_t>*, std::optional<double>*>;

// One row: an option, a flag or an argument.
class CommandRow {
 public:
  // names: "-n,--lines", "--lines" or "-n"; for an argument the word that the help text shows, "JOB".
  CommandRow(const std::string& names, CommandValue value, std::string help);

  CommandRow& required();
  // The word for the value in the help text; TEXT or N if this is not called.
  CommandRow& form(std::string form);
  // The help text shows the variable's value at that time as the default.
  CommandRow& shows_default();
  // The smallest and the largest number allowed.
  CommandRow& between(long double low, long double high);
  // The allowed texts; all others are refused.
  CommandRow& among(std::vector<std::string> allowed);
  // needs: the row is refused unless the option of this name ("--keep") is given; excludes: if it is given.
  CommandRow& needs(std::string name);
  CommandRow& excludes(std::string name);
  // Set to true when the row is given.
  CommandRow& marks(bool* given);
  // The heading of the row in the help text; "Options" if this is not called.
  CommandRow& heading(std::string heading);
  // Leaves the row out of the help text.
  CommandRow& hidden();

 private:
  friend class CommandLine;
  friend class CommandHelp;
  bool is_flag() const { return std::holds_alternative<bool*>(value_); }
  bool is_list() const { return std::holds_alternative<std::vector<std::string>*>(value_); }
  // The name that messages use: the longest one.
  const std::string& name() const { return names_.back(); }

  std::vector<std::string> names_;
  CommandValue value_;
  std::string help_, form_, heading_ = "Options";
  std::optional<std::string> default_;
  std::optional<std::pair<long double, long double>> limits_;
  std::vector<std::string> allowed_;
  std::string needs_, excludes_;
  bool required_ = false, hidden_ = false, takes_rest_ = false;
  bool given_ = false;  // whether the parsed words contain this row
  bool* marks_ = nullptr;
};

// The command line of a program or of a subcommand. Every one has --help.
class CommandLine {
 public:
  // `name` is the program's name. `summary` says what the program is for; the help text begins with it.
  CommandLine(std::string name, std::string summary);

  CommandRow& option(const std::string& names, CommandValue value, std::string help);
  CommandRow& flag(const std::string& names, bool* value, std::string help);
  // Arguments are taken in the order of their rows; a list takes all that are left.
  CommandRow& argument(const std::string& name, CommandValue value, std::string help);
  // Receives the first word that is not an option, or that follows "--", and all words after it, whatever they look
  // like.
  CommandRow& rest(const std::string& name, std::vector<std::string>* words, std::string help);
  // Adds the option `names`, which parse() answers with `text`.
  void version(const std::string& names, std::string text);
  void footer(std::string text);
  // Words of other programs, with or without leading dashes, for each of which the complaint that it is no option or
  // subcommand ends in `instead`. An underscore in what is typed counts as a dash.
  void instead_of(std::vector<std::string> words, std::string instead);
  // Exactly one of these options must be given.
  void exactly_one_of(std::vector<std::string> names);

  // Adds a subcommand, which this object owns.
  CommandLine* subcommand(const std::string& name, std::string summary);
  void require_subcommand();

  // Sets the variables. Returns an empty text if the program shall do its work, else the answer to --help or --version,
  // which the caller prints. kInvalid or kConflict for a mistake, with one sentence for the user.
  Result<std::string> parse(int argc, const char* const* argv);
  // After a failed parse(): the error's sentence with the names of program and subcommand, and how to get help.
  std::string complaint(const Error& error) const;

  // After parse(): whether this subcommand was given.
  bool chosen() const { return chosen_; }
  // "pause", without the program's name.
  const std::string& name() const { return name_; }
  // Sets the work of this subcommand. After parse(), run_action() runs that of the innermost subcommand that was given.
  void action(std::function<void()> action) { action_ = std::move(action); }
  void run_action() const;

 private:
  friend class CommandHelp;
  using Words = std::vector<std::string>;
  // Does parse()'s work from the word at index `at` on.
  Result<std::string> parse_words(const Words& words, size_t at);
  Result<size_t> take_option(const Words& words, size_t at);
  Result<size_t> take_letters(const Words& words, size_t at);
  Status take_argument(const std::string& word);
  Status set(CommandRow* row, const std::string& text);
  Status check() const;
  CommandRow* find(const std::string& name) const;
  const CommandLine& innermost() const;
  std::string full_name() const;
  Error unknown(const std::string& word) const;
  std::string instead(std::string word) const;
  std::string subcommand_names() const;

  std::string name_, summary_, footer_, version_;
  CommandLine* parent_ = nullptr;
  std::vector<std::unique_ptr<CommandRow>> options_, arguments_;
  std::vector<std::unique_ptr<CommandLine>> subcommands_;
  std::vector<std::vector<std::string>> exactly_one_;
  std::vector<std::pair<std::vector<std::string>, std::string>> instead_;
  std::function<void()> action_;
  bool help_ = false, version_asked_ = false;
  bool needs_subcommand_ = false, chosen_ = false;
};

// The text that --help prints. In command_help.cpp.
class CommandHelp {
 public:
  static std::string text(const CommandLine& line);
};

}  // namespace dl
