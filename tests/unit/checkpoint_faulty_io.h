// SPDX-License-Identifier: Apache-2.0
// A double of store/io.h that fails on purpose. It counts operations and makes one of them fail, or one and all after
// it: the latter leaves what a process leaves that is killed at that moment.
#pragma once

#include <cerrno>
#include <mutex>
#include <string>

#include "checkpoint/store/io.h"

namespace dl::ckpt::test {

class FaultyIo : public Io {
 public:
  enum Mode {
    kErrno,      // operation number `at` fails with `error`, and does nothing
    kShort,      // transfers number `at` and later move at most 1 byte more than half of what was asked, once
    kDead,       // operations number `at` and later fail with EIO, and do nothing
    kLateErrno,  // operation number `at` is done, and then reported as failed with `error`
  };
  // `io` is borrowed.
  FaultyIo(Mode mode, int at, int error = EIO, Io& io = posix_io()) : io_(io), mode_(mode), at_(at), error_(error) {}
  // Operations seen so far.
  int count() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return count_;
  }
  bool fired() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return fired_;
  }
  // Nothing fails any more.
  void heal() {
    const std::lock_guard<std::mutex> lock(mutex_);
    at_ = INT32_MAX;
  }
  // Starts counting anew: operation number `at` from here on will fail.
  void arm(int at) {
    const std::lock_guard<std::mutex> lock(mutex_);
    count_ = 0;
    at_ = at;
  }
  const std::string& what() const { return what_; }

  int open(const std::string& path, int flags) override {
    return run(
        "open " + path, [&] { return io_.open(path, flags); }, [&](int fd) { io_.close(fd); });
  }
  int close(int fd) override {
    // The descriptor is gone in any case, as with the system call.
    const int rc = io_.close(fd);
    return run("close", [&] { return rc; });
  }
  int64_t pread(int fd, void* buffer, size_t size, uint64_t at) override {
    return run("pread", [&] { return io_.pread(fd, buffer, shortened(size), at); });
  }
  int64_t pwrite(int fd, const void* buffer, size_t size, uint64_t at) override {
    return run("pwrite", [&] { return io_.pwrite(fd, buffer, shortened(size), at); });
  }
  int fsync(int fd) override {
    return run("fsync", [&] { return io_.fsync(fd); });
  }
  int fallocate(int fd, uint64_t size) override {
    return run("fallocate", [&] { return io_.fallocate(fd, size); });
  }
  int ftruncate(int fd, uint64_t size) override {
    return run("ftruncate", [&] { return io_.ftruncate(fd, size); });
  }
  int stat(const std::string& path, Info* info) override {
    return run("stat " + path, [&] { return io_.stat(path, info); });
  }
  int mkdir(const std::string& path) override {
    return run("mkdir " + path, [&] { return io_.mkdir(path); });
  }
  int rmdir(const std::string& path) override {
    return run("rmdir " + path, [&] { return io_.rmdir(path); });
  }
  int unlink(const std::string& path) override {
    return run("unlink " + path, [&] { return io_.unlink(path); });
  }
  int rename(const std::string& from, const std::string& to) override {
    return run("rename " + from + " " + to, [&] { return io_.rename(from, to); });
  }
  int link(const std::string& from, const std::string& to) override {
    return run("link " + from + " " + to, [&] { return io_.link(from, to); });
  }
  int list(const std::string& path, std::vector<std::string>* names) override {
    return run("list " + path, [&] { return io_.list(path, names); });
  }
  int fsync_directory(const std::string& path) override {
    return run("fsync " + path, [&] { return io_.fsync_directory(path); });
  }

 private:
  template <typename Call>
  auto run(const std::string& what, Call&& call) -> decltype(call()) {
    return run(what, call, [](auto) {});
  }
  template <typename Call, typename Undo>
  auto run(const std::string& what, Call&& call, Undo&& undo) -> decltype(call()) {
    const bool hit = counts_as_hit(what);
    if (!hit || mode_ == kShort) return call();
    if (mode_ == kLateErrno) {
      const auto rc = call();
      if (rc >= 0) undo(rc);
      return -error_;
    }
    return mode_ == kDead ? -EIO : -error_;
  }
  // Of the next operation. Removals in the background run beside the test.
  bool counts_as_hit(const std::string& what) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const int number = count_++;
    now_ = number == at_ && mode_ == kShort;
    const bool hit = number == at_ || (mode_ == kDead && number > at_);
    if (hit && !fired_) {
      fired_ = true;
      what_ = what;
    }
    return hit;
  }
  size_t shortened(size_t size) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!now_ || size < 2) return size;
    now_ = false;
    return size / 2 + 1;
  }

  Io& io_;
  mutable std::mutex mutex_;
  Mode mode_;
  int at_, error_, count_ = 0;
  bool fired_ = false, now_ = false;
  std::string what_;
};

// Every way in which one operation may go wrong.
struct Fault {
  const char* name;
  FaultyIo::Mode mode;
  int error;
};
constexpr Fault kFaults[] = {{"EIO", FaultyIo::kErrno, EIO},
                             {"ENOSPC", FaultyIo::kErrno, ENOSPC},
                             {"EDQUOT", FaultyIo::kErrno, EDQUOT},
                             {"EINTR", FaultyIo::kErrno, EINTR},
                             {"ESTALE", FaultyIo::kErrno, ESTALE},
                             {"short", FaultyIo::kShort, 0},
                             {"EIO_after_it_was_done", FaultyIo::kLateErrno, EIO},
                             {"killed", FaultyIo::kDead, 0}};

// A file system without hard links and without reservation of space, as some network file systems are.
class PlainIo final : public FaultyIo {
 public:
  PlainIo() : FaultyIo(kErrno, INT32_MAX) {}
  int fallocate(int /*fd*/, uint64_t /*size*/) override { return -EOPNOTSUPP; }
  int link(const std::string& /*from*/, const std::string& /*to*/) override { return -EPERM; }
};

}  // namespace dl::ckpt::test
