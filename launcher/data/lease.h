// SPDX-License-Identifier: Apache-2.0
// Locks of the cache: leases on sets, and one fetcher for each set. A lock is a flock() of a file on a local disk, so
// that it ends with the process that holds it, however that ends. On parallel file systems flock() may succeed for all,
// and is not used.
#pragma once

#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace dl::data {

// Whether the file system of an existing path is one of this node alone, on which flock() can be trusted.
bool is_local(const std::string& path);

// The folder for the locks of the cache at `cache` (absolute): in it if that is local, else one of this user's own in
// /tmp. Makes it with mode 0700. kIo: it cannot be made, or is somebody else's.
Result<std::string> lock_folder(const std::string& cache);

// A held lock. Ends with the object or with the process. Not inherited by other programs. Who holds a lock alone may
// remove its file.
class Lock {
 public:
  enum class Kind { kShared, kAlone };
  Lock() = default;

  // Waits as long as somebody else holds it in a way that excludes ours. kIo.
  static Result<Lock> wait(const std::string& file, Kind kind);
  // Does not wait: a Lock that is false if somebody holds it.
  static Result<Lock> attempt(const std::string& file, Kind kind);
  explicit operator bool() const { return static_cast<bool>(fd_); }

 private:
  static Result<Lock> take(const std::string& file, int how);
  UniqueFd fd_;
};

}  // namespace dl::data
