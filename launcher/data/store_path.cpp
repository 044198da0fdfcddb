// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "common/base/atomic_file.h"
#include "common/base/parse.h"
#include "common/base/unique_fd.h"
#include "launcher/data/digest.h"
#include "launcher/data/fault.h"
#include "launcher/data/file_time.h"
#include "launcher/data/home.h"
#include "launcher/data/store.h"
#include "launcher/data/threads.h"
#include "launcher/data/write_all.h"

namespace dl::data {
namespace {

constexpr size_t kCopyAtOnce = 4 << 20;
constexpr mode_t kOpenFolder = 0755;  // of folders that are nobody's copy
constexpr size_t kMostStoredManifest = 1UL << 30;
// In the names of files that are not whole yet.
constexpr const char* kUnfinished = ".dl-data-part";

struct Piece {
  StoreTree* tree;
  const Entry* entry;
};

struct LeftOut {
  Tree* tree;
  std::string path, why;  // why: empty if it has gone
};

// Where a file is written until it is whole: in the same folder, by a name that is short and always the same, so that
// what a killed store leaves is written over by the next one.
std::string temporary_for(const std::string& place) {
  const size_t name = place.rfind('/') + 1;
  return fmt::format("{}.{:016x}{}", place.substr(0, name), fast_hash(std::string_view(place).substr(name)),
                     kUnfinished);
}

// Whether `place` can be taken: a folder there is removed if it is empty.
bool may_replace(const std::string& place) {
  struct stat status {};
  return ::lstat(place.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || ::rmdir(place.c_str()) == 0;
}
constexpr const char* kFullFolder = ": a folder with files in it lies in its place";

// Takes from what lies there, with these permissions, those that are not allowed. What belongs to another user stays
// as open as that user wants, and there are file systems without permissions.
Status take_away(const std::string& place, mode_t mode, mode_t allowed) {
  const mode_t beyond = mode & 0777 & ~allowed;
  if (beyond == 0 || ::chmod(place.c_str(), mode & 07777 & ~beyond) == 0) return {};
  if (errno == EPERM || errno == ENOTSUP) return {};
  return destination_error("change the permissions of " + printable(place, 400), errno);
}

class PathStore {
 public:
  PathStore(const StoreOptions& options, Progress* progress)
      : options_(options), to_(at_home(options.to)), counts_(&progress->counts) {}

  Status run(std::vector<StoreTree>* trees) {
    for (StoreTree& tree : *trees) DL_TRY(folders_and_links(&tree));
    DL_TRY(make_all(to_));  // also where there is nothing to store but the manifest
    for (StoreTree& tree : *trees)
      for (const Entry& entry : tree.tree.manifest.entries)
        if (!entry.folder) pieces_.push_back({&tree, &entry});
    const size_t streams =
        options_.streams > 0 ? options_.streams : std::clamp(2U * std::thread::hardware_concurrency(), 4U, 16U);
    on_threads(std::min(streams, pieces_.size()), [this] { work_off(); });
    if (failed_) return *std::move(failed_);
    const bool late = is_late(options_) && next_ < pieces_.size();
    for (const LeftOut& one : left_) leave_out(one.path, one.why, one.tree);
    return late ? Status(too_late(*counts_)) : Status();
  }

 private:
  std::string place(const StoreTree& tree, const std::string& path) const {
    return to_ + (tree.folder.name.empty() ? "" : "/" + tree.folder.name) + (path.empty() ? "" : "/" + path);
  }

  static Status make_all(const std::string& path) {
    const Status made = make_directories(path);
    return made ? Status() : Status(destination_error("create " + printable(path, 400), made.error().sys_errno));
  }

  // The permissions of a folder for what is in another one. Whom that one keeps out this one keeps out as well, but for
  // its owner, who stores in it.
  static mode_t mode_like(const std::string& from) {
    struct stat status {};
    return ::stat(from.c_str(), &status) == 0 ? (status.st_mode & 0777) | 0700 : 0700;
  }

  // The umask has its say, too. False: something else lies there.
  static Result<bool> make_folder(const std::string& to, mode_t mode) {
    if (::mkdir(to.c_str(), mode) == 0) return true;
    if (errno != EEXIST) return destination_error("create " + printable(to, 400), errno);
    // Through a link the results would go to wherever it leads.
    struct stat status {};
    return ::lstat(to.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
  }

  // The same for a folder whose content is stored. It may be there from an earlier store, and more open than its source
  // is now.
  static Result<bool> make_folder_like(const std::string& from, const std::string& to) {
    const mode_t mode = mode_like(from);
    DL_TRY_ASSIGN(const bool made, make_folder(to, mode));
    struct stat status {};
    if (made && ::lstat(to.c_str(), &status) == 0) DL_TRY(take_away(to, status.st_mode, mode));
    return made;
  }

  // The folder of a tree, and those above it.
  Status make_top(const StoreTree& tree) {
    std::string folder = to_;
    const std::vector<std::string> parts =
        tree.folder.name.empty() ? std::vector<std::string>() : split(tree.folder.name, '/');
    const std::string root = tree.tree.single ? "" : tree.tree.root;
    if (!parts.empty()) {
      DL_TRY(make_all(folder));
    } else if (const size_t slash = folder.rfind('/'); slash != std::string::npos && slash > 0) {
      DL_TRY(make_all(folder.substr(0, slash)));
      DL_TRY(make_folder(folder, root.empty() ? kOpenFolder : mode_like(root)));
    }
    for (const std::string& part : parts) {
      folder += "/" + part;
      const bool stored = &part == &parts.back() && !root.empty();
      DL_TRY_ASSIGN(const bool made, stored ? make_folder_like(root, folder) : make_folder(folder, kOpenFolder));
      if (!made)
        return Error{Errc::kExists, printable(folder, 400) +
                                        " is in the way of the results; allowed: nothing, or a "
                                        "folder that is no link"};
    }
    return make_all(folder);
  }

  Status folders_and_links(StoreTree* tree) {
    DL_TRY(make_top(*tree));
    for (const Entry& entry : tree->tree.manifest.entries) {
      if (!entry.folder) continue;
      const std::string from = tree->tree.root + "/" + entry.path, to = place(*tree, entry.path);
      DL_TRY_ASSIGN(bool made, make_folder_like(from, to));
      if (made) continue;
      // A file or link of an earlier state of the results.
      if (::unlink(to.c_str()) != 0) return destination_error("remove " + printable(to, 400), errno);
      DL_TRY_ASSIGN(made, make_folder_like(from, to));
      if (!made) return Error{Errc::kExists, printable(to, 400) + " is in the way of the results"};
    }
    std::vector<std::pair<std::string, std::string>> kept;
    for (auto& [path, target] : tree->tree.links) {
      const std::string link = place(*tree, path), temporary = temporary_for(link);
      if (!may_replace(link)) {
        tree->tree.left.push_back(printable(path, 400) + kFullFolder);
        continue;
      }
      ::unlink(temporary.c_str());
      if (::symlink(target.c_str(), temporary.c_str()) != 0 || ::rename(temporary.c_str(), link.c_str()) != 0)
        return destination_error("create " + printable(link, 400), errno);
      kept.emplace_back(path, target);
    }
    tree->tree.links = std::move(kept);
    return {};
  }

  void work_off() {
    for (;;) {
      const size_t at = next_++;
      if (at >= pieces_.size() || stop_ || is_late(options_)) return;
      Status done = try_again(options_.patience, stop_, [&] { return one(pieces_[at]); });
      if (done) continue;
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!failed_) failed_ = std::move(done).error();
      stop_ = true;
    }
  }

  Status leave(const Piece& piece, const char* why) {
    const std::lock_guard<std::mutex> lock(mutex_);
    left_.push_back({&piece.tree->tree, piece.entry->path, why});
    return {};
  }

  // Whether the file lies there already; then it becomes as private there as its source is now.
  static Result<bool> is_stored(const Entry& entry, const std::string& from, const std::string& to) {
    struct stat there {};
    struct stat here {};
    if (::lstat(to.c_str(), &there) != 0 || !S_ISREG(there.st_mode) ||
        static_cast<uint64_t>(there.st_size) != entry.size || mtime_ns_of(there) != entry.mtime_ns)
      return false;
    if (::lstat(from.c_str(), &here) == 0) DL_TRY(take_away(to, there.st_mode, here.st_mode));
    return true;
  }

  Status one(const Piece& piece) {
    const std::string from = piece.tree->tree.root + "/" + piece.entry->path;
    const std::string to = place(*piece.tree, piece.entry->path);
    DL_TRY_ASSIGN(const bool stored, is_stored(*piece.entry, from, to));
    if (stored) {
      counts_->bytes += piece.entry->size;
      counts_->resumed += piece.entry->size;
      ++counts_->files;
      return {};
    }
    struct stat status {};
    const UniqueFd in(::open(from.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
    if (!in && (errno == ENOENT || errno == ENOTDIR)) return leave(piece, "");
    if (!in && (errno == EACCES || errno == EPERM)) return leave(piece, kUnreadable);
    if (!in && (errno == ELOOP || errno == ENXIO)) return leave(piece, " is no file any more");
    if (!in || ::fstat(in.get(), &status) != 0) return source_error(printable(from, 400), errno);
    if (!may_replace(to)) return leave(piece, kFullFolder);
    const std::string temporary = temporary_for(to);
    ::unlink(temporary.c_str());
    // The system takes the umask's bits away.
    constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    UniqueFd out(::open(temporary.c_str(), kFlags, status.st_mode & 0777));
    if (!out) return destination_error("create " + printable(temporary, 400), errno);
    uint64_t copied = 0;
    Status done = copy(in.get(), out.get(), piece.entry->size, from, to, &copied);
    if (done && (set_time(out.get(), piece.entry->mtime_ns, to).has_value() ? ::fsync(out.get()) : -1) != 0)
      done = destination_error("write out " + printable(to, 400), errno);
    if (done && out.close() != 0) done = destination_error("close " + printable(to, 400), errno);
    if (done && ::rename(temporary.c_str(), to.c_str()) != 0)
      done = destination_error("rename to " + printable(to, 400), errno);
    if (!done) {
      ::unlink(temporary.c_str());
      counts_->bytes -= copied;
      return done;
    }
    ++counts_->files;
    return {};
  }

  // A file that grows is stored as far as it was when it was listed; one that has become shorter as it is.
  Status copy(int in, int out, uint64_t size, const std::string& from, const std::string& to, uint64_t* copied) {
    thread_local std::vector<char> buffer;
    buffer.resize(std::min<uint64_t>(kCopyAtOnce, std::max<uint64_t>(size, 1)));
    while (*copied < size) {
      if (stop_) return Error{Errc::kBusy, "stopped"};
      if (is_late(options_)) return too_late(*counts_);
      const ssize_t n = ::read(in, buffer.data(), std::min<uint64_t>(buffer.size(), size - *copied));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return source_error("read " + printable(from, 400), errno);
      if (n == 0) break;
      if (Status written = write_all(out, {buffer.data(), static_cast<size_t>(n)}, to); !written)
        return destination_error("write " + printable(to, 400), written.error().sys_errno);
      *copied += static_cast<uint64_t>(n);
      counts_->bytes += static_cast<uint64_t>(n);
      counts_->fetched += static_cast<uint64_t>(n);
    }
    return {};
  }

  const StoreOptions& options_;
  const std::string to_;
  Counts* const counts_;
  std::vector<Piece> pieces_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;  // of the next two
  std::vector<LeftOut> left_;
  std::optional<Error> failed_;
};

}  // namespace

Status store_in_path(const StoreOptions& options, std::vector<StoreTree>* trees, Progress* progress) {
  return PathStore(options, progress).run(trees);
}

Status drop_path_manifest(const std::string& to, const std::string& text) {
  const std::string path = to + "/" + kStoredManifest;
  const auto old = read_small_file(path, kMostStoredManifest);
  if (!old && old.error().code == Errc::kNotFound) return {};
  if (old && *old == text) return {};
  return ::unlink(path.c_str()) == 0 || errno == ENOENT || errno == ENOTDIR
             ? Status()
             : Status(destination_error("remove " + printable(path, 400), errno));
}

Status write_path_manifest(const std::string& to, const std::string& text) {
  const std::string path = to + "/" + kStoredManifest, temporary = temporary_for(path);
  // It has the names of what may be private: the umask counts.
  ::unlink(temporary.c_str());
  UniqueFd out(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!out) return destination_error("create " + printable(temporary, 400), errno);
  if (Status written = write_all(out.get(), text, path); !written)
    return destination_error("write " + printable(path, 400), written.error().sys_errno);
  if (::fsync(out.get()) != 0 || out.close() != 0 || ::rename(temporary.c_str(), path.c_str()) != 0)
    return destination_error("write out " + printable(path, 400), errno);
  const Status synced = sync_folder(to);
  return synced ? Status() : Status(of_destination(synced.error()));
}

}  // namespace dl::data
