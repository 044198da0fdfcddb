// SPDX-License-Identifier: Apache-2.0
#define PCRE2_CODE_UNIT_WIDTH 8
#include "launcher/ctl/log_words.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "common/base/parse.h"

namespace dl::ctl {
namespace {

constexpr uint32_t kMostSteps = 5'000'000;
constexpr uint32_t kMostHeapKib = 16'384;

#ifdef PCRE2_MATCH_INVALID_UTF
constexpr uint32_t kOptions = PCRE2_UTF | PCRE2_MATCH_INVALID_UTF;
#else
constexpr uint32_t kOptions = 0;  // PCRE2 before 10.34 refuses lines that are not UTF-8: bytes are matched
#endif

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// Whether the word stands in the line; before: what precedes it may be a part of it ("RuntimeError:").
bool has_word(std::string_view line, std::string_view word, bool within) {
  for (size_t at = line.find(word); at != std::string_view::npos; at = line.find(word, at + 1)) {
    const size_t end = at + word.size();
    if (!within && at > 0 && is_word(line[at - 1])) continue;
    if (end < line.size() && is_word(word.back()) && is_word(line[end])) continue;
    return true;
  }
  return false;
}

}  // namespace

struct Expression::Compiled {
  pcre2_code* code = nullptr;
  pcre2_match_data* match = nullptr;
  pcre2_match_context* context = nullptr;

  Compiled() = default;
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() {
    pcre2_match_context_free(context);
    pcre2_match_data_free(match);
    pcre2_code_free(code);
  }
};

Result<Expression> Expression::compile(const std::string& text) {
  Expression expression;
  expression.compiled_ = std::make_shared<Compiled>();
  Compiled& compiled = *expression.compiled_;
  int error = 0;
  PCRE2_SIZE place = 0;
  compiled.code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), kOptions, &error, &place, nullptr);
  if (compiled.code == nullptr) {
    char message[256] = "";
    pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(message), sizeof message);
    return Error{Errc::kInvalid,
                 fmt::format("'{}' is not a regular expression: {}, at character {}; allowed: the syntax of Perl",
                             printable(text), message, place)};
  }
  pcre2_jit_compile(compiled.code, PCRE2_JIT_COMPLETE);  // where it cannot be had, matching is slower
  compiled.match = pcre2_match_data_create(1, nullptr);
  compiled.context = pcre2_match_context_create(nullptr);
  if (compiled.match == nullptr || compiled.context == nullptr)
    return Error{Errc::kInternal, "there is no memory for the regular expression of --grep"};
  pcre2_set_match_limit(compiled.context, kMostSteps);
  pcre2_set_heap_limit(compiled.context, kMostHeapKib);
  return expression;
}

bool Expression::matches(const std::string& line) {
  const int rc = pcre2_match(compiled_->code, reinterpret_cast<PCRE2_SPTR>(line.data()), line.size(), 0, 0,
                             compiled_->match, compiled_->context);
  if (rc < 0 && rc != PCRE2_ERROR_NOMATCH) ++given_up_;
  return rc >= 0;
}

bool says_error(const std::string& line) {
  constexpr size_t kLooked = 4096;  // what is further behind in a line is no report
  const std::string_view text = std::string_view(line).substr(0, kLooked);
  for (const char* part : {"Error:", "Exception:"})
    if (has_word(text, part, true)) return true;
  for (const char* word :
       {"Traceback (most recent call last)", "ERROR", "FATAL", "CRITICAL", "Segmentation fault", "core dumped",
        "terminate called after", "Assertion failed", "Out of memory", "panic:", "error:"})
    if (has_word(text, word, false)) return true;
  return false;
}

}  // namespace dl::ctl
