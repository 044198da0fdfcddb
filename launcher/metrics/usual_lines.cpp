// SPDX-License-Identifier: Apache-2.0
#include "launcher/metrics/usual_lines.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

namespace dl::metrics {
namespace {

constexpr int64_t kMostCount = 1'000'000'000'000;
constexpr size_t kMostNameHere = 64;
constexpr size_t kMostFound = 64;  // in a line

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  c = lower(c);
  return c >= 'a' && c <= 'z';
}
// Characters of names: "val_loss", "Acc@1", "Loss/train", "eval.f1".
bool is_name(char c) {
  return is_letter(c) || is_digit(c) || c == '_' || c == '@' || c == '/' || c == '.';
}

constexpr std::array<std::string_view, 41> kWords = {
    "loss",   "losses", "acc",       "accuracy", "lr",   "perplexity", "ppl",  "bleu", "rouge", "rougel", "f1",
    "auc",    "auroc",  "precision", "recall",   "mae",  "mse",        "rmse", "mape", "error", "err",    "reward",
    "return", "map",    "iou",       "miou",     "dice", "psnr",       "ssim", "wer",  "cer",   "fid",    "nll",
    "elbo",   "kl",     "entropy",   "bpc",      "bpb",  "top1",       "top5", "r2"};
// Names of several words.
constexpr std::array<std::string_view, 3> kNames = {"learning_rate", "grad_norm", "gradient_norm"};
constexpr std::array<std::string_view, 8> kSteps = {"step",      "steps",      "global_step",         "iter",
                                                    "iteration", "train_step", "trainer/global_step", "globalstep"};

template <size_t N>
bool among(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

struct Name {
  std::string text;   // in lower case, without the word for the group
  std::string group;  // or empty
  bool metric = false;
};

// Precondition: the text has only characters of names.
Name name_of(std::string_view text) {
  Name name;
  std::string whole = lower(text);
  while (!whole.empty() && (whole.back() == '.' || whole.back() == '/' || whole.back() == '_')) whole.pop_back();
  size_t begin = 0;
  while (begin <= whole.size()) {
    const size_t end = std::min(whole.find_first_of("_/.@", begin), whole.size());
    const std::string_view word = std::string_view(whole).substr(begin, end - begin);
    const std::string_view group = group_of_word(word);
    if (!group.empty() && name.group.empty()) {
      name.group = group;
    } else {
      if (!name.text.empty() && begin > 0) name.text += whole[begin - 1];
      name.text += word;
    }
    name.metric = name.metric || among(word, kWords);
    begin = end + 1;
  }
  name.metric = name.metric || among(name.text, kNames);
  if (name.text.empty()) name.metric = false;
  return name;
}

// A whole number at the place, and where it ends.
std::optional<int64_t> count_at(std::string_view line, size_t* at) {
  size_t end = *at;
  int64_t count = 0;
  while (end < line.size() && is_digit(line[end]) && count < kMostCount) count = count * 10 + (line[end++] - '0');
  if (end == *at || count >= kMostCount) return std::nullopt;
  *at = end;
  return count;
}

size_t skip_blanks(std::string_view line, size_t at) {
  while (at < line.size() && (line[at] == ' ' || line[at] == '\t')) ++at;
  return at;
}

bool looks_like_a_fraction(std::string_view number) {
  return number.find_first_of(".eEnN") != std::string_view::npos;
}

struct Part {  // of a whole: "10/5005"
  int64_t done = 0, of = 0;
};
std::optional<Part> part_at(std::string_view line, size_t* at) {
  size_t end = skip_blanks(line, *at);
  const auto done = count_at(line, &end);
  if (!done || end >= line.size() || line[end] != '/') return std::nullopt;
  ++end;
  const auto of = count_at(line, &end);
  if (!of || *of == 0 || *done > *of) return std::nullopt;
  *at = end;
  return Part{*done, *of};
}

// Train steps up to `done` batches of the data epoch; kNoStep if there cannot be so many.
int64_t step_of(int64_t epoch, int64_t batches, int64_t done) {
  return epoch > kMostCount / batches ? kNoStep : epoch * batches + done;
}

std::string_view after(std::string_view line, std::string_view word) {
  return line.substr(0, word.size()) == word ? line.substr(word.size()) : std::string_view();
}

}  // namespace

// Lines tell the place in the training in many ways; what they tell is kept for the lines behind them.
void UsualLines::read_place(std::string_view line, int64_t* step, bool* surely) {
  *surely = false;
  *step = counted;
  // "Epoch: [3][  10/5005]", "Epoch 3:  10%|#  | 10/100 [", "Epoch 3/5"
  std::string_view rest = after(line, "Epoch");
  bool in_epoch = false;
  if (!rest.empty()) {
    size_t at = 0;
    while (at < rest.size() && (rest[at] == ':' || rest[at] == ' ' || rest[at] == '[')) ++at;
    size_t probe = at;
    const std::optional<Part> of_epochs = part_at(rest, &probe);
    const bool from_one = of_epochs.has_value();
    if (from_one) epochs_ = of_epochs->of;
    if (const auto number = count_at(rest, &at)) {
      epoch = std::max<int64_t>(0, from_one ? *number - 1 : *number);
      in_epoch = true;
      if (from_one) {
        if (batches > 0) *step = counted = step_of(epoch, batches, 0);
        return;
      }
      line = rest.substr(at);
      while (!line.empty() && (line[0] == ']' || line[0] == '[' || line[0] == ':')) line.remove_prefix(1);
    }
  }
  size_t at = 0;
  std::optional<Part> part = part_at(line, &at);
  if (!part) {  // a progress bar: "| 10/100 [" behind the per cent
    const size_t bar = line.rfind('|', std::min<size_t>(line.size(), 400));
    if (bar == std::string_view::npos) return;
    at = bar + 1;
    part = part_at(line, &at);
  }
  if (!part) return;
  const size_t next = skip_blanks(line, at);
  if (next >= line.size() || (line[next] != '[' && line[next] != ']' && static_cast<unsigned char>(line[next]) < 0x80))
    return;
  const bool keras = at < line.size() && !in_epoch && line.find("/step") != std::string_view::npos;
  if (in_epoch || keras) {
    batches = part->of;
    *step = counted = step_of(epoch, batches, part->done);
    if (epochs_ > 0) total = std::max<int64_t>(0, step_of(epochs_, batches, 0));
  } else {
    *step = counted = part->done;
    take_bar(part->done, part->of);
  }
}

// The longest bar is that of the training; shorter ones are of evaluations.
void UsualLines::take_bar(int64_t done, int64_t of) {
  if (bar_again_ || epochs_ > 0 || of < total) return;
  if (of == total && done < bar_done_) {
    bar_again_ = true;
    total = 0;
    return;
  }
  total = of;
  bar_done_ = done;
}

void UsualLines::read(std::string_view line, std::vector<Found>* found) {
  line = line.substr(0, kLongestMetricLine);
  if (line.size() < 5) return;
  // Progress of a validation is no train step, and its values are but a part of the result, which another line tells.
  for (const std::string_view word : {"Test: [", "Validation", "Validating", "Sanity Check", "Testing"})
    if (line.substr(0, word.size()) == word && line.find('/') != std::string_view::npos &&
        line.find('[') != std::string_view::npos)
      return;
  int64_t step = kNoStep;
  bool surely = false;
  read_place(line, &step, &surely);
  std::string_view context;  // "Test set: Average loss: 0.05", " * Acc@1 69.7"
  if (line.substr(0, 2) == " *" || line.substr(0, 2) == "* ") context = kValidate;
  const size_t before = found->size();
  size_t at = 0;
  while (at < line.size() && found->size() - before < kMostFound) {
    if (!is_letter(line[at]) && line[at] != '_') {
      ++at;
      continue;
    }
    const size_t begin = at;
    while (at < line.size() && is_name(line[at])) ++at;
    const std::string_view text = line.substr(begin, at - begin);
    if (text.size() > kMostNameHere) continue;
    size_t next = at;
    if (next < line.size() && (line[next] == '\'' || line[next] == '"')) ++next;
    next = skip_blanks(line, next);
    const bool sign = next < line.size() && (line[next] == ':' || line[next] == '=');
    if (sign) next = skip_blanks(line, next + 1);
    if (!sign && next == at) continue;  // nothing between name and number
    if (sign && next < line.size() && (line[next] == '\'' || line[next] == '"')) ++next;
    size_t bytes = 0;
    double value = next < line.size() ? number_at(line.substr(next), &bytes) : 0;
    if (bytes == 0) {
      if (context.empty() && begin == 0) {
        std::string word;
        for (const char c : text) word += lower(c);
        context = group_of_word(word);
      }
      continue;
    }
    const Name name = name_of(text);
    const std::string_view number = line.substr(next, bytes);
    if (among(std::string_view(name.text), kSteps) && !looks_like_a_fraction(number) && value >= 0 &&
        value < static_cast<double>(kMostCount)) {
      step = static_cast<int64_t>(value);
      surely = true;
      at = next + bytes;
      size_t end = at + 1;
      if (at < line.size() && line[at] == '/')
        if (const auto of = count_at(line, &end); of && *of >= step) total = *of;
      continue;
    }
    if (!name.metric || (!sign && !looks_like_a_fraction(number))) continue;
    at = next + bytes;
    // "9822/10000 (98%)"
    if (at + 1 < line.size() && line[at] == '/' && is_digit(line[at + 1])) {
      size_t of_bytes = 0;
      const double of = number_at(line.substr(at + 1), &of_bytes);
      if (of > 0) value /= of;
      at += 1 + of_bytes;
    } else if (at < line.size() && (is_letter(line[at]) || line[at] == ':' || line[at] == '/')) {
      continue;  // "loss: 3rd", a time, a path
    }
    const std::string_view group = !name.group.empty() ? std::string_view(name.group)
                                   : !context.empty()  ? context
                                                       : kTrain;
    found->push_back({std::string(group), name.text, value, kNoStep, 0, true});
  }
  if (surely) counted = step;
  for (size_t i = before; i < found->size(); ++i) {
    (*found)[i].step = step;
    (*found)[i].surely = surely;
  }
}

}  // namespace dl::metrics
