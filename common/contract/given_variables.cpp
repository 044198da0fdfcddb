// SPDX-License-Identifier: Apache-2.0
#include "common/contract/given_variables.h"

#include "common/base/parse.h"
#include "common/contract/env_names.h"

namespace dl {
namespace {

constexpr char kBetween = '\x1f';
// Longer values are those of single learners, which dlrun and srun replace.
constexpr size_t kMostBytes = 200;

}  // namespace

std::string format_given(const std::map<std::string, std::string>& before,
                         const std::map<std::string, std::string>& after) {
  std::string given;
  for (const auto& [name, value] : after) {
    if (before.count(name) != 0 || value.size() > kMostBytes || value.find(kBetween) != std::string::npos) continue;
    given.append(given.empty() ? "" : std::string(1, kBetween)).append(name).append("=").append(value);
  }
  return given;
}

std::vector<std::pair<std::string, std::string>> parse_given(const std::string& given) {
  std::vector<std::pair<std::string, std::string>> variables;
  for (const std::string& entry : split(given, kBetween)) {
    const size_t equals = entry.find('=');
    if (equals != std::string::npos && equals > 0)
      variables.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return variables;
}

void take_back_given(std::map<std::string, std::string>* environment) {
  const auto given = environment->find(env::kGiven);
  if (given == environment->end()) return;
  for (const auto& [name, value] : parse_given(given->second)) {
    const auto now = environment->find(name);
    if (now != environment->end() && now->second == value) environment->erase(now);
  }
  environment->erase(env::kGiven);
}

}  // namespace dl
