// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace dl::ctl {
namespace {

constexpr int kWidest = 200;

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): one thread
  return value == nullptr ? "" : value;
}

}  // namespace

Terminal standard_output() {
  Terminal terminal;
  winsize size = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) {
    if (size.ws_col > 0) terminal.columns = std::min<int>(size.ws_col, kWidest);
    terminal.rows = size.ws_row;
  }
  terminal.colour = ::isatty(STDOUT_FILENO) == 1 && variable("NO_COLOR").empty() && variable("TERM") != "dumb";
  return terminal;
}

}  // namespace dl::ctl
