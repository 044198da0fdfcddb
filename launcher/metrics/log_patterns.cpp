// SPDX-License-Identifier: Apache-2.0
#define PCRE2_CODE_UNIT_WIDTH 8
#include "launcher/metrics/log_patterns.h"

#include <pcre2.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "common/base/parse.h"
#include "common/contract/metric_patterns.h"

namespace dl::metrics {
namespace {

constexpr uint32_t kMostHeapKib = 4096;
constexpr size_t kNameEntryHead = 2;  // the part's number, before its name
constexpr double kMostStep = 1e12;

struct Part {
  uint32_t number = 0;
  bool step = false;
  std::string group, name;
};

// "val_loss" is the loss of the group validate; words are divided by "_".
Part part_of(uint32_t number, std::string_view text) {
  Part part;
  part.number = number;
  part.step = text == "step" || text == "iteration";
  part.group = kTrain;
  for (const std::string& word : split(text, '_')) {
    std::string lower = word;
    for (char& c : lower)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    const std::string_view group = group_of_word(lower);
    if (!group.empty() && part.name.empty()) {
      part.group = group;
    } else {
      part.name.append(part.name.empty() ? "" : "_").append(word);
    }
  }
  if (part.name.empty()) part.name = text;
  return part;
}

}  // namespace

struct LogPatterns::Pattern {
  std::string typed;
  pcre2_code* code = nullptr;
  pcre2_match_data* match = nullptr;
  pcre2_match_context* context = nullptr;
  std::vector<Part> parts;
  int given_up = 0;

  Pattern() = default;
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;
  ~Pattern() {
    pcre2_match_context_free(context);
    pcre2_match_data_free(match);
    pcre2_code_free(code);
  }
  std::optional<std::string_view> text_of(uint32_t number, std::string_view line) const {
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(match);
    if (number >= pcre2_get_ovector_count(match) || ends[2 * number] == PCRE2_UNSET) return std::nullopt;
    return line.substr(ends[2 * number], ends[2 * number + 1] - ends[2 * number]);
  }
  void take(std::string_view line, std::vector<Found>* found) const;
};

LogPatterns::LogPatterns() = default;
LogPatterns::LogPatterns(LogPatterns&&) noexcept = default;
LogPatterns& LogPatterns::operator=(LogPatterns&&) noexcept = default;
LogPatterns::~LogPatterns() = default;

Status LogPatterns::add(const std::string& pattern) {
  DL_TRY_ASSIGN(const std::string expression, expand_pattern(pattern));
  auto one = std::make_unique<Pattern>();
  one->typed = pattern;
  int error = 0;
  PCRE2_SIZE place = 0;
  // Bytes: what learners print need not be UTF-8.
  one->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                            PCRE2_NEVER_UTF | PCRE2_NEVER_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &place, nullptr);
  if (one->code == nullptr) {
    char message[256] = "";
    pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(message), sizeof message);
    return Error{Errc::kInvalid, "'" + printable(pattern) + "' is not a regular expression: " + message +
                                     "; allowed: the syntax of Perl, and " + macro_names()};
  }
  pcre2_jit_compile(one->code, PCRE2_JIT_COMPLETE);  // where it cannot be had, matching is slower
  one->match = pcre2_match_data_create_from_pattern(one->code, nullptr);
  one->context = pcre2_match_context_create(nullptr);
  if (one->match == nullptr || one->context == nullptr)
    return Error{Errc::kInternal, "there is no memory for the expressions that find metrics"};
  pcre2_set_match_limit(one->context, kMostSteps);
  pcre2_set_heap_limit(one->context, kMostHeapKib);
  uint32_t count = 0, bytes = 0;
  PCRE2_SPTR table = nullptr;
  pcre2_pattern_info(one->code, PCRE2_INFO_NAMECOUNT, &count);
  pcre2_pattern_info(one->code, PCRE2_INFO_NAMEENTRYSIZE, &bytes);
  pcre2_pattern_info(one->code, PCRE2_INFO_NAMETABLE, &table);
  for (uint32_t i = 0; i < count; ++i) {
    const PCRE2_SPTR entry = table + static_cast<size_t>(i) * bytes;
    const std::string_view name = reinterpret_cast<const char*>(entry + kNameEntryHead);
    if (name == "time" || name == "epoch") continue;
    one->parts.push_back(part_of(static_cast<uint32_t>(entry[0]) << 8 | entry[1], name));
  }
  patterns_.push_back(std::move(one));
  return {};
}

void LogPatterns::Pattern::take(std::string_view line, std::vector<Found>* found) const {
  int64_t step = kNoStep;
  const size_t before = found->size();
  for (const Part& part : parts) {
    const auto text = text_of(part.number, line);
    if (!text) continue;
    size_t bytes = 0;
    const double value = number_at(trim(*text), &bytes);
    if (bytes == 0) continue;
    if (!part.step) {
      found->push_back({part.group, part.name, value, kNoStep, 0, true});
    } else if (value >= 0 && value <= kMostStep && value == std::floor(value)) {
      step = static_cast<int64_t>(value);
    }
  }
  for (size_t i = before; i < found->size(); ++i) {
    (*found)[i].step = step;
    (*found)[i].surely = step != kNoStep;
  }
}

bool LogPatterns::read(std::string_view line, std::vector<Found>* found, std::string* note) {
  bool any = false;
  for (const auto& one : patterns_) {
    if (one->given_up >= kMostGivenUp) continue;
    size_t at = 0;
    for (size_t matches = 0; matches < kMostMatches && at <= line.size(); ++matches) {
      const auto* const text = reinterpret_cast<PCRE2_SPTR>(line.data());
      int rc = pcre2_match(one->code, text, line.size(), at, 0, one->match, one->context);
      // Compiled, it has little stack. Otherwise it uses memory, up to kMostHeapKib.
      if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(one->code, text, line.size(), at, PCRE2_NO_JIT, one->match, one->context);
      if (rc < 0) {
        if (rc != PCRE2_ERROR_NOMATCH && ++one->given_up == kMostGivenUp)
          *note = "the expression '" + printable(one->typed) + "' is not looked for any more: it takes too long";
        break;
      }
      any = true;
      one->take(line, found);
      // One that matches nothing at a place would match there for ever.
      const size_t end = pcre2_get_ovector_pointer(one->match)[1];
      at = end > at ? end : at + 1;
    }
  }
  return any;
}

}  // namespace dl::metrics
