// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/network_interface.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <memory>

namespace dl::agent {
namespace {

std::string numeric_text(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address == nullptr) return {};
  if (address->sa_family == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  } else if (address->sa_family == AF_INET6) {
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text, sizeof text);
  }
  return text;
}

}  // namespace

std::string interface_of(const std::string& address) {
  std::string wanted = address.substr(0, address.find('%'));
  if (wanted.rfind("::ffff:", 0) == 0 && wanted.find('.') != std::string::npos) wanted.erase(0, 7);
  if (wanted.empty()) return {};
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  for (const ifaddrs* item = list; item != nullptr; item = item->ifa_next) {
    if (numeric_text(item->ifa_addr) != wanted) continue;
    const std::string name = item->ifa_name;
    return name.substr(0, name.find(':'));
  }
  return {};
}

}  // namespace dl::agent
