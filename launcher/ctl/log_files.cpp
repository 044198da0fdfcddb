// SPDX-License-Identifier: Apache-2.0
#include "launcher/ctl/log_files.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "common/base/parse.h"
#include "launcher/record/open_below.h"

namespace dl::ctl {
namespace {

constexpr size_t kBlock = 65536;
constexpr size_t kMaxRead = 1UL << 20;
constexpr size_t kMaxLine = 1UL << 20;            // a longer line is shown in parts
constexpr off_t kFarthestBack = off_t{64} << 20;  // how far back the last lines are looked for
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

// The offset at which the last `count` lines begin. An unfinished last line counts as a line.
Result<off_t> find_tail(int fd, off_t size, int count) {
  off_t at = size;
  int breaks = 0;
  std::string block(kBlock, '\0');
  const off_t farthest = std::max<off_t>(0, size - kFarthestBack);
  while (at > farthest) {
    const auto length = static_cast<size_t>(std::min<off_t>(at, kBlock));
    const ssize_t got = ::pread(fd, block.data(), length, at - static_cast<off_t>(length));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return errno_error("read", got < 0 ? errno : EIO);
    for (ssize_t i = got - 1; i >= 0; --i) {
      const off_t position = at - static_cast<off_t>(length) + i;
      if (block[static_cast<size_t>(i)] != '\n' || position == size - 1) continue;
      if (++breaks == count) return position + 1;
    }
    at -= static_cast<off_t>(length);
  }
  return at;
}

}  // namespace

std::vector<int> list_attempts(const record::JobDir& dir) {
  return list_numbers(dir, "logs", "attempt-", "");
}

std::vector<int> list_learner_logs(const record::JobDir& dir, int attempt) {
  return list_numbers(dir, "logs/attempt-" + std::to_string(attempt), "learner-", ".log");
}

std::string learner_log(int attempt, int rank) {
  return record::JobDir("").learner_log(attempt, rank).substr(1);
}

Result<LogTail> LogTail::open(const std::string& root, const std::string& relative, int last_lines) {
  LogTail tail;
  const std::string path = root + "/" + relative;
  DL_TRY_ASSIGN(tail.fd_, record::open_below(root, relative, record::Kind::kFile));
  struct stat status = {};
  if (::fstat(tail.fd_.get(), &status) != 0) return errno_error(path, errno);
  if (last_lines >= 0) {
    off_t start = status.st_size;
    if (last_lines > 0) {
      auto found = find_tail(tail.fd_.get(), status.st_size, last_lines);
      if (!found) return std::move(found).error().with_context(path);
      start = *found;
    }
    if (::lseek(tail.fd_.get(), start, SEEK_SET) < 0) return errno_error(path, errno);
  }
  return tail;
}

Result<bool> LogTail::read(std::vector<std::string>* lines) {
  std::string block(kBlock, '\0');
  size_t total = 0;
  while (total < kMaxRead) {
    const ssize_t got = ::read(fd_.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_error("read", errno);
    if (got == 0) break;
    total += static_cast<size_t>(got);
    rest_.append(block, 0, static_cast<size_t>(got));
    size_t start = 0;
    for (size_t at = rest_.find('\n'); at != std::string::npos; at = rest_.find('\n', start)) {
      lines->push_back(rest_.substr(start, at - start));
      start = at + 1;
    }
    rest_.erase(0, start);
    if (rest_.size() > kMaxLine) lines->push_back(take_rest());
  }
  return total > 0;
}

std::string LogTail::take_rest() {
  return std::exchange(rest_, std::string());
}

}  // namespace dl::ctl
