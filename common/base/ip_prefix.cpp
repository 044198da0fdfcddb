// SPDX-License-Identifier: Apache-2.0
#include "common/base/ip_prefix.h"

#include <arpa/inet.h>

#include "common/base/parse.h"

namespace dl {

std::optional<IpPrefix> parse_ip_prefix(std::string_view text) {
  const size_t slash = text.find('/');
  const std::string address(text.substr(0, slash));
  unsigned char bytes[sizeof(in6_addr)];
  IpPrefix prefix;
  if (::inet_pton(AF_INET6, address.c_str(), bytes) == 1)
    prefix.v6 = true;
  else if (::inet_pton(AF_INET, address.c_str(), bytes) != 1)
    return std::nullopt;
  if (slash != std::string_view::npos && !parse_int(text.substr(slash + 1), 0, prefix.v6 ? 128 : 32))
    return std::nullopt;
  prefix.text = text;
  return prefix;
}

}  // namespace dl
