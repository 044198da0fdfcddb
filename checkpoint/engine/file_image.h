// SPDX-License-Identifier: Apache-2.0
// One data file as a sequence of segments. All bytes of the file are known before the first one is written, from the
// laid-out image (metadata) and from the tensors, except the block table and the user block, which depend on the
// checksums of the rest. The pages with these two (the late pages) are left out of the segments and written last.
//
// A segment is filled in two steps; the training loop waits only for the first:
//   copy_items()      the tensors' bytes; by any thread, in any order
//   finish_segment()  metadata in between, and the checksums of blocks; by one thread, in order
// Checksums are computed from staging memory afterwards, since computing them while copying halves the copying rate
// (measured: 3.9 instead of 8 GB/s where memcpy alone does 7.5).
#pragma once

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "checkpoint/engine/staging.h"
#include "checkpoint/engine/write_item.h"
#include "checkpoint/format/manifest.h"

namespace dl::ckpt {

class FileImage {
 public:
  // The layout must consist of exactly these items, in this order. segment_bytes is a multiple of 4096.
  FileImage(Layout layout, std::vector<WriteItem> items, uint32_t part, uint64_t segment_bytes);

  uint32_t part() const { return part_; }
  uint64_t file_size() const { return layout_.file_size; }
  uint64_t padded_size() const { return round_up(layout_.file_size, kDirectAlignment); }
  uint64_t segments() const { return (padded_size() + segment_bytes_ - 1) / segment_bytes_; }
  uint64_t segment_at(uint64_t segment) const { return segment * segment_bytes_; }
  uint64_t segment_size(uint64_t segment) const {
    return std::min(segment_bytes_, padded_size() - segment_at(segment));
  }

  // Returns when all copies have arrived; after an error, when the copies that were begun have arrived.
  Status copy_items(uint64_t segment, unsigned char* buffer, DeviceCopies* copies) const;
  void finish_segment(uint64_t segment, unsigned char* buffer);

  // The parts of a segment that are written from its buffer: all except the late pages.
  std::vector<Extent> early_ranges(uint64_t segment) const;

  // After the last segment: the record for the manifest, and the late pages, which are to be written in this order.
  struct LatePages {
    const unsigned char* data;
    uint64_t size, at;
  };
  FileRecord seal(const FileIdentity& identity);
  std::vector<LatePages> late_pages() const;

  const std::vector<WriteItem>& items() const { return items_; }
  const std::vector<uint64_t>& places() const { return layout_.at; }
  // After seal(): the checksum of an item that has blocks of its own, whatever its place; zero for smaller items.
  Hash128 item_hash(size_t item) const;

 private:
  struct Placed {
    uint64_t at, bytes;
    size_t item;
    uint64_t end() const { return at + bytes; }
  };
  size_t first_placed_behind(uint64_t at) const;
  void hash_segment(uint64_t begin, uint64_t end, const unsigned char* buffer);
  void keep_late_bytes(uint64_t begin, uint64_t end, const unsigned char* buffer);

  Layout layout_;
  std::vector<WriteItem> items_;
  uint32_t part_;
  uint64_t segment_bytes_;
  std::vector<Placed> placed_;  // sorted by place
  std::unique_ptr<Hasher> hasher_;
  size_t next_block_ = 0;
  Extent table_pages_;
  struct Freer {
    void operator()(unsigned char* memory) const { ::free(memory); }
  };
  std::unique_ptr<unsigned char, Freer> late_;  // the user block, then the table's pages
};

}  // namespace dl::ckpt
