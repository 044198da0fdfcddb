// SPDX-License-Identifier: Apache-2.0
#include "launcher/data/work.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <unordered_map>
#include <utility>

#include "common/base/atomic_file.h"
#include "common/base/parse.h"
#include "launcher/data/fault.h"
#include "launcher/data/file_time.h"
#include "launcher/data/threads.h"
#include "launcher/data/write_all.h"

namespace dl::data {
namespace {

constexpr size_t kNotesBytes = 32 << 10;
constexpr size_t kMostNotes = 2UL << 30;

bool looks_complete(const struct stat& status, const Entry& entry) {
  return S_ISREG(status.st_mode) && static_cast<uint64_t>(status.st_size) == entry.size &&
         mtime_ns_of(status) == kept_mtime_ns(entry);
}

Status make_folder(const std::string& path) {
  return ::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST ? Status() : Status(local_error("create " + path, errno));
}

}  // namespace

Work::Work(std::string folder, const Manifest& manifest, Counts* counts)
    : folder_(std::move(folder)), manifest_(manifest), counts_(counts) {
  state_.resize(manifest.entries.size(), 0);
  sums_.resize(manifest.entries.size());
}

Result<std::unique_ptr<Work>> Work::open(const std::string& folder, const Manifest& manifest, Counts* counts) {
  std::unique_ptr<Work> work(new Work(folder, manifest, counts));
  DL_TRY(make_folder(folder));
  struct stat status {};
  const bool old = ::lstat(work->tree().c_str(), &status) == 0;
  DL_TRY(make_folder(work->tree()));
  if (::chmod(work->tree().c_str(), 0700) != 0) return local_error("set the mode of " + work->tree(), errno);
  DL_TRY(make_folder(folder + "/parts"));
  // What a helper left may be a part of a file under its whole name.
  DL_TRY(remove_tree(work->incoming()));
  DL_TRY(make_folder(work->incoming()));
  work->tree_fd_ = UniqueFd(::open(work->tree().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!work->tree_fd_) return local_error("open " + work->tree(), errno);
  DL_TRY(work->make_folders());
  if (old) DL_TRY(work->look());
  const std::string notes = folder + "/notes";
  work->notes_ = UniqueFd(::open(notes.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!work->notes_) return local_error("open " + notes, errno);
  if (auto marked = replace_file(folder + "/boot", boot_mark(), 0600); !marked)
    return local_error("write " + folder + "/boot", marked.error().sys_errno);
  return work;
}

Status Work::make_folders() {
  for (const Entry& entry : manifest_.entries) {
    if (!entry.folder || ::mkdirat(tree_fd_.get(), entry.path.c_str(), 0700) == 0) continue;
    // finish() may have made it read-only before it was killed.
    if (errno != EEXIST || ::fchmodat(tree_fd_.get(), entry.path.c_str(), 0700, 0) != 0)
      return local_error("create " + tree() + "/" + entry.path, errno);
  }
  return {};
}

Status Work::look() {
  const auto boot = read_small_file(folder_ + "/boot", 256);
  const bool same_boot = boot && *boot == boot_mark();
  std::unordered_map<std::string, std::string> noted;
  const auto text = read_small_file(folder_ + "/notes", kMostNotes);
  if (text) {
    for (std::string_view rest = *text; !rest.empty();) {
      const size_t end = rest.find('\n');
      if (end == std::string_view::npos) break;  // torn
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(end + 1);
      if (const size_t blank = line.find(' '); blank != std::string_view::npos)
        noted[std::string(line.substr(blank + 1))] = std::string(line.substr(0, blank));
    }
  }
  for (size_t i = 0; i < manifest_.entries.size(); ++i) {
    if (manifest_.entries[i].folder) continue;
    const auto at = noted.find(manifest_.entries[i].path);
    DL_TRY(look_at_one(i, same_boot, at == noted.end() ? "" : at->second));
  }
  return {};
}

Status Work::look_at_one(size_t entry, bool same_boot, const std::string& noted) {
  const Entry& wanted = manifest_.entries[entry];
  struct stat status {};
  if (::fstatat(tree_fd_.get(), wanted.path.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
    return errno == ENOENT || errno == ENOTDIR ? Status() : Status(local_error(tree() + "/" + wanted.path, errno));
  bool good = looks_complete(status, wanted);
  if (good && !same_boot) {
    const UniqueFd fd(::openat(tree_fd_.get(), wanted.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    const auto sum = fd ? fast_sum_of(fd.get(), wanted.path) : Result<std::string>(std::string());
    good = sum && *sum == noted;
  }
  if (!good) {
    ::unlinkat(tree_fd_.get(), wanted.path.c_str(), S_ISDIR(status.st_mode) ? AT_REMOVEDIR : 0);
    return {};
  }
  state_[entry] = 1;
  sums_[entry] = noted;
  counts_->bytes += wanted.size;
  counts_->resumed += wanted.size;
  ++counts_->files;
  return {};
}

void Work::arrived(size_t entry, const std::string& sum) {
  state_[entry] = 1;
  sums_[entry] = sum;
  ++counts_->files;
}

Status Work::note(size_t entry, const std::string& sum) {
  const std::lock_guard<std::mutex> lock(mutex_);
  waiting_ += sum;
  waiting_ += ' ';
  waiting_ += manifest_.entries[entry].path;
  waiting_ += '\n';
  return waiting_.size() < kNotesBytes ? Status() : flush_notes();
}

Status Work::flush_notes() {
  const Status written = write_all(notes_.get(), waiting_, folder_ + "/notes");
  waiting_.clear();
  return written;
}

Status Work::put(size_t entry, std::string_view data) {
  const Entry& wanted = manifest_.entries[entry];
  const mode_t mode = wanted.executable ? 0555 : 0444;
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  UniqueFd fd(::openat(tree_fd_.get(), wanted.path.c_str(), kFlags, mode));
  if (!fd && errno == EEXIST && ::unlinkat(tree_fd_.get(), wanted.path.c_str(), 0) == 0)
    fd = UniqueFd(::openat(tree_fd_.get(), wanted.path.c_str(), kFlags, mode));
  if (!fd) return local_error("create " + tree() + "/" + wanted.path, errno);
  DL_TRY(write_all(fd.get(), data, tree() + "/" + wanted.path));
  DL_TRY(set_time(fd.get(), kept_mtime_ns(wanted), wanted.path));  // the mark of a complete file
  if (fd.close() != 0) return local_error("close " + tree() + "/" + wanted.path, errno);
  std::string sum = data.empty() ? fast_sum({}) : fast_sum({fast_hash(data)});
  DL_TRY(note(entry, sum));
  arrived(entry, sum);
  return {};
}

Status Work::take(size_t entry, const std::string& path, bool compare) {
  const Entry& wanted = manifest_.entries[entry];
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) return local_error("open " + path, errno);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return local_error(path, errno);
  if (!S_ISREG(status.st_mode) || static_cast<uint64_t>(status.st_size) != wanted.size)
    return Error{Errc::kCorrupt, fmt::format("'{}' has arrived with {} bytes, not {}", printable(wanted.path, 400),
                                             status.st_size, wanted.size)};
  if (compare && is_checksum(wanted.identity)) DL_TRY(verify_checksum(fd.get(), wanted.identity, wanted.path));
  DL_TRY_ASSIGN(std::string sum, fast_sum_of(fd.get(), path));
  if (::fchmod(fd.get(), wanted.executable ? 0555 : 0444) != 0) return local_error("set the mode of " + path, errno);
  DL_TRY(set_time(fd.get(), kept_mtime_ns(wanted), path));
  const std::string place = tree() + "/" + wanted.path;
  if (::rename(path.c_str(), place.c_str()) != 0) return local_error("rename to " + place, errno);
  DL_TRY(note(entry, sum));
  arrived(entry, sum);
  return {};
}

bool Work::link(size_t entry, int from_tree, const std::string& sum) {
  const Entry& wanted = manifest_.entries[entry];
  struct stat status {};
  if (::fstatat(from_tree, wanted.path.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 || !looks_complete(status, wanted))
    return false;
  if (::linkat(from_tree, wanted.path.c_str(), tree_fd_.get(), wanted.path.c_str(), 0) != 0) return false;
  if (!note(entry, sum)) return false;
  arrived(entry, sum);
  counts_->bytes += wanted.size;
  counts_->resumed += wanted.size;
  return true;
}

std::string Work::part_path(size_t entry) const {
  Digest digest(DigestKind::kSha256);
  // Another state of the file is another part.
  const Entry& wanted = manifest_.entries[entry];
  digest.add(fmt::format("{} {} {} {}", wanted.size, kept_mtime_ns(wanted), wanted.identity, wanted.path));
  return folder_ + "/parts/" + digest.hex().substr(0, 32);
}

uint64_t Work::without_room() const {
  uint64_t bytes = 0;
  for (size_t i = 0; i < manifest_.entries.size(); ++i) {
    const uint64_t size = manifest_.entries[i].size;
    struct stat status {};
    if (has(i) || size == 0) continue;
    const bool begun = size > kChunkBytes && ::lstat(part_path(i).c_str(), &status) == 0;
    bytes += begun ? size - std::min(size, static_cast<uint64_t>(status.st_blocks) * 512) : size;
  }
  return bytes;
}

Result<PartFile> Work::part(size_t entry) const {
  return PartFile::open(part_path(entry), manifest_.entries[entry].size);
}

Status Work::finish_part(size_t entry, PartFile* part) {
  const Entry& wanted = manifest_.entries[entry];
  if (is_checksum(wanted.identity)) {
    Status good = verify_checksum(part->fd(), wanted.identity, printable(wanted.path, 400));
    if (!good && good.error().code == Errc::kCorrupt) {
      DL_TRY(part->begin_again());
      return good;
    }
    DL_TRY(std::move(good));
  }
  const std::string sum = part->sum();
  DL_TRY(part->move_to(tree() + "/" + wanted.path, kept_mtime_ns(wanted), wanted.executable));
  DL_TRY(note(entry, sum));
  arrived(entry, sum);
  return {};
}

Status Work::finish(bool durable) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    DL_TRY(flush_notes());
  }
  const std::string path = folder_ + "/manifest";
  ::unlink(path.c_str());
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return local_error("create " + path, errno);
  DL_TRY(write_all(fd.get(), manifest_text(manifest_, sums_), path));
  if (fd.close() != 0) return local_error("close " + path, errno);
  for (auto entry = manifest_.entries.rbegin(); entry != manifest_.entries.rend(); ++entry)
    if (entry->folder && ::fchmodat(tree_fd_.get(), entry->path.c_str(), 0555, 0) != 0)
      return local_error("set the mode of " + tree() + "/" + entry->path, errno);
  if (::chmod(tree().c_str(), 0555) != 0) return local_error("set the mode of " + tree(), errno);
  if (durable) DL_TRY(sync_file_system(folder_));
  DL_TRY(remove_tree(folder_ + "/parts"));
  DL_TRY(remove_tree(names()));
  return remove_tree(incoming());
}

std::vector<size_t> damaged(const std::string& tree, const Manifest& manifest) {
  const UniqueFd root(::open(tree.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  const size_t count = manifest.entries.size();
  const size_t workers = count < 2000 ? 1 : std::clamp<size_t>(std::thread::hardware_concurrency(), 2, 8);
  std::vector<std::vector<size_t>> found(workers);
  auto look = [&](size_t worker) {
    for (size_t i = count * worker / workers; i < count * (worker + 1) / workers; ++i) {
      const Entry& entry = manifest.entries[i];
      struct stat status {};
      const bool there = root && ::fstatat(root.get(), entry.path.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
      if (!there || !(entry.folder ? S_ISDIR(status.st_mode) : looks_complete(status, entry)))
        found[worker].push_back(i);
    }
  };
  std::atomic<size_t> next{0};
  on_threads(workers, [&] {
    for (size_t worker = next++; worker < workers; worker = next++) look(worker);
  });
  std::vector<size_t> all;
  for (const std::vector<size_t>& some : found) all.insert(all.end(), some.begin(), some.end());
  return all;
}

}  // namespace dl::data
