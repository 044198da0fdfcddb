// SPDX-License-Identifier: Apache-2.0
// Asks NCCL about a job that hangs: its status service (RAS, from NCCL 2.24 on) tells for each communicator which ranks
// are behind in which collective, and which processes do not answer. The training program needs no change for this.
// Protocol: nccl src/ras/client.cc, and "RAS" in NCCL's user guide.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

namespace dl::agent {

// NCCL_RAS_ADDR among `environ`, the text of /proc/PID/environ: "HOST:PORT"; NCCL's default if it is not set.
std::string nccl_ras_address(const std::string& environ);

struct NcclStatus {
  std::string text;  // at most 256 KiB
  pid_t from = 0;    // the process on this node that answered; 0: unknown
};

// Asks for the verbose status. Every process of the job listens at that address on its node, and the kernel gives a
// connection to any of them. A process that stands still accepts it and does not answer, so further connections are
// made until one is answered. The text is empty if nobody listens there (no NCCL, an older one, or one that has not
// started yet), if none answers, or if it is not NCCL. Blocks for `limit` at most, so call it in a child process.
NcclStatus nccl_status(const std::string& address, std::chrono::milliseconds limit);

}  // namespace dl::agent
