// SPDX-License-Identifier: Apache-2.0
// Where dlpolicyd says what it does: stderr, with the priorities that journald reads ("<6>...") when it is there, else
// with the time in front.
#pragma once

#include <string>

namespace dl::policyd {

enum class Level { kError = 3, kWarning = 4, kNotice = 5, kInfo = 6, kDebug = 7 };  // as in syslog

void set_verbose(bool verbose);  // kDebug is dropped otherwise
// One line; control characters become \xNN. From one thread.
void log(Level level, const std::string& text);

// Says the same complaint once, and again after ten minutes, or when it has changed.
class Complaint {
 public:
  void say(Level level, const std::string& text, int64_t now_s);
  // It is over: says so if it was said.
  void over(const std::string& text);

 private:
  std::string said_;
  int64_t at_s_ = 0;
};

}  // namespace dl::policyd
