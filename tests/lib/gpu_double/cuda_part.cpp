// SPDX-License-Identifier: Apache-2.0
// Devices, memory, streams and events: of the driver and of the runtime.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <thread>

#include "tests/lib/gpu_double/gpu_double.h"

// A stream's work is done in its order by a thread of its own.
struct CUstream_st {
  CUstream_st() : thread([this] { run(); }) {}
  ~CUstream_st() {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      ending = true;
    }
    changed.notify_all();
    thread.join();
  }
  void run() {
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return ending || !work.empty(); });
      if (work.empty()) return;
      const std::function<void()> next = work.front();
      lock.unlock();
      next();
      lock.lock();
      work.pop_front();
      changed.notify_all();
    }
  }
  void add(std::function<void()> what) {
    const std::lock_guard<std::mutex> lock(mutex);
    work.push_back(std::move(what));
    changed.notify_all();
  }
  bool idle() {
    const std::lock_guard<std::mutex> lock(mutex);
    return work.empty();
  }
  void wait() {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [this] { return work.empty(); });
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> work;  // the front one is being done
  bool ending = false;
  std::thread thread;
};

namespace {
using Done = std::shared_ptr<std::atomic<bool>>;
}
struct CUevent_st {
  Done done = std::make_shared<std::atomic<bool>>(true);  // of the newest record
};

namespace {

thread_local int device = 0;
std::mutex memory_mutex;
std::map<uintptr_t, size_t> memory;  // of devices

CUstream_st* stream_of(cudaStream_t stream) {
  // Left to the end of the process, as what a driver holds.
  static auto* legacy = new CUstream_st;
  return stream == nullptr || stream == cudaStreamLegacy ? legacy : stream;
}

void* allocate(size_t bytes) {
  void* address = std::malloc(bytes > 0 ? bytes : 1);
  const std::lock_guard<std::mutex> lock(memory_mutex);
  memory[reinterpret_cast<uintptr_t>(address)] = bytes;
  return address;
}

bool is_device(uintptr_t address) {
  const std::lock_guard<std::mutex> lock(memory_mutex);
  auto after = memory.upper_bound(address);
  if (after == memory.begin()) return false;
  --after;
  return address < after->first + after->second;
}

// Rates of copies within the machine are not what this double is for.
CUresult copied() {
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return CUDA_SUCCESS;
}

}  // namespace

namespace gpu_double {

double number(const char* variable, double otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::atof(text) : otherwise;
}
std::string my_name() {
  if (const char* node = std::getenv("SLURMD_NODENAME")) return node;
  if (const char* rank = std::getenv("DL_RANK")) return std::string("rank") + rank;
  return "here";
}
bool among(const char* variable, const std::string& name) {
  const char* text = std::getenv(variable);
  std::istringstream names(text != nullptr ? text : "");
  for (std::string one; std::getline(names, one, ',');)
    if (one == name) return true;
  return false;
}
int current_device() {
  return device;
}
void queue(cudaStream_t stream, std::function<void()> work) {
  stream_of(stream)->add(std::move(work));
}

}  // namespace gpu_double

extern "C" {

CUresult cuInit(unsigned flags) {
  return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuDeviceGetCount(int* count) {
  *count = static_cast<int>(gpu_double::number("GPU_DOUBLE_COUNT", 1));
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice which) {
  *context = reinterpret_cast<CUcontext>(static_cast<uintptr_t>(which) + 1);
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  device = static_cast<int>(reinterpret_cast<uintptr_t>(context)) - 1;
  return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize(void) {
  return CUDA_SUCCESS;
}
CUresult cuMemAllocHost(void** address, size_t bytes) {
  *address = std::malloc(bytes);
  return *address != nullptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult cuMemAlloc(CUdeviceptr* address, size_t bytes) {
  *address = reinterpret_cast<CUdeviceptr>(allocate(bytes));
  return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoD(CUdeviceptr, const void*, size_t) {
  return copied();
}
CUresult cuMemcpyDtoH(void*, CUdeviceptr, size_t) {
  return copied();
}
CUresult cuMemcpyDtoD(CUdeviceptr, CUdeviceptr, size_t) {
  return copied();
}
CUresult cuMemcpyPeer(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t) {
  return copied();
}
CUresult cuGetErrorName(CUresult, const char** name) {
  *name = "CUDA_ERROR_OF_THE_DOUBLE";
  return CUDA_SUCCESS;
}
CUresult cuStreamCreate(CUstream* stream, unsigned) {
  *stream = new CUstream_st;
  return CUDA_SUCCESS;
}
CUresult cuStreamQuery(CUstream stream) {
  return stream_of(stream)->idle() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  if (attribute != CU_POINTER_ATTRIBUTE_MEMORY_TYPE || !is_device(static_cast<uintptr_t>(address)))
    return CUDA_ERROR_INVALID_VALUE;
  *static_cast<unsigned*>(data) = CU_MEMORYTYPE_DEVICE;
  return CUDA_SUCCESS;
}

cudaError_t cudaGetDevice(int* which) {
  *which = device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int which) {
  device = which;
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t code) {
  return code == cudaSuccess ? "no error" : "an error of the double";
}
cudaError_t cudaMalloc(void** address, size_t bytes) {
  *address = allocate(bytes);
  return cudaSuccess;
}
cudaError_t cudaFree(void* address) {
  {
    const std::lock_guard<std::mutex> lock(memory_mutex);
    memory.erase(reinterpret_cast<uintptr_t>(address));
  }
  std::free(address);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  gpu_double::queue(stream, [=] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;
  return cudaSuccess;
}
// Returns at once: what is queued is done before the stream is gone.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  std::thread([stream] { delete stream; }).detach();
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  stream_of(stream)->wait();
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->done = std::make_shared<std::atomic<bool>>(false);
  gpu_double::queue(stream, [done = event->done] { *done = true; });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return *event->done ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  gpu_double::queue(stream, [done = event->done] {
    while (!*done) std::this_thread::sleep_for(std::chrono::microseconds(50));
  });
  return cudaSuccess;
}
}
