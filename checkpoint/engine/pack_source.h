// SPDX-License-Identifier: Apache-2.0
// The memory of many small tensors that lie one after another in the file (format/packed_index.h) and are copied as one
// WriteItem. It takes a few dozen bytes for each tensor; an item of its own would take several hundred.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "checkpoint/device/device_memory.h"

namespace dl::ckpt {

struct WriteItem;

class PackSource {
 public:
  PackSource();
  ~PackSource();
  PackSource(const PackSource&) = delete;
  PackSource& operator=(const PackSource&) = delete;

  void reserve(size_t tensors) { pieces_.reserve(tensors); }
  // Adds the next tensor, of 1 to 65535 bytes. Returns the offset of its first byte: after the former tensor, aligned
  // to `element` bytes. `item` must be complete if the memory is not dense or lies on a device; otherwise only its data
  // and size are used.
  uint64_t add(const void* data, uint64_t bytes, uint64_t element);
  uint64_t add(WriteItem item);

  uint64_t bytes() const { return bytes_; }
  size_t count() const { return pieces_.size(); }
  const std::vector<std::unique_ptr<WriteItem>>& odd_items() const { return odd_; }

  // Copies the bytes [begin, begin + size) of the whole, with zeros in gaps. Otherwise as copy_item().
  Status copy(uint64_t begin, size_t size, unsigned char* to, DeviceCopies* copies) const;

 private:
  struct Piece {
    const void* data;  // the tensor's bytes; if it is not dense or on a device, a WriteItem in odd_
    uint64_t at : 47, odd : 1, bytes : 16;
    uint64_t end() const { return at + bytes; }
  };
  uint64_t place(uint64_t bytes, uint64_t element);

  std::vector<Piece> pieces_;  // sorted by place
  std::vector<std::unique_ptr<WriteItem>> odd_;
  uint64_t bytes_ = 0;
};

}  // namespace dl::ckpt
