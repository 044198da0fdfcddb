// SPDX-License-Identifier: Apache-2.0
#include "tests/lib/cuda_double/cuda_double.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/device/cuda_abi.h"

namespace dl::ckpt::cuda {
struct ContextTag {
  int device;
  std::vector<std::function<void()>> queued;
};
struct StreamTag {
  Context context;
  std::vector<std::function<void()>> copies;
};
}  // namespace dl::ckpt::cuda

namespace {

using namespace dl::ckpt::cuda;

struct Allocation {
  size_t bytes;
  int kind, device;
  unsigned char* alias;
};

std::recursive_mutex mutex;
bool initialized = false;
pid_t owner = 0;
ContextTag primary[2] = {{0, {}}, {1, {}}};
std::map<uintptr_t, Allocation> allocations;
std::map<uintptr_t, size_t> pinned;
std::map<Stream, std::unique_ptr<StreamTag>> streams;
long retained = 0, pushed = 0;
std::string faults;

long fail_at = 0, total = 0;
int fail_code = 0;
bool fail_dead = false, has_failed = false;
std::string failed_name;
std::map<std::string, long> counts;

thread_local std::vector<Context> current;

struct Capture {
  int device;
  CaptureMode mode;
  std::thread::id thread;  // no thread has this one if another than the caller captures
  bool good = true;
};
std::unique_ptr<Capture> capture;
thread_local CaptureMode capture_mode = kCaptureGlobal;
long modes_changed = 0;

void fault(const std::string& what) {
  faults += what + "\n";
}

using Lock = std::lock_guard<std::recursive_mutex>;

// The beginning of each function of the driver.
Code enter(const char* name) {
  if (!initialized || owner != ::getpid()) return kNotInitialized;
  ++total;
  ++counts[name];
  if (fail_at > 0 && (total == fail_at || (fail_dead && total > fail_at))) {
    if (!has_failed) failed_name = name;
    has_failed = true;
    if (fail_dead)
      for (auto& [handle, stream] : streams) stream->copies.clear();
    return fail_code;
  }
  return kSuccess;
}

// The same for what a capture may forbid; see cuThreadExchangeStreamCaptureMode.
Code enter_unsafe(const char* name) {
  if (const Code code = enter(name)) return code;
  if (!capture || capture_mode == kCaptureRelaxed) return kSuccess;
  const bool mine = capture->thread == std::this_thread::get_id();
  const bool forbidden =
      mine ? capture->mode != kCaptureRelaxed : capture_mode == kCaptureGlobal && capture->mode == kCaptureGlobal;
  if (!forbidden) return kSuccess;
  capture->good = false;
  return kNotInCapture;
}

const std::pair<const uintptr_t, Allocation>* find(uintptr_t at) {
  auto next = allocations.upper_bound(at);
  if (next == allocations.begin()) return nullptr;
  --next;
  return at < next->first + next->second.bytes ? &*next : nullptr;
}

// The device's view of [at, at + size), which must lie in one allocation that the current context reaches.
unsigned char* device_range(DevicePtr at, size_t size, const char* name) {
  const auto* found = find(at);
  if (!found || at + size > found->first + found->second.bytes) {
    fault(std::string(name) + ": not within device memory");
    return nullptr;
  }
  if (current.empty() || current.back()->device != found->second.device)
    fault(std::string(name) + ": memory of another context than the current one");
  return found->second.alias + (at - found->first);
}

bool is_pinned(const void* host, size_t size) {
  const auto at = reinterpret_cast<uintptr_t>(host);
  auto next = pinned.upper_bound(at);
  if (next == pinned.begin()) return false;
  --next;
  return at + size <= next->first + next->second;
}

StreamTag* usable(Stream stream, const char* name) {
  const auto found = streams.find(stream);
  if (found == streams.end()) {
    fault(std::string(name) + ": no such stream");
    return nullptr;
  }
  if (current.empty() || current.back() != found->second->context)
    fault(std::string(name) + ": the stream's context is not current");
  return found->second.get();
}

void finish(StreamTag* stream) {
  const auto copies = std::move(stream->copies);
  stream->copies.clear();
  for (const auto& copy : copies) copy();
}

struct Rows {
  size_t width, height, device_pitch, host_pitch;
};

Code to_host(const char* name, void* host, DevicePtr device, const Rows& rows, Stream handle) {
  StreamTag* stream = usable(handle, name);
  const unsigned char* from = device_range(device, rows.device_pitch * (rows.height - 1) + rows.width, name);
  if (!stream || !from) return kInvalidValue;
  auto* to = static_cast<unsigned char*>(host);
  for (size_t y = 0; y < rows.height; ++y) std::memset(to + y * rows.host_pitch, 0xEE, rows.width);
  stream->copies.push_back([=] {
    for (size_t y = 0; y < rows.height; ++y)
      std::memcpy(to + y * rows.host_pitch, from + y * rows.device_pitch, rows.width);
  });
  return kSuccess;
}

// From memory that is not pinned a driver has taken the bytes when it returns.
Code to_device(const char* name, DevicePtr device, const void* host, const Rows& rows, Stream handle) {
  StreamTag* stream = usable(handle, name);
  unsigned char* to = device_range(device, rows.device_pitch * (rows.height - 1) + rows.width, name);
  if (!stream || !to) return kInvalidValue;
  const size_t span = rows.host_pitch * (rows.height - 1) + rows.width;
  std::shared_ptr<std::vector<unsigned char>> taken;
  const auto* from = static_cast<const unsigned char*>(host);
  if (!is_pinned(host, span)) {
    taken = std::make_shared<std::vector<unsigned char>>(from, from + span);
    from = taken->data();
  }
  stream->copies.push_back([to, from, rows, taken] {
    for (size_t y = 0; y < rows.height; ++y)
      std::memcpy(to + y * rows.device_pitch, from + y * rows.host_pitch, rows.width);
  });
  return kSuccess;
}

void* allocate(size_t bytes, int kind, int device) {
  const Lock lock(mutex);
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE)), whole = (bytes + page - 1) / page * page;
  const int fd = ::memfd_create("cuda_double", MFD_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(whole)) != 0) std::abort();
  void* seen = ::mmap(nullptr, whole, PROT_NONE, MAP_SHARED, fd, 0);
  void* alias = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  if (seen == MAP_FAILED || alias == MAP_FAILED) std::abort();
  allocations[reinterpret_cast<uintptr_t>(seen)] = Allocation{whole, kind, device, static_cast<unsigned char*>(alias)};
  return seen;
}

void release(void* memory) {
  const Lock lock(mutex);
  const auto found = allocations.find(reinterpret_cast<uintptr_t>(memory));
  if (found == allocations.end()) std::abort();
  ::munmap(memory, found->second.bytes);
  ::munmap(found->second.alias, found->second.bytes);
  allocations.erase(found);
}

unsigned char* contents(const void* memory) {
  const Lock lock(mutex);
  const auto* found = find(reinterpret_cast<uintptr_t>(memory));
  return found ? found->second.alias + (reinterpret_cast<uintptr_t>(memory) - found->first) : nullptr;
}

void run_queued(Context context) {
  const auto queued = std::move(context->queued);
  context->queued.clear();
  for (const auto& kernel : queued) kernel();
}

const CudaDouble control = {
    [] {
      const Lock lock(mutex);
      initialized = true;
      owner = ::getpid();
    },
    allocate,
    release,
    contents,
    [](int device, void (*kernel)(void*), void* argument) {
      const Lock lock(mutex);
      primary[device].queued.emplace_back([=] { kernel(argument); });
    },
    [](int device) {
      const Lock lock(mutex);
      run_queued(&primary[device]);
    },
    [](long at, int code, bool dead) {
      const Lock lock(mutex);
      fail_at = at;
      fail_code = code;
      fail_dead = dead;
      has_failed = false;
      failed_name.clear();
      total = 0;
      counts.clear();
    },
    [] {
      const Lock lock(mutex);
      return has_failed;
    },
    [] {
      const Lock lock(mutex);
      return failed_name.c_str();
    },
    [](const char* name) {
      const Lock lock(mutex);
      return name ? counts[name] : total;
    },
    [] {
      const Lock lock(mutex);
      return CudaDoubleLeft{static_cast<long>(streams.size()), static_cast<long>(pinned.size()), pushed, retained,
                            modes_changed};
    },
    [] {
      const Lock lock(mutex);
      return faults.c_str();
    },
    [] {
      const Lock lock(mutex);
      faults.clear();
      streams.clear();
      pinned.clear();
      pushed = retained = modes_changed = 0;
      current.clear();
      capture_mode = kCaptureGlobal;
    },
    [](int device, int mode, bool by_another_thread) {
      const Lock lock(mutex);
      capture = std::make_unique<Capture>(
          Capture{device, mode, by_another_thread ? std::thread::id() : std::this_thread::get_id()});
    },
    [] {
      const Lock lock(mutex);
      const bool good = capture && capture->good;
      capture.reset();
      return good;
    },
};

}  // namespace

// The driver's functions: see cuda.h.
extern "C" {

const CudaDouble* cuda_double() {
  return &control;
}

Code cuPointerGetAttributes(unsigned count, PointerAttribute* which, void** answers, DevicePtr pointer) {
  const Lock lock(mutex);
  if (const Code code = enter("cuPointerGetAttributes")) return code;
  const auto* found = find(pointer);
  const bool host = !found && is_pinned(reinterpret_cast<void*>(pointer), 1);
  for (unsigned i = 0; i < count; ++i) {
    switch (which[i]) {
      case kAttributeContext:
        *static_cast<Context*>(answers[i]) =
            found && found->second.kind != kDoublePool ? &primary[found->second.device] : nullptr;
        break;
      case kAttributeMemoryType:
        *static_cast<unsigned*>(answers[i]) = static_cast<unsigned>(found ? kMemoryDevice : host ? kMemoryHost : 0);
        break;
      case kAttributeIsManaged:
        *static_cast<unsigned*>(answers[i]) = found && found->second.kind == kDoubleManaged ? 1 : 0;
        break;
      case kAttributeOrdinal:
        *static_cast<int*>(answers[i]) = found ? found->second.device : -2;
        break;
      default:
        fault("cuPointerGetAttributes: an attribute that the double does not know");
        return kInvalidValue;
    }
  }
  return kSuccess;
}

Code cuDevicePrimaryCtxRetain(Context* context, Device device) {
  const Lock lock(mutex);
  if (const Code code = enter_unsafe("cuDevicePrimaryCtxRetain")) return code;
  if (device < 0 || device > 1) return kInvalidValue;
  ++retained;
  *context = &primary[device];
  return kSuccess;
}

Code cuDevicePrimaryCtxRelease_v2(Device) {
  const Lock lock(mutex);
  if (const Code code = enter_unsafe("cuDevicePrimaryCtxRelease")) return code;
  if (--retained < 0) fault("cuDevicePrimaryCtxRelease: not retained");
  return kSuccess;
}

Code cuCtxPushCurrent_v2(Context context) {
  const Lock lock(mutex);
  if (const Code code = enter("cuCtxPushCurrent")) return code;
  if (context != &primary[0] && context != &primary[1]) {
    fault("cuCtxPushCurrent: no such context");
    return kInvalidContext;
  }
  current.push_back(context);
  ++pushed;
  return kSuccess;
}

Code cuCtxPopCurrent_v2(Context* context) {
  const Lock lock(mutex);
  if (const Code code = enter("cuCtxPopCurrent")) return code;
  if (current.empty()) {
    fault("cuCtxPopCurrent: nothing was pushed by this thread");
    return kInvalidContext;
  }
  *context = current.back();
  current.pop_back();
  --pushed;
  return kSuccess;
}

Code cuCtxSynchronize() {
  const Lock lock(mutex);
  if (const Code code = enter("cuCtxSynchronize")) return code;
  if (current.empty()) {
    fault("cuCtxSynchronize: no current context");
    return kInvalidContext;
  }
  if (capture && capture->device == current.back()->device) {  // in any mode
    capture->good = false;
    return kNotInCapture;
  }
  run_queued(current.back());
  for (auto& [handle, stream] : streams)
    if (stream->context == current.back()) finish(stream.get());
  return kSuccess;
}

Code cuStreamCreate(Stream* stream, unsigned flags) {
  const Lock lock(mutex);
  if (const Code code = enter_unsafe("cuStreamCreate")) return code;
  if (current.empty()) {
    fault("cuStreamCreate: no current context");
    return kInvalidContext;
  }
  if (flags != kStreamNonBlocking) fault("cuStreamCreate: a stream that waits for the program's work");
  auto made = std::make_unique<StreamTag>(StreamTag{current.back(), {}});
  *stream = made.get();
  streams[made.get()] = std::move(made);
  return kSuccess;
}

Code cuStreamSynchronize(Stream handle) {
  const Lock lock(mutex);
  if (const Code code = enter_unsafe("cuStreamSynchronize")) return code;
  StreamTag* stream = usable(handle, "cuStreamSynchronize");
  if (!stream) return kInvalidValue;
  finish(stream);
  return kSuccess;
}

Code cuStreamDestroy_v2(Stream handle) {
  const Lock lock(mutex);
  if (const Code code = enter_unsafe("cuStreamDestroy")) return code;
  StreamTag* stream = usable(handle, "cuStreamDestroy");
  if (!stream) return kInvalidValue;
  if (!stream->copies.empty()) fault("cuStreamDestroy: copies that nobody has waited for");
  streams.erase(handle);
  return kSuccess;
}

Code cuMemcpyDtoHAsync_v2(void* host, DevicePtr device, size_t size, Stream stream) {
  const Lock lock(mutex);
  if (const Code code = enter_unsafe("cuMemcpyDtoHAsync")) return code;
  return to_host("cuMemcpyDtoHAsync", host, device, Rows{size, 1, size, size}, stream);
}

Code cuMemcpyHtoDAsync_v2(DevicePtr device, const void* host, size_t size, Stream stream) {
  const Lock lock(mutex);
  if (const Code code = enter_unsafe("cuMemcpyHtoDAsync")) return code;
  return to_device("cuMemcpyHtoDAsync", device, host, Rows{size, 1, size, size}, stream);
}

Code cuMemcpy2DAsync_v2(const Copy2D* copy, Stream stream) {
  const Lock lock(mutex);
  if (const Code code = enter_unsafe("cuMemcpy2DAsync")) return code;
  const bool out = copy->src_type == kMemoryDevice && copy->dst_type == kMemoryHost;
  const bool in = copy->src_type == kMemoryHost && copy->dst_type == kMemoryDevice;
  const bool good = (in || out) && copy->src_x == 0 && copy->src_y == 0 && copy->dst_x == 0 && copy->dst_y == 0 &&
                    copy->width > 0 && copy->height > 0 && copy->src_pitch >= copy->width &&
                    copy->dst_pitch >= copy->width && copy->src_pitch <= INT32_MAX && copy->dst_pitch <= INT32_MAX;
  if (!good) {
    fault("cuMemcpy2DAsync: an invalid copy");
    return kInvalidValue;
  }
  if (out)
    return to_host("cuMemcpy2DAsync", copy->dst_host, copy->src_device,
                   Rows{copy->width, copy->height, copy->src_pitch, copy->dst_pitch}, stream);
  return to_device("cuMemcpy2DAsync", copy->dst_device, copy->src_host,
                   Rows{copy->width, copy->height, copy->dst_pitch, copy->src_pitch}, stream);
}

Code cuMemHostRegister_v2(void* memory, size_t size, unsigned flags) {
  const Lock lock(mutex);
  if (const Code code = enter_unsafe("cuMemHostRegister")) return code;
  if (current.empty()) fault("cuMemHostRegister: no current context");
  if (flags != kHostRegisterPortable) fault("cuMemHostRegister: not for all contexts");
  if (is_pinned(memory, 1)) fault("cuMemHostRegister: is pinned already");
  pinned[reinterpret_cast<uintptr_t>(memory)] = size;
  return kSuccess;
}

Code cuMemHostUnregister(void* memory) {
  const Lock lock(mutex);
  if (const Code code = enter_unsafe("cuMemHostUnregister")) return code;
  if (current.empty()) fault("cuMemHostUnregister: no current context");
  unsigned char resident = 0;
  if (::mincore(memory, 1, &resident) != 0 && errno == ENOMEM) fault("cuMemHostUnregister: was unmapped before");
  if (pinned.erase(reinterpret_cast<uintptr_t>(memory)) == 0) fault("cuMemHostUnregister: is not pinned");
  return kSuccess;
}

// Does not count and does not fail: it concerns the calling thread alone.
Code cuThreadExchangeStreamCaptureMode(CaptureMode* mode) {
  const Lock lock(mutex);
  if (!initialized || owner != ::getpid()) return kNotInitialized;
  if (*mode < kCaptureGlobal || *mode > kCaptureRelaxed) return kInvalidValue;
  modes_changed += (*mode != kCaptureGlobal ? 1 : 0) - (capture_mode != kCaptureGlobal ? 1 : 0);
  std::swap(*mode, capture_mode);
  return kSuccess;
}

Code cuGetErrorName(Code code, const char** name) {
  switch (code) {
    case kOutOfMemory:
      *name = "CUDA_ERROR_OUT_OF_MEMORY";
      return kSuccess;
    case kNotInCapture:
      *name = "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED";
      return kSuccess;
    case 700:
      *name = "CUDA_ERROR_ILLEGAL_ADDRESS";
      return kSuccess;
    default:
      return kInvalidValue;
  }
}

}  // extern "C"
