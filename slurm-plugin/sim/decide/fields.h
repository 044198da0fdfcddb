// SPDX-License-Identifier: Apache-2.0
// Members of a JSON object, read one by one, each with its bounds; a member that nobody asked for is refused.
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
  // path: of this object, for messages; empty: of the whole line. The object must outlive this.
  Fields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {}

  // Each leaves `value` as it is where the member is not there.
  Fields& number(const char* name, double low, double high, double* value);
  Fields& whole(const char* name, int64_t low, int64_t high, int64_t* value);
  Fields& text(const char* name, std::string* value);
  // nullptr if it is not there. The caller reads it.
  const Json* array(const char* name);
  const Json* object(const char* name);
  // The member has to be there.
  Fields& needs(const char* name);

  // The first thing that was wrong.
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
