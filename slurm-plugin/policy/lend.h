// SPDX-License-Identifier: Apache-2.0
// What is left after the claims goes to the other pending jobs, in the order of fair share (decide.h, 3).
#pragma once

#include "slurm-plugin/policy/round.h"

namespace dl::policy {

// Every job in round->queue starts or waits after this.
void lend(Round* round);

}  // namespace dl::policy
