// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/lines_mutator.h"

#include <algorithm>
#include <utility>

#include "common/base/parse.h"
#include "tests/fuzz/json_mutator.h"
#include "tests/fuzz/random.h"

namespace dl::ckpt::fuzz {
namespace {

using Lines = std::vector<std::string>;

class Changer {
 public:
  Changer(Lines* lines, const Words& words, uint32_t seed, size_t max_size)
      : lines_(*lines), words_(words), random_(seed), max_size_(max_size) {}

  void change() {
    if (lines_.empty() || random_.below(4) == 0) return among();
    std::string& line = lines_[random_.below(lines_.size())];
    if (!line.empty() && line.front() == '{' && random_.below(16) != 0 && json(&line)) return;
    if (line.empty() || random_.below(16) == 0) return;
    word(&line);
  }

 private:
  bool json(std::string* line) {
    const bool comma = line->back() == ',';
    auto changed = mutate_json(line->substr(0, line->size() - (comma ? 1 : 0)), random_(), max_size_);
    if (!changed) return false;
    *line = *changed + (comma ? "," : "");
    return true;
  }

  // Whole lines.
  void among() {
    const auto place = [this](size_t index) { return lines_.begin() + static_cast<std::ptrdiff_t>(index); };
    const size_t at = random_.below(lines_.size() + 1);
    if (lines_.empty() || random_.below(3) == 0) {
      lines_.insert(place(at), words_.lines.empty() ? std::string() : std::string(random_.one_of(words_.lines)));
      return;
    }
    const size_t other = random_.below(lines_.size());
    if (at == lines_.size() || random_.below(3) == 0) {
      std::string again = lines_[other];
      lines_.insert(place(at), std::move(again));
    } else if (random_.below(2) == 0) {
      std::swap(lines_[at], lines_[other]);
    } else {
      lines_.erase(place(at));
    }
  }

  // The word at a random place of the line: [first, second).
  std::pair<size_t, size_t> any_word(const std::string& line) {
    const size_t at = random_.below(line.size());
    const size_t before = line.find_last_of(words_.apart, at);
    const size_t begin = before == std::string::npos ? 0 : std::min(before + 1, at);
    return {begin, std::min(line.find_first_of(words_.apart, at + 1), line.size())};
  }

  void word(std::string* line) {
    const auto [begin, end] = any_word(*line);
    const std::string word = line->substr(begin, end - begin);
    switch (random_.below(8)) {
      case 0:
      case 1:
        line->replace(begin, end - begin, known());
        break;
      case 2:
        line->replace(begin, end - begin, near(word));
        break;
      case 3:
        line->insert(end, std::string(1, random_.one_of(words_.apart)) + (random_.below(2) == 0 ? word : known()));
        break;
      case 4:
        line->erase(begin, end - begin + (end < line->size() ? 1 : 0));
        break;
      case 5: {
        const std::string& other = lines_[random_.below(lines_.size())];
        if (other.empty()) break;
        const auto [from, to] = any_word(other);
        line->replace(begin, end - begin, other.substr(from, to - from));
        break;
      }
      case 6:
        line->insert(end, word);
        break;
      default:
        (*line)[random_.below(line->size())] =
            static_cast<char>(random_.below(4) == 0 ? random_() : random_() % 95 + 32);
    }
  }
  std::string known() { return words_.known.empty() ? std::string() : std::string(random_.one_of(words_.known)); }
  // A number one or two away, or any.
  std::string near(const std::string& word) {
    const auto is = parse_int(word, 0, INT64_MAX);
    if (!is || random_.below(3) == 0) return std::to_string(random_.below(1000));
    return std::to_string(*is + static_cast<int64_t>(random_.below(5)) - 2);
  }

  Lines& lines_;
  const Words& words_;
  Random random_;
  size_t max_size_;
};

}  // namespace

std::optional<std::string> mutate_lines(const std::string& text, const Words& words, uint32_t seed, size_t max_size) {
  Lines lines = split(text, '\n');
  Changer changer(&lines, words, seed, max_size);
  for (uint32_t i = 0; i <= seed / 8 % 4; ++i) changer.change();
  std::string changed = join(lines, "\n");
  if (changed.size() > max_size) return std::nullopt;
  return changed;
}

}  // namespace dl::ckpt::fuzz
