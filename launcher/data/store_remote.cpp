// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "common/base/parse.h"
#include "common/base/unique_fd.h"
#include "common/remote/rclone.h"
#include "launcher/data/fault.h"
#include "launcher/data/store.h"
#include "launcher/data/write_all.h"

namespace dl::data {
namespace {

constexpr size_t kMostKept = 256 << 20;

// A file in /tmp with the names that rclone is given; removed with the object.
class NamesFile {
 public:
  static Result<NamesFile> make(const std::string& text) {
    NamesFile names;
    const char* folder = std::getenv("TMPDIR");
    names.path_ = std::string(folder != nullptr && *folder == '/' ? folder : "/tmp") + "/dl-data-XXXXXX";
    const UniqueFd fd(::mkostemp(names.path_.data(), O_CLOEXEC));
    if (!fd) return local_error("create " + names.path_, errno);
    DL_TRY(write_all(fd.get(), text, names.path_));
    return names;
  }
  NamesFile(NamesFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  NamesFile& operator=(NamesFile&&) = delete;
  ~NamesFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  const std::string& path() const { return path_; }

 private:
  NamesFile() = default;
  std::string path_;
};

// Ends a run of rclone at the deadline.
class RemoteStore {
 public:
  RemoteStore(const StoreOptions& options, Progress* progress) : options_(options), progress_(progress) {}

  Status run(std::vector<StoreTree>* trees) {
    for (StoreTree& tree : *trees) {
      leave_unreadable(&tree.tree);
      const std::atomic<bool> never{false};
      uint64_t best = 0;
      DL_TRY(try_again(
          options_.patience, never, [&] { return one(tree); },
          [&] { return std::exchange(best, std::max<uint64_t>(best, reached_)) < reached_; }));
      base_ += tree.tree.manifest.bytes();
      progress_->counts.bytes = base_;
      progress_->counts.files += tree.tree.manifest.files();
    }
    return {};
  }

 private:
  // rclone would fail for them after it has stored all others. Temporary files of programs that were still ending have
  // gone by now.
  static void leave_unreadable(Tree* tree) {
    std::vector<std::pair<std::string, const char*>> left;
    for (const Entry& entry : tree->manifest.entries)
      if (!entry.folder && ::access((tree->root + "/" + entry.path).c_str(), R_OK) != 0)
        left.emplace_back(entry.path, errno == EACCES || errno == EPERM ? kUnreadable : "");
    for (const auto& [path, why] : left) leave_out(path, why, tree);
  }

  Status one(const StoreTree& tree) {
    std::string names;
    for (const Entry& entry : tree.tree.manifest.entries)
      if (!entry.folder) names += entry.path + "\n";
    if (names.empty()) return {};
    DL_TRY_ASSIGN(const NamesFile list, NamesFile::make(names));
    const std::string to = below(options_.to, tree.folder.name);
    HelperRun run;
    run.argv = rclone_command("copy");
    run.argv.erase(std::remove(run.argv.begin(), run.argv.end(), "--use-server-modtime"), run.argv.end());
    // A log that a learner still writes is stored as far as it is then.
    run.argv.insert(run.argv.end(), {"--verbose", "--stats=1s", "--transfers=8", "--checkers=16",
                                     "--local-no-check-updated", "--files-from-raw", list.path(), tree.tree.root, to});
    std::atomic<bool> ended{false};
    run.stop = &ended;
    run.line = [&](std::string_view line) {
      if (is_late(options_)) ended = true;
      RcloneLine logged;
      if (!parse_logged(line, &logged) || logged.bytes == 0) return;
      reached_ = logged.bytes;
      progress_->counts.bytes = base_ + std::min(logged.bytes, tree.tree.manifest.bytes());
      progress_->counts.fetched = base_ + logged.bytes;
    };
    auto end = run_helper(run);
    if (is_late(options_) && (!end || end->status != 0)) return too_late(progress_->counts);
    if (!end) return no_rclone(std::move(end).error());
    if (end->status == 0) return {};
    return of_destination(rclone_error("store to " + to, *end));
  }

  const StoreOptions& options_;
  Progress* const progress_;
  uint64_t base_ = 0, reached_ = 0;
};

Result<HelperEnd> call(std::vector<std::string> argv, std::string* out) {
  HelperRun run;
  run.argv = std::move(argv);
  run.out = [&](std::string_view data) {
    if (out->size() < kMostKept) *out += data;
    return Status();
  };
  auto end = run_helper(run);
  if (!end) return no_rclone(std::move(end).error());
  return end;
}

}  // namespace

Status store_in_remote(const StoreOptions& options, std::vector<StoreTree>* trees, Progress* progress) {
  return RemoteStore(options, progress).run(trees);
}

Status drop_remote_manifest(const StoreOptions& options, const std::string& text) {
  const std::atomic<bool> never{false};
  const std::string place = below(options.to, kStoredManifest);
  return try_again(options.patience, never, [&]() -> Status {
    std::string old;
    std::vector<std::string> argv = rclone_command("cat");
    argv.push_back(place);
    DL_TRY_ASSIGN(const HelperEnd end, call(argv, &old));
    if (end.status != 0) {
      Error error = of_destination(rclone_error("look at " + place, end));
      // Nothing is there, or not even a bucket, which the upload makes.
      return error.code == Errc::kNotFound ? Status() : Status(std::move(error));
    }
    if (old == text || old.empty()) return {};
    argv = rclone_command("deletefile");
    argv.push_back(place);
    DL_TRY_ASSIGN(const HelperEnd gone, call(argv, &old));
    return gone.status == 0 ? Status() : Status(of_destination(rclone_error("remove " + place, gone)));
  });
}

Status write_remote_manifest(const StoreOptions& options, const std::string& text) {
  const std::atomic<bool> never{false};
  const std::string place = below(options.to, kStoredManifest);
  DL_TRY_ASSIGN(const NamesFile file, NamesFile::make(text));
  return try_again(options.patience, never, [&]() -> Status {
    std::string out;
    std::vector<std::string> argv = rclone_command("copyto");
    argv.insert(argv.end(), {file.path(), place});
    DL_TRY_ASSIGN(const HelperEnd end, call(argv, &out));
    return end.status == 0 ? Status() : Status(of_destination(rclone_error("store " + place, end)));
  });
}

}  // namespace dl::data
