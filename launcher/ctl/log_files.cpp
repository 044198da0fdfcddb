// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/log_files.h"

#include <dirent.h>

#include <algorithm>
#include <memory>

#include "common/base/parse.h"
#include "launcher/logs/frames.h"
#include "launcher/logs/log_file.h"
#include "launcher/record/open_below.h"

namespace dl::ctl {
namespace {

constexpr size_t kMostListed = 1'000'000;

// Numbers N of the entries called PREFIX N SUFFIX.
std::vector<int> list_numbers(const record::JobDir& of, const std::string& folder, const std::string& prefix,
                              const std::string& suffix) {
  std::vector<int> numbers;
  auto fd = record::open_below(of.root(), folder, record::Kind::kFolder);
  if (!fd) return numbers;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::fdopendir(fd->get()), &::closedir);
  if (!dir) return numbers;
  fd->release();
  while (const struct dirent* item = ::readdir(dir.get())) {  // NOLINT(concurrency-mt-unsafe): own DIR
    const std::string name = item->d_name;
    if (name.size() <= prefix.size() + suffix.size() || name.rfind(prefix, 0) != 0 ||
        name.compare(name.size() - suffix.size(), suffix.size(), suffix) != 0) {
      continue;
    }
    auto number = parse_int(name.substr(prefix.size(), name.size() - prefix.size() - suffix.size()), 0, 1000000000);
    if (number) numbers.push_back(static_cast<int>(*number));
    if (numbers.size() >= kMostListed) break;
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

}  // namespace

std::vector<int> list_attempts(const record::JobDir& dir) {
  return list_numbers(dir, "logs", "attempt-", "");
}

std::vector<int> list_learner_logs(const record::JobDir& dir, int attempt) {
  const std::string folder = "logs/attempt-" + std::to_string(attempt);
  std::vector<int> ranks = list_numbers(dir, folder, "learner-", ".log");
  const std::vector<int> packed = list_numbers(dir, folder, "learner-", std::string(".log") + logs::kPackedSuffix);
  ranks.insert(ranks.end(), packed.begin(), packed.end());
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());  // one that is being compressed is there twice
  return ranks;
}

std::string learner_log(int attempt, int rank) {
  return record::JobDir("").learner_log(attempt, rank).substr(1);
}

Result<std::vector<std::string>> last_lines(const record::JobDir& dir, int attempt, int rank, size_t most_lines,
                                            size_t most_bytes) {
  DL_TRY_ASSIGN(logs::LogFile file, logs::LogFile::open(dir.root(), learner_log(attempt, rank)));
  DL_TRY_ASSIGN(const uint64_t size, file.size());
  std::string tail;
  uint64_t at = size > most_bytes ? size - most_bytes : 0;
  const bool begins_within = at > 0;
  while (tail.size() < most_bytes) {
    std::string part;
    if (!file.read(&at, most_bytes, &part) || part.empty()) break;
    at += part.size();
    tail += part;
  }
  std::vector<std::string> lines = split(tail, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  if (begins_within && lines.size() > 1) lines.erase(lines.begin());
  if (lines.size() > most_lines) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(most_lines));
  return lines;
}

std::vector<int> list_metrics_attempts(const record::JobDir& dir) {
  return list_numbers(dir, "metrics", "attempt-", "");
}

std::vector<int> list_learner_series(const record::JobDir& dir, int attempt) {
  return list_numbers(dir, "metrics/attempt-" + std::to_string(attempt), "learner-", ".series");
}

std::string learner_series(int attempt, int rank) {
  return record::JobDir("").learner_series(attempt, rank).substr(1);
}

std::string use_series(int attempt) {
  return record::JobDir("").use_series(attempt).substr(1);
}

}  // namespace dl::ctl
