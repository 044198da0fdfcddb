// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/h5_memory.h"

#if defined(__has_include)
#if __has_include(<H5FDdevelop.h>)
#include <H5FDdevelop.h>  // HDF5 1.14 moved the driver interface to this header
#endif
#endif

#include <algorithm>
#include <cstring>
#include <new>

namespace dl::ckpt {

void SparseImage::read(uint64_t at, void* out, size_t size) const {
  auto* to = static_cast<unsigned char*>(out);
  while (size > 0) {
    const uint64_t in_page = at % kPage;
    const auto part = static_cast<size_t>(std::min<uint64_t>(size, kPage - in_page));
    const auto page = pages_.find(at / kPage);
    if (page == pages_.end()) {
      std::memset(to, 0, part);
    } else {
      std::memcpy(to, page->second.get() + in_page, part);
    }
    at += part;
    to += part;
    size -= part;
  }
}

SparseImage::Page SparseImage::new_page() {
  return Page(new unsigned char[kPage]());
}

void SparseImage::write(uint64_t at, const void* in, size_t size) {
  const auto* from = static_cast<const unsigned char*>(in);
  while (size > 0) {
    const uint64_t in_page = at % kPage;
    const auto part = static_cast<size_t>(std::min<uint64_t>(size, kPage - in_page));
    Page& page = pages_[at / kPage];
    if (!page) {
      page = new_page();
    } else if (page.use_count() > 1) {
      Page mine = new_page();
      std::memcpy(mine.get(), page.get(), kPage);
      page = std::move(mine);
    }
    std::memcpy(page.get() + in_page, from, part);
    at += part;
    from += part;
    size -= part;
  }
  size_ = std::max(size_, at);
}

SparseImage SparseImage::clone() const {
  SparseImage copy;
  copy.size_ = size_;
  copy.pages_ = pages_;
  return copy;
}

namespace {

// HDF5's file structure, followed by our members. open allocates it, close frees it.
struct MemoryFile {
  H5FD_t base;
  SparseImage* image;
  haddr_t eoa;
};

// The property list carries the pointer to the image.
struct DriverInfo {
  SparseImage* image;
};

MemoryFile* self(H5FD_t* file) {
  return reinterpret_cast<MemoryFile*>(file);
}
const MemoryFile* self(const H5FD_t* file) {
  return reinterpret_cast<const MemoryFile*>(file);
}

H5FD_t* memory_open(const char* /*name*/, unsigned /*flags*/, hid_t fapl, haddr_t /*maxaddr*/) {
  const auto* info = static_cast<const DriverInfo*>(H5Pget_driver_info(fapl));
  if (!info) return nullptr;
  auto* file = new (std::nothrow) MemoryFile{};
  if (!file) return nullptr;
  file->image = info->image;
  return &file->base;
}
herr_t memory_close(H5FD_t* file) {
  delete self(file);
  return 0;
}
int memory_cmp(const H5FD_t* a, const H5FD_t* b) {
  if (self(a)->image == self(b)->image) return 0;
  return self(a)->image < self(b)->image ? -1 : 1;
}
herr_t memory_query(const H5FD_t* /*file*/, unsigned long* flags) {
  if (flags) {
    *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_AGGREGATE_SMALLDATA |
             H5FD_FEAT_DATA_SIEVE;
#ifdef H5FD_FEAT_DEFAULT_VFD_COMPATIBLE
    *flags |= H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;  // the result is an ordinary file that names no driver
#endif
  }
  return 0;
}
haddr_t memory_get_eoa(const H5FD_t* file, H5FD_mem_t /*type*/) {
  return self(file)->eoa;
}
herr_t memory_set_eoa(H5FD_t* file, H5FD_mem_t /*type*/, haddr_t addr) {
  self(file)->eoa = addr;
  return 0;
}
haddr_t memory_get_eof(const H5FD_t* file, H5FD_mem_t /*type*/) {
  return self(file)->image->size();
}
herr_t memory_read(H5FD_t* file, H5FD_mem_t /*type*/, hid_t /*dxpl*/, haddr_t addr, size_t size, void* buffer) {
  self(file)->image->read(addr, buffer, size);
  return 0;
}
herr_t memory_write(H5FD_t* file, H5FD_mem_t /*type*/, hid_t /*dxpl*/, haddr_t addr, size_t size, const void* buffer) {
  try {
    self(file)->image->write(addr, buffer, size);
  } catch (...) {  // out of memory: HDF5 reports a failed write
    return -1;
  }
  return 0;
}
herr_t memory_truncate(H5FD_t* file, hid_t /*dxpl*/, hbool_t /*closing*/) {
  self(file)->image->set_size(self(file)->eoa);
  return 0;
}
void* info_copy(const void* info) {
  return new (std::nothrow) DriverInfo(*static_cast<const DriverInfo*>(info));
}
herr_t info_free(void* info) {
  delete static_cast<DriverInfo*>(info);
  return 0;
}

// The members are set by name, because each series of HDF5 has other members, in another order.
H5FD_class_t driver_class() {
  static const H5FD_mem_t free_list_map[] = H5FD_FLMAP_DICHOTOMY;
  H5FD_class_t c{};
#ifdef H5FD_CLASS_VERSION
  c.version = H5FD_CLASS_VERSION;
  c.value = static_cast<H5FD_class_value_t>(511);  // numbers up to 511 may be used without registration
#endif
  c.name = "dlckpt_memory";
  c.maxaddr = (haddr_t{1} << 62) - 1;
  c.fc_degree = H5F_CLOSE_STRONG;
  c.fapl_size = sizeof(DriverInfo);
  c.fapl_copy = info_copy;
  c.fapl_free = info_free;
  c.open = memory_open;
  c.close = memory_close;
  c.cmp = memory_cmp;
  c.query = memory_query;
  c.get_eoa = memory_get_eoa;
  c.set_eoa = memory_set_eoa;
  c.get_eof = memory_get_eof;
  c.read = memory_read;
  c.write = memory_write;
  c.truncate = memory_truncate;
  std::copy(std::begin(free_list_map), std::end(free_list_map), c.fl_map);
  return c;
}

}  // namespace

Status MemoryDriver::attach(hid_t fapl, SparseImage* image) {
  static const H5FD_class_t kClass = driver_class();
  driver_ = H5FDregister(&kClass);
  const DriverInfo info{image};
  if (driver_ < 0 || H5Pset_driver(fapl, driver_, &info) < 0)
    return Error{Errc::kInternal, "libhdf5 does not take the memory driver"};
  return {};
}

MemoryDriver::~MemoryDriver() {
  if (driver_ >= 0) H5FDunregister(driver_);
}

}  // namespace dl::ckpt
