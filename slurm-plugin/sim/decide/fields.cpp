// SPDX-License-Identifier: Apache-2.0
#include "slurm-plugin/sim/decide/fields.h"

#include <fmt/core.h>

#include <cmath>

#include "common/base/parse.h"

namespace dl::sim {
namespace {

std::string shown(const Json& value) {
  return printable(value.dump());
}

}  // namespace

const Json* Fields::take(const char* name) {
  known_.insert(name);
  names_.emplace_back(name);
  return object_.find(name);
}

void Fields::wrong(const std::string& name, const std::string& what) {
  if (status_) status_ = Error{Errc::kInvalid, path_of(name) + ": " + what};
}

Fields& Fields::number(const char* name, double low, double high, double* value) {
  const Json* member = take(name);
  if (member == nullptr) return *this;
  const double given = member->is_number() ? member->get<double>() : NAN;
  if (!(given >= low && given <= high))
    wrong(name, fmt::format("{} is not allowed; allowed: a number from {} to {}", shown(*member), low, high));
  else
    *value = given;
  return *this;
}

Fields& Fields::whole(const char* name, int64_t low, int64_t high, int64_t* value) {
  const Json* member = take(name);
  if (member == nullptr) return *this;
  // An unsigned number beyond int64_t would wrap if it were read as int64_t.
  const bool fits = member->is_number_integer() && member->get<double>() >= static_cast<double>(low) &&
                    member->get<double>() <= static_cast<double>(high);
  if (!fits)
    wrong(name, fmt::format("{} is not allowed; allowed: a whole number from {} to {}", shown(*member), low, high));
  else
    *value = member->get<int64_t>();
  return *this;
}

Fields& Fields::text(const char* name, std::string* value) {
  const Json* member = take(name);
  if (member == nullptr) return *this;
  if (!member->is_string() || member->text().empty() || member->text().size() > 256)
    wrong(name, shown(*member) + " is not allowed; allowed: a text of 1 to 256 bytes");
  else
    *value = member->text();
  return *this;
}

const Json* Fields::array(const char* name) {
  const Json* member = take(name);
  if (member == nullptr || member->is_array()) return member;
  wrong(name, shown(*member) + " is not allowed; allowed: a list in [ ]");
  return nullptr;
}

const Json* Fields::object(const char* name) {
  const Json* member = take(name);
  if (member == nullptr || member->is_object()) return member;
  wrong(name, shown(*member) + " is not allowed; allowed: an object in { }");
  return nullptr;
}

Fields& Fields::needs(const char* name) {
  if (!object_.contains(name)) wrong(name, "is missing");
  return *this;
}

Status Fields::end() {
  if (!object_.is_object())
    return Error{Errc::kInvalid, (path_.empty() ? "the line" : path_) + ": is no object; allowed: an object in { }"};
  for (const JsonMember& member : object_.members()) {
    if (known_.count(member.name) != 0) continue;
    std::string allowed;
    for (const std::string& name : names_) allowed += (allowed.empty() ? "" : ", ") + name;
    wrong(printable(member.name), "is not known here; allowed: " + allowed);
  }
  return std::move(status_);
}

}  // namespace dl::sim
