// SPDX-License-Identifier: Apache-2.0
// dlctl status -w: what status shows, again and again, on the whole terminal.
#pragma once

#include <functional>
#include <string>

#include "common/base/result.h"

namespace dl::ctl {

struct WatchLook {
  std::string text;    // what status prints
  std::string states;  // of all jobs; where there is no terminal, the text is printed when they have changed
  bool ended = false;  // nothing will change any more
};

// Looks each two seconds, until all has ended or the user quits. The last text then stays on the terminal.
Status watch_status(const std::function<WatchLook()>& look);

}  // namespace dl::ctl
