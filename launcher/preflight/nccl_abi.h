// SPDX-License-Identifier: Apache-2.0
// The parts of NCCL's and the CUDA driver's ABI that we use, declared here so that the build needs neither: both are
// loaded (dlopen) when a node is checked. tests/unit/preflight_nccl_abi.cpp compares this with nccl.h and cuda.h where
// they exist.
#pragma once

#include <climits>
#include <cstddef>
#include <type_traits>

namespace dl::preflight::nccl {

using Result = int;  // enum ncclResult_t
using Comm = struct CommTag*;
using Stream = struct StreamTag*;  // cudaStream_t and CUstream
using Context = struct ContextTag*;
using Pointer = unsigned long long;  // CUdeviceptr

constexpr Result kSuccess = 0, kInProgress = 7;
constexpr int kFloat32 = 7, kSum = 0;
constexpr int kCudaSuccess = 0, kCudaNotReady = 600;
constexpr unsigned kStreamNonBlocking = 1;

struct UniqueId {
  char internal[128];
};

// ncclConfig_t of NCCL 2.18; later versions learn from `size` and `version` which members are missing.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21800;
  int blocking = INT_MIN;
  int cga_cluster_size = INT_MIN, min_ctas = INT_MIN, max_ctas = INT_MIN;
  const char* net_name = nullptr;
  int split_share = INT_MIN;
};

// X(type, symbol)
#define DL_NCCL_FUNCTIONS(X)                                                   \
  X(Result(UniqueId*), ncclGetUniqueId)                                        \
  X(Result(Comm*, int, UniqueId, int, Config*), ncclCommInitRankConfig)        \
  X(Result(Comm, Result*), ncclCommGetAsyncError)                              \
  X(Result(Comm), ncclCommAbort)                                               \
  X(Result(), ncclGroupStart)                                                  \
  X(Result(), ncclGroupEnd)                                                    \
  X(Result(const void*, void*, size_t, int, int, Comm, Stream), ncclAllReduce) \
  X(const char*(Result), ncclGetErrorString)
#define DL_NCCL_DRIVER_FUNCTIONS(X)               \
  X(int(unsigned), cuInit)                        \
  X(int(int*), cuDeviceGetCount)                  \
  X(int(Context*, int), cuDevicePrimaryCtxRetain) \
  X(int(Context), cuCtxSetCurrent)                \
  X(int(Pointer*, size_t), cuMemAlloc_v2)         \
  X(int(Stream*, unsigned), cuStreamCreate)       \
  X(int(Stream), cuStreamQuery)

struct Functions {
#define DL_NCCL_MEMBER(type, symbol) std::add_pointer_t<type> symbol = nullptr;
  DL_NCCL_FUNCTIONS(DL_NCCL_MEMBER)
  DL_NCCL_DRIVER_FUNCTIONS(DL_NCCL_MEMBER)
#undef DL_NCCL_MEMBER
};

}  // namespace dl::preflight::nccl
