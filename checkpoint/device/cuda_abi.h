// SPDX-License-Identifier: Apache-2.0
// The part of the CUDA driver's ABI that we use, declared here so that the build is the same with and without the CUDA
// toolkit. The driver never changes the meaning of an exported symbol (a changed function gets another suffix, as in
// _v2), so new versions of CUDA need no change here. tests/unit/checkpoint_cuda_abi.cpp compares these declarations
// with NVIDIA's cuda.h if that is installed.
#pragma once

#include <cstddef>
#include <type_traits>

namespace dl::ckpt::cuda {

using Code = int;                      // enum CUresult
using Device = int;                    // CUdevice
using DevicePtr = unsigned long long;  // CUdeviceptr
using Context = struct ContextTag*;    // CUcontext
using Stream = struct StreamTag*;      // CUstream
using PointerAttribute = int;          // enum CUpointer_attribute
using MemoryType = int;                // enum CUmemorytype
using CaptureMode = int;               // enum CUstreamCaptureMode

constexpr Code kSuccess = 0;           // CUDA_SUCCESS
constexpr Code kInvalidValue = 1;      // CUDA_ERROR_INVALID_VALUE
constexpr Code kOutOfMemory = 2;       // CUDA_ERROR_OUT_OF_MEMORY
constexpr Code kNotInitialized = 3;    // CUDA_ERROR_NOT_INITIALIZED: also in a child of fork()
constexpr Code kDeinitialized = 4;     // CUDA_ERROR_DEINITIALIZED: the process is ending
constexpr Code kInvalidContext = 201;  // CUDA_ERROR_INVALID_CONTEXT
constexpr Code kNotInCapture = 900;    // CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: a CUDA graph is being captured

constexpr PointerAttribute kAttributeContext = 1;     // CU_POINTER_ATTRIBUTE_CONTEXT
constexpr PointerAttribute kAttributeMemoryType = 2;  // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
constexpr PointerAttribute kAttributeIsManaged = 8;   // CU_POINTER_ATTRIBUTE_IS_MANAGED
constexpr PointerAttribute kAttributeOrdinal = 9;     // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL

constexpr MemoryType kMemoryHost = 1;    // CU_MEMORYTYPE_HOST
constexpr MemoryType kMemoryDevice = 2;  // CU_MEMORYTYPE_DEVICE

constexpr CaptureMode kCaptureGlobal = 0;       // CU_STREAM_CAPTURE_MODE_GLOBAL: each thread's mode at first
constexpr CaptureMode kCaptureThreadLocal = 1;  // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
constexpr CaptureMode kCaptureRelaxed = 2;      // CU_STREAM_CAPTURE_MODE_RELAXED

constexpr unsigned kStreamNonBlocking =
    1;  // CU_STREAM_NON_BLOCKING: neither this stream nor the legacy stream waits for the other
constexpr unsigned kHostRegisterPortable = 1;  // CU_MEMHOSTREGISTER_PORTABLE: pinned for all contexts

struct Copy2D {  // CUDA_MEMCPY2D
  size_t src_x, src_y;
  MemoryType src_type;
  const void* src_host;
  DevicePtr src_device;
  void* src_array;
  size_t src_pitch;
  size_t dst_x, dst_y;
  MemoryType dst_type;
  void* dst_host;
  DevicePtr dst_device;
  void* dst_array;
  size_t dst_pitch;
  size_t width, height;
};

// X(name without "cu", exported symbol, type). The symbols are those to which cuda.h maps the names today, without the
// variants for the per-thread default stream (_ptsz), which differ only for stream 0.
#define DL_CUDA_FUNCTIONS(X)                                                                              \
  X(PointerGetAttributes, "cuPointerGetAttributes", Code(unsigned, PointerAttribute*, void**, DevicePtr)) \
  X(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", Code(Context*, Device))                           \
  X(DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", Code(Device))                                \
  X(CtxPushCurrent, "cuCtxPushCurrent_v2", Code(Context))                                                 \
  X(CtxPopCurrent, "cuCtxPopCurrent_v2", Code(Context*))                                                  \
  X(CtxSynchronize, "cuCtxSynchronize", Code())                                                           \
  X(StreamCreate, "cuStreamCreate", Code(Stream*, unsigned))                                              \
  X(StreamSynchronize, "cuStreamSynchronize", Code(Stream))                                               \
  X(StreamDestroy, "cuStreamDestroy_v2", Code(Stream))                                                    \
  X(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", Code(void*, DevicePtr, size_t, Stream))                      \
  X(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", Code(DevicePtr, const void*, size_t, Stream))                \
  X(Memcpy2DAsync, "cuMemcpy2DAsync_v2", Code(const Copy2D*, Stream))                                     \
  X(MemHostRegister, "cuMemHostRegister_v2", Code(void*, size_t, unsigned))                               \
  X(MemHostUnregister, "cuMemHostUnregister", Code(void*))                                                \
  X(ThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", Code(CaptureMode*))             \
  X(GetErrorName, "cuGetErrorName", Code(Code, const char**))

struct Functions {
#define DL_CUDA_MEMBER(name, symbol, ...) std::add_pointer_t<__VA_ARGS__> name = nullptr;
  DL_CUDA_FUNCTIONS(DL_CUDA_MEMBER)
#undef DL_CUDA_MEMBER
};

}  // namespace dl::ckpt::cuda
