// SPDX-License-Identifier: Apache-2.0
// What dlrun tells its user on standard error, and how it calls itself there.
#pragma once

#include <functional>
#include <string>

namespace dl::supervise {

class Voice {
 public:
  using Write = std::function<void(const std::string& text)>;
  // run: the number of this run if others of the job write to the same place; 0: none does. quiet: only errors are
  // written. write: gets whole lines, each with its end; it is standard error where none is given.
  Voice(int run, bool quiet, Write write = {});

  const std::string& name() const { return name_; }  // "dlrun", or "dlrun 2"
  // One line for the user, unless the run is quiet.
  void say(const std::string& line) const;
  void say_if(const std::string& line) const {  // the same; nothing if the line is empty
    if (!line.empty()) say(line);
  }
  // The same, also if the run is quiet.
  void warn(const std::string& line) const;
  // Why something could not be written to standard error: "standard error: No space left on device". Empty: nothing.
  const std::string& error() const { return error_; }

 private:
  std::string name_;
  bool quiet_;
  Write write_;
  mutable std::string error_;
};

}  // namespace dl::supervise
