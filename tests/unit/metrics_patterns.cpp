// SPDX-License-Identifier: Apache-2.0
// Metrics in lines that users describe by expressions: the form of the expressions, what they find, and their bounds.
#include <random>

#include "common/base/awake_clock.h"
#include "common/contract/metric_patterns.h"
#include "launcher/metrics/collector.h"
#include "launcher/metrics/log_patterns.h"
#include "tests/unit/metrics_support.h"

namespace dl::metrics {
namespace {

std::string refusal(const std::string& spec) {
  const auto parsed = parse_metrics(spec);
  return parsed ? "" : parsed.error().text;
}

TEST(MetricPatternsTest, ExpressionsAreDividedAndLookedAt) {
  EXPECT_EQ(*parse_metrics("loss=%{FLOAT:loss}"), std::vector<std::string>{"loss=%{FLOAT:loss}"});
  EXPECT_EQ(*parse_metrics(" a||(?<x>b) ||  y (?P<y>.*) "), (std::vector<std::string>{"a||(?<x>b)", "y (?P<y>.*)"}));
  EXPECT_EQ(*expand_pattern("%{INT} (?<loss>x)"), "(?:[0-9]+) (?<loss>x)");
  EXPECT_EQ(refusal(""), "'' is no expression; allowed: a regular expression such as loss=%{FLOAT:loss}");
  EXPECT_EQ(refusal("(?<a>b) || "), "'' is no expression; allowed: a regular expression such as loss=%{FLOAT:loss}");
  EXPECT_EQ(refusal("loss=%{FLAOT:loss}"),
            "'%{FLAOT:loss}' is no macro; allowed: %{FLOAT}, %{GLOG_STAMP}, %{HEX}, %{INT}, %{INT_ANY}, %{TIMESTAMP}");
  EXPECT_NE(refusal("loss=%{FLOAT").find("has a %{ without its }"), std::string::npos);
  EXPECT_NE(refusal("loss=%{FLOAT:}").find("has '' as a name; allowed: 1 to 32 letters"), std::string::npos);
  EXPECT_NE(refusal("loss=%{FLOAT:1st}").find("has '1st' as a name"), std::string::npos);
  for (const char* spec : {"loss", "loss=(.*)", "step %{INT:step}", "(?<", "(?<>x)", "(?:<loss>x)"})
    EXPECT_NE(refusal(spec).find("names no value; allowed: at least one part with a name"), std::string::npos) << spec;
  EXPECT_NE(refusal("a\n%{INT:b}").find("control characters"), std::string::npos);
  EXPECT_NE(refusal(std::string(1001, 'x')).find("is too long; allowed: up to 1000"), std::string::npos);
  std::string many = "%{INT:a}";
  for (int i = 0; i < 20; ++i) many += " || %{INT:a}";
  EXPECT_EQ(refusal(many), "there are more than 20 expressions; allowed: up to 20, with \" || \" between them");
}

TEST(MetricPatternsTest, FoldersOfEventFilesStandBesideExpressions) {
  EXPECT_EQ(*parse_metrics("events:runs/a b || x=%{INT:x}"),
            (std::vector<std::string>{"events:runs/a b", "x=%{INT:x}"}));
  EXPECT_EQ(event_folder("events:runs/a b"), "runs/a b");
  EXPECT_EQ(event_folder("events:/tmp/tb"), "/tmp/tb");
  for (const char* expression :
       {"events:%{INT:events}", "events: (?<n>.*)", "events:(?P<n>.*)", "x=%{INT:x}", "events"})
    EXPECT_EQ(event_folder(expression), "") << expression;
  EXPECT_EQ(*parse_metrics("events:%{INT:n}"), std::vector<std::string>{"events:%{INT:n}"});
  EXPECT_NE(refusal("events:").find("names no value"), std::string::npos);
  EXPECT_NE(refusal("events:a\nb").find("control characters"), std::string::npos);
  EXPECT_NE(refusal("events:" + std::string(1001, 'x')).find("is too long"), std::string::npos);
}

TEST(MetricPatternsTest, FoldersOfEventFilesHaveNamesOfTheJob) {
  PathNames names;
  name_job("12_3", &names);
  names.home = "/home/ada";
  const auto expanded = [&](const std::string& spec) {
    const auto parts = expand_metrics(*parse_metrics(spec), names);
    return parts ? parts->front() : parts.error().text;
  };
  EXPECT_EQ(expanded("events:runs/%A_%a"), "events:runs/12_3");
  EXPECT_EQ(expanded("events:~/tb"), "events:/home/ada/tb");
  EXPECT_EQ(expanded("x=%{INT:x}"), "x=%{INT:x}");
  EXPECT_EQ(expanded("events:%x").find("events: '%x': '%x' is the job's name, and this run has none"), 0u);
  EXPECT_EQ(refusal("events:$HOME/tb").find("events: '$HOME/tb': '$' is not expanded"), 0u);
  EXPECT_EQ(refusal("x=%{INT:x} || events:runs/%q").find("events: 'runs/%q': '%q' stands for nothing here"), 0u);
}

std::string found_in(const std::string& spec, const std::string& line) {
  LogPatterns patterns;
  const auto typed = parse_metrics(spec);
  if (!typed) return typed.error().text;
  for (const std::string& pattern : *typed) {
    const Status added = patterns.add(pattern);
    if (!added) return added.error().text;
  }
  std::vector<Found> found;
  std::string note;
  const bool any = patterns.read(line, &found, &note);
  std::string text = any ? "" : "none";
  for (const Found& one : found) {
    char value[64];
    std::snprintf(value, sizeof value, "%g", one.value);
    text += (text.empty() ? "" : " ") + one.group + "/" + one.name + "=" + value;
    if (one.step != kNoStep) text += "@" + std::to_string(one.step);
  }
  return text;
}

TEST(MetricPatternsTest, NamedPartsAreValues) {
  EXPECT_EQ(found_in("cost %{FLOAT:cost} after %{INT:step}", "cost -1.5e-3 after 120"), "train/cost=-0.0015@120");
  EXPECT_EQ(found_in("%{FLOAT:val_top_1} (?P<test_f1>%{FLOAT})", "x 0.5 .25 y"), "test/f1=0.25 validate/top_1=0.5");
  EXPECT_EQ(found_in("it=%{INT:iteration} kl=%{FLOAT:kl} || reward: %{FLOAT:reward}", "it=7 kl=nan reward: inf"),
            "train/kl=nan@7 train/reward=inf");
  EXPECT_EQ(found_in("%{TIMESTAMP} q=%{FLOAT:q}", "2026-11-27 06:00:01,123 q=3"), "train/q=3");
  EXPECT_EQ(found_in("^%{GLOG_STAMP} .* q=%{FLOAT:q}", "I1127 06:00:01.123456 1 a.cc:3] q=3"), "train/q=3");
  // Each place where it matches; a part that took no part; a text that is no number.
  EXPECT_EQ(found_in("a=%{INT:a}(?: b=%{INT:b})?", "a=1 a=2 b=3"), "train/a=1 train/a=2 train/b=3");
  EXPECT_EQ(found_in("a=(?<a>.*)", "a=many"), "");
  EXPECT_EQ(found_in("a=%{INT:a}", "b=1"), "none");
  EXPECT_EQ(found_in("s=%{INT_ANY:step} a=%{INT:a}", "s=-3 a=1"), "train/a=1");
  EXPECT_EQ(found_in("(?<a>", "x"),
            "'(?<a>' is not a regular expression: missing closing parenthesis; allowed: the syntax of Perl, and "
            "%{FLOAT}, %{GLOG_STAMP}, %{HEX}, %{INT}, %{INT_ANY}, %{TIMESTAMP}");
}

TEST(MetricPatternsTest, WhatMatchesNothingOrTakesForEverEnds) {
  EXPECT_EQ(found_in("(?<a>)", "abc"), "");
  EXPECT_EQ(found_in("(?<a>x*)", "\xff\xfe\x00"), "");
  LogPatterns patterns;
  ASSERT_TRUE(patterns.add("(?<a>(x+x+)+y)"));
  const std::string line = std::string(2000, 'x') + " y";  // without a y PCRE2 does not begin
  std::vector<Found> found;
  std::string note;
  int read = 0;
  for (; note.empty() && read < 1000; ++read) patterns.read(line, &found, &note);
  EXPECT_EQ(note, "the expression '(?<a>(x+x+)+y)' is not looked for any more: it takes too long");
  EXPECT_EQ(read, LogPatterns::kMostGivenUp);
  note.clear();
  EXPECT_FALSE(patterns.read("xxy", &found, &note));
  EXPECT_EQ(note, "");
}

// Compiled, such an expression needs more stack than there is for a line of many words.
TEST(MetricPatternsTest, ALongLineOfManyWordsIsRead) {
  LogPatterns patterns;
  ASSERT_TRUE(patterns.add("^(?:(\\S+) )*loss=%{FLOAT:loss}$"));
  std::string line;
  while (line.size() < 4000) line += "ab ";
  line += "loss=0.5";
  std::vector<Found> found;
  std::string note;
  EXPECT_TRUE(patterns.read(line, &found, &note));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].value, 0.5);
}

TEST(MetricPatternsTest, AnyBytesAreBorne) {
  std::mt19937 random(11);
  for (int i = 0; i < 2000; ++i) {
    std::string text = "(?<a>%{FLOAT})|x*(b|c)+?[^d]%{INT:step}";
    for (size_t n = random() % 4; n > 0; --n) text[random() % text.size()] = static_cast<char>(random());
    LogPatterns patterns;
    if (!patterns.add(text)) continue;
    std::string line(random() % 200, '\0');
    for (char& c : line) c = static_cast<char>(random());
    std::vector<Found> found;
    std::string note;
    patterns.read(line, &found, &note);
  }
}

class PatternCollectorTest : public MetricsFolder {};

TEST_F(PatternCollectorTest, DescribedLinesAreAsTheUserSaysAndOthersAsUsual) {
  append("log", "batch 3: loss=0.5 cost=2\nstep 4: loss=0.25\nbatch 5: cost=3\n");
  CollectorOptions options;
  options.series = path();
  options.log = path("log");
  options.patterns = {"batch %{INT:step}: .*cost=%{FLOAT:cost}", "(?<broken>"};
  Collector collector(options);
  ASSERT_TRUE(collector.open());
  collector.finish(1000, awake_ms() + 1000);
  EXPECT_EQ(shown(file()), "train/cost: 3=2 5=3; train/loss: 4=0.25");
  ASSERT_EQ(file().notes.size(), 1U);
  EXPECT_NE(file().notes[0].find("is not a regular expression"), std::string::npos);
}

}  // namespace
}  // namespace dl::metrics
