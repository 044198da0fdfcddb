// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/transport/exchange.h"

namespace dl::ckpt {

std::unique_ptr<unsigned char[]> BufferPool::take() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!spare_.empty()) {
      auto buffer = std::move(spare_.back());
      spare_.pop_back();
      return buffer;
    }
  }
  return std::unique_ptr<unsigned char[]>(new unsigned char[kBytes]);
}

void BufferPool::give(std::unique_ptr<unsigned char[]> buffer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (spare_.size() < kMost) spare_.push_back(std::move(buffer));
}

void BufferPool::trim() {
  const std::lock_guard<std::mutex> lock(mutex_);
  spare_.clear();
}

Bytes::Bytes(size_t size, const std::shared_ptr<BufferPool>& pool) : size_(size) {
  if (size == 0) return;
  const bool pooled = pool && size >= BufferPool::kFrom && size <= BufferPool::kBytes;
  data_ = std::unique_ptr<unsigned char[], Return>(pooled ? pool->take().release() : new unsigned char[size],
                                                   Return{pooled ? pool : nullptr});
}

void Bytes::Return::operator()(unsigned char* memory) const {
  std::unique_ptr<unsigned char[]> buffer(memory);
  if (pool) pool->give(std::move(buffer));
}

}  // namespace dl::ckpt
