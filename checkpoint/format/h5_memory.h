// SPDX-License-Identifier: Apache-2.0
// A sparse file in memory, in which libhdf5 lays out a data file. So HDF5 never uses a disk: it cannot meet a full one
// (HDF5 1.10 crashes the process after ENOSPC), and all our file access goes through store/io.h. Only the pages that
// HDF5 writes (metadata) take memory; space for data is reserved and stays a hole, however large.
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "common/base/result.h"

namespace dl::ckpt {

class SparseImage {
 public:
  SparseImage() = default;
  SparseImage(SparseImage&&) = default;
  SparseImage& operator=(SparseImage&&) = default;
  // Holes read as zeros.
  void read(uint64_t at, void* out, size_t size) const;
  void write(uint64_t at, const void* in, size_t size);
  uint64_t size() const { return size_; }
  // A copy that shares the pages with this image until one of the two writes to them. One thread may read an image
  // while another one writes to its clone.
  SparseImage clone() const;
  void set_size(uint64_t size) { size_ = size; }

 private:
  static constexpr uint64_t kPage = 4096;
  using Page = std::shared_ptr<unsigned char[]>;
  static Page new_page();
  std::unordered_map<uint64_t, Page> pages_;
  uint64_t size_ = 0;
};

// Registers the HDF5 file driver that works on a SparseImage, and makes `fapl` use it. The image and this object must
// outlive every HDF5 file opened with that property list.
class MemoryDriver {
 public:
  MemoryDriver() = default;
  MemoryDriver(const MemoryDriver&) = delete;
  MemoryDriver& operator=(const MemoryDriver&) = delete;
  ~MemoryDriver();
  Status attach(hid_t fapl, SparseImage* image);

 private:
  hid_t driver_ = -1;
};

}  // namespace dl::ckpt
