// SPDX-License-Identifier: Apache-2.0
// The client of object stores: a folder of any remote that the user's rclone knows, such as a bucket of S3. rclone does
// all of it, one process for each call, with the user's own configuration: no credential is ever read, passed or logged
// here. Debian's rclone 1.60 suffices.
//
// In remotes that are no object stores (SFTP, a file system) a file appears while it is written. A manifest is
// therefore put under another name first, and renamed; a data file of which a kill leaves a part has another size,
// which the commit and the fetch notice.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/levels/object_level.h"
#include "common/base/result.h"

namespace dl::ckpt {

class RcloneObjects : public ObjectLevel {
 public:
  // place: "NAME:PATH", as check_objects_place() allows it. Asks no server. kNotFound: the remote is not configured;
  // kDenied: its configuration can be read by others; kUnsupported: there is no rclone. SIGPIPE must be ignored. All
  // calls block; a server that says nothing ends one after 300 s.
  static Result<std::unique_ptr<RcloneObjects>> open(const std::string& place);

  Status put(const std::string& key, uint64_t size, const NextPiece& next) override;
  Status read(const std::string& key, uint64_t at, uint64_t size, const TakePiece& take) override;
  Result<std::vector<Object>> list(const std::string& folder) override;
  Status erase(const std::string& key) override;
  Status erase_folder(const std::string& folder) override;

 private:
  explicit RcloneObjects(std::string root) : root_(std::move(root)) {}
  std::string place(const std::string& key) const;
  Status put_at(const std::string& place, uint64_t size, const NextPiece& next);

  const std::string root_;
};

}  // namespace dl::ckpt
