// SPDX-License-Identifier: Apache-2.0
#include "common/contract/path_pattern.h"

#include <fmt/core.h>

#include <algorithm>

#include "common/base/parse.h"

namespace dl {
namespace {

constexpr const char* kPatternAllowed =
    "%j (job id), %A and %a (array, and index in it), %x (job name), %u (user), %% (a percent sign), and ~/ in front "
    "(home directory)";
constexpr size_t kMaxWidth = 10;  // the limit of sbatch

struct Letter {
  char letter;
  std::string PathNames::*value;
  const char* what;
};
constexpr Letter kLetters[] = {
    {'j', &PathNames::job, "the job's id"},
    {'A', &PathNames::array, "the job's id"},
    {'a', &PathNames::index, "the index in a job array"},
    {'x', &PathNames::name, "the job's name"},
    {'u', &PathNames::user, "the user's name"},
};

Error refuse(std::string_view path, const std::string& why) {
  return Error{Errc::kInvalid, fmt::format("'{}': {}; allowed: {}", printable(path), why, kPatternAllowed)};
}

bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Expands one "%..." that begins at *at, and moves *at behind it. Without `names` it is only checked.
Status expand_one(std::string_view path, const PathNames* names, size_t* at, std::string* out) {
  const size_t begin = (*at)++;
  size_t width = 0;
  for (; *at < path.size() && path[*at] >= '0' && path[*at] <= '9'; ++*at)
    width = std::min<size_t>(width * 10 + static_cast<size_t>(path[*at] - '0'), 1000);
  const std::string_view whole = path.substr(begin, *at - begin + 1);
  const char letter = *at < path.size() ? path[(*at)++] : '\0';
  if (letter == '%' && width == 0) {
    *out += '%';
    return {};
  }
  const auto* found =
      std::find_if(std::begin(kLetters), std::end(kLetters), [&](const Letter& l) { return l.letter == letter; });
  if (found == std::end(kLetters) || width > kMaxWidth)
    return refuse(path, fmt::format("'{}' stands for nothing here", printable(whole)));
  if (names == nullptr) return {};
  std::string value = names->*found->value;
  if (value.empty())
    return refuse(path, fmt::format("'{}' is {}, and this {}", printable(whole), found->what,
                                    letter == 'a' ? "job is no element of an array" : "run has none"));
  std::replace(value.begin(), value.end(), '/', '_');
  if (is_number(value) && value.size() < width) value.insert(0, width - value.size(), '0');
  *out += value;
  return {};
}

Result<std::string> expand(std::string_view path, const PathNames* names) {
  if (const size_t at = path.find_first_of("$`"); at != std::string_view::npos)
    return refuse(path, fmt::format("'{}' is not expanded, since no shell reads this", path[at]));
  std::string out;
  size_t at = 0;
  if (!path.empty() && path.front() == '~') {
    if (path.size() > 1 && path[1] != '/') return refuse(path, "'~' of another user is not expanded");
    if (names != nullptr && names->home.empty()) return refuse(path, "the home directory is not known");
    if (names != nullptr) out = names->home;
    at = 1;
  }
  while (at < path.size()) {
    if (path[at] == '%') {
      DL_TRY(expand_one(path, names, &at, &out));
    } else {
      out += path[at++];
    }
  }
  return out;
}

}  // namespace

Status check_path_pattern(std::string_view path) {
  auto checked = expand(path, nullptr);
  if (!checked) return std::move(checked).error();
  return {};
}

Result<std::string> expand_path(std::string_view path, const PathNames& names) {
  return expand(path, &names);
}

bool path_holds(std::string_view path, std::string_view letters) {
  for (size_t at = path.find('%'); at != std::string_view::npos && at + 1 < path.size(); at = path.find('%', at)) {
    at = path.find_first_not_of("0123456789", at + 1);
    if (at == std::string_view::npos) return false;
    if (letters.find(path[at]) != std::string_view::npos) return true;
    ++at;
  }
  return false;
}

PathNames names_in_environment(const std::function<std::string(const char*)>& variable) {
  PathNames names;
  const std::string array = variable("SLURM_ARRAY_JOB_ID");
  const std::string index = variable("SLURM_ARRAY_TASK_ID");
  name_job(array.empty() || index.empty() ? variable("SLURM_JOB_ID") : array + "_" + index, &names);
  names.name = variable("SLURM_JOB_NAME");
  names.user = variable("USER");
  const std::string home = variable("HOME");
  if (!home.empty() && home.front() == '/') names.home = home;
  return names;
}

void name_job(const std::string& id, PathNames* names) {
  const size_t bar = id.find('_');
  names->job = id;
  names->array = id.substr(0, bar);
  names->index = bar == std::string::npos ? "" : id.substr(bar + 1);
}

}  // namespace dl
