// SPDX-License-Identifier: Apache-2.0
// Reads the members of a JSON object one by one, each with its bounds. A member that was not read is refused.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/json/json.h"

namespace dl::sim {

class Fields {
 public:
  // `path` is the path of this object, for messages; empty: the object is the whole line. The object must outlive this
  // one.
  Fields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {}

  // Each of these leaves `value` as it is if the member is missing. Errors are kept for end().
  Fields& number(const char* name, double low, double high, double* value);
  Fields& whole(const char* name, int64_t low, int64_t high, int64_t* value);
  Fields& text(const char* name, std::string* value);
  // The array, whose items the caller reads; nullptr if the member is missing.
  const Json* array(const char* name);
  const Json* object(const char* name);
  // Makes it an error if the member is missing.
  Fields& needs(const char* name);

  // The first error: kInvalid "PATH: ...". To be called after all members were read.
  Status end();
  std::string path_of(const std::string& name) const { return path_.empty() ? name : path_ + "." + name; }

 private:
  const Json* take(const char* name);
  void wrong(const std::string& name, const std::string& what);

  const Json& object_;
  std::string path_;
  std::set<std::string, std::less<>> known_;
  std::vector<std::string> names_;
  Status status_;
};

}  // namespace dl::sim
