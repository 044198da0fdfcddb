// SPDX-License-Identifier: Apache-2.0
// Tells whether a line of a log matches an expression of the user's, and whether it reports an error. Lines are
// hostile: they may have NULs, bytes that are not UTF-8, or a megabyte without a newline.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/result.h"

namespace dl::ctl {

// A regular expression in Perl's syntax (PCRE2). The steps of one match are limited.
class Expression {
 public:
  // kInvalid, with the place of the fault, if `text` is not an expression.
  static Result<Expression> compile(const std::string& text);
  // Also false if the match would take too many steps.
  bool matches(const std::string& line);
  // Number of lines whose match was given up because it would take too many steps.
  int64_t given_up() const { return given_up_; }

 private:
  struct Compiled;
  std::shared_ptr<Compiled> compiled_;
  int64_t given_up_ = 0;
};

// Whether the line says by itself that something failed: "RuntimeError: …", "Traceback (most recent call last):",
// "[E] ERROR …", "Segmentation fault". Pure.
bool says_error(const std::string& line);

}  // namespace dl::ctl
