// SPDX-License-Identifier: Apache-2.0
// A disk in memory on which one fsync fails, after which, as with Linux, what it should have brought to the disk is
// gone.
#pragma once

#include <cerrno>
#include <climits>
#include <map>
#include <string>

#include "tests/unit/checkpoint_model_io.h"

namespace dl::ckpt::test {

// The fsync number `at`, of a file or of a directory, fails, and what was not yet durable of that file is lost.
class SickIo final : public ModelIo {
 public:
  SickIo(ModelState state, int at, int error) : ModelIo(std::move(state)), at_(at), error_(error) {}
  // Starts counting anew: the fsync number `at` from here on will fail.
  void arm(int at) {
    count_ = 0;
    at_ = at;
  }
  bool fired() const { return !failed_.empty(); }
  const std::string& failed() const { return failed_; }
  // True if a file whose fsync had failed was synced again.
  bool tried_again() const { return tried_again_; }

  int open(const std::string& path, int flags) override {
    const int fd = ModelIo::open(path, flags);
    if (fd >= 0) paths_[fd] = path;
    return fd;
  }
  int fsync(int fd) override {
    const std::string path = paths_[fd];
    tried_again_ |= path == failed_;
    if (count_++ != at_) return ModelIo::fsync(fd);
    failed_ = path;
    const std::string zeros(4096, '\0');
    ModelIo::pwrite(fd, zeros.data(), zeros.size(), 0);  // a page that never came to the disk
    return -error_;
  }
  int fsync_directory(const std::string& path) override {
    if (count_++ != at_) return ModelIo::fsync_directory(path);
    failed_ = path;
    return -error_;
  }

 private:
  int at_, error_, count_ = 0;
  bool tried_again_ = false;
  std::string failed_;
  std::map<int, std::string> paths_;
};

}  // namespace dl::ckpt::test
