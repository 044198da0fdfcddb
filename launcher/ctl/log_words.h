// SPDX-License-Identifier: Apache-2.0
// What a line of a log says: whether an expression of the user's matches it, and whether it reports an error. Lines are
// hostile: NULs, bytes that are no UTF-8, a megabyte without a newline.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/result.h"

namespace dl::ctl {

// A regular expression as Perl has them (PCRE2). What one match may cost is limited.
class Expression {
 public:
  // kInvalid, with the place, if it is none.
  static Result<Expression> compile(const std::string& text);
  // False, too, if the match would cost too much.
  bool matches(const std::string& line);
  // Lines for which that was so.
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
