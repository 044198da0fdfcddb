// SPDX-License-Identifier: Apache-2.0
#include "launcher/data/walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "common/base/parse.h"
#include "common/base/unique_fd.h"
#include "launcher/data/fault.h"
#include "launcher/data/file_time.h"

namespace dl::data {
namespace {

constexpr size_t kDeepest = 200;  // folders in one another; each keeps a descriptor open

const char* kind_text(mode_t mode) {
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "not a file or folder";
}

Entry entry_of(std::string path, const struct stat& status) {
  Entry entry;
  entry.path = std::move(path);
  entry.folder = S_ISDIR(status.st_mode);
  entry.size = entry.folder ? 0 : static_cast<uint64_t>(status.st_size);
  entry.mtime_ns = entry.folder ? 0 : mtime_ns_of(status);
  entry.executable = !entry.folder && (status.st_mode & S_IXUSR) != 0;
  return entry;
}

// Whether a link at `path` that points to `target` leads to a place below the walk's root.
bool stays_below(const std::string& path, const std::string& target) {
  if (target.empty() || target.front() == '/') return false;
  int depth = static_cast<int>(std::count(path.begin(), path.end(), '/'));
  for (const std::string& part : split(target, '/')) {
    if (part.empty() || part == ".") continue;
    depth += part == ".." ? -1 : 1;
    if (depth < 0) return false;
  }
  return true;
}

class Walk {
 public:
  Walk(const std::string& root, Odd odd, Tree* tree) : root_(root), odd_(odd), tree_(tree) {}

  Status folder(UniqueFd fd, const std::string& path) {
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) return source_error(place(path), errno);
    const std::pair<dev_t, ino_t> self{status.st_dev, status.st_ino};
    if (std::find(above_.begin(), above_.end(), self) != above_.end())
      return Error{Errc::kInvalid, place(path) + ": a symbolic link leads back to a folder above it, in a circle"};
    if (above_.size() >= kDeepest)
      return Error{Errc::kInvalid, fmt::format("{}: more than {} folders in one another", place(path), kDeepest)};
    above_.push_back(self);
    DL_TRY(each_in(std::move(fd), path));
    above_.pop_back();
    return {};
  }

 private:
  std::string place(const std::string& path) const { return printable(path.empty() ? root_ : root_ + "/" + path, 400); }

  Status odd(const std::string& path, const std::string& what) {
    if (odd_ == Odd::kRefuse)
      return Error{Errc::kInvalid, fmt::format("{} {}; allowed: files and folders", place(path), what)};
    tree_->left.push_back(printable(path, 400) + " " + what);
    return {};
  }

  Status each_in(UniqueFd fd, const std::string& path) {
    const int number = fd.get();
    const std::unique_ptr<DIR, int (*)(DIR*)> dir(::fdopendir(number), &::closedir);
    if (dir == nullptr) return source_error(place(path), errno);
    fd.release();  // closedir() closes it
    for (;;) {
      errno = 0;
      const dirent* item = ::readdir(dir.get());
      if (item == nullptr && errno != 0) return source_error("list " + place(path), errno);
      if (item == nullptr) return {};
      const std::string name = item->d_name;
      if (name == "." || name == "..") continue;
      DL_TRY(one(number, name, path.empty() ? name : path + "/" + name));
    }
  }

  Status one(int dir, const std::string& name, std::string path) {
    if (Status good = check_path(path); !good) {
      if (odd_ == Odd::kRefuse) return good;
      tree_->left.push_back(std::move(good).error().text);
      return {};
    }
    struct stat status {};
    if (::fstatat(dir, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
      return errno == ENOENT ? Status() : Status(source_error(place(path), errno));  // gone since it was listed
    if (S_ISLNK(status.st_mode)) {
      if (odd_ == Odd::kLeave) return keep_link(dir, name, path);
      if (::fstatat(dir, name.c_str(), &status, 0) != 0) {
        if (errno == ENOENT || errno == ENOTDIR) return odd(path, "is a symbolic link that leads to nothing");
        if (errno == ELOOP) return odd(path, "is a symbolic link that leads in a circle");
        return source_error(place(path), errno);
      }
    }
    if (S_ISREG(status.st_mode)) {
      tree_->manifest.entries.push_back(entry_of(std::move(path), status));
      return {};
    }
    if (!S_ISDIR(status.st_mode)) return odd(path, std::string("is ") + kind_text(status.st_mode));
    tree_->manifest.entries.push_back(entry_of(path, status));
    UniqueFd fd(
        ::openat(dir, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | (odd_ == Odd::kLeave ? O_NOFOLLOW : 0)));
    if (!fd) {
      if (odd_ == Odd::kLeave && (errno == EACCES || errno == ENOENT)) return odd(path, "cannot be opened");
      return source_error(place(path), errno);
    }
    return folder(std::move(fd), path);
  }

  Status keep_link(int dir, const std::string& name, const std::string& path) {
    char target[PATH_MAX];
    const ssize_t n = ::readlinkat(dir, name.c_str(), target, sizeof target);
    if (n < 0) return errno == ENOENT ? Status() : Status(source_error(place(path), errno));
    std::string text(target, static_cast<size_t>(n));
    if (text.size() >= sizeof target || !stays_below(path, text))
      return odd(path, "is a symbolic link to a place outside of the folder");
    tree_->links.emplace_back(path, std::move(text));
    return {};
  }

  const std::string root_;
  const Odd odd_;
  Tree* const tree_;
  std::vector<std::pair<dev_t, ino_t>> above_;  // the folders in which we are
};

}  // namespace

Result<Tree> walk(const std::string& path, Odd odd) {
  Tree tree;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return source_error(printable(path, 400), errno);
  if (S_ISDIR(status.st_mode)) {
    tree.root = path;
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd) return source_error(printable(path, 400), errno);
    DL_TRY(Walk(path, odd, &tree).folder(std::move(fd), ""));
  } else if (S_ISREG(status.st_mode)) {
    const size_t slash = path.rfind('/');
    tree.single = true;
    tree.root = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
    tree.manifest.entries.push_back(entry_of(path.substr(slash == std::string::npos ? 0 : slash + 1), status));
    if (::access(path.c_str(), R_OK) != 0) return source_error(printable(path, 400), errno);
  } else {
    return Error{Errc::kInvalid,
                 fmt::format("{} is {}; allowed: a file or a folder", printable(path, 400), kind_text(status.st_mode))};
  }
  DL_TRY(settle(&tree.manifest));
  return tree;
}

}  // namespace dl::data
