// SPDX-License-Identifier: Apache-2.0
// What NCCL itself knows of a job that hangs: its status service (RAS, from NCCL 2.24 on) tells of every communicator
// which ranks are behind in which collective, and which processes do not answer, without a line in the program.
// Protocol: nccl src/ras/client.cc, and "RAS" in NCCL's user guide.
#pragma once

#include <chrono>
#include <string>

namespace dl::agent {

// NCCL_RAS_ADDR among `environ`, the text of /proc/PID/environ: "HOST:PORT"; NCCL's own default where there is none.
std::string nccl_ras_address(const std::string& environ);

// The verbose status, at most 256 KiB. Empty where nobody listens (no NCCL, an older one, or not yet begun), or where
// whoever does is not NCCL. Blocks for `limit` at most; for a child process.
std::string nccl_status(const std::string& address, std::chrono::milliseconds limit);

}  // namespace dl::agent
