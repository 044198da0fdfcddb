// SPDX-License-Identifier: Apache-2.0
// dlrun --debug: what is typed at the terminal reaches learner 0, though that runs in another process group, or on
// another node, and could not read the terminal itself.
#pragma once

#include "common/base/result.h"

namespace dl {

// Puts a pipe in the place of standard input, which a thread fills with what is read from the terminal, to the end of
// the process; Ctrl-D ends it. A file or a pipe stays as it is. kInvalid if standard input is neither: there is nobody
// to debug. Once, before the guard forks: only the process that was started at the terminal may read it, and its
// children read the pipe.
Status relay_terminal();

}  // namespace dl
