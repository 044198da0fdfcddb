// SPDX-License-Identifier: Apache-2.0
// dllearner_vote of dllearner.h: puts a vote where the learner's agent reads it (common/contract/vote.h).
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>

#include "common/base/unique_fd.h"
#include "common/contract/env_names.h"
#include "common/contract/vote.h"
#include "launcher/collectives/c_result.h"

namespace {

using dl::Errc;
using dl::Error;
using dl::Status;

// Opens the file of the progress page. None if there is no such file, as for a program that was started elsewhere with
// a copied environment. Not as one of the descriptors 0 to 2: a program may have closed them, and what it prints in
// another thread would go into the page.
dl::Result<dl::UniqueFd> open_page(const char* path) {
  dl::UniqueFd fd(::open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  if (!fd && (errno == ENOENT || errno == ENOTDIR)) return dl::UniqueFd();
  if (fd && fd.get() <= STDERR_FILENO) fd.reset(::fcntl(fd.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!fd) return dl::errno_error(std::string("open the progress page ") + path, errno);
  // Whatever the variable names, only a page is written to.
  struct stat status = {};
  uint64_t magic = 0;
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_size < static_cast<off_t>(dl::kProgressPageBytes) ||
      ::pread(fd.get(), &magic, sizeof magic, 0) != static_cast<ssize_t>(sizeof magic) ||
      magic != dl::ProgressPage::kMagic)
    return Error{Errc::kIo, std::string(path) + " is no progress page"};
  return fd;
}

// Another number for each vote.
uint64_t next_number() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()) | 1U;
}

Status write_vote(const char* path, const dl::Vote& vote) {
  if (path == nullptr || *path == '\0') return {};
  DL_TRY_ASSIGN(const dl::UniqueFd fd, open_page(path));
  if (!fd) return {};
  const std::string bytes = dl::vote_bytes(vote, next_number());
  ssize_t n = 0;
  do n = ::pwrite(fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(dl::kVoteAt));
  while (n < 0 && errno == EINTR);
  if (n == static_cast<ssize_t>(bytes.size())) return {};
  return dl::errno_error(std::string("write ") + path, n < 0 ? errno : ENOSPC);
}

}  // namespace

extern "C" dllearner_result dllearner_vote(int change, const char* reason) {
  dllearner_result of_file = DLLEARNER_OK;
  const dllearner_result result = dl::learner::answer([&]() -> Status {
    const std::string_view text = reason == nullptr ? "" : reason;
    // What is not allowed is said everywhere, not only under dlrun.
    DL_TRY(dl::check_vote(change, text));
    if (Status written = write_vote(std::getenv(dl::env::kProgress), {change, std::string(text)}); !written)
      of_file = dl::learner::keep_error(DLLEARNER_E_IO, written.error().text.c_str());
    return {};
  });
  return result == DLLEARNER_OK ? of_file : result;
}
