// SPDX-License-Identifier: Apache-2.0
#include "common/contract/objects_place.h"

#include <fmt/core.h>

#include <string>

#include "common/base/parse.h"
#include "common/contract/data_request.h"

namespace dl {
namespace {

constexpr const char* kObjectsForm = "NAME:PATH, a folder of a remote of your rclone configuration";

Error no_objects_place(std::string_view text, const char* why) {
  return Error{Errc::kInvalid, fmt::format("'{}' {}; allowed: {}", data::shown_place(text), why, kObjectsForm)};
}

}  // namespace

Status check_objects_place(std::string_view text) {
  if (data::place_of(text) != data::Place::kRemote) return no_objects_place(text, "names no object store");
  DL_TRY(data::check_place(text));
  const std::string_view path = text.substr(text.find(':') + 1);
  if (path.find_first_not_of('/') == std::string_view::npos)
    return no_objects_place(text, "has no PATH behind the remote");
  if (path.find_first_of(",\"`") != std::string_view::npos) return no_objects_place(text, "holds a comma or a quote");
  for (const std::string& part : split(path, '/'))
    if (part == "..") return no_objects_place(text, "leaves its folder");
  return {};
}

}  // namespace dl
