// SPDX-License-Identifier: Apache-2.0
#include "common/site/site_failures.h"

#include <fmt/core.h>

#include <array>

#include "common/base/parse.h"
#include "common/contract/request_values.h"
#include "common/site/site_values.h"

namespace dl {
namespace {

Status bad_value(const std::string& shown, const std::string& allowed) {
  return Error{Errc::kInvalid, fmt::format("'{}' is not accepted; allowed: {}", printable(shown), allowed)};
}

// The text of a value, or none if it is of another type.
std::optional<std::string> text_of(const toml::node& node) {
  const auto* text = node.as_string();
  if (text == nullptr) return std::nullopt;
  return text->get();
}

Status set_pattern(const toml::node& node, FailureRow* row) {
  std::string why = "a regular expression in quotes";
  const auto text = text_of(node);
  if (!text || !is_log_pattern(*text, &why)) return bad_value(text.value_or("a value of this type"), why);
  row->pattern = *text;
  return {};
}

Status set_class(const toml::node& node, FailureRow* row) {
  const auto text = text_of(node);
  if (!text || !is_plain_name(*text))
    return bad_value(text.value_or("a value of this type"),
                     "the name of a class in quotes, of letters, digits and . _ + -");
  row->name = *text;
  return {};
}

Status set_answer(const toml::node& node, FailureRow* row) {
  const auto text = text_of(node);
  row->answer = parse_answer(text.value_or(""));
  if (!row->answer)
    return bad_value(text.value_or("a value of this type"), R"("restart", "exclude", "requeue", "hold", "fail")");
  return {};
}

Status set_fault(const toml::node& node, FailureRow* row) {
  const auto text = text_of(node);
  if (text != "yours" && text != "ours") return bad_value(text.value_or("a value of this type"), R"("yours", "ours")");
  row->fault = text == "yours" ? Fault::kYours : Fault::kOurs;
  return {};
}

Status set_budget(const toml::node& node, FailureRow* row) {
  const auto* number = node.as_integer();
  if (number == nullptr || number->get() < 0 || number->get() > kMaxRestarts)
    return bad_value(number != nullptr ? std::to_string(number->get()) : text_of(node).value_or("a value of this type"),
                     fmt::format("a whole number from 0 to {}", kMaxRestarts));
  row->budget = static_cast<int>(number->get());
  return {};
}

struct Key {
  std::string_view name;
  Status (*set)(const toml::node& node, FailureRow* row);
};
constexpr std::array kKeys{Key{"pattern", set_pattern}, Key{"class", set_class}, Key{"answer", set_answer},
                           Key{"fault", set_fault}, Key{"budget", set_budget}};

Result<FailureRow> read_row(const toml::table& table, const std::string& file) {
  FailureRow row;
  for (auto&& [toml_key, node] : table) {
    const std::string full = "failure." + std::string(toml_key.str());
    const Key* known = nullptr;
    for (const Key& key : kKeys)
      if (key.name == toml_key.str()) known = &key;
    if (known == nullptr)
      return place(node, file, full,
                   Error{Errc::kInvalid, "unknown key; allowed: pattern, class, answer, fault, budget"});
    if (Status set = known->set(node, &row); !set) return place(node, file, full, std::move(set).error());
  }
  if (row.pattern.empty() || row.name.empty())
    return place(
        table, file, "failure",
        Error{
            Errc::kInvalid,
            "needs a pattern and a class; allowed: both, such as pattern = \"link is down\" and class = \"network\""});
  return row;
}

}  // namespace

Result<std::vector<FailureRow>> read_failure_rows(const toml::node& node, const std::string& file) {
  const auto* array = node.as_array();
  const std::string allowed = fmt::format("1 to {} tables: [[failure]]", kMaxFailureRows);
  if (array == nullptr || array->empty() || array->size() > kMaxFailureRows)
    return place(node, file, "failure", Error{Errc::kInvalid, "is not accepted; allowed: " + allowed});
  std::vector<FailureRow> rows;
  for (const toml::node& element : *array) {
    const auto* table = element.as_table();
    if (table == nullptr)
      return place(element, file, "failure", Error{Errc::kInvalid, "is not accepted; allowed: " + allowed});
    DL_TRY_ASSIGN(FailureRow row, read_row(*table, file));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace dl
