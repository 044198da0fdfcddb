// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/device/device_memory.h"

#include <cstdint>
#include <new>
#include <optional>

#include "checkpoint/device/cuda_driver.h"

namespace dl::ckpt {
namespace {

cuda::DevicePtr device_pointer(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

bool same_context(const MemoryPlace& a, const MemoryPlace& b) {
  return a.context == b.context && (a.context || a.device == b.device);
}

// The driver. If a place is not on the host, there is one.
Result<const CudaDriver*> driver() {
  const CudaDriver* found = CudaDriver::find();
  if (!found) return Error{Errc::kInternal, "there is no CUDA driver in this process"};
  return found;
}

}  // namespace

Result<MemoryPlace> place_of(const void* data) {
  MemoryPlace place;
  const CudaDriver* driver = data ? CudaDriver::find() : nullptr;
  if (!driver || !driver->call().PointerGetAttributes) return place;
  cuda::Context context = nullptr;
  unsigned type = 0, managed = 0;
  int ordinal = -1;
  cuda::PointerAttribute which[] = {cuda::kAttributeContext, cuda::kAttributeMemoryType, cuda::kAttributeIsManaged,
                                    cuda::kAttributeOrdinal};
  void* answers[] = {&context, &type, &managed, &ordinal};
  const BesideCaptures beside(*driver);
  const cuda::Code code = driver->call().PointerGetAttributes(4, which, answers, device_pointer(data));
  // Before cuInit, in a child of fork() and at the end of the process, no device memory can be used.
  if (code == cuda::kNotInitialized || code == cuda::kDeinitialized) return place;
  // Older drivers return these for memory that they do not know.
  if (code == cuda::kInvalidValue || code == cuda::kInvalidContext) return place;
  DL_TRY(driver->check("cuPointerGetAttributes", code));
  if (managed == 0 && type != static_cast<unsigned>(cuda::kMemoryDevice)) return place;
  if (!driver->lacking().empty())
    return Error{Errc::kUnsupported, "memory of GPU " + std::to_string(ordinal) + ": this CUDA driver lacks " +
                                         driver->lacking() + "; needed: a driver of CUDA 11 or later"};
  place.kind = managed ? MemoryPlace::Kind::kManaged : MemoryPlace::Kind::kDevice;
  place.device = ordinal;
  place.context = context;
  return place;
}

Status wait_for_queued_work(const std::vector<MemoryPlace>& places) {
  std::vector<MemoryPlace> seen;
  for (const MemoryPlace& place : places) {
    if (place.on_host()) continue;
    bool known = false;
    for (const MemoryPlace& other : seen) known = known || same_context(place, other);
    if (known) continue;
    seen.push_back(place);
    DL_TRY_ASSIGN(const CudaDriver* const cuda, driver());
    const BesideCaptures beside(*cuda);
    DL_TRY_ASSIGN(const HeldContext context, HeldContext::of(*cuda, place));
    DL_TRY_ASSIGN(const CurrentContext current, CurrentContext::push(*cuda, context.get()));
    DL_TRY(cuda->check("cuCtxSynchronize", cuda->call().CtxSynchronize()));
  }
  return {};
}

struct DeviceCopies::Lane {
  Lane(const CudaDriver& cuda, const MemoryPlace& at, HeldContext held)
      : driver(cuda), place(at), context(std::move(held)) {}
  const CudaDriver& driver;
  MemoryPlace place;
  HeldContext context;
  std::optional<CurrentContext> current;
  cuda::Stream stream = nullptr;
  bool busy = false;
};

DeviceCopies::DeviceCopies() noexcept = default;

DeviceCopies::~DeviceCopies() {
  if (lanes_.empty()) return;
  const BesideCaptures beside(lanes_.front()->driver);
  for (const auto& lane : lanes_) {
    if (!lane->stream) continue;
    // Only the context of one lane is current, but a stream can be destroyed only while its own context is.
    if (current_) current_->current.reset();
    current_ = nullptr;
    const cuda::Functions& call = lane->driver.call();
    cuda::Context context = lane->context.get();
    const bool pushed = call.CtxPushCurrent(context) == cuda::kSuccess;
    if (lane->busy) call.StreamSynchronize(lane->stream);
    call.StreamDestroy(lane->stream);
    if (pushed) call.CtxPopCurrent(&context);
  }
  if (current_) current_->current.reset();
  lanes_.clear();  // while `beside` lives
}

// The lane for this place. Its context is the current one afterwards.
Result<DeviceCopies::Lane*> DeviceCopies::lane_for(const MemoryPlace& place) {
  if (current_ && same_context(current_->place, place)) return current_;
  Lane* lane = nullptr;
  for (const auto& known : lanes_)
    if (same_context(known->place, place)) lane = known.get();
  if (!lane) {
    DL_TRY_ASSIGN(const CudaDriver* const cuda, driver());
    DL_TRY_ASSIGN(HeldContext context, HeldContext::of(*cuda, place));
    lanes_.push_back(std::make_unique<Lane>(*cuda, place, std::move(context)));
    lane = lanes_.back().get();
  }
  if (current_) current_->current.reset();
  current_ = nullptr;
  DL_TRY_ASSIGN(CurrentContext pushed, CurrentContext::push(lane->driver, lane->context.get()));
  lane->current.emplace(std::move(pushed));
  current_ = lane;
  if (!lane->stream)
    DL_TRY(lane->driver.check("cuStreamCreate",
                              lane->driver.call().StreamCreate(&lane->stream, cuda::kStreamNonBlocking)));
  return lane;
}

Status DeviceCopies::copy(const MemoryPlace& place, unsigned char* device, unsigned char* host, const Rows& rows,
                          bool to_host) {
  if (rows.width == 0 || rows.rows == 0) return {};
  DL_TRY_ASSIGN(const CudaDriver* const cuda, driver());
  const BesideCaptures beside(*cuda);
  DL_TRY_ASSIGN(Lane* const lane, lane_for(place));
  const cuda::Functions& call = lane->driver.call();
  lane->busy = true;
  if (rows.rows == 1) {
    if (to_host)
      return lane->driver.check("cuMemcpyDtoHAsync",
                                call.MemcpyDtoHAsync(host, device_pointer(device), rows.width, lane->stream));
    return lane->driver.check("cuMemcpyHtoDAsync",
                              call.MemcpyHtoDAsync(device_pointer(device), host, rows.width, lane->stream));
  }
  cuda::Copy2D copy{};
  copy.width = rows.width;
  copy.height = rows.rows;
  const auto device_pitch = static_cast<size_t>(rows.device_pitch), host_pitch = static_cast<size_t>(rows.host_pitch);
  copy.src_type = to_host ? cuda::kMemoryDevice : cuda::kMemoryHost;
  copy.dst_type = to_host ? cuda::kMemoryHost : cuda::kMemoryDevice;
  (to_host ? copy.src_device : copy.dst_device) = device_pointer(device);
  (to_host ? copy.src_pitch : copy.dst_pitch) = device_pitch;
  (to_host ? copy.dst_pitch : copy.src_pitch) = host_pitch;
  if (to_host)
    copy.dst_host = host;
  else
    copy.src_host = host;
  return lane->driver.check("cuMemcpy2DAsync", call.Memcpy2DAsync(&copy, lane->stream));
}

Status DeviceCopies::to_host(const MemoryPlace& place, const unsigned char* device, unsigned char* host,
                             const Rows& rows) {
  return copy(place, const_cast<unsigned char*>(device), host, rows, true);
}

Status DeviceCopies::to_device(const MemoryPlace& place, unsigned char* device, const unsigned char* host,
                               const Rows& rows) {
  return copy(place, device, const_cast<unsigned char*>(host), rows, false);
}

// Waits for all lanes, even if one fails, because the caller uses the memory again afterwards.
Status DeviceCopies::wait() {
  Status first;
  for (const auto& lane : lanes_) {
    if (!lane->busy) continue;
    const BesideCaptures beside(lane->driver);
    const auto synchronize = [&]() -> Status {
      DL_TRY_ASSIGN(const Lane* const current, lane_for(lane->place));
      return current->driver.check("cuStreamSynchronize", current->driver.call().StreamSynchronize(current->stream));
    };
    Status done = synchronize();
    // It is tried once more, because the memory must not be used again while copies go on.
    lane->busy = !done && !synchronize();
    if (first && !done) first = std::move(done);
  }
  return first;
}

std::unique_ptr<PinnedMemory> PinnedMemory::pin(const MemoryPlace& place, void* memory, uint64_t bytes) {
  auto cuda = driver();
  if (place.on_host() || !cuda) return nullptr;
  const BesideCaptures beside(**cuda);
  auto context = HeldContext::of(**cuda, place);
  if (!context) return nullptr;
  auto current = CurrentContext::push(**cuda, context->get());
  if (!current) return nullptr;
  std::unique_ptr<PinnedMemory> pinned(new PinnedMemory(place, memory));
  if ((*cuda)->call().MemHostRegister(memory, bytes, cuda::kHostRegisterPortable) == cuda::kSuccess) return pinned;
  pinned->memory_ = nullptr;
  return nullptr;
}

// Must run before the memory is unmapped: otherwise the driver would go on to copy from and to the former pages,
// whatever is mapped at these addresses later. Unpinning fails if the program has destroyed the context, which has
// unpinned the memory then.
PinnedMemory::~PinnedMemory() {
  if (!memory_) return;
  try {
    const CudaDriver& cuda = *CudaDriver::find();
    const BesideCaptures beside(cuda);
    auto context = HeldContext::of(cuda, place_);
    if (!context) return;
    auto current = CurrentContext::push(cuda, context->get());
    if (current) cuda.call().MemHostUnregister(memory_);
  } catch (const std::bad_alloc&) {  // no memory for the error message, which nobody would read
  }
}

}  // namespace dl::ckpt
