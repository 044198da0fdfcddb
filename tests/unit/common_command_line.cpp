// SPDX-License-Identifier: Apache-2.0
// Command lines are read as their rows say, whatever the order of words, and each mistake has a sentence of its own.
#include <gtest/gtest.h>

#include "common/cli/command_line.h"

namespace {

using dl::CommandLine;
using dl::Result;

struct Values {
  std::string text = "here", job;
  std::optional<std::string> maybe;
  std::optional<double> near;
  std::vector<std::string> list, more;
  int lines = -1;
  uint64_t seed = 1;
  bool json = false, quiet = false, marked = false;
};

struct Line {
  Values values;
  CommandLine line{"tool", "For a test."};
  Line() {
    line.version("-V,--version", "tool 1");
    line.argument("JOB", &values.job, "a job").required();
    line.argument("MORE", &values.more, "and more");
    line.option("--dir", &values.text, "a folder").form("DIR").shows_default().marks(&values.marked);
    line.option("--maybe", &values.maybe, "may be").needs("--dir").excludes("--json");
    line.option("-n,--lines", &values.lines, "a number").between(0, 100);
    line.option("--near", &values.near, "a number with a point").between(0, 1.5);
    line.option("--seed", &values.seed, "a number");
    line.option("--select", &values.list, "may be given again");
    line.option("--form", &values.text, "one of two").among({"csv", "json"});
    line.flag("-j,--json", &values.json, "for programs");
    line.flag("-q,--quiet", &values.quiet, "").hidden();
  }
  // What parse() says: the text, or the error with "! " in front.
  std::string parse(std::vector<const char*> words) {
    words.insert(words.begin(), "tool");
    const Result<std::string> text = line.parse(static_cast<int>(words.size()), words.data());
    return text ? *text : "! " + text.error().text;
  }
};

std::string said(const std::vector<const char*>& words) {
  return Line().parse(words);
}

TEST(CommandLine, OptionsAreReadInEachFormAndAtEachPlace) {
  for (const std::vector<const char*>& words : {std::vector<const char*>{"--dir", "x", "-n", "5", "-jq", "7", "8", "9"},
                                                {"7", "--dir=x", "-n5", "-j", "8", "-q", "9"},
                                                {"7", "8", "--lines=5", "--quiet", "--json", "9", "--dir", "x"},
                                                {"-jqn5", "--dir=x", "--", "7", "8", "9"}}) {
    Line line;
    EXPECT_EQ(line.parse(words), "");
    EXPECT_EQ(line.values.text, "x");
    EXPECT_EQ(line.values.lines, 5);
    EXPECT_TRUE(line.values.json && line.values.quiet && line.values.marked);
    EXPECT_EQ(line.values.job, "7");
    EXPECT_EQ(line.values.more, (std::vector<std::string>{"8", "9"}));
  }
}

TEST(CommandLine, WhatIsNotGivenStays) {
  Line line;
  EXPECT_EQ(line.parse({"-"}), "");
  EXPECT_EQ(line.values.job, "-");
  EXPECT_EQ(line.values.text, "here");
  EXPECT_EQ(line.values.lines, -1);
  EXPECT_FALSE(line.values.maybe || line.values.near || line.values.json || line.values.marked);
}

TEST(CommandLine, ValuesMayBeEmptyOrLookLikeOptions) {
  Line line;
  EXPECT_EQ(line.parse({"--dir=", "--select", "--json", "--select", "a=b", "--", "--", "-x"}), "");
  EXPECT_EQ(line.values.text, "");
  EXPECT_EQ(line.values.list, (std::vector<std::string>{"--json", "a=b"}));
  EXPECT_EQ(line.values.job, "--");
  EXPECT_EQ(line.values.more, (std::vector<std::string>{"-x"}));
  EXPECT_FALSE(line.values.json);
}

TEST(CommandLine, EachMistakeIsNamed) {
  EXPECT_EQ(said({}), "! JOB is required");
  EXPECT_EQ(said({"7", "--jso"}), "! '--jso' is no option of tool; did you mean '--json'?");
  EXPECT_EQ(said({"7", "-x"}), "! '-x' is no option of tool");
  EXPECT_EQ(said({"7", "-jx"}), "! '-x' is no option of tool");
  EXPECT_EQ(said({"7", "--dir"}), "! --dir needs a value: --dir DIR");
  EXPECT_EQ(said({"7", "-n"}), "! -n needs a value: -n N");
  EXPECT_EQ(said({"--dir", "--", "7"}), "! --dir needs a value: --dir DIR");
  EXPECT_EQ(said({"-n", "--", "7"}), "! -n needs a value: -n N");
  EXPECT_EQ(said({"--dir=--", "7"}), "");
  EXPECT_EQ(said({"7", "--json=yes"}), "! --json takes no value");
  EXPECT_EQ(said({"7", "--dir", "a", "--dir", "b"}), "! --dir is given twice; allowed: once");
  EXPECT_EQ(said({"7", "--maybe", "x"}), "! --maybe needs --dir; add --dir, or leave --maybe out");
  EXPECT_EQ(said({"7", "--dir", "a", "--maybe", "x", "-j"}),
            "! --maybe and --json exclude one another; allowed: one of them");
  EXPECT_EQ(said({"7", "--form", "xml"}), "! --form: 'xml' is not allowed; allowed: csv, json");
}

TEST(CommandLine, WordsOfOtherProgramsAreAnsweredByWhatIsTypedHere) {
  const auto said_of = [](std::vector<const char*> words) {
    CommandLine line("tool", "");
    int learners = 0;
    line.option("--learners", &learners, "");
    line.subcommand("stoop", "");
    line.instead_of({"--nproc-per-node", "--np"}, "--learners N starts so many");
    line.instead_of({"stop"}, "scancel ends it");
    words.insert(words.begin(), "tool");
    const Result<std::string> text = line.parse(static_cast<int>(words.size()), words.data());
    return text ? *text : text.error().text;
  };
  for (const char* word : {"--nproc_per_node", "--nproc-per-node=4", "--np"})
    EXPECT_NE(said_of({word, "4"}).find("' is no option of tool; --learners N starts so many"), std::string::npos)
        << word;
  EXPECT_EQ(said_of({"stop", "12"}), "'stop' is no subcommand of tool; scancel ends it");
  EXPECT_NE(said_of({"stopp"}).find("did you mean 'stoop'?"), std::string::npos);
}

TEST(CommandLine, NumbersAreReadWholeAndWithinTheirLimits) {
  for (const char* bad : {"", "x", "-1", "101", "5x", " 5", "+5", "1e1", "99999999999999999999"})
    EXPECT_EQ(said({"7", "-n", bad}),
              "! --lines: '" + std::string(bad) + "' is not allowed; allowed: a whole number from 0 to 100");
  for (const char* bad : {"", "x", "-0.1", "1.6", "nan", "inf", "1.5 ", " 1", "0x1"})
    EXPECT_EQ(said({"7", "--near", bad}),
              "! --near: '" + std::string(bad) + "' is not allowed; allowed: a number from 0 to 1.5");
  for (const char* bad : {"-1", "18446744073709551616", "0x1"})
    EXPECT_EQ(said({"7", "--seed", bad}),
              "! --seed: '" + std::string(bad) + "' is not allowed; allowed: a whole number");
  Line line;
  EXPECT_EQ(line.parse({"7", "-n", "100", "--near", "1.5", "--seed", "18446744073709551615"}), "");
  EXPECT_EQ(line.values.lines, 100);
  EXPECT_EQ(line.values.near, 1.5);
  EXPECT_EQ(line.values.seed, 18446744073709551615U);
}

TEST(CommandLine, HelpAndVersionAreAnsweredBeforeMistakesAreLookedFor) {
  EXPECT_EQ(said({"--version"}), "tool 1\n");
  const std::string help = said({"-h"});
  EXPECT_EQ(help.find("For a test.\nUsage: tool [OPTIONS] JOB [MORE...]\n"), 0U) << help;
  EXPECT_NE(help.find("\n  --dir DIR                       a folder [here]\n"), std::string::npos) << help;
  EXPECT_NE(help.find("\n  -n,--lines N "), std::string::npos) << help;
  EXPECT_NE(help.find(" may be (needs --dir) (not with --json)\n"), std::string::npos) << help;
  EXPECT_EQ(help.find("quiet"), std::string::npos) << help;
}

TEST(CommandLine, WordsAfterTheCommandAreItsOwn) {
  for (const std::vector<const char*>& words : {std::vector<const char*>{"tool", "-j", "run", "-j", "--", "--no"},
                                                {"tool", "-j", "--", "run", "-j", "--", "--no"}}) {
    CommandLine line("tool", "");
    bool json = false;
    std::vector<std::string> command;
    line.flag("-j", &json, "");
    line.rest("COMMAND", &command, "");
    ASSERT_TRUE(line.parse(static_cast<int>(words.size()), words.data()));
    EXPECT_TRUE(json);
    EXPECT_EQ(command, (std::vector<std::string>{"run", "-j", "--", "--no"}));
  }
  CommandLine line("tool", "");
  std::vector<std::string> command;
  line.rest("COMMAND", &command, "");
  const char* words[] = {"tool", "--no", "run"};
  EXPECT_EQ(line.parse(3, words).error().text, "'--no' is no option of tool; a command of that name follows --");
}

TEST(CommandLine, SubcommandsHaveOptionsOfTheirOwn) {
  const auto parse = [](std::vector<const char*> words, bool* json, int* ran) {
    CommandLine line("tool", "");
    line.require_subcommand();
    CommandLine* pause = line.subcommand("pause", "stop");
    pause->flag("--json", json, "");
    pause->action([=] { *ran += 1; });
    CommandLine* other = line.subcommand("export", "write");
    std::string a, b;
    other->option("--a", &a, "");
    other->option("--b", &b, "");
    other->exactly_one_of({"--a", "--b"});
    words.insert(words.begin(), "tool");
    const Result<std::string> text = line.parse(static_cast<int>(words.size()), words.data());
    if (!text) return line.complaint(text.error());
    line.run_action();
    EXPECT_TRUE(pause->chosen() || other->chosen());
    return *text;
  };
  bool json = false;
  int ran = 0;
  EXPECT_EQ(parse({"pause", "--json"}, &json, &ran), "");
  EXPECT_TRUE(json);
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(parse({}, &json, &ran), "tool: a subcommand is required: pause, export\nTry 'tool --help'.\n");
  EXPECT_EQ(parse({"paus"}, &json, &ran),
            "tool: 'paus' is no subcommand of tool; did you mean 'pause'? a subcommand is required: pause, export\nTry "
            "'tool --help'.\n");
  EXPECT_EQ(parse({"pause", "7"}, &json, &ran), "tool pause: '7' is one argument too many\nTry 'tool pause --help'.\n");
  const std::string help = parse({"export", "--help"}, &json, &ran);
  EXPECT_NE(help.find("\nOne of --a, --b is required.\n"), std::string::npos) << help;
  EXPECT_EQ(parse({"export"}, &json, &ran),
            "tool export: one of --a, --b is required; allowed: exactly one of them\nTry 'tool export --help'.\n");
  EXPECT_EQ(parse({"export", "--a", "x", "--b", "y"}, &json, &ran),
            "tool export: --a and --b exclude one another; allowed: one of them\nTry 'tool export --help'.\n");
  CommandLine optional("tool", "");
  optional.subcommand("pause", "stop");
  const char* words[] = {"tool", "paus"};
  EXPECT_EQ(optional.parse(2, words).error().text,
            "'paus' is no subcommand of tool; did you mean 'pause'? allowed: pause");
  EXPECT_EQ(ran, 1);
}

}  // namespace
