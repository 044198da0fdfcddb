// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dl {

// "10.1.2.3", "10.1.0.0/16", "fd00::/8", as inet_pton(3) reads them.
struct IpPrefix {
  bool v6 = false;
  std::string text;
};
std::optional<IpPrefix> parse_ip_prefix(std::string_view text);

}  // namespace dl
