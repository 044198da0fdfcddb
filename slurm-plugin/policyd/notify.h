// SPDX-License-Identifier: Apache-2.0
// Tells systemd how the service is, if systemd started it (sd_notify(3), without the library: one datagram).
#pragma once

#include <string>

namespace dl::policyd {

// "READY=1", "STATUS=...". Without NOTIFY_SOCKET in the environment, or on any error: no effect.
void notify_systemd(const std::string& state);

}  // namespace dl::policyd
