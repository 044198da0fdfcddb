// SPDX-License-Identifier: Apache-2.0
// Reports the state of the service to systemd, if systemd started it (sd_notify(3), without the library: one datagram).
#pragma once

#include <string>

namespace dl::policyd {

// `state` is "READY=1" or "STATUS=...". Without NOTIFY_SOCKET in the environment, or on any error, it does nothing.
void notify_systemd(const std::string& state);

}  // namespace dl::policyd
