// SPDX-License-Identifier: Apache-2.0
// The last lines of a learner's output, and the last exception among them, for the message about its failure. Pure;
// uses bounded memory, whatever the learner writes.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace dl::agent {

class LastLines {
 public:
  static constexpr size_t kLines = 32;
  static constexpr size_t kLineBytes = 400;  // the rest of a longer line is dropped

  void feed(std::string_view data);

  // Oldest first, without blank lines; control characters and bytes that are not valid UTF-8 are shown as '?'. A line
  // that a carriage return ended is replaced by what followed it, as on a terminal.
  std::vector<std::string> lines() const;

  // "RuntimeError: CUDA out of memory": the line that ends the last Python traceback ("Traceback (most recent call
  // last):"), or the type and what() of a C++ exception, from the message "terminate called ...". Empty if there is
  // none among the last kLines lines.
  std::string exception() const;

 private:
  void end_line(bool replaced_by_next);
  void follow_exception(const std::string& line);

  std::deque<std::string> ring_;
  std::string open_;           // not ended yet
  bool drop_last_ = false;     // the last line of ring_ ended in a carriage return
  bool in_traceback_ = false;  // between "Traceback" and the line that names the exception
  bool after_terminate_ = false;
  std::string exception_;
  int64_t count_ = 0, exception_at_ = -1;  // lines so far; which of them named exception_
};

}  // namespace dl::agent
