// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/entries_mutator.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/base/little_endian.h"
#include "tests/fuzz/random.h"

namespace dl::ckpt::fuzz {
namespace {

constexpr size_t kCountBytes = 4;

struct Entry {
  std::string numbers, text;
};
using Entries = std::vector<Entry>;

size_t bytes_of(std::string_view widths) {
  size_t bytes = 0;
  for (const char width : widths) bytes += static_cast<size_t>(width - '0');
  return bytes;
}

size_t last_width(std::string_view widths) {
  return static_cast<size_t>(widths.back() - '0');
}

// The bytes, taken apart.
struct Pieces {
  std::string head, rest;
  std::vector<Entries> lists;
};

// The entry at the front of `rest`, which is removed from it; an empty one if it is cut.
Entry take_entry(const List& list, std::string_view* rest) {
  Entry entry;
  const size_t size = bytes_of(list.widths);
  if (rest->size() < size) return entry;
  const uint64_t length =
      list.text ? get_little(*rest, size - last_width(list.widths), last_width(list.widths)) : uint64_t{0};
  if (length > rest->size() - size) return entry;
  entry.numbers = rest->substr(0, size);
  entry.text = rest->substr(size, static_cast<size_t>(length));
  rest->remove_prefix(size + entry.text.size());
  return entry;
}

std::optional<Pieces> taken_apart(std::string_view rest, const Form& form) {
  Pieces pieces;
  const size_t head = bytes_of(form.head);
  if (rest.size() < head) return std::nullopt;
  pieces.head = rest.substr(0, head);
  rest.remove_prefix(head);
  for (const List& list : form.lists) {
    uint64_t count = list.count == Count::kOne ? 1 : UINT64_MAX;
    if (list.count == Count::kTold) {
      if (rest.size() < kCountBytes) return std::nullopt;
      count = get_little(rest, 0, kCountBytes);
      rest.remove_prefix(kCountBytes);
    }
    pieces.lists.emplace_back();
    while (count-- > 0) {
      Entry entry = take_entry(list, &rest);
      if (entry.numbers.empty()) break;
      pieces.lists.back().push_back(std::move(entry));
    }
  }
  pieces.rest = rest;
  return pieces;
}

class Changer {
 public:
  Changer(Pieces* pieces, const Form& form, uint32_t seed) : pieces_(*pieces), form_(form), random_(seed) {}

  void change() {
    if (form_.lists.empty() || random_.below(8) == 0) {
      if (!pieces_.rest.empty() && random_.below(8) == 0) return text(&pieces_.rest);
      return number(&pieces_.head, form_.head, nullptr);
    }
    const size_t which = random_.below(form_.lists.size());
    const List& list = form_.lists[which];
    Entries& entries = pieces_.lists[which];
    if (entries.empty()) {
      entries.push_back({std::string(bytes_of(list.widths), '\0'), ""});
    } else if (list.count != Count::kOne && random_.below(3) == 0) {
      among(&entries);
    } else {
      Entry& entry = entries[random_.below(entries.size())];
      if (list.text && random_.below(3) == 0) return text(&entry.text);
      number(&entry.numbers, list.widths, &entries);
    }
  }

  std::string together() {
    std::string bytes = pieces_.head;
    for (size_t i = 0; i < form_.lists.size(); ++i) {
      const List& list = form_.lists[i];
      const Entries& entries = pieces_.lists[i];
      if (list.count == Count::kTold) put_little(&bytes, told(entries.size()), kCountBytes);
      const size_t last = last_width(list.widths);
      for (const Entry& entry : entries) {
        bytes += entry.numbers;
        if (list.text) {
          bytes.resize(bytes.size() - last);
          put_little(&bytes, told(entry.text.size()), last);
        }
        bytes += entry.text;
      }
    }
    return bytes + pieces_.rest;
  }

 private:
  uint64_t told(uint64_t right) { return random_.below(32) == 0 ? near(right) : right; }
  uint64_t near(uint64_t value) { return value + random_.below(9) - 4; }

  // One of the numbers. others: entries of the same list; nullptr: there are none.
  void number(std::string* numbers, std::string_view widths, const Entries* others) {
    static constexpr uint64_t kInteresting[] = {0,
                                                1,
                                                2,
                                                7,
                                                64,
                                                127,
                                                128,
                                                255,
                                                256,
                                                1023,
                                                1024,
                                                4096,
                                                4097,
                                                8192,
                                                8193,
                                                65535,
                                                999'999,
                                                1'000'000,
                                                1'000'001,
                                                0x7fffffff,
                                                0x80000000,
                                                0xffffffff,
                                                uint64_t{1} << 50,
                                                INT64_MAX,
                                                UINT64_MAX};
    if (widths.empty()) return;
    const size_t which = random_.below(widths.size());
    const size_t at = bytes_of(widths.substr(0, which)), width = static_cast<size_t>(widths[which] - '0');
    uint64_t value = get_little(*numbers, at, width);
    switch (random_.below(6)) {
      case 0:
        value = random_.one_of(kInteresting);
        break;
      case 1:
        value = near(value);
        break;
      case 2:
        if (others != nullptr) value = get_little(random_.one_of(*others).numbers, at, width) + random_.below(3);
        break;
      case 3:
        value ^= uint64_t{1} << random_.below(8 * width);
        break;
      case 4:
        value = random_.below(256);
        break;
      default:
        value = uint64_t{random_()} << 32 | random_();
    }
    store_little(numbers->data() + at, value, width);
  }

  void among(Entries* entries) {
    const size_t at = random_.below(entries->size()), other = random_.below(entries->size());
    const auto place = [entries](size_t index) { return entries->begin() + static_cast<std::ptrdiff_t>(index); };
    switch (random_.below(3)) {
      case 0:
        entries->erase(place(at));
        break;
      case 1:
        std::swap((*entries)[at], (*entries)[other]);
        break;
      default: {
        Entry again = (*entries)[at];
        entries->insert(place(other), std::move(again));
      }
    }
  }

  void text(std::string* text) {
    const size_t at = random_.below(text->size() + 1);
    switch (random_.below(5)) {
      case 0:
        text->insert(at, 1, static_cast<char>(random_()));
        break;
      case 1:
        if (at < text->size()) text->erase(at, 1);
        break;
      case 2:
        if (at < text->size()) (*text)[at] = static_cast<char>(random_());
        break;
      case 3:
        *text += std::string(*text);
        break;
      default:
        text->resize(at);
    }
  }

  Pieces& pieces_;
  const Form& form_;
  Random random_;
};

}  // namespace

std::optional<std::string> mutate_entries(const std::string& bytes, const Form& form, uint32_t seed, size_t max_size) {
  auto pieces = taken_apart(bytes, form);
  if (!pieces) return std::nullopt;
  Changer changer(&*pieces, form, seed);
  for (uint32_t i = 0; i <= seed / 8 % 4; ++i) changer.change();
  std::string changed = changer.together();
  if (changed.size() > max_size) return std::nullopt;
  return changed;
}

}  // namespace dl::ckpt::fuzz
