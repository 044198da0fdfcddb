// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/engine/pack_source.h"

#include <algorithm>
#include <cstring>

#include "checkpoint/engine/copy.h"

namespace dl::ckpt {

PackSource::PackSource() = default;
PackSource::~PackSource() = default;

uint64_t PackSource::place(uint64_t bytes, uint64_t element) {
  const uint64_t at = (bytes_ + element - 1) / element * element;
  bytes_ = at + bytes;
  return at;
}

uint64_t PackSource::add(const void* data, uint64_t bytes, uint64_t element) {
  const uint64_t at = place(bytes, element);
  pieces_.push_back(Piece{data, at, 0, bytes});
  return at;
}

uint64_t PackSource::add(WriteItem item) {
  const uint64_t bytes = item.bytes(), at = place(bytes, item.dataset->dtype->size);
  odd_.push_back(std::make_unique<WriteItem>(std::move(item)));
  pieces_.push_back(Piece{odd_.back().get(), at, 1, bytes});
  return at;
}

Status PackSource::copy(uint64_t begin, size_t size, unsigned char* to, DeviceCopies* copies) const {
  const uint64_t end = begin + size;
  uint64_t filled = begin;
  auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), begin,
                                [](uint64_t value, const Piece& one) { return value < one.end(); });
  for (; piece != pieces_.end() && piece->at < end; ++piece) {
    const uint64_t from = std::max<uint64_t>(begin, piece->at), until = std::min(end, piece->end());
    if (from > filled) std::memset(to + (filled - begin), 0, from - filled);
    if (!piece->odd) {
      std::memcpy(to + (from - begin), static_cast<const unsigned char*>(piece->data) + (from - piece->at),
                  until - from);
    } else {
      const auto& item = *static_cast<const WriteItem*>(piece->data);
      auto copied = copy_item(item, from - piece->at, until - from, to + (from - begin), copies);
      if (!copied) return std::move(copied).error().with_context("tensor '" + item.dataset->path + "'");
    }
    filled = until;
  }
  if (filled < end) std::memset(to + (filled - begin), 0, end - filled);
  return {};
}

}  // namespace dl::ckpt
