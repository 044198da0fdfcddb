// SPDX-License-Identifier: Apache-2.0
// The HDF5 calls that the library needs, each with its errors checked and its identifiers owned. No other file of it
// calls H5* functions, except the memory driver below it (h5_memory.cpp).
#pragma once

#include <hdf5.h>

#include <string>
#include <utility>

#include "checkpoint/format/box.h"
#include "checkpoint/format/dtype.h"
#include "common/base/result.h"

namespace dl::ckpt::h5 {

// An owned identifier, which is closed by the function for its kind. The destructor ignores a failed close: where it
// matters (files), call close().
class Id {
 public:
  using Closer = herr_t (*)(hid_t);
  Id() = default;
  Id(hid_t id, Closer closer) noexcept : id_(id), closer_(closer) {}
  Id(Id&& other) noexcept : id_(std::exchange(other.id_, -1)), closer_(other.closer_) {}
  Id& operator=(Id&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(closer_, other.closer_);
    return *this;
  }
  Id(const Id&) = delete;
  Id& operator=(const Id&) = delete;
  ~Id() { close(); }
  hid_t get() const noexcept { return id_; }
  herr_t close() noexcept { return id_ >= 0 ? closer_(std::exchange(id_, -1)) : 0; }

 private:
  hid_t id_ = -1;
  Closer closer_ = nullptr;
};

// While an object of this class lives, HDF5 prints nothing on this thread (by default it prints a trace on stderr).
class Quiet {
 public:
  Quiet();
  ~Quiet();
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
};

// kInternal: "HDF5: WHAT: " and the innermost message of HDF5's error stack.
Error last_error(const std::string& what);

// Property lists. Access: format of HDF5 1.8 (checksummed metadata, readable by every HDF5 since 2008, and no "file is
// open" mark that needs h5clear), large data aligned to 4096. Creation: a user block. Dataset: contiguous, space
// reserved at once, never filled. Link: missing groups are created.
Result<Id> file_access(size_t dataset_count);
Result<Id> file_creation(uint64_t user_block_bytes);
Result<Id> dataset_creation();
Result<Id> link_creation();

// A file that create_file() made and close_file() finished, to add datasets to it.
Result<Id> open_file(const std::string& name, const Id& access);
Result<Id> create_file(const std::string& name, const Id& creation, const Id& access);
// The stored type of a dtype: little-endian; bf16 as a custom float, bool and fp8 as uint8, complex as {r, i}.
Result<Id> stored_type(const DtypeInfo& dtype);
// {offset u64, length u64, xxh3_128 u8[16]}
Result<Id> table_row_type();
Result<Id> create_dataset(const Id& file, const std::string& path, const Id& type, const Dims& extent, const Id& link,
                          const Id& creation);
// Creates an external link: `path` stands for the object with the same path in `target`, a file in the same directory.
Status create_external_link(const Id& file, const std::string& path, const std::string& target, const Id& link);
// The place of a dataset's data in the file, counted from the file's first byte; 0 if it has none.
Result<uint64_t> data_offset(const Id& dataset, bool empty);

Status set_attribute(const Id& object, const char* name, const std::string& text);
Status set_attribute(const Id& object, const char* name, const Dims& values);
Status set_attribute(const Id& object, const char* name, uint64_t value);
Result<uint64_t> file_size(const Id& file);
Status close_file(Id* file);

}  // namespace dl::ckpt::h5
