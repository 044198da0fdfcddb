// SPDX-License-Identifier: Apache-2.0
// dlrun --debug: passes what is typed at the terminal to learner 0, which cannot read the terminal itself, since it
// runs in another process group or on another node.
#pragma once

#include "common/base/result.h"

namespace dl {

// Replaces standard input by a pipe; a thread copies what is typed at the terminal into it until Ctrl-D or the end of
// the process. If standard input is a file or a pipe, nothing changes. kInvalid if it is none of these. Call it once,
// before the guard forks: only the process that was started at the terminal may read it; its children read the pipe.
Status relay_terminal();

}  // namespace dl
