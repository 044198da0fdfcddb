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
#include "launcher/data/fault.h"
#include "launcher/data/file_time.h"
#include "launcher/data/home.h"
#include "launcher/data/store.h"
#include "launcher/data/write_all.h"

namespace dl::data {
namespace {

constexpr size_t kCopyAtOnce = 4 << 20;
constexpr size_t kMostStoredManifest = 1UL << 30;
// In the names of files that are not whole yet.
constexpr const char* kUnfinished = ".dl-data-part";

struct Piece {
  const StoreTree* tree;
  const Entry* entry;
};

class PathStore {
 public:
  PathStore(const StoreOptions& options, Progress* progress, std::vector<std::string>* left)
      : options_(options), to_(at_home(options.to)), counts_(&progress->counts), left_(left) {}

  Status run(const std::vector<StoreTree>& trees) {
    for (const StoreTree& tree : trees) DL_TRY(folders_and_links(tree));
    DL_TRY(make_all(to_));  // also where there is nothing to store but the manifest
    for (const StoreTree& tree : trees)
      for (const Entry& entry : tree.tree.manifest.entries)
        if (!entry.folder) pieces_.push_back({&tree, &entry});
    const size_t streams =
        options_.streams > 0 ? options_.streams : std::clamp(2U * std::thread::hardware_concurrency(), 4U, 16U);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < std::min(streams, pieces_.size()); ++i) threads.emplace_back([this] { work_off(); });
    for (std::thread& thread : threads) thread.join();
    if (failed_) return *std::move(failed_);
    return is_late(options_) && next_ < pieces_.size() ? Status(too_late(*counts_)) : Status();
  }

 private:
  std::string place(const StoreTree& tree, const std::string& path) const {
    return to_ + (tree.folder.name.empty() ? "" : "/" + tree.folder.name) + (path.empty() ? "" : "/" + path);
  }

  static Status make_all(const std::string& path) {
    const Status made = make_directories(path);
    return made ? Status() : Status(destination_error("create " + printable(path, 400), made.error().sys_errno));
  }

  // Makes a folder for what is in another one. Whom that one keeps out this one keeps out as well, but for its owner,
  // who stores in it; the umask has its say, too.
  static Status make_folder_like(const std::string& from, const std::string& to) {
    struct stat status {};
    const mode_t mode = ::stat(from.c_str(), &status) == 0 ? status.st_mode & 0777 : 0700;
    if (::mkdir(to.c_str(), mode | 0700) == 0 || errno == EEXIST) return {};
    return destination_error("create " + printable(to, 400), errno);
  }

  Status folders_and_links(const StoreTree& tree) {
    const std::string top = place(tree, "");
    if (const size_t slash = top.rfind('/'); slash != std::string::npos && slash > 0)
      DL_TRY(make_all(top.substr(0, slash)));
    if (!tree.tree.single) DL_TRY(make_folder_like(tree.tree.root, top));
    DL_TRY(make_all(top));
    for (const Entry& entry : tree.tree.manifest.entries)
      if (entry.folder) DL_TRY(make_folder_like(tree.tree.root + "/" + entry.path, place(tree, entry.path)));
    for (const auto& [path, target] : tree.tree.links) {
      const std::string link = place(tree, path), temporary = link + kUnfinished;
      ::unlink(temporary.c_str());
      if (::symlink(target.c_str(), temporary.c_str()) != 0 || ::rename(temporary.c_str(), link.c_str()) != 0)
        return destination_error("create " + printable(link, 400), errno);
    }
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

  Status one(const Piece& piece) {
    const std::string from = piece.tree->tree.root + "/" + piece.entry->path;
    const std::string to = place(*piece.tree, piece.entry->path);
    struct stat there {};
    if (::lstat(to.c_str(), &there) == 0 && S_ISREG(there.st_mode) &&
        static_cast<uint64_t>(there.st_size) == piece.entry->size && mtime_ns_of(there) == piece.entry->mtime_ns) {
      counts_->bytes += piece.entry->size;
      counts_->resumed += piece.entry->size;
      ++counts_->files;
      return {};
    }
    const UniqueFd in(::open(from.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
    if (!in && errno == ENOENT) return {};
    if (!in && errno == EACCES) {
      const std::lock_guard<std::mutex> lock(mutex_);
      left_->push_back(printable(piece.entry->path, 400) + " may not be read");
      return {};
    }
    if (!in) return source_error(printable(from, 400), errno);
    const std::string temporary = to + kUnfinished;
    ::unlink(temporary.c_str());
    struct stat status {};
    if (::fstat(in.get(), &status) != 0) return source_error(printable(from, 400), errno);
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
  std::vector<std::string>* const left_;
  std::optional<Error> failed_;
};

}  // namespace

Status store_in_path(const StoreOptions& options, const std::vector<StoreTree>& trees, Progress* progress,
                     std::vector<std::string>* left) {
  return PathStore(options, progress, left).run(trees);
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
  const std::string path = to + "/" + kStoredManifest, temporary = path + kUnfinished;
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
