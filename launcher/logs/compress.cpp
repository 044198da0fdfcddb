// SPDX-License-Identifier: Apache-2.0
#include "launcher/logs/compress.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>
#include <vector>

#include "common/base/atomic_file.h"
#include "common/base/parse.h"
#include "common/base/unique_fd.h"
#include "launcher/logs/frames.h"

namespace dl::logs {
namespace {

constexpr off_t kLeast = 64 << 10;
constexpr int kLevel = 3;  // zstd's own default

// At most kFrameBytes; fewer only at the end of the file.
Result<std::string> read_frame(int fd, const std::string& path) {
  std::string data(kFrameBytes, '\0');
  size_t size = 0;
  while (size < data.size()) {
    const ssize_t got = ::read(fd, data.data() + size, data.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_error("read " + path, errno);
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  data.resize(size);
  return data;
}

Status pack(int from, const std::string& path, int to, const std::string& packed_path, const std::atomic<bool>* stop) {
  std::vector<FrameSize> frames;
  std::string packed(ZSTD_compressBound(kFrameBytes), '\0');
  const std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> context(ZSTD_createCCtx(), &ZSTD_freeCCtx);
  if (!context || ZSTD_isError(ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, kLevel)) != 0 ||
      ZSTD_isError(ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1)) != 0)
    return Error{Errc::kInternal, "compress " + path + ": zstd cannot be set up"};
  for (;;) {
    if (stop != nullptr && *stop) return Error{Errc::kBusy, "compress " + path + ": interrupted"};
    DL_TRY_ASSIGN(const std::string data, read_frame(from, path));
    if (data.empty()) break;
    const size_t size = ZSTD_compress2(context.get(), packed.data(), packed.size(), data.data(), data.size());
    if (ZSTD_isError(size) != 0) return Error{Errc::kInternal, "compress " + path + ": " + ZSTD_getErrorName(size)};
    DL_TRY(write_all(to, {packed.data(), size}, packed_path));
    frames.push_back({static_cast<uint32_t>(size), static_cast<uint32_t>(data.size())});
    if (data.size() < kFrameBytes) break;
  }
  return write_all(to, format_seek_table(frames), packed_path);
}

// Names of the entries of a folder; none if it cannot be read.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(folder.c_str()), &::closedir);
  if (!dir) return names;
  while (const struct dirent* item = ::readdir(dir.get()))  // NOLINT(concurrency-mt-unsafe): own DIR
    names.emplace_back(item->d_name);
  std::sort(names.begin(), names.end());
  return names;
}

bool has_form(const std::string& name, std::string_view prefix, std::string_view suffix) {
  return name.size() > prefix.size() + suffix.size() && name.compare(0, prefix.size(), prefix) == 0 &&
         name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0;
}

}  // namespace

Status compress_log(const std::string& path, const std::atomic<bool>* stop) {
  const UniqueFd from(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  if (!from) return errno_error("open " + path, errno);
  struct stat status = {};
  if (::fstat(from.get(), &status) != 0) return errno_error(path, errno);
  if (!S_ISREG(status.st_mode) || status.st_size < kLeast) return {};
  const std::string packed = path + kPackedSuffix, temporary = packed + ".tmp";
  ::unlink(temporary.c_str());  // of a process that was killed; attempts are compressed by one process at a time
  const UniqueFd to(
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, status.st_mode & 0777));
  if (!to) return errno_error("create " + temporary, errno);
  Status done = pack(from.get(), path, to.get(), temporary, stop);
  // A learner of a lost node may still write to it.
  struct stat after = {};
  if (done && (::fstat(from.get(), &after) != 0 || after.st_size != status.st_size))
    done = Error{Errc::kBusy, path + " is still being written, and is compressed later"};
  const struct timespec times[] = {status.st_atim, status.st_mtim};
  if (done && ::futimens(to.get(), times) != 0) done = errno_error(temporary, errno);
  if (done && ::fsync(to.get()) != 0) done = errno_error("make durable " + temporary, errno);
  if (done && ::rename(temporary.c_str(), packed.c_str()) != 0) done = errno_error("rename to " + packed, errno);
  if (!done) {
    ::unlink(temporary.c_str());
    return done;
  }
  const UniqueFd folder(::open(path.substr(0, path.find_last_of('/')).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || ::fsync(folder.get()) != 0) return errno_error("make durable " + packed, errno);
  if (::unlink(path.c_str()) != 0) return errno_error("remove " + path, errno);
  return {};
}

Status compress_attempts(const std::string& logs, int last, const std::atomic<bool>* stop) {
  Status first;
  for (const std::string& attempt : names_in(logs)) {
    if (!has_form(attempt, "attempt-", "")) continue;
    const auto number = parse_int(attempt.substr(8), 1, 1'000'000'000);
    if (!number || *number > last) continue;
    for (const std::string& name : names_in(logs + "/" + attempt)) {
      if (!has_form(name, "learner-", ".log")) continue;
      Status done = compress_log(logs + "/" + attempt + "/" + name, stop);
      if (stop != nullptr && *stop) return first;
      if (!done && first) first = done;
    }
  }
  return first;
}

}  // namespace dl::logs
