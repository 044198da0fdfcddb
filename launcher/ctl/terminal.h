// SPDX-License-Identifier: Apache-2.0
// What standard output is: a terminal of some size, which shows colours, or not.
#pragma once

namespace dl::ctl {

struct Terminal {
  int columns = 80;     // between 1 and 200; 80 where it is no terminal, or does not tell
  int rows = 0;         // 0: unknown
  bool colour = false;  // it is a terminal, and neither NO_COLOR nor TERM=dumb says that colours are unwanted
};
Terminal standard_output();

}  // namespace dl::ctl
