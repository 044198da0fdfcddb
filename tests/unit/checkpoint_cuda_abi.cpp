// SPDX-License-Identifier: Apache-2.0
// checkpoint/device/cuda_abi.h says the same as NVIDIA's cuda.h, where that is installed: values, layouts, symbols, and
// the types of functions as far as the ABI knows them.
#include "checkpoint/device/cuda_abi.h"

#include <gtest/gtest.h>

#if __has_include(<cuda.h>)
#include <cuda.h>

#include <cstddef>
#include <type_traits>

namespace dl::ckpt::test {
namespace {

// Passed alike: both pointers, or both integers or enumerators of one size.
template <typename Ours, typename Theirs>
constexpr bool kSame = sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
                       (std::is_integral_v<Ours> || std::is_pointer_v<Ours>);

template <typename Ours, typename Theirs>
struct SameFunction : std::false_type {};
template <typename R, typename... A, typename S, typename... B>
struct SameFunction<R(A...), S(B...)> : std::bool_constant<sizeof...(A) == sizeof...(B) && kSame<R, S>> {};
template <typename R, typename S, typename... A, typename... B>
constexpr bool same_arguments(R (*)(A...), S (*)(B...)) {
  if constexpr (sizeof...(A) == sizeof...(B)) return (kSame<A, B> && ...);
  return false;
}

// What a name stands for after cuda.h's macros.
#define DL_TEXT_(x) #x
#define DL_TEXT(x) DL_TEXT_(x)

using namespace dl::ckpt::cuda;

#define DL_CUDA_COMPARE(name, symbol, ...)                                                                 \
  static_assert(SameFunction<std::remove_pointer_t<decltype(Functions::name)>, decltype(cu##name)>::value, \
                "the type of cu" #name);                                                                   \
  static_assert(same_arguments(decltype(Functions::name){}, static_cast<decltype(&cu##name)>(nullptr)),    \
                "the arguments of cu" #name);
DL_CUDA_FUNCTIONS(DL_CUDA_COMPARE)

static_assert(kSuccess == CUDA_SUCCESS && kInvalidValue == CUDA_ERROR_INVALID_VALUE);
static_assert(kOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY && kNotInitialized == CUDA_ERROR_NOT_INITIALIZED);
static_assert(kDeinitialized == CUDA_ERROR_DEINITIALIZED && kInvalidContext == CUDA_ERROR_INVALID_CONTEXT);
static_assert(kAttributeContext == CU_POINTER_ATTRIBUTE_CONTEXT);
static_assert(kAttributeMemoryType == CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
static_assert(kAttributeIsManaged == CU_POINTER_ATTRIBUTE_IS_MANAGED);
static_assert(kAttributeOrdinal == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
static_assert(kMemoryHost == CU_MEMORYTYPE_HOST && kMemoryDevice == CU_MEMORYTYPE_DEVICE);
static_assert(kNotInCapture == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
static_assert(kCaptureGlobal == CU_STREAM_CAPTURE_MODE_GLOBAL && kCaptureRelaxed == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(kCaptureThreadLocal == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
static_assert(sizeof(CaptureMode) == sizeof(CUstreamCaptureMode));
static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(kHostRegisterPortable == CU_MEMHOSTREGISTER_PORTABLE);
static_assert(sizeof(Device) == sizeof(CUdevice) && sizeof(DevicePtr) == sizeof(CUdeviceptr));
static_assert(sizeof(Context) == sizeof(CUcontext) && sizeof(Stream) == sizeof(CUstream));

#define DL_CUDA_MEMBER_AT(ours, theirs)                                                       \
  static_assert(offsetof(Copy2D, ours) == offsetof(CUDA_MEMCPY2D, theirs), #theirs " is at"); \
  static_assert(sizeof(Copy2D::ours) == sizeof(CUDA_MEMCPY2D::theirs), #theirs " has the size")
static_assert(sizeof(Copy2D) == sizeof(CUDA_MEMCPY2D));
DL_CUDA_MEMBER_AT(src_x, srcXInBytes);
DL_CUDA_MEMBER_AT(src_y, srcY);
DL_CUDA_MEMBER_AT(src_type, srcMemoryType);
DL_CUDA_MEMBER_AT(src_host, srcHost);
DL_CUDA_MEMBER_AT(src_device, srcDevice);
DL_CUDA_MEMBER_AT(src_array, srcArray);
DL_CUDA_MEMBER_AT(src_pitch, srcPitch);
DL_CUDA_MEMBER_AT(dst_x, dstXInBytes);
DL_CUDA_MEMBER_AT(dst_y, dstY);
DL_CUDA_MEMBER_AT(dst_type, dstMemoryType);
DL_CUDA_MEMBER_AT(dst_host, dstHost);
DL_CUDA_MEMBER_AT(dst_device, dstDevice);
DL_CUDA_MEMBER_AT(dst_array, dstArray);
DL_CUDA_MEMBER_AT(dst_pitch, dstPitch);
DL_CUDA_MEMBER_AT(width, WidthInBytes);
DL_CUDA_MEMBER_AT(height, Height);

TEST(CheckpointCudaAbi, SymbolsAreThoseThatCudaHMakesOfTheNames) {
#define DL_CUDA_SYMBOL(name, symbol, ...) EXPECT_STREQ(DL_TEXT(cu##name), symbol);
  DL_CUDA_FUNCTIONS(DL_CUDA_SYMBOL)
}

}  // namespace
}  // namespace dl::ckpt::test
#else
TEST(CheckpointCudaAbi, SymbolsAreThoseThatCudaHMakesOfTheNames) {
  GTEST_SKIP() << "NVIDIA's cuda.h is not installed";
}
#endif
