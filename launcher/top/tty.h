// SPDX-License-Identifier: Apache-2.0
// The terminal while a program draws on the whole of it: keys come one by one, and whatever ends the program, it leaves
// the terminal as it was.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace dl::top {

// Whether standard input and output are a terminal on which one can draw: TERM is set, and not "dumb".
bool can_draw();

struct Wake {
  std::string keys;         // what was typed
  std::vector<int> ready;   // descriptors that can be read
  bool resized = false;     // the size may be another one
  bool shown_anew = false;  // nothing is known of what stands on the terminal: the program had been stopped
  int ending = 0;           // a signal that ends the program (SIGTERM, SIGINT, SIGHUP, SIGQUIT); 0: none
};

// There is at most one object of this class.
class Tty {
 public:
  // Takes the terminal over. kUnsupported unless can_draw().
  static Result<std::unique_ptr<Tty>> open();
  // Gives it back.
  ~Tty();
  Tty(const Tty&) = delete;
  Tty& operator=(const Tty&) = delete;

  struct Size {
    int columns = 80, rows = 24;
  };
  static Size size();

  // Waits until something happens, for timeout_ms at most.
  Wake wait(const std::vector<int>& fds, int timeout_ms);
  // kPart: a signal has arrived, which wait() tells of; the rest was not written.
  enum class Written { kAll, kPart, kGone };
  Written write(std::string_view bytes);

 private:
  Tty() = default;
};

// Ends this process as if the signal had not been handled. Call it when no Tty is left.
void end_by(int signal);

}  // namespace dl::top
