// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/use_texts.h"

#include <algorithm>

#include "common/base/parse.h"

namespace dl::agent {
namespace {

constexpr int64_t kFirstWaitMs = 1000, kLongestWaitMs = 300'000;
constexpr int64_t kLeastShare = 1000;  // looks take one part in so many of a core

int64_t count_in(std::string_view word) {
  const auto count = parse_int(word, 0, INT64_MAX);
  return count ? *count : kUnmeasured;
}

// The number behind `name` at the beginning of a line. Other words may follow it ("RssAnon:   123 kB").
int64_t named(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.substr(0, name.size()) == name && line.size() > name.size()) {
      std::string_view rest = trim(line.substr(name.size()));
      return count_in(rest.substr(0, rest.find_first_of(" \t")));
    }
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return kUnmeasured;
}

// Unmeasured without `needed`; `more` is added if it is there.
int64_t sum_of(int64_t needed, int64_t more) {
  if (needed < 0 || more < 0) return needed;
  return needed > INT64_MAX - more ? INT64_MAX : needed + more;
}

int64_t bytes_of_kib(int64_t kib) {
  return kib < 0 ? kUnmeasured : std::min(kib, INT64_MAX / 1024) * 1024;
}

}  // namespace

int64_t cpu_ticks(std::string_view stat) {
  const size_t close = stat.rfind(')');
  if (close == std::string_view::npos) return kUnmeasured;
  // utime, stime, cutime and cstime are fields 14 to 17 of proc(5). What follows the name begins with field 3.
  constexpr int kFirst = 14, kLast = 17;
  stat.remove_prefix(close + 1);
  int64_t sum = 0;
  for (int field = 3; field <= kLast; ++field) {
    stat.remove_prefix(std::min(stat.size(), stat.find_first_not_of(" \n")));
    const std::string_view word = stat.substr(0, stat.find_first_of(" \n"));
    if (word.empty()) return kUnmeasured;
    if (field >= kFirst) {
      const int64_t count = count_in(word);
      if (count < 0) return kUnmeasured;
      sum = sum_of(sum, count);
    }
    stat.remove_prefix(word.size());
  }
  return sum;
}

int64_t own_memory(std::string_view status) {
  return sum_of(bytes_of_kib(named(status, "RssAnon:")), bytes_of_kib(named(status, "RssShmem:")));
}

StorageUse storage_use(std::string_view io) {
  return {named(io, "read_bytes:"), named(io, "write_bytes:")};
}

std::string step_memory_file(const OomFile& file) {
  const size_t step = file.path.find("/step_");
  if (step == std::string::npos) return {};
  size_t end = file.path.find('/', step + 1);
  if (end == std::string::npos) return {};
  // Version 2 has the user's processes in a group of their own, beside Slurm's.
  constexpr std::string_view kUser = "/user/";
  if (file.path.compare(end, kUser.size(), kUser) == 0) end += kUser.size() - 1;
  return file.path.substr(0, end) + "/memory.stat";
}

int64_t group_memory(std::string_view memory_stat) {
  const int64_t anon = named(memory_stat, "anon ");
  if (anon >= 0) return sum_of(anon, named(memory_stat, "shmem "));
  return sum_of(named(memory_stat, "total_rss "), named(memory_stat, "total_shmem "));
}

int64_t next_wait_ms(int64_t waited_ms, int64_t look_ms, int64_t took_us) {
  const int64_t sooner = waited_ms <= 0 ? kFirstWaitMs : std::min(waited_ms, kLongestWaitMs) * 2;
  // a look of N µs, times 1000: N ms
  const int64_t cheap = std::clamp<int64_t>(took_us, 0, kLongestWaitMs) * kLeastShare / 1000;
  return std::clamp(std::max(std::min(sooner, look_ms), cheap), int64_t{1}, std::max(look_ms, kLongestWaitMs));
}

}  // namespace dl::agent
