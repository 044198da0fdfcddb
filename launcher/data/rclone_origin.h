// SPDX-License-Identifier: Apache-2.0
// A source that is a remote of the user's rclone configuration.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "launcher/data/origin.h"

namespace dl::data {

class RcloneOrigin : public Origin {
 public:
  explicit RcloneOrigin(std::string remote) : remote_(std::move(remote)) {}

  Result<Manifest> list() override;
  Status read(const Entry& entry, uint64_t offset, uint64_t count, const Take& take) override;
  uint64_t span() const override;
  unsigned streams() const override;
  uint64_t small() const override;
  bool has_many() const override { return true; }
  Status read_many(const Manifest& all, const std::vector<size_t>& entries, const std::string& folder,
                   const TakeFile& take) override;

 private:
  Status list_into(Manifest* manifest);
  // Whether the remote's path is that of a single file; the list then has `entry` alone.
  Result<bool> names_file(const Entry& entry);

  const std::string remote_;  // NAME:PATH
  bool asked_type_ = false, checksums_ = false;
  bool single_ = false;      // the path is that of a file
  size_t listed_small_ = 0;  // how many small files the whole remote has
};

}  // namespace dl::data
