// SPDX-License-Identifier: Apache-2.0
#include "common/site/site_values.h"

#include <fmt/core.h>

#include <cmath>

#include "common/base/ip_prefix.h"
#include "common/base/parse.h"

namespace dl {

Error bad_value(const toml::node& node, const std::string& allowed) {
  std::string shown;
  if (const auto* text = node.as_string())
    shown = "'" + printable(text->get()) + "'";
  else if (const auto* number = node.as_integer())
    shown = std::to_string(number->get());
  else if (const auto* flag = node.as_boolean())
    shown = flag->get() ? "true" : "false";
  else if (node.is_table())
    shown = "a table";
  else if (node.is_array())
    shown = "an array";
  else
    shown = "a value of this type";
  return Error{Errc::kInvalid, fmt::format("{} is not accepted; allowed: {}", shown, allowed)};
}

Status set_int(const toml::node& node, int min, int max, int* out) {
  const auto* number = node.as_integer();
  if (number == nullptr || number->get() < min || number->get() > max)
    return bad_value(node, fmt::format("a whole number from {} to {}", min, max));
  *out = static_cast<int>(number->get());
  return {};
}

Status set_time(const toml::node& node, std::chrono::seconds min, std::chrono::seconds max, std::chrono::seconds* out) {
  std::optional<std::chrono::seconds> value;
  if (const auto* number = node.as_integer()) {
    if (number->get() >= 0 && number->get() <= max.count()) value = std::chrono::seconds(number->get());
  } else if (const auto* text = node.as_string()) {
    if (auto parsed = parse_duration(text->get())) value = *parsed;
  }
  if (!value || *value < min || *value > max)
    return bad_value(node, fmt::format("a time from {} to {}, in seconds or as \"30s\", \"10m\", \"1h30m\"",
                                       format_duration(min), format_duration(max)));
  *out = *value;
  return {};
}

Status set_bytes(const toml::node& node, uint64_t min, uint64_t max, uint64_t* out) {
  std::optional<uint64_t> value;
  if (const auto* number = node.as_integer()) {
    if (number->get() >= 0) value = static_cast<uint64_t>(number->get());
  } else if (const auto* text = node.as_string()) {
    if (auto parsed = parse_bytes(text->get())) value = *parsed;
  }
  if (!value || (*value != 0 && (*value < min || *value > max)))
    return bad_value(node, fmt::format("0 for no limit, or from {} to {}, in bytes or as \"64MiB\", \"1GiB\"",
                                       format_bytes(min), format_bytes(max)));
  *out = *value;
  return {};
}

Status set_bool(const toml::node& node, bool* out) {
  const auto* flag = node.as_boolean();
  if (flag == nullptr) return bad_value(node, "true, false");
  *out = flag->get();
  return {};
}

Status set_name(const toml::node& node, const char* what, std::string* out) {
  const auto* text = node.as_string();
  if (text == nullptr || !is_plain_name(text->get()))
    return bad_value(node, fmt::format("the name of a {} in quotes, of letters, digits and . _ + -", what));
  *out = text->get();
  return {};
}

bool is_clean_path(const std::string& path) {
  if (path.empty() || path.size() > kMaxPathBytes) return false;
  for (char c : path)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
  return true;
}

Status set_tier(const toml::node& node, Tier* out) {
  if (const auto* text = node.as_string())
    if (auto tier = parse_tier(text->get())) {
      *out = *tier;
      return {};
    }
  return bad_value(node, "\"auto\", \"guaranteed\", \"borrow\"");
}

Status set_network_enforced(const toml::node& node, bool* out) {
  const auto* text = node.as_string();
  if (text == nullptr || (text->get() != "nftables" && text->get() != "off"))
    return bad_value(node, "\"nftables\", \"off\"");
  *out = text->get() == "nftables";
  return {};
}

namespace {

constexpr size_t kMostPrefixes = 1000;

// An array of texts, each of which `good` accepts.
Status set_texts(const toml::node& node, const std::string& allowed, bool (*good)(const std::string&),
                 std::vector<std::string>* out) {
  const auto* array = node.as_array();
  if (array == nullptr || array->size() > kMostPrefixes) return bad_value(node, allowed);
  out->clear();
  for (const toml::node& element : *array) {
    const auto* text = element.as_string();
    if (text == nullptr || !good(text->get())) return bad_value(element, allowed);
    out->push_back(text->get());
  }
  return {};
}

}  // namespace

Error place(const toml::node& node, const std::string& file, const std::string& key, Error error) {
  error.code = Errc::kInvalid;
  return std::move(error).with_context(fmt::format("{}:{}: {}", file, node.source().begin.line, printable(key, 160)));
}

Status each_table(const toml::node& node, const std::string& file, const std::string& section, size_t most,
                  const std::string& what, const std::string& of_name,
                  const std::function<Status(const std::string& name, const toml::table& table)>& read) {
  const auto* tables = node.as_table();
  if (tables == nullptr) return place(node, file, section, bad_value(node, fmt::format("tables: [{}.NAME]", section)));
  if (tables->size() > most)
    return place(node, file, section, bad_value(node, fmt::format("at most {} {}s", most, what)));
  for (auto&& [key, element] : *tables) {
    const std::string name(key.str());
    const std::string where = section + "." + name;
    const auto* table = element.as_table();
    if (table == nullptr)
      return place(element, file, where, bad_value(element, fmt::format("a table: [{}.NAME]", section)));
    if (!is_plain_name(name))
      return place(
          element, file, where,
          Error{Errc::kInvalid, fmt::format("is not the name of {}; allowed: letters, digits and . _ + -", of_name)});
    DL_TRY(read(name, *table));
  }
  return {};
}

Status set_prefixes(const toml::node& node, std::vector<std::string>* out) {
  return set_texts(
      node, "addresses and prefixes in an array: [\"10.0.0.5\", \"10.1.0.0/16\", \"fd00::/8\"]",
      [](const std::string& text) { return parse_ip_prefix(text).has_value(); }, out);
}

Status set_node_names(const toml::node& node, std::vector<std::string>* out) {
  return set_texts(
      node, "names with one %n, the node's own, in an array: [\"%n-ib\"]",
      [](const std::string& text) {
        std::string name = text;
        const size_t at = name.find("%n");
        if (at == std::string::npos) return false;
        name.replace(at, 2, "n");
        return is_plain_name(name);
      },
      out);
}

Status set_number(const toml::node& node, double min, double max, double* out) {
  std::optional<double> value;
  if (const auto* real = node.as_floating_point()) value = real->get();
  if (const auto* whole = node.as_integer()) value = static_cast<double>(whole->get());
  if (!value || !std::isfinite(*value) || *value < min || *value > max)
    return bad_value(node, fmt::format("a number from {} to {}", min, max));
  *out = *value;
  return {};
}

Status set_names(const toml::node& node, const char* what, size_t most, std::vector<std::string>* out) {
  const std::string allowed = fmt::format("1 to {} names of {} in an array: [\"...\"]", most, what);
  const auto* array = node.as_array();
  if (array == nullptr || array->empty() || array->size() > most) return bad_value(node, allowed);
  out->clear();
  for (const toml::node& element : *array) {
    const auto* text = element.as_string();
    if (text == nullptr || !is_plain_name(text->get())) return bad_value(element, allowed);
    out->push_back(text->get());
  }
  return {};
}

}  // namespace dl
