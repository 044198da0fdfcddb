// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/engine/file_image.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "checkpoint/engine/copy.h"
#include "checkpoint/format/user_block.h"

namespace dl::ckpt {
namespace {

// The part of [begin, end) that lies in an extent; length 0 if there is none.
Extent common(uint64_t begin, uint64_t end, const Extent& extent) {
  const uint64_t from = std::max(begin, extent.at), to = std::min(end, extent.end());
  return from < to ? Extent{from, to - from} : Extent{};
}

}  // namespace

FileImage::FileImage(Layout layout, std::vector<WriteItem> items, uint32_t part, uint64_t segment_bytes)
    : layout_(std::move(layout)),
      items_(std::move(items)),
      part_(part),
      segment_bytes_(segment_bytes),
      hasher_(std::make_unique<Hasher>()) {
  placed_.reserve(items_.size());
  for (size_t i = 0; i < items_.size(); ++i) {
    const uint64_t bytes = items_[i].bytes();
    if (bytes > 0) placed_.push_back(Placed{layout_.at[i], bytes, i});
  }
  std::sort(placed_.begin(), placed_.end(), [](const Placed& a, const Placed& b) { return a.at < b.at; });
  const uint64_t from = layout_.table.at / kDirectAlignment * kDirectAlignment;
  table_pages_ = Extent{from, round_up(layout_.table.end(), kDirectAlignment) - from};
  const uint64_t bytes = kUserBlockBytes + table_pages_.length;
  late_.reset(static_cast<unsigned char*>(std::aligned_alloc(kDirectAlignment, bytes)));
  if (!late_) throw std::bad_alloc();
  std::memset(late_.get(), 0, bytes);
}

// The first item that ends behind `at`.
size_t FileImage::first_placed_behind(uint64_t at) const {
  const auto found = std::upper_bound(placed_.begin(), placed_.end(), at,
                                      [](uint64_t value, const Placed& placed) { return value < placed.end(); });
  return static_cast<size_t>(found - placed_.begin());
}

Status FileImage::copy_items(uint64_t segment, unsigned char* buffer, DeviceCopies* copies) const {
  const uint64_t begin = segment_at(segment), end = begin + segment_size(segment);
  Status status;
  for (size_t i = first_placed_behind(begin); status && i < placed_.size() && placed_[i].at < end; ++i) {
    const Placed& placed = placed_[i];
    const uint64_t from = std::max(begin, placed.at), to = std::min(end, placed.end());
    status = copy_item(items_[placed.item], from - placed.at, to - from, buffer + (from - begin), copies);
    // For packed tensors the message already names the one that failed.
    if (!status && !items_[placed.item].pack)
      status = std::move(status).error().with_context("tensor '" + items_[placed.item].dataset->path + "'");
  }
  Status waited = copies->wait();
  return status ? waited : status;
}

void FileImage::finish_segment(uint64_t segment, unsigned char* buffer) {
  const uint64_t begin = segment_at(segment), end = begin + segment_size(segment);
  uint64_t at = begin;
  for (size_t i = first_placed_behind(begin); i < placed_.size() && placed_[i].at < end; ++i) {
    if (placed_[i].at > at) layout_.read_image(at, buffer + (at - begin), placed_[i].at - at);
    at = std::max(at, placed_[i].end());
  }
  if (at < end) layout_.read_image(at, buffer + (at - begin), end - at);
  hash_segment(begin, end, buffer);
  keep_late_bytes(begin, end, buffer);
}

void FileImage::hash_segment(uint64_t begin, uint64_t end, const unsigned char* buffer) {
  for (; next_block_ < layout_.blocks.size() && layout_.blocks[next_block_].at < end; ++next_block_) {
    Block& block = layout_.blocks[next_block_];
    const Extent here = common(begin, end, Extent{block.at, block.length});
    const unsigned char* bytes = buffer + (here.at - begin);
    if (here.length == block.length) {
      block.hash = hash_bytes(bytes, block.length);
      continue;
    }
    if (here.at == block.at) hasher_->reset();
    hasher_->update(bytes, here.length);
    if (here.end() < block.end()) return;  // the block continues in the next segment
    block.hash = hasher_->digest();
  }
}

void FileImage::keep_late_bytes(uint64_t begin, uint64_t end, const unsigned char* buffer) {
  const Extent here = common(begin, end, table_pages_);
  if (here.length > 0)
    std::memcpy(late_.get() + kUserBlockBytes + (here.at - table_pages_.at), buffer + (here.at - begin), here.length);
}

std::vector<Extent> FileImage::early_ranges(uint64_t segment) const {
  const uint64_t begin = segment_at(segment), end = begin + segment_size(segment);
  std::vector<Extent> ranges;
  uint64_t at = begin;
  for (const Extent& late : {Extent{0, kUserBlockBytes}, table_pages_}) {
    const Extent here = common(begin, end, late);
    if (here.length == 0) continue;
    if (here.at > at) ranges.push_back(Extent{at, here.at - at});
    at = here.end();
  }
  if (at < end) ranges.push_back(Extent{at, end - at});
  return ranges;
}

FileRecord FileImage::seal(const FileIdentity& identity) {
  const std::string table = encode_table(layout_.blocks);
  std::memcpy(late_.get() + kUserBlockBytes + (layout_.table.at - table_pages_.at), table.data(), table.size());
  FileRecord record;
  record.writer = identity.writer;
  record.part = part_;
  record.size = layout_.file_size;
  record.root = hash_bytes(table.data(), table.size());
  record.table = layout_.table;
  record.blocks = layout_.blocks;

  UserBlock head;
  head.save_id = identity.name.save_id;
  head.step = identity.name.step;
  head.writer = identity.writer;
  head.world_size = identity.world_size;
  head.file_size = record.size;
  head.table_at = record.table.at;
  head.block_count = record.blocks.size();
  head.root = record.root;
  head.complete = true;
  const auto bytes = encode_user_block(head);
  std::memcpy(late_.get(), bytes.data(), bytes.size());
  return record;
}

std::vector<FileImage::LatePages> FileImage::late_pages() const {
  return {LatePages{late_.get() + kUserBlockBytes, table_pages_.length, table_pages_.at},
          LatePages{late_.get(), kUserBlockBytes, 0}};
}

Hash128 FileImage::item_hash(size_t item) const {
  const uint64_t bytes = items_[item].bytes();
  if (bytes < kOwnBlocksFrom) return {};
  std::string hashes;
  const uint64_t begin = layout_.at[item];
  for (size_t i = find_block(layout_.blocks, begin); i < layout_.blocks.size() && layout_.blocks[i].at < begin + bytes;
       ++i) {
    unsigned char raw[kHashBytes];
    put_hash(layout_.blocks[i].hash, raw);
    hashes.append(reinterpret_cast<const char*>(raw), sizeof raw);
  }
  return hash_bytes(hashes.data(), hashes.size());
}

}  // namespace dl::ckpt
