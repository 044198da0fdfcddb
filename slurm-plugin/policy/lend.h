// SPDX-License-Identifier: Apache-2.0
// Lends what is left after the claims to the other pending jobs, in the order of fair share (decide.h, 3).
#pragma once

#include <optional>

#include "slurm-plugin/policy/reservation.h"
#include "slurm-plugin/policy/round.h"

namespace dl::policy {

// Every job in round->queue starts or waits after this. Returns what is kept for a gang, if anything is.
std::optional<Reservation> lend(Round* round);

}  // namespace dl::policy
