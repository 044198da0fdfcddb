// SPDX-License-Identifier: Apache-2.0
#include "launcher/data/listing.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <string>

#include "common/base/lower_case.h"
#include "common/base/parse.h"
#include "common/json/json.h"
#include "launcher/data/file_time.h"

namespace dl::data {
namespace {

int two_digits(std::string_view text, size_t at) {
  return (text[at] - '0') * 10 + (text[at + 1] - '0');
}

}  // namespace

int64_t parse_time_ns(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00";
  if (text.size() < kForm.size()) return 0;
  for (size_t i = 0; i < kForm.size(); ++i)
    if (kForm[i] == '0' ? std::isdigit(static_cast<unsigned char>(text[i])) == 0 : text[i] != kForm[i]) return 0;
  std::tm parts{};
  parts.tm_year = two_digits(text, 0) * 100 + two_digits(text, 2) - 1900;
  parts.tm_mon = two_digits(text, 5) - 1;
  parts.tm_mday = two_digits(text, 8);
  parts.tm_hour = two_digits(text, 11);
  parts.tm_min = two_digits(text, 14);
  parts.tm_sec = two_digits(text, 17);
  int64_t seconds = ::timegm(&parts);
  size_t at = kForm.size();
  int64_t fraction = 0;
  if (at < text.size() && text[at] == '.') {
    int64_t unit = kNsPerSecond / 10;
    for (++at; at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0; ++at, unit /= 10)
      fraction += (text[at] - '0') * unit;
  }
  const std::string_view zone = text.substr(at);
  const bool digits = zone.size() == 6 && std::all_of(zone.begin() + 1, zone.end(), [&](const char& c) {
                        return &c == &zone[3] || std::isdigit(static_cast<unsigned char>(c)) != 0;
                      });
  if (digits && (zone[0] == '+' || zone[0] == '-'))
    seconds -= (zone[0] == '-' ? -1 : 1) * (two_digits(zone, 1) * 3600 + two_digits(zone, 4) * 60);
  else if (zone != "Z")
    return 0;
  return ns_of(seconds, fraction);
}

Result<bool> parse_listed(std::string_view line, Entry* entry) {
  line = trim(line);
  if (line == "[" || line == "]" || line.empty()) return false;
  if (line.back() == ',') line.remove_suffix(1);
  if (!line.empty() && line.front() == '[') line.remove_prefix(1);
  try {
    const Json item = Json::parse(line);
    if (!item.is_object()) return Error{Errc::kBusy, "rclone's list of files was cut"};
    *entry = Entry();
    entry->path = item.at("Path").text();
    entry->folder = item.value("IsDir", false);
    entry->mtime_ns = entry->folder ? 0 : parse_time_ns(item.value("ModTime", std::string()));
    const int64_t size = entry->folder ? 0 : item.at("Size").get<int64_t>();
    if (size < 0)
      return Error{Errc::kInvalid, fmt::format("'{}' has no size there, so it cannot be verified; allowed: plain files",
                                               printable(entry->path, 400))};
    entry->size = static_cast<uint64_t>(size);
    if (const Json* hashes = item.find("Hashes"); hashes != nullptr && !entry->folder) {
      int best = 0;
      for (const JsonMember& hash : hashes->members()) {
        std::string kind = lower_case(hash.name);
        kind.erase(std::remove(kind.begin(), kind.end(), '-'), kind.end());
        const int rank = kind == "sha256" ? 3 : kind == "sha1" ? 2 : kind == "md5" ? 1 : 0;
        const std::string value = hash.value.is_string() ? lower_case(hash.value.text()) : "";
        const bool hex = !value.empty() && value.find_first_not_of("0123456789abcdef") == std::string::npos;
        if (rank > best && hex) entry->identity = fmt::format("{}:{}", kind, value), best = rank;
      }
    }
    return true;
  } catch (const JsonError&) {
    return Error{Errc::kBusy, "rclone's list of files has another form"};
  }
}

}  // namespace dl::data
