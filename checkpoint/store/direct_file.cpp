// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/store/direct_file.h"

#include <fcntl.h>

#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>
#include <new>

namespace dl::ckpt {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

void AlignedBuffer::Free::operator()(unsigned char* memory) const {
  std::free(memory);
}

unsigned char* AlignedBuffer::at_least(size_t size) {
  if (size > size_) {
    memory_.reset();
    size_ = 0;
    const size_t alignment = size >= kHugePage ? kHugePage : size_t{kDirectAlignment};
    const size_t whole = (size + alignment - 1) / alignment * alignment;
    memory_.reset(static_cast<unsigned char*>(std::aligned_alloc(alignment, whole)));
    if (!memory_) throw std::bad_alloc();
    // A request to the disk consists of a few hundred pages at most. With small pages it would be no larger than 1 MiB,
    // so huge pages are asked for.
    if (alignment == kHugePage) ::madvise(memory_.get(), whole, MADV_HUGEPAGE);
    size_ = whole;
  }
  return memory_.get();
}

Result<std::unique_ptr<DirectFile>> DirectFile::open(Io& io, const std::string& path) {
  std::unique_ptr<DirectFile> file(new DirectFile(io, path));
  auto direct = File::open(io, path, O_RDONLY | O_DIRECT);
  if (direct) {
    file->direct_.emplace(*std::move(direct));
    file->direct_works_ = true;
  } else if (direct.error().sys_errno == EINVAL || direct.error().sys_errno == EOPNOTSUPP) {
    DL_TRY(file->plain());
  } else {
    return std::move(direct).error();
  }
  return file;
}

Result<File*> DirectFile::plain() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!plain_) {
    DL_TRY_ASSIGN(File file, File::open(io_, path_, O_RDONLY));
    plain_.emplace(std::move(file));
  }
  return &*plain_;
}

Result<const unsigned char*> DirectFile::read(uint64_t at, size_t size, AlignedBuffer* buffer) {
  // Reads whole sectors that contain the wanted bytes.
  const uint64_t begin = at / kDirectAlignment * kDirectAlignment;
  const size_t skip = static_cast<size_t>(at - begin);
  const size_t whole = (skip + size + kDirectAlignment - 1) / kDirectAlignment * kDirectAlignment;
  unsigned char* memory = buffer->at_least(whole);
  size_t have = 0;
  while (have < skip + size && direct_works_) {
    auto n = direct_->read_some(memory + have, whole - have, begin + have);
    if (!n) {
      if (n.error().sys_errno != EINVAL) return std::move(n).error();
      direct_works_ = false;  // the file system allows O_DIRECT in open(), but not in read()
      break;
    }
    have += *n;
    if (*n == 0 || have >= skip + size) break;
    have = have / kDirectAlignment * kDirectAlignment;
    if (*n < kDirectAlignment) break;  // the rest of the sector is read through the page cache
  }
  if (have < skip + size) {
    DL_TRY_ASSIGN(File* const file, plain());
    DL_TRY(file->read_all(memory + have, skip + size - have, begin + have));
  }
  return static_cast<const unsigned char*>(memory + skip);
}

}  // namespace dl::ckpt
