// SPDX-License-Identifier: Apache-2.0
// Where the bytes of a source come from: a path, a remote of the user's rclone configuration, or a web server.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/contract/data_request.h"
#include "launcher/data/manifest.h"

namespace dl::data {

// Errors of all functions: kNotFound, kDenied, kInvalid: the user's; kConflict: the source is not (any more) what the
// manifest says; kBusy, kTimeout: may pass. Their texts hold no secret.
class Origin {
 public:
  // Receives bytes in order. An error ends the transfer, and is its result.
  using Take = std::function<Status(std::string_view)>;
  // Receives one file that lies complete at `path`, which is then the receiver's.
  using TakeFile = std::function<Status(size_t entry, const std::string& path)>;

  Origin() = default;
  Origin(const Origin&) = delete;
  Origin& operator=(const Origin&) = delete;
  virtual ~Origin() = default;

  virtual Result<Manifest> list() = 0;
  // Reads a part of a file; the file is not changed between its beginning and its end, as far as the server tells.
  virtual Status read(const Entry& entry, uint64_t offset, uint64_t count, const Take& take) = 0;
  // The most bytes that one call of read() should be asked for: starting one may take long.
  virtual uint64_t span() const = 0;
  // How many calls of read() should run at once.
  virtual unsigned streams() const = 0;
  // Files up to this size are read whole.
  virtual uint64_t small() const = 0;
  // Whether small files come by read_many() in place of read(): from a program that is better started once for all.
  virtual bool has_many() const { return false; }
  // Fetches these entries of `all` into `folder`. May have passed on some of them when it fails.
  virtual Status read_many(const Manifest& /*all*/, const std::vector<size_t>& /*entries*/,
                           const std::string& /*folder*/, const TakeFile& /*take*/) {
    return Error{Errc::kInternal, "this kind of source reads files one by one"};
  }

  // Ends all transfers soon; set by another thread.
  std::atomic<bool> stop{false};
};

// Precondition: place_of(source.from) is not kCatalogue.
std::unique_ptr<Origin> open_origin(const Source& source);

// Checks what can be checked at once: a path is there and can be read, a remote is in the user's configuration of
// rclone and that is not readable for others, a web server has the file. The errors of an Origin.
Status check_origin(const Source& source);

}  // namespace dl::data
