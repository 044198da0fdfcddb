// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/engine/copy.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cstdint>
#include <cstring>

#include "checkpoint/device/strided.h"
#include "checkpoint/device/strided_copy.h"

namespace dl::ckpt {
namespace {

// memcpy is better for shorter copies.
constexpr size_t kStreamFrom = size_t{64} << 10;

#if defined(__x86_64__)
__attribute__((target("avx2"))) void stream_avx2(unsigned char* to, const unsigned char* from, size_t size) noexcept {
  for (size_t i = 0; i < size; i += 128) {
    const auto* in = reinterpret_cast<const __m256i*>(from + i);
    auto* out = reinterpret_cast<__m256i*>(to + i);
    const __m256i a = _mm256_loadu_si256(in), b = _mm256_loadu_si256(in + 1);
    const __m256i c = _mm256_loadu_si256(in + 2), d = _mm256_loadu_si256(in + 3);
    _mm256_stream_si256(out, a);
    _mm256_stream_si256(out + 1, b);
    _mm256_stream_si256(out + 2, c);
    _mm256_stream_si256(out + 3, d);
  }
  _mm_sfence();  // makes the data visible before another thread reads it
}

bool has_avx2() noexcept {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}
#endif

}  // namespace

void copy_past_caches(void* to, const void* from, size_t size) noexcept {
#if defined(__x86_64__)
  if (size >= kStreamFrom && has_avx2()) {
    auto* out = static_cast<unsigned char*>(to);
    const auto* in = static_cast<const unsigned char*>(from);
    const size_t head = (32 - reinterpret_cast<uintptr_t>(out) % 32) % 32;
    std::memcpy(out, in, head);
    const size_t body = (size - head) / 128 * 128;
    stream_avx2(out + head, in + head, body);
    std::memcpy(out + head + body, in + head + body, size - head - body);
    return;
  }
#endif
  std::memcpy(to, from, size);
}

Status copy_item(const WriteItem& item, uint64_t begin, size_t size, void* to, DeviceCopies* copies) {
  const auto* data = static_cast<const unsigned char*>(item.data);
  auto* out = static_cast<unsigned char*>(to);
  if (item.pack) return item.pack->copy(begin, size, out, copies);
  if (item.strides.empty()) {
    if (!item.place.on_host()) return copies->to_host(item.place, data + begin, out, {size, 1, 0, 0});
    copy_past_caches(out, data + begin, size);
    return {};
  }
  const Box& box = item.dataset->box;
  const StridedMap map(box, box, box, item.strides, item.dataset->dtype->size);
  if (!item.place.on_host()) return gather_from_device(map, begin, begin + size, item.place, data, out, copies);
  map.gather(begin, begin + size, data, out);
  return {};
}

Status await_devices(const std::vector<WriteItem>& items) {
  std::vector<MemoryPlace> places;
  for (const WriteItem& item : items) {
    if (!item.place.on_host()) places.push_back(item.place);
    if (!item.pack) continue;
    for (const auto& odd : item.pack->odd_items())
      if (!odd->place.on_host()) places.push_back(odd->place);
  }
  return wait_for_queued_work(places);
}

}  // namespace dl::ckpt
