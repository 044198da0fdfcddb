// SPDX-License-Identifier: Apache-2.0
#include "launcher/bind/bind_mode.h"

#include "common/base/parse.h"

namespace dl::bind {
namespace {

struct Named {
  BindMode mode;
  const char* name;
};
constexpr Named kModes[] = {{BindMode::kNone, "none"}, {BindMode::kCores, "cores"}, {BindMode::kNuma, "numa"}};

}  // namespace

Result<BindMode> parse_bind(std::string_view text) {
  for (const Named& known : kModes)
    if (text == known.name) return known.mode;
  return Error{Errc::kInvalid,
               "'" + printable(std::string(text)) + "' is not a way to bind; allowed: none, cores, numa"};
}

const char* bind_name(BindMode mode) {
  for (const Named& known : kModes)
    if (mode == known.mode) return known.name;
  return "";
}

}  // namespace dl::bind
