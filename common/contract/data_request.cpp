// SPDX-License-Identifier: Apache-2.0
#include "common/contract/data_request.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "common/base/lower_case.h"
#include "common/base/parse.h"
#include "common/contract/path_pattern.h"

namespace dl::data {
namespace {

constexpr size_t kLongestValue = 4096;
constexpr size_t kLongestPlace = 1024;
constexpr size_t kDigits = 64;  // of a SHA-256
constexpr std::string_view kHttps = "https://";
constexpr std::string_view kSha256 = "sha256:";

constexpr const char* kDataForm =
    "SRC[,to=DIR][,cache=node|shard|none][,checksum=sha256:DIGEST], SRC being a path, NAME:PATH of your rclone "
    "configuration, an https URL with its checksum, @NAME of the site's catalogue, or FILE.toml";
constexpr const char* kPlaceForm =
    "a path, NAME:PATH of your rclone configuration, an https URL, or @NAME of the site's catalogue";
constexpr const char* kResultsForm = "DEST[,checkpoint], DEST being a path or NAME:PATH of your rclone configuration";
constexpr const char* kSecretForm = "a remote of your own rclone configuration (rclone config), as NAME:PATH";

Error refused(std::string_view value, const std::string& reason, const std::string& allowed) {
  return Error{Errc::kInvalid, fmt::format("'{}' {}; allowed: {}", shown_place(value), reason, allowed)};
}

bool starts_with(std::string_view text, std::string_view front) {
  return text.substr(0, front.size()) == front;
}

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

// "https" of "https://..."; empty for a text that is no URL.
std::string_view scheme_of(std::string_view text) {
  const size_t at = text.find("://");
  if (at == std::string_view::npos || at == 0) return {};
  const std::string_view scheme = text.substr(0, at);
  const bool plain = std::all_of(scheme.begin(), scheme.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '+' || c == '-' || c == '.';
  });
  return plain ? scheme : std::string_view{};
}

// What a message shows of a value before it was understood: behind a comma there may be the secret of a connection
// string.
std::string_view first_part(std::string_view text) {
  return text.substr(0, text.find(','));
}

// The value without the quote at its front.
std::string_view unquoted(std::string_view text) {
  return starts_with(text, "\"") ? text.substr(1) : text;
}

// host[:port], with what stands before an @ in it.
std::string_view authority_of(std::string_view url) {
  const std::string_view rest = url.substr(url.find("://") + 3);
  return rest.substr(0, rest.find_first_of("/?#"));
}

// A parameter that signs a request or names who makes it, as presigned URLs of the object stores have.
bool is_secret_parameter(std::string_view name) {
  const std::string small = lower_case(name);
  constexpr std::array kWords{"sig", "token", "secret", "key", "passw", "pwd", "credential", "auth", "session"};
  return std::any_of(kWords.begin(), kWords.end(),
                     [&](const char* word) { return small.find(word) != std::string::npos; });
}

bool carries_secret(std::string_view text) {
  if (!scheme_of(text).empty() && authority_of(text).find('@') != std::string_view::npos) return true;
  const size_t query = text.find('?');
  if (scheme_of(text).empty() || query == std::string_view::npos) return false;
  for (const std::string& parameter : split(text.substr(query + 1), '&'))
    if (is_secret_parameter(parameter.substr(0, parameter.find('=')))) return true;
  return false;
}

// The names that rclone allows for remotes.
bool is_remote_name(std::string_view name) {
  if (name.empty() || name.front() == '-' || name.front() == ' ' || name.back() == ' ') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-' || c == '+' ||
           c == '@' || c == ' ';
  });
}

// Where the colon of NAME:PATH is; npos for a path.
size_t colon_of_remote(std::string_view from) {
  const size_t colon = from.find(':');
  return colon < from.find('/') ? colon : std::string_view::npos;
}

// ":s3,access_key_id=...:bucket" and "NAME,option=value:path" configure a remote, and may hold its credentials.
Error connection_string() {
  return Error{Errc::kInvalid, fmt::format("a connection string of rclone may hold credentials, which others could "
                                           "read in the job's record; allowed: {}",
                                           kSecretForm)};
}

Status check_remote(std::string_view from) {
  const std::string_view name = from.substr(0, colon_of_remote(from));
  if (name.empty() || name.find_first_of(",=") != std::string_view::npos) return connection_string();
  if (!is_remote_name(name))
    return refused(from, "does not name a remote", std::string(kPlaceForm) + "; a path with a colon begins with ./");
  return {};
}

Status check_characters(std::string_view text, const char* form) {
  if (text.empty()) return Error{Errc::kInvalid, std::string("the value names no place; allowed: ") + form};
  if (text.size() > kLongestPlace)
    return refused(first_part(text), fmt::format("is longer than {} bytes", kLongestPlace), form);
  if (std::any_of(text.begin(), text.end(), is_control))
    return refused(first_part(text), "holds a control character", form);
  return {};
}

Status check_url(std::string_view from) {
  if (!starts_with(from, kHttps))
    return refused(from, "is an address that is not fetched",
                   std::string(kPlaceForm) + " (an object store: a remote of your rclone configuration)");
  if (authority_of(from).empty()) return refused(from, "names no host", kPlaceForm);
  if (from.find_first_of(" #") != std::string_view::npos) return refused(from, "is not a URL", kPlaceForm);
  return {};
}

Status check_folder(const std::string& to) {
  const char* allowed = "to=DIR, a folder below DATA_DIR such as train or sets/train";
  if (to.size() > kLongestPlace || std::any_of(to.begin(), to.end(), is_control))
    return refused(to, "is not a folder", allowed);
  for (const std::string& part : split(to, '/'))
    if (part.empty() || part == "." || part == "..") return refused(to, "is not a folder below DATA_DIR", allowed);
  return {};
}

Status check_checksum(std::string* checksum) {
  *checksum = lower_case(*checksum);
  const std::string_view digits = std::string_view(*checksum).substr(std::min(kSha256.size(), checksum->size()));
  if (!starts_with(*checksum, kSha256) || digits.size() != kDigits ||
      digits.find_first_not_of("0123456789abcdef") != std::string_view::npos)
    return refused(*checksum, "is not a checksum", "sha256: and 64 hexadecimal digits, as sha256sum prints them");
  return {};
}

Error credential_in_url() {
  return Error{Errc::kInvalid, fmt::format("the address carries a credential, which others could read in the job's "
                                           "record; allowed: {}",
                                           kSecretForm)};
}

// The value before the first comma, or in quotes; and the options behind it.
struct Parts {
  std::string front;
  std::vector<std::string> options;
};
Result<Parts> take_apart(std::string_view text, const char* form) {
  if (text.empty()) return Error{Errc::kInvalid, std::string("the value is empty; allowed: ") + form};
  if (carries_secret(unquoted(text))) return credential_in_url();
  if (starts_with(unquoted(text), ":")) return connection_string();
  if (text.size() > kLongestValue)
    return refused(first_part(text), fmt::format("is longer than {} bytes", kLongestValue), form);
  Parts parts;
  std::string_view rest;
  if (text.front() == '"') {
    size_t at = 1;
    for (; at < text.size() && text[at] != '"'; ++at) {
      if (text[at] == '\\' && at + 1 < text.size()) ++at;
      parts.front += text[at];
    }
    if (at >= text.size()) return refused(first_part(text), "has no closing quote", form);
    rest = text.substr(at + 1);
    if (!rest.empty() && rest.front() != ',') return refused(parts.front, "goes on behind the quotes", form);
  } else {
    const size_t comma = std::min(text.find(','), text.size());
    parts.front = text.substr(0, comma);
    rest = text.substr(comma);
  }
  if (!rest.empty()) parts.options = split(rest.substr(1), ',');
  return parts;
}

Status read_option(const std::string& option, const std::string& key, const std::string& value, Source* source) {
  if (key == "to") {
    source->to = value;
    return value.empty() ? Status(refused(option, "names no folder", kDataForm)) : Status{};
  }
  if (key == "cache") {
    DL_TRY_ASSIGN(source->cache, parse_cache(value));
    return {};
  }
  if (key == "checksum") {
    source->checksum = value;
    return check_checksum(&source->checksum);
  }
  return refused(key, "is not an option of a source",
                 std::string(kDataForm) + "; a SRC that holds a comma stands in double quotes");
}

bool is_toml_file(const std::string& front) {
  constexpr std::string_view kEnd = ".toml";
  return front.size() > kEnd.size() && front.substr(front.size() - kEnd.size()) == kEnd &&
         place_of(front) == Place::kPath;
}

bool lies_in(const std::string& folder, const std::string& other) {
  return other.empty() || folder == other || starts_with(folder, other + "/");
}

}  // namespace

const char* cache_name(Cache cache) {
  switch (cache) {
    case Cache::kShard:
      return "shard";
    case Cache::kNone:
      return "none";
    case Cache::kNode:
      break;
  }
  return "node";
}

Result<Cache> parse_cache(std::string_view text) {
  for (const Cache cache : {Cache::kNode, Cache::kShard, Cache::kNone})
    if (text == cache_name(cache)) return cache;
  return refused(text, "is not a way to cache", "cache=node, cache=shard, cache=none");
}

Cache usual_cache(std::string_view from, bool has_checksum) {
  return place_of(from) == Place::kPath && !has_checksum ? Cache::kNone : Cache::kNode;
}

bool operator==(const Source& a, const Source& b) {
  return a.from == b.from && a.to == b.to && a.cache == b.cache && a.checksum == b.checksum;
}

Place place_of(std::string_view from) {
  if (starts_with(from, "@")) return Place::kCatalogue;
  if (!scheme_of(from).empty()) return Place::kUrl;
  return colon_of_remote(from) == std::string_view::npos ? Place::kPath : Place::kRemote;
}

std::string shown_place(std::string_view from) {
  std::string text(from);
  if (const std::string_view scheme = scheme_of(from); !scheme.empty()) {
    text = text.substr(0, text.find('?'));
    const std::string_view authority = authority_of(text);
    const size_t at = authority.rfind('@');
    if (at != std::string_view::npos) text.erase(scheme.size() + 3, at + 1);
  }
  return printable(text);
}

Status check_place(std::string_view from) {
  if (carries_secret(from)) return credential_in_url();
  DL_TRY(check_characters(from, kPlaceForm));
  switch (place_of(from)) {
    case Place::kCatalogue:
      if (!is_plain_name(from.substr(1)))
        return refused(from, "is not a name of the site's catalogue", "@NAME, as dlctl data catalogue shows it");
      return {};
    case Place::kUrl:
      return check_url(from);
    case Place::kRemote:
      return check_remote(from);
    case Place::kPath:
      break;
  }
  if (from.find('$') != std::string_view::npos || (from.front() == '~' && from != "~" && from[1] != '/'))
    return refused(from, "has a '$' or '~', which is not expanded, since no shell reads this",
                   "the path in full, or ~/PATH (a folder called ~x: ./~x)");
  return {};
}

Status check_source(Source* source) {
  DL_TRY(check_place(source->from));
  if (!source->to.empty()) DL_TRY(check_folder(source->to));
  if (!source->checksum.empty()) DL_TRY(check_checksum(&source->checksum));
  const Place place = place_of(source->from);
  if (place == Place::kUrl && source->checksum.empty())
    return refused(source->from, "has no checksum, so nobody can tell whether it is still the same",
                   "a URL with checksum=sha256:DIGEST");
  if (source->cache == Cache::kNone && place != Place::kPath)
    return refused(source->from, "is not a path, so it cannot be read where it lies", "cache=node, cache=shard");
  if (source->cache == Cache::kShard && !source->checksum.empty())
    return refused(source->from, "is a single file, as its checksum says, which has no parts", "cache=node");
  return {};
}

Status check_sources(std::vector<Source>* sources) {
  if (sources->empty() || sources->size() > kMaxSources)
    return Error{Errc::kInvalid, fmt::format("{} sources are named; allowed: 1 to {}", sources->size(), kMaxSources)};
  for (Source& source : *sources) DL_TRY(check_source(&source));
  for (const Source& one : *sources)
    for (const Source& other : *sources)
      if (&one != &other && lies_in(one.to, other.to))
        return Error{Errc::kConflict,
                     fmt::format("'{}' and '{}' go to the same folder, or one to a folder of the other; allowed: a "
                                 "folder of its own for each source, such as to = \"train\" and to = \"test\"",
                                 shown_place(one.from), shown_place(other.from))};
  return {};
}

Result<DataFlag> parse_data(std::string_view text) {
  DL_TRY_ASSIGN(const Parts parts, take_apart(text, kDataForm));
  DataFlag flag;
  for (const char* key : {"to=", "cache=", "checksum="})
    if (starts_with(parts.front, key)) return refused(key, "has no SRC in front", kDataForm);
  if (is_toml_file(parts.front) && parts.options.empty()) {
    DL_TRY(check_place(parts.front));
    flag.file = parts.front;
    return flag;
  }
  flag.source.from = parts.front;
  std::vector<std::string> seen;
  for (const std::string& option : parts.options) {
    const size_t equals = option.find('=');
    const std::string key = option.substr(0, equals);
    if (std::find(seen.begin(), seen.end(), key) != seen.end())
      return refused(key, "is there twice", printable(key) + " once");
    seen.push_back(key);
    DL_TRY(read_option(option, key, equals == std::string::npos ? "" : option.substr(equals + 1), &flag.source));
  }
  const auto says = [&seen](const char* key) { return std::find(seen.begin(), seen.end(), key) != seen.end(); };
  if (place_of(flag.source.from) == Place::kCatalogue && (says("cache") || says("checksum")))
    return refused(flag.source.from, "is cached and checked as the site's catalogue says", "@NAME[,to=DIR]");
  if (!says("cache")) flag.source.cache = usual_cache(flag.source.from, says("checksum"));
  DL_TRY(check_source(&flag.source));
  return flag;
}

Result<ResultsFlag> parse_results(std::string_view text) {
  DL_TRY_ASSIGN(const Parts parts, take_apart(text, kResultsForm));
  ResultsFlag flag;
  flag.to = parts.front;
  DL_TRY(check_characters(flag.to, kResultsForm));
  const Place place = place_of(flag.to);
  if (place == Place::kUrl || place == Place::kCatalogue)
    return refused(flag.to, "is not a place to store results", kResultsForm);
  if (place == Place::kRemote) DL_TRY(check_remote(flag.to));
  DL_TRY(check_path_pattern(flag.to));
  for (const std::string& option : parts.options) {
    if (option != "checkpoint" || flag.checkpoint)
      return refused(option.substr(0, option.find('=')), "is not an option of results",
                     std::string(kResultsForm) + "; a DEST that holds a comma stands in double quotes");
    flag.checkpoint = true;
  }
  return flag;
}

}  // namespace dl::data
