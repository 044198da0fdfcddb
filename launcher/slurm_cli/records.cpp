// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm_cli/records.h"

#include <algorithm>

#include "common/base/parse.h"
#include "launcher/slurm_cli/job_text.h"

namespace dl::slurm_cli {
namespace {

constexpr std::string_view kCapitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
constexpr std::string_view kOfKeys = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_:/";

// The length of the key of a word KEY=VALUE; 0 if the word has another form.
size_t key_of(std::string_view word) {
  const size_t end = word.find_first_not_of(kOfKeys);
  if (end == std::string_view::npos || word[end] != '=') return 0;
  return kCapitals.find(word.front()) == std::string_view::npos ? 0 : end;
}

}  // namespace

Record::Record(std::string_view text) {
  text = trim(text);
  text = text.substr(0, text.find('\n'));
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(" \t\r"), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    if (const size_t key = key_of(word); key > 0)
      words_.emplace_back(word.substr(0, key), word.substr(key + 1));
    else if (!words_.empty())
      words_.back().second.append(words_.back().second.empty() ? "" : " ").append(word);
  }
}

std::string Record::value(std::string_view key) const {
  for (const auto& [name, value] : words_)
    if (name == key) return given(value);
  return {};
}

std::vector<Record> parse_records(std::string_view text, std::string_view key) {
  std::vector<Record> records;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    Record record(text.substr(0, end));
    if (!record.value(key).empty()) records.push_back(std::move(record));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return records;
}

std::vector<Licence> parse_licences(std::string_view text) {
  std::vector<Licence> licences;
  for (const Record& record : parse_records(text, "LicenseName")) {
    const auto count = [&](const char* key) { return parse_int(record.value(key), 0, INT32_MAX); };
    const auto total = count("Total"), used = count("Used"), free = count("Free");
    if (!total) continue;
    licences.push_back(
        {record.value("LicenseName"), *total, used ? *used : 0, free ? *free : 0, record.value("Remote") == "yes"});
  }
  return licences;
}

}  // namespace dl::slurm_cli
