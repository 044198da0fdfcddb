// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/device/strided_copy.h"

namespace dl::ckpt {
namespace {

// Joins runs that follow one another to longer ones, and runs of equal length at equal distances to rows of one copy.
template <typename Copy>
class RunJoiner {
 public:
  explicit RunJoiner(Copy copy) : copy_(std::move(copy)) {}

  void add(uint64_t host, int64_t device, uint64_t length) {
    if (rows_.width == 0) return begin(host, device, length);
    const int64_t host_step = static_cast<int64_t>(host) - last_host_, device_step = device - last_device_;
    const auto width = static_cast<int64_t>(rows_.width);
    if (rows_.rows == 1 && host_step == width && device_step == width) {
      rows_.width += length;
      return;
    }
    const bool fits = length == rows_.width && host_step >= width && device_step >= width &&
                      host_step <= DeviceCopies::kMaxPitch && device_step <= DeviceCopies::kMaxPitch;
    if (fits && (rows_.rows == 1 || (host_step == rows_.host_pitch && device_step == rows_.device_pitch))) {
      rows_.host_pitch = host_step;
      rows_.device_pitch = device_step;
      ++rows_.rows;
      last_host_ += host_step;
      last_device_ += device_step;
      return;
    }
    flush();
    begin(host, device, length);
  }
  Status finish() {
    flush();
    return std::move(status_);
  }

 private:
  void begin(uint64_t host, int64_t device, uint64_t length) {
    rows_ = DeviceCopies::Rows{length, 1, 0, 0};
    host_ = last_host_ = static_cast<int64_t>(host);
    device_ = last_device_ = device;
  }
  void flush() {
    if (rows_.width > 0 && status_) status_ = copy_(host_, device_, rows_);
    rows_.width = 0;
  }

  Copy copy_;
  Status status_;
  DeviceCopies::Rows rows_;
  int64_t host_ = 0, device_ = 0;            // offsets of the first row
  int64_t last_host_ = 0, last_device_ = 0;  // offsets of the last row
};

}  // namespace

Status gather_from_device(const StridedMap& map, uint64_t from, uint64_t to, const MemoryPlace& place,
                          const unsigned char* memory, unsigned char* stored, DeviceCopies* copies) {
  RunJoiner joiner([&](int64_t host, int64_t device, const DeviceCopies::Rows& rows) {
    return copies->to_host(place, memory + device, stored + host, rows);
  });
  map.each(from, to, [&](uint64_t at, int64_t offset, uint64_t length) { joiner.add(at - from, offset, length); });
  return joiner.finish();
}

Status scatter_to_device(const StridedMap& map, uint64_t from, uint64_t to, const unsigned char* stored,
                         const MemoryPlace& place, unsigned char* memory, DeviceCopies* copies) {
  RunJoiner joiner([&](int64_t host, int64_t device, const DeviceCopies::Rows& rows) {
    return copies->to_device(place, memory + device, stored + host, rows);
  });
  map.each(from, to, [&](uint64_t at, int64_t offset, uint64_t length) { joiner.add(at - from, offset, length); });
  return joiner.finish();
}

Status unpack_to_device(const StridedMap& map, uint64_t from, uint64_t to, const unsigned char** in,
                        const MemoryPlace& place, unsigned char* memory, DeviceCopies* copies) {
  const unsigned char* const begin = *in;
  uint64_t done = 0;
  RunJoiner joiner([&](int64_t host, int64_t device, const DeviceCopies::Rows& rows) {
    return copies->to_device(place, memory + device, begin + host, rows);
  });
  map.each(from, to, [&](uint64_t, int64_t offset, uint64_t length) {
    joiner.add(done, offset, length);
    done += length;
  });
  *in = begin + done;
  return joiner.finish();
}

}  // namespace dl::ckpt
