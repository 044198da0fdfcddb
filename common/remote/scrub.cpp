// SPDX-License-Identifier: Apache-2.0
#include "common/remote/scrub.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "common/base/lower_case.h"
#include "common/base/parse.h"

extern char** environ;

namespace dl::data {
namespace {

constexpr std::string_view kHidden = "***";
constexpr size_t kLeastSecret = 4;

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
}

// A name whose value nobody may see.
bool names_secret(std::string_view name) {
  constexpr std::array kWords{"secret",    "token",   "passw",       "pass",      "pwd",         "access_key",
                              "accesskey", "api_key", "apikey",      "signature", "credential",  "authorization",
                              "session",   "x-amz-",  "private_key", "sas_url",   "account_key", "cookie"};
  const std::string word = lower_case(name);
  return word == "key" || word == "sig" || std::any_of(kWords.begin(), kWords.end(), [&](const char* part) {
           return word.find(part) != std::string::npos;
         });
}

void replace_all(std::string* text, std::string_view what) {
  for (size_t at = text->find(what); at != std::string::npos; at = text->find(what, at + kHidden.size()))
    text->replace(at, what.size(), kHidden);
}

// Hides user, password and query of each URL.
void scrub_urls(std::string* text) {
  for (size_t at = text->find("://"); at != std::string::npos; at = text->find("://", at + 3)) {
    auto end_of = [&](size_t from) { return std::min(text->find_first_of(" \t\n\"'<>", from), text->size()); };
    const size_t host = at + 3;
    const size_t path = std::min(text->find_first_of("/?#", host), end_of(host));
    if (const size_t user = text->rfind('@', std::min(path, text->size() - 1));
        user != std::string::npos && user >= host && user < path)
      text->replace(host, user - host, kHidden);
    if (const size_t query = text->find('?', host); query != std::string::npos && query < end_of(host))
      text->replace(query + 1, end_of(host) - query - 1, kHidden);
  }
}

// Hides what follows "name=", "name: " and "\"name\":".
void scrub_values(std::string* text) {
  size_t at = 0;
  while (at < text->size()) {
    if (!is_word((*text)[at])) {
      ++at;
      continue;
    }
    const size_t begin = at;
    while (at < text->size() && is_word((*text)[at])) ++at;
    if (!names_secret(std::string_view(*text).substr(begin, at - begin))) continue;
    size_t value = at;
    while (value < text->size() && std::string_view("\\\"' \t").find((*text)[value]) != std::string_view::npos) ++value;
    if (value >= text->size() || ((*text)[value] != '=' && (*text)[value] != ':')) continue;
    ++value;
    while (value < text->size() && std::string_view("\\\"' \t").find((*text)[value]) != std::string_view::npos) ++value;
    // "Bearer x", "Basic x", "AWS4-HMAC-SHA256 Credential=...": all that is left of the line.
    const std::string word = lower_case(std::string_view(*text).substr(begin, at - begin));
    const bool line = word.find("authorization") != std::string::npos || word.find("cookie") != std::string::npos;
    const size_t end = std::min(text->find_first_of(line ? "\n" : " \t\n\"',;&)}]", value), text->size());
    text->replace(value, end - value, kHidden);
    at = value + kHidden.size();
  }
}

// AKIA and ASIA with 16 capital letters and digits, and what follows "Bearer ".
void scrub_keys(std::string* text) {
  for (const char* front : {"AKIA", "ASIA"})
    for (size_t at = text->find(front); at != std::string::npos; at = text->find(front, at + 1)) {
      size_t end = at;
      while (end < text->size() && (std::isupper(static_cast<unsigned char>((*text)[end])) != 0 ||
                                    std::isdigit(static_cast<unsigned char>((*text)[end])) != 0))
        ++end;
      if (end - at >= 16) text->replace(at, end - at, kHidden);
    }
  for (const char* front : {"Bearer ", "bearer ", "Basic ", "Credential="})
    for (size_t at = text->find(front); at != std::string::npos; at = text->find(front, at + 1)) {
      const size_t value = at + std::string_view(front).size();
      const size_t end = std::min(text->find_first_of(" \t\n\"',;", value), text->size());
      if (end > value) text->replace(value, end - value, kHidden);
    }
}

}  // namespace

std::string scrubbed(std::string_view text, const std::vector<std::string>& secrets) {
  std::string out(text);
  for (const std::string& secret : secrets)
    if (secret.size() >= kLeastSecret) replace_all(&out, secret);
  scrub_urls(&out);
  scrub_keys(&out);
  scrub_values(&out);
  return printable(out, 2000);
}

std::vector<std::string> secrets_of_environment() {
  std::vector<std::string> secrets;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = std::min(text.find('='), text.size() - 1);
    const std::string_view name = text.substr(0, equals);
    const bool theirs = name.substr(0, 7) == "RCLONE_" || name.substr(0, 4) == "AWS_" ||
                        name.substr(0, 6) == "AZURE_" || name.substr(0, 7) == "GOOGLE_";
    const bool place = name.find("CONFIG") != std::string_view::npos && name.find("CONFIG_") == std::string_view::npos;
    if (theirs && !place && (names_secret(name) || lower_case(name).find("key") != std::string::npos))
      secrets.emplace_back(text.substr(equals + 1));
  }
  return secrets;
}

}  // namespace dl::data
