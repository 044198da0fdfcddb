// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/convert/python_record.h"

#include <optional>
#include <set>

#include "common/base/base64.h"
#include "common/base/parse.h"
#include "common/json/json.h"

namespace dl::ckpt {
namespace {

// codec.py stores up to 100 levels, and a dict whose keys are not all texts is three levels of JSON.
constexpr size_t kMaxDepth = 350;
constexpr uint64_t kSchema = 1;

Error unknown(const std::string& path) {
  return Error{Errc::kCorrupt, "the record of dlckpt.attach() cannot be understood at '" + printable(path) + "'"};
}

// A key as one part of a path, as codec.escape() writes it.
std::string escaped(const std::string& key) {
  if (key.empty()) return "%";
  if (key == ".") return "%2E";
  if (key == "..") return "%2E%2E";
  constexpr const char* kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '/' || c == '%' || byte < 32 || byte == 127) {
      out += '%';
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    } else {
      out += c;
    }
  }
  return out;
}

const std::string* text_of(const Json& object, const char* name) {
  const Json* member = object.find(name);
  return member && member->is_string() ? &member->text() : nullptr;
}

// Collects the arrays of a tree. Its paths are those that codec.encode() had.
class Walk {
 public:
  explicit Walk(std::vector<RecordedTensor>* found) : found_(found) {}

  Status tree(const Json& value, const std::string& path) {  // NOLINT(misc-no-recursion): kMaxDepth bounds it
    if (value.is_array()) return items(value, path);
    if (!value.is_object()) return {};
    if (!value.contains("$")) {
      for (const JsonMember& member : value.members()) DL_TRY(tree(member.value, path + "/" + escaped(member.name)));
      return {};
    }
    const std::string* kind = text_of(value, "$");
    if (!kind) return unknown(path);
    if (*kind == "array") return array(value, path);
    const Json* content = value.find("v");
    if (*kind == "tuple" || *kind == "deque") return content ? items(*content, path) : Status(unknown(path));
    if (*kind == "dict" || *kind == "odict") return content ? pairs(*content, path) : Status(unknown(path));
    return {};
  }

 private:
  Status items(const Json& list, const std::string& path) {  // NOLINT(misc-no-recursion)
    size_t index = 0;
    for (const Json& item : list) DL_TRY(tree(item, path + "/" + std::to_string(index++)));
    return {};
  }

  Status pairs(const Json& list, const std::string& path) {  // NOLINT(misc-no-recursion)
    std::set<std::string> parts;
    for (const Json& pair : list) {
      if (!pair.is_array() || pair.size() != 2) return unknown(path);
      const Json& key = pair[0];
      if (!key.is_string() && !key.is_number_integer()) continue;
      std::string part = key.is_string() ? escaped(key.text()) : key.dump();
      if (!parts.insert(part).second) part = (key.is_string() ? "%str:" : "%int:") + part;  // 1 and "1"
      DL_TRY(tree(pair[1], path + "/" + part));
    }
    return {};
  }

  Status array(const Json& value, const std::string& path) {
    RecordedTensor tensor;
    tensor.path = path;
    const std::string *dtype = text_of(value, "dtype"), *content = text_of(value, "v");
    const Json* shape = value.find("shape");
    if (!dtype || !content || !shape || !shape->is_array()) return unknown(path);
    for (const Json& extent : *shape) {
      if (!extent.is_number_unsigned()) return unknown(path);
      tensor.shape.push_back(extent.get<int64_t>());
    }
    auto bytes = from_base64(*content);
    tensor.dtype = find_dtype(std::string_view(*dtype));
    const auto count = volume(tensor.shape);
    if (!tensor.dtype || !bytes || !count || bytes->size() % tensor.dtype->size != 0 ||
        bytes->size() / tensor.dtype->size != *count)
      return unknown(path);
    tensor.bytes = std::move(*bytes);
    found_->push_back(std::move(tensor));
    return {};
  }

  std::vector<RecordedTensor>* found_;
};

}  // namespace

Result<std::vector<RecordedTensor>> recorded_tensors(std::string_view record) {
  const Json json = Json::parse_strictly(record, kMaxDepth);
  const Json *schema = json.find("schema"), *objects = json.find("objects"), *state = json.find("state");
  if (!schema || !schema->is_number_unsigned() || schema->get<uint64_t>() != kSchema || !objects ||
      !objects->is_object())
    return Error{Errc::kCorrupt,
                 "the record of dlckpt.attach() is none that this version reads; allowed: JSON of schema " +
                     std::to_string(kSchema)};
  std::vector<RecordedTensor> found;
  Walk walk(&found);
  for (const JsonMember& member : objects->members()) DL_TRY(walk.tree(member.value, escaped(member.name)));
  if (state) DL_TRY(walk.tree(*state, "state"));
  return found;
}

}  // namespace dl::ckpt
