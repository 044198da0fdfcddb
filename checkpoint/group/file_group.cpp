// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "checkpoint/format/hash.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/group/deadline.h"
#include "checkpoint/group/group.h"
#include "checkpoint/group/messages.h"
#include "checkpoint/store/directory.h"
#include "checkpoint/store/file.h"
#include "common/base/parse.h"

namespace dl::ckpt {
namespace {

constexpr uint64_t kMaxMessageBytes = kMaxManifestBytes;  // a rank's part of a manifest must fit
constexpr int kTries = 5;
constexpr double kSpacePatience_s = 5;
constexpr size_t kSecretBytes = 32;

class SingleGroup final : public Group {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void start() override {}
  void again() override {}
  Result<std::vector<std::string>> gather(std::string mine) override {
    std::vector<std::string> all;
    all.push_back(std::move(mine));
    return all;
  }
  Result<std::string> broadcast(std::string mine, double /*patience*/) override { return mine; }
};

// DIR/.run-HASH/
//   hello-R            a random number of rank R
//   welcome            session number, then the numbers of all ranks, separated by blanks
//   SESSION/up/N.R     message of rank R in the N-th exchange        SESSION/down/N   message of rank 0
//   SESSION/secret     random bytes; rank 0 gives SESSION mode 0700 before it puts anything into it
// An empty file says that there was no space for the message, which counts as a failure; it only needs an inode.
// Without it one rank would go on to its next train step while the others wait for its message.
class FileGroup final : public Group {
 public:
  FileGroup(Io& io, std::string dir, const std::string& run_id, int rank, int size, double timeout_s)
      : io_(io), root_(std::move(dir) + "/" + run_folder(run_id)), rank_(rank), size_(size), timeout_s_(timeout_s) {}

  ~FileGroup() override { leave(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void start() override {
    ++operation_;
    exchange_ = 0;
  }
  void again() override { exchange_ = 0; }

  Result<std::vector<std::string>> gather(std::string mine) override {
    DL_TRY(join());
    const std::string number = next_number();
    if (rank_ != 0) {
      auto sent = send(up_ + "/" + message_name(number, rank_), std::move(mine));
      if (!sent) return std::move(sent).error();
      return std::vector<std::string>();
    }
    std::vector<std::string> all(static_cast<size_t>(size_));
    all[0] = std::move(mine);
    std::vector<bool> here(static_cast<size_t>(size_), false);
    here[0] = true;
    int missing = size_ - 1, failures = 0;
    Deadline deadline(timeout_s_);
    Pause pause;
    while (missing > 0) {
      DL_TRY_ASSIGN(const std::vector<std::string> entries, look(up_, &failures));
      for (const std::string& entry : entries) {
        const int from = sender(entry, number);
        if (from < 1 || from >= size_ || here[static_cast<size_t>(from)]) continue;
        DL_TRY_ASSIGN(all[static_cast<size_t>(from)], receive(up_ + "/" + entry));
        io_.unlink(up_ + "/" + entry);
        here[static_cast<size_t>(from)] = true;
        --missing;
      }
      if (missing == 0) break;
      if (deadline.passed()) return missing_ranks(here);
      pause.wait();
    }
    // A rank that has answered has read all former broadcasts.
    for (const std::string& path : said_) io_.unlink(path);
    said_.clear();
    return all;
  }

  Result<std::string> broadcast(std::string mine, double patience) override {
    DL_TRY(join());
    const std::string number = next_number();
    const std::string path = down_ + "/" + number;
    if (rank_ == 0) {
      DL_TRY_ASSIGN(std::string said, send(path, std::move(mine)));
      said_.push_back(path);
      return said;
    }
    Deadline deadline(timeout_s_ * patience);
    Pause pause;
    int failures = 0;
    for (;;) {
      DL_TRY_ASSIGN(const std::vector<std::string> entries, look(down_, &failures));
      if (std::find(entries.begin(), entries.end(), number) != entries.end()) return receive(path);
      if (deadline.passed())
        return Error{Errc::kTimeout, "rank 0 did not answer within the timeout of " + seconds_text() + " s"};
      pause.wait();
    }
  }

  Result<std::string> secret() override {
    DL_TRY(join());
    const std::string path = root_ + "/" + session_ + "/secret";
    auto text = read_small_file(io_, path, kSecretBytes);
    if (!text || text->size() != kSecretBytes) return Error{Errc::kUnsupported, path + " is missing or incomplete"};
    return text;
  }

 private:
  // "OPERATION-EXCHANGE"
  std::string next_number() { return std::to_string(operation_) + "-" + std::to_string(exchange_++); }
  static std::string message_name(const std::string& number, int rank) { return number + "." + std::to_string(rank); }
  // The rank whose message in exchange `number` the file `entry` holds, or -1.
  static int sender(const std::string& entry, const std::string& number) {
    const std::string prefix = number + ".";
    if (entry.compare(0, prefix.size(), prefix) != 0) return -1;
    const auto rank = parse_int(std::string_view(entry).substr(prefix.size()), 0, kMaxRanks);
    return rank ? static_cast<int>(*rank) : -1;
  }
  std::string seconds_text() const { return std::to_string(static_cast<int64_t>(timeout_s_)); }

  Error missing_ranks(const std::vector<bool>& here) const {
    std::string names;
    int count = 0;
    for (size_t r = 0; r < here.size(); ++r) {
      if (here[r]) continue;
      if (++count <= 8) names += (count > 1 ? ", " : "") + std::to_string(r);
    }
    if (count > 8) names += " and " + std::to_string(count - 8) + " more";
    return Error{Errc::kTimeout, "waited " + seconds_text() + " s for rank " + names + " of " + std::to_string(size_)};
  }

  // Writes a whole file at once. Messages need not be durable, so a failed write is tried again. If the disk is full,
  // it is tried for a while, because the attempt that filled the disk is being removed.
  Status write(const std::string& path, const std::string& text) {
    Deadline deadline(std::min(timeout_s_, kSpacePatience_s));
    Pause pause;
    for (int tries = 1;; ++tries) {
      auto written = replace_file(io_, path, root_ + "/new-" + std::to_string(rank_), text, /*durable=*/false);
      if (written) return written;
      const Errc code = written.error().code;
      if (code == Errc::kNotFound || deadline.passed() || (code != Errc::kNoSpace && tries >= kTries)) return written;
      pause.wait();
    }
  }

  // Returns what the other ranks will read: no_space() if the disk stays full.
  Result<std::string> send(const std::string& path, std::string text) {
    auto written = write(path, text);
    if (written) return text;
    if (written.error().code != Errc::kNoSpace) return std::move(written).error();
    const int fd = io_.open(path, O_WRONLY | O_CREAT | O_EXCL);
    if (fd < 0) return std::move(written).error();
    io_.close(fd);
    return no_space();
  }
  static std::string no_space() {
    return say_error(Error{Errc::kNoSpace, "the disk of the checkpoint directory is full"});
  }

  // Lists a directory for a caller that looks again later: a listing that fails counts as empty, unless it fails
  // several times in a row.
  Result<std::vector<std::string>> look(const std::string& path, int* failures) {
    auto entries = list_directory(io_, path);
    if (entries) {
      *failures = 0;
      return entries;
    }
    if (++*failures >= kTries) return entries;
    return std::vector<std::string>();
  }

  Result<std::string> receive(const std::string& path) {
    for (int tries = 1;; ++tries) {
      auto text = read_small_file(io_, path, kMaxMessageBytes);
      if (text && text->empty()) return no_space();
      if (text || tries >= kTries) return text;
    }
  }

  Status make_directory(const std::string& path) {
    const int rc = io_.mkdir(path);
    if (rc < 0 && rc != -EEXIST) return io_error("make", path, rc);
    return {};
  }

  Status join() {
    if (joined_) return {};
    hello_ = format_save_id(random_u64());
    auto outcome = rank_ == 0 ? welcome_all() : await_welcome();
    if (!outcome) return std::move(outcome).error().with_context("meet the other ranks in " + root_);
    const std::string session = root_ + "/" + session_;
    up_ = session + "/up";
    down_ = session + "/down";
    joined_ = true;
    return {};
  }

  Status welcome_all() {
    // Entries that are here now belong to an earlier run. They may also be a hello of this run: that rank notices that
    // it is gone, and writes another.
    DL_TRY(make_directory(root_));
    DL_TRY_ASSIGN(const std::vector<std::string> old, list_directory(io_, root_));
    for (const std::string& entry : old) {
      const std::string path = root_ + "/" + entry;
      const int rc = io_.unlink(path);
      if (rc == -EISDIR || rc == -EPERM) DL_TRY(remove_tree(io_, path, 3));
    }
    session_ = hello_;
    const std::string session = root_ + "/" + session_;
    DL_TRY(make_directory(session));
    const bool closed = io_.chmod(session, 0700) == 0;
    for (const char* part : {"/up", "/down"}) DL_TRY(make_directory(session + part));
    if (closed) ignore(keep_secret(session + "/secret"), "then there is none");
    DL_TRY(write(root_ + "/hello-0", hello_));
    std::vector<std::string> hellos(static_cast<size_t>(size_));
    hellos[0] = hello_;
    Deadline deadline(timeout_s_);
    Pause pause;
    int missing = size_ - 1, failures = 0;
    while (missing > 0) {
      DL_TRY_ASSIGN(const std::vector<std::string> entries, look(root_, &failures));
      for (const std::string& entry : entries) {
        if (entry.compare(0, 6, "hello-") != 0) continue;
        const auto from = parse_int(std::string_view(entry).substr(6), 1, size_ - 1);
        if (!from || !hellos[static_cast<size_t>(*from)].empty()) continue;
        auto text = read_small_file(io_, root_ + "/" + entry, 64);
        if (!text || !parse_save_id(*text)) continue;  // is read again in the next round
        hellos[static_cast<size_t>(*from)] = *std::move(text);
        --missing;
      }
      if (missing == 0) break;
      if (deadline.passed()) {
        std::vector<bool> here;
        here.reserve(hellos.size());
        for (const std::string& hello : hellos) here.push_back(!hello.empty());
        return missing_ranks(here);
      }
      pause.wait();
    }
    std::string text = session_;
    for (const std::string& hello : hellos) text += " " + hello;
    return write(root_ + "/welcome", text);
  }

  Status keep_secret(const std::string& path) {
    std::string bytes;
    for (size_t i = 0; i < kSecretBytes; i += 8) {
      unsigned char part[8];
      put_u64(part, random_u64());
      bytes.append(reinterpret_cast<const char*>(part), sizeof part);
    }
    DL_TRY(write_new_file(io_, path, "", /*durable=*/false));
    const int rc = io_.chmod(path, 0600);
    if (rc < 0) return io_error("chmod", path, rc);
    DL_TRY_ASSIGN(File file, File::open(io_, path, O_WRONLY));
    DL_TRY(file.write_all(bytes.data(), bytes.size(), 0));
    return file.close();
  }

  Status await_welcome() {
    const std::string hello = "hello-" + std::to_string(rank_);
    Deadline deadline(timeout_s_);
    Pause pause;
    for (;;) {
      auto entries = list_directory(io_, root_);
      const auto has = [&](const std::string& name) {
        return entries && std::find(entries->begin(), entries->end(), name) != entries->end();
      };
      if (!said_hello_ || !has(hello)) {
        // Rank 0 may remove the folder at this moment; then it is created again in the next round.
        io_.mkdir(root_);
        auto sent = write(root_ + "/" + hello, hello_);
        if (!sent && sent.error().code != Errc::kNotFound) return sent;
        said_hello_ = static_cast<bool>(sent);
      } else if (has("welcome")) {
        auto text = read_small_file(io_, root_ + "/welcome", kMaxMessageBytes);
        if (text) {
          const auto words = split(*text, ' ');
          if (words.size() == static_cast<size_t>(size_) + 1 && words[static_cast<size_t>(rank_) + 1] == hello_ &&
              parse_save_id(words[0])) {
            session_ = words[0];
            return {};
          }
        }
      }
      if (deadline.passed())
        return Error{Errc::kTimeout, "rank 0 did not come within " + seconds_text() +
                                         " s (do all ranks see the same directory, and have the same run id?)"};
      pause.wait();
    }
  }

  // The last rank to leave removes the folder.
  void leave() {
    if (!joined_ && !said_hello_) return;
    if (pid_ != ::getpid()) return;  // a forked child closes its copy of the object, but the rank still exists
    io_.unlink(root_ + "/hello-" + std::to_string(rank_));
    auto entries = list_directory(io_, root_);
    if (!entries) return;
    for (const std::string& entry : *entries)
      if (entry.compare(0, 6, "hello-") == 0) return;
    ignore(remove_tree(io_, root_, 4), "the next run removes it");
  }

  Io& io_;
  std::string root_, up_, down_, hello_, session_;
  int rank_, size_;
  double timeout_s_;
  pid_t pid_ = ::getpid();
  bool joined_ = false, said_hello_ = false;
  uint64_t operation_ = 0, exchange_ = 0;
  std::vector<std::string> said_;  // rank 0: broadcasts that some ranks may not have read yet
};

}  // namespace

// A run id "ID\nNAME" stands for a second group of the run ID. Its folder's name begins with that of the first group,
// so that collect_garbage() recognises it as belonging to the same run.
std::string run_folder(const std::string& run_id) {
  const size_t line = run_id.find('\n');
  if (line != std::string::npos) return run_folder(run_id.substr(0, line)) + "-" + run_id.substr(line + 1);
  return kRunPrefix + to_hex(hash_bytes(run_id.data(), run_id.size())).substr(0, 16);
}

std::unique_ptr<Group> make_single_group() {
  return std::make_unique<SingleGroup>();
}

std::unique_ptr<Group> make_file_group(Io& io, std::string dir, std::string run_id, int rank, int size,
                                       double timeout_s) {
  return std::make_unique<FileGroup>(io, std::move(dir), run_id, rank, size, timeout_s);
}

}  // namespace dl::ckpt
