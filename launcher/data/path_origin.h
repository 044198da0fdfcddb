// SPDX-License-Identifier: Apache-2.0
// A source that is a path of a mounted file system.
#pragma once

#include <string>
#include <string_view>

#include "common/base/unique_fd.h"
#include "launcher/data/origin.h"

namespace dl::data {

class PathOrigin : public Origin {
 public:
  explicit PathOrigin(std::string path) : path_(std::move(path)) {}

  Result<Manifest> list() override;
  Status read(const Entry& entry, uint64_t offset, uint64_t count, const Take& take) override;
  uint64_t span() const override;
  unsigned streams() const override;
  uint64_t small() const override;

 private:
  // Opens the file. kConflict if it is not what the entry says.
  Result<UniqueFd> open(const Entry& entry) const;
  Status unchanged(int fd, const Entry& entry) const;
  std::string place(const Entry& entry) const;

  const std::string path_;
  std::string root_;  // the folder below which the paths of the manifest are
  UniqueFd root_fd_;
};

// kNotFound or kDenied unless the path is there, and a file that can be read, or a folder that can be listed.
Status check_readable(const std::string& path);

}  // namespace dl::data
