// SPDX-License-Identifier: Apache-2.0
// The log of dlpolicyd, on stderr: with priorities for journald ("<6>...") if journald reads it, else with the time in
// front.
#pragma once

#include <string>

namespace dl::policyd {

enum class Level { kError = 3, kWarning = 4, kNotice = 5, kInfo = 6, kDebug = 7 };  // the values of syslog(3)

void set_verbose(bool verbose);  // false: kDebug is dropped
// Writes one line; control characters become \xNN. Only one thread may call it.
void log(Level level, const std::string& text);

// Logs a complaint once, and again when ten minutes have passed or its text has changed.
class Complaint {
 public:
  void say(Level level, const std::string& text, int64_t now_s);
  // Says that the trouble is over: logs `text` if the complaint was logged.
  void over(const std::string& text);

 private:
  std::string said_;
  int64_t at_s_ = 0;
};

}  // namespace dl::policyd
