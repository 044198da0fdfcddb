// SPDX-License-Identifier: Apache-2.0
// What the table of families says of several of them together.
#include <algorithm>

#include "frameworks/family_table.h"

namespace dl {

FamilyNeeds family_needs(const std::vector<std::string>& families) {
  FamilyNeeds needs;
  for (const std::string& name : families) {
    const Family* family = find_family(name);
    if (family == nullptr) continue;
    needs.ports = std::max(needs.ports, family->needs.ports);
    needs.peers = needs.peers || family->needs.peers;
    needs.http_store = needs.http_store || family->needs.http_store;
    needs.first_decides = needs.first_decides || family->needs.first_decides;
  }
  return needs;
}

std::vector<std::string> families_alone(const std::vector<std::string>& families) {
  std::vector<std::string> alone;
  for (const std::string& name : families) {
    const Family* family = find_family(name);
    if (family != nullptr && family->alone) alone.push_back(name);
  }
  return alone;
}

}  // namespace dl
