// SPDX-License-Identifier: Apache-2.0
#include "launcher/protocol/progress_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <new>
#include <vector>

#include "common/base/unique_fd.h"
#include "common/contract/vote.h"

namespace dl::protocol {
namespace {

std::vector<std::string> page_folders() {
  std::vector<std::string> folders{"/dev/shm"};
  const char* tmpdir = std::getenv("TMPDIR");
  if (tmpdir != nullptr && tmpdir[0] == '/') folders.emplace_back(tmpdir);
  folders.emplace_back("/tmp");
  return folders;
}

// A page's name is this prefix, the agent's process id, a dot, and the rest.
std::string page_prefix() {
  return fmt::format("dl-progress-{}-", ::getuid());
}

int remove_orphans_in(const std::string& folder) {
  const std::string prefix = page_prefix();
  DIR* listing = ::opendir(folder.c_str());
  if (listing == nullptr) return 0;
  int removed = 0;
  while (const dirent* entry = ::readdir(listing)) {
    const std::string name = entry->d_name;
    if (name.rfind(prefix, 0) != 0) continue;
    char* end = nullptr;
    const auto pid = static_cast<pid_t>(std::strtol(name.c_str() + prefix.size(), &end, 10));
    // In any doubt the page stays (the process id may belong to another process by now).
    if (*end != '.' || pid <= 0 || ::kill(pid, 0) == 0 || errno != ESRCH) continue;
    if (::unlink((folder + "/" + name).c_str()) == 0) ++removed;
  }
  ::closedir(listing);
  return removed;
}

}  // namespace

int remove_orphaned_pages() {
  int removed = 0;
  for (const std::string& folder : page_folders()) removed += remove_orphans_in(folder);
  return removed;
}

ProgressFile::~ProgressFile() {
  if (page_ != nullptr) ::munmap(page_, kProgressPageBytes);
  if (!path_.empty()) ::unlink(path_.c_str());
}

Status ProgressFile::create(int rank) {
  Error last{Errc::kIo, "create the progress page: no folder was tried"};
  for (const std::string& folder : page_folders()) {
    remove_orphans_in(folder);  // only in the folder in use: TMPDIR may be large or far away
    std::string name = fmt::format("{}/{}{}.{}-XXXXXX", folder, page_prefix(), ::getpid(), rank);
    UniqueFd fd(::mkostemp(name.data(), O_CLOEXEC));  // mode 0600, exclusive
    if (!fd) {
      last = errno_error("create the progress page in " + folder, errno);
      continue;
    }
    // posix_fallocate, not ftruncate: a full tmpfs must fail here and not by a SIGBUS in the training loop.
    int failure = ::posix_fallocate(fd.get(), 0, kProgressPageBytes);
    void* at = failure == 0 ? ::mmap(nullptr, kProgressPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0)
                            : MAP_FAILED;
    if (at == MAP_FAILED) {
      last = errno_error("create the progress page in " + folder, failure != 0 ? failure : errno);
      ::unlink(name.c_str());
      continue;
    }
    page_ = new (at) ProgressPage{};
    page_->step = ProgressPage::kNoStep;
    page_->saved_step = -1;
    page_->version = ProgressPage::kVersion;
    page_->magic = ProgressPage::kMagic;
    path_ = name;
    return {};
  }
  return last;
}

ProgressFile::View ProgressFile::read() const {
  View view;
  if (page_ == nullptr) return view;
  view.acted = page_->seen_seq == page_->seq;
  view.state = page_->state;
  view.step = page_->step;
  view.saved_step = page_->saved_step;
  view.save_ms = page_->save_ms;
  view.local_ms = page_->local_ms;
  view.cost_ms = page_->cost_ms;
  view.noise = page_->noise;
  view.sending = page_->sending;
  return view;
}

std::string ProgressFile::vote() const {
  return page_ == nullptr ? "" : std::string(reinterpret_cast<const char*>(page_) + kVoteAt, kVoteBytes);
}

ProgressFile::View ProgressFile::request(uint32_t kind) {
  if (kind != ProgressPage::kNone && kind != ProgressPage::kSave) page_->stop_asked = 1;
  page_->kind = kind;
  page_->stop_step = ProgressPage::kUndecided;
  page_->seq = page_->seq + 1;
  return read();
}

void ProgressFile::decide(uint32_t kind, int64_t stop_step) {
  page_->kind = kind;
  page_->stop_step = stop_step;
}

void ProgressFile::withdraw() {
  page_->kind = ProgressPage::kNone;
  page_->stop_step = 0;
}

}  // namespace dl::protocol
