// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/secrets.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace dl::report {
namespace {

constexpr std::string_view kHidden = "\u2026";

bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}
bool is_name_char(char c) {
  return is_lower(c) || is_upper(c) || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}
bool is_blank(char c) {
  return c == ' ' || c == '\t';
}
bool ends_value(char c) {
  return static_cast<unsigned char>(c) <= ' ' || std::string_view("\"'<>,;&)]}").find(c) != std::string_view::npos;
}

template <size_t N>
bool is_one_of(const std::array<std::string_view, N>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// "wandbApiKey" and "WANDB_API_KEY" as "wandb", "api", "key".
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words{""};
  char before = '\0';
  for (const char c : name) {
    const bool between = c == '_' || c == '-' || c == '.';
    if ((between || (is_upper(c) && is_lower(before))) && !words.back().empty()) words.emplace_back();
    if (!between) words.back() += is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
    before = c;
  }
  if (words.back().empty() && words.size() > 1) words.pop_back();
  return words;
}

constexpr std::array<std::string_view, 10> kSecretWords{"token",         "secret",     "password",    "passwd",
                                                        "passphrase",    "credential", "credentials", "apikey",
                                                        "authorization", "cookie"};
constexpr std::array<std::string_view, 8> kSecretKeys{"api",     "access",     "private", "secret",
                                                      "account", "encryption", "signing", "auth"};
// The names of special tokens of a vocabulary.
constexpr std::array<std::string_view, 8> kVocabulary{"pad", "eos", "bos", "unk", "mask", "cls", "sep", "image"};

struct Form {
  std::string_view begin;
  size_t least;  // characters of the whole word
};
constexpr std::array kForms{Form{"hf_", 20},  Form{"ghp_", 20}, Form{"github_pat_", 20}, Form{"glpat-", 16},
                            Form{"AKIA", 20}, Form{"sk-", 20},  Form{"xoxb-", 16},       Form{"xoxp-", 16},
                            Form{"AIza", 30}, Form{"eyJ", 40}};

bool is_known_token(std::string_view word) {
  return std::any_of(kForms.begin(), kForms.end(), [&](const Form& form) {
    return word.size() >= form.least && word.compare(0, form.begin.size(), form.begin) == 0;
  });
}

class Scan {
 public:
  explicit Scan(std::string_view text) : text_(text) {}

  std::string run() {
    while (at_ < text_.size()) {
      if (!is_name_char(text_[at_])) {
        out_ += text_[at_++];
        continue;
      }
      size_t end = at_;
      while (end < text_.size() && is_name_char(text_[end])) ++end;
      const std::string_view word = text_.substr(at_, end - at_);
      at_ = end;
      if (text_.substr(at_, 3) == "://") {
        out_ += word;
        address();
      } else if (is_known_token(word)) {
        out_ += kHidden;
      } else {
        out_ += word;
        if (is_secret_name(word)) value_of(word);
      }
    }
    return std::move(out_);
  }

 private:
  void copy(size_t end) {
    out_ += text_.substr(at_, end - at_);
    at_ = end;
  }
  size_t past_blanks(size_t at) const {
    while (at < text_.size() && is_blank(text_[at])) ++at;
    return at;
  }
  size_t end_of_value(size_t at) const {
    while (at < text_.size() && !ends_value(text_[at])) ++at;
    return at;
  }
  bool quote_at(size_t at) const { return at < text_.size() && (text_[at] == '"' || text_[at] == '\''); }

  // What follows the "://" of a URL, the scheme of which is copied.
  void address() {
    copy(at_ + 3);
    const size_t host_end = std::min(text_.find_first_of("/?# \t\"'<>", at_), text_.size());
    const size_t user_end = text_.substr(0, host_end).rfind('@');
    if (user_end != std::string_view::npos && user_end >= at_) {
      out_ += kHidden;
      at_ = user_end;
    }
    const size_t end = std::min(text_.find_first_of(" \t\"'<>", at_), text_.size());
    const size_t query = text_.substr(0, end).find('?', at_);
    copy(std::min(query, end));
    if (query == std::string_view::npos) return;
    out_ += "?";
    out_ += kHidden;
    at_ = end;
  }

  // Leaves out the value of a name that was copied, if one follows.
  void value_of(std::string_view name) {
    size_t at = at_;
    if (quote_at(at)) ++at;  // "name": "value"
    at = past_blanks(at);
    const bool assigned = at < text_.size() && (text_[at] == '=' || text_[at] == ':');
    if (assigned) at = past_blanks(at + 1);
    if (!assigned && (name[0] != '-' || at == at_)) return;
    for (const std::string_view scheme : {"Bearer ", "Basic ", "Token "})
      if (text_.substr(at, scheme.size()) == scheme) at += scheme.size();
    if (at >= text_.size() || (!assigned && text_[at] == '-')) return;
    copy(at);
    if (quote_at(at)) {
      const char quote = text_[at];
      copy(at + 1);
      size_t end = at_;
      while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
      at_ = std::min(end, text_.size());
    } else {
      at_ = end_of_value(at_);
      if (at_ == at) return;
    }
    out_ += kHidden;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

bool is_secret_name(std::string_view name) {
  const std::vector<std::string> words = words_of(name);
  const std::string_view last = words.back();
  const std::string_view before = words.size() > 1 ? std::string_view(words[words.size() - 2]) : std::string_view();
  if (last == "key") return is_one_of(kSecretKeys, before);
  if (last == "token" && is_one_of(kVocabulary, before)) return false;
  return is_one_of(kSecretWords, last) ||
         (last.size() > 6 && (last.substr(last.size() - 6) == "apikey" || last.substr(last.size() - 6) == "secret")) ||
         (last.size() > 8 && last.substr(last.size() - 8) == "password");
}

std::string without_secrets(std::string_view text) {
  return Scan(text).run();
}

}  // namespace dl::report
