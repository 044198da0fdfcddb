// SPDX-License-Identifier: Apache-2.0
// launcher/preflight/nccl_abi.h says the same as NVIDIA's nccl.h and cuda.h, where those are installed: values,
// layouts, and the types of functions as far as the ABI knows them.
#include "launcher/preflight/nccl_abi.h"

#include <gtest/gtest.h>

#if __has_include(<nccl.h>)
#include <cuda.h>
#include <nccl.h>

#include <cstddef>
#include <type_traits>

namespace dl::preflight::test {
namespace {

// Passed alike: both pointers, both integers or enumerators of one size, or both structures of one size.
template <typename Ours, typename Theirs>
constexpr bool kSame =
    sizeof(Ours) == sizeof(Theirs) && std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>&& std::is_class_v<Ours> ==
                                          std::is_class_v<Theirs>;
template <typename R, typename S, typename... A, typename... B>
constexpr bool same(R (*)(A...), S (*)(B...)) {
  if constexpr (sizeof...(A) == sizeof...(B)) return kSame<R, S> && (kSame<A, B> && ...);
  return false;
}

using nccl::Functions;
#define DL_NCCL_COMPARE(type, symbol) \
  static_assert(same(decltype(Functions::symbol){}, static_cast<decltype(&::symbol)>(nullptr)), #symbol);
DL_NCCL_FUNCTIONS(DL_NCCL_COMPARE)
DL_NCCL_DRIVER_FUNCTIONS(DL_NCCL_COMPARE)

static_assert(nccl::kSuccess == ncclSuccess && nccl::kInProgress == ncclInProgress);
static_assert(nccl::kFloat32 == ncclFloat32 && nccl::kSum == ncclSum);
static_assert(nccl::kCudaSuccess == CUDA_SUCCESS && nccl::kCudaNotReady == CUDA_ERROR_NOT_READY);
static_assert(nccl::kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(sizeof(nccl::UniqueId) == sizeof(ncclUniqueId));
#define DL_NCCL_MEMBER_AT(ours, theirs)                                                            \
  static_assert(offsetof(nccl::Config, ours) == offsetof(ncclConfig_t, theirs), #theirs " is at"); \
  static_assert(sizeof(nccl::Config::ours) == sizeof(ncclConfig_t::theirs), #theirs " has the size")
DL_NCCL_MEMBER_AT(size, size);
DL_NCCL_MEMBER_AT(magic, magic);
DL_NCCL_MEMBER_AT(version, version);
DL_NCCL_MEMBER_AT(blocking, blocking);
DL_NCCL_MEMBER_AT(cga_cluster_size, cgaClusterSize);
DL_NCCL_MEMBER_AT(min_ctas, minCTAs);
DL_NCCL_MEMBER_AT(max_ctas, maxCTAs);
DL_NCCL_MEMBER_AT(net_name, netName);
DL_NCCL_MEMBER_AT(split_share, splitShare);
static_assert(sizeof(nccl::Config) <= sizeof(ncclConfig_t));

TEST(PreflightNcclAbi, TheConfigurationBeginsAsNcclsOwn) {
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  const nccl::Config ours;
  EXPECT_EQ(ours.magic, theirs.magic);
  EXPECT_EQ(ours.blocking, theirs.blocking);
  EXPECT_EQ(ours.split_share, theirs.splitShare);
  EXPECT_EQ(ours.net_name, theirs.netName);
  EXPECT_LE(ours.version, theirs.version);
}

}  // namespace
}  // namespace dl::preflight::test
#else
TEST(PreflightNcclAbi, TheConfigurationBeginsAsNcclsOwn) {
  GTEST_SKIP() << "NVIDIA's nccl.h is not installed";
}
#endif
