// SPDX-License-Identifier: Apache-2.0
// Communicators between processes of this machine, through a file that the unique id names.
#include <fcntl.h>
#include <nccl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "tests/lib/gpu_double/gpu_double.h"

namespace {

using gpu_double::among;
using gpu_double::my_name;

constexpr int kMostRanks = 32;
constexpr size_t kSlot = 64 << 10;  // bytes of each rank that are moved at once
constexpr size_t kMoved = 1 << 20;  // of a larger operation the rest takes its time, but is not moved
constexpr char kMagic[] = "nccl-double-";

struct Shared {
  std::atomic<uint32_t> arrived, rounds, left;
  char name[kMostRanks][64];
  char slot[kMostRanks][kSlot];
};

}  // namespace

struct ncclComm {
  Shared* shared = nullptr;
  std::string path;
  int rank = 0, size = 1;
  std::atomic<bool> aborted{false};
  std::atomic<ncclResult_t> state{ncclInProgress};
  std::atomic<int> collectives{0};
  std::thread starter;
};

namespace {

void nap() {
  std::this_thread::sleep_for(std::chrono::microseconds(20));
}

// All ranks are here; false: this one was aborted.
bool meet(ncclComm* comm) {
  const uint32_t round = comm->shared->rounds;
  if (comm->shared->arrived.fetch_add(1) + 1 == static_cast<uint32_t>(comm->size)) {
    comm->shared->arrived = 0;
    ++comm->shared->rounds;
    return !comm->aborted;
  }
  while (comm->shared->rounds == round) {
    if (comm->aborted) return false;
    nap();
  }
  return !comm->aborted;
}

void start(ncclComm* comm) {
  const std::string me = my_name();
  if (among("GPU_DOUBLE_NO_INIT", me)) {
    comm->state = ncclSystemError;
    return;
  }
  while (among("GPU_DOUBLE_NO_SHOW", me))
    if (comm->aborted)
      return;
    else
      nap();
  const int file = ::open(comm->path.c_str(), O_RDWR | O_CREAT, 0600);
  if (file < 0 || ::ftruncate(file, sizeof(Shared)) != 0) {
    comm->state = ncclSystemError;
    return;
  }
  void* at = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (at == MAP_FAILED) {
    comm->state = ncclSystemError;
    return;
  }
  comm->shared = static_cast<Shared*>(at);
  std::snprintf(comm->shared->name[comm->rank], sizeof comm->shared->name[0], "%s", me.c_str());
  if (!meet(comm)) return;
  ::unlink(comm->path.c_str());
  comm->state = ncclSuccess;
}

double rate_of(const ncclComm* comm) {
  bool slow = false;
  for (int a = 0; a < comm->size; ++a) {
    const std::string name = comm->shared->name[a];
    slow = slow || among("GPU_DOUBLE_SLOW", name);
    for (int b = 0; b < comm->size; ++b) slow = slow || among("GPU_DOUBLE_SLOW", name + "-" + comm->shared->name[b]);
  }
  return gpu_double::number("GPU_DOUBLE_RATE", 20e9) * (slow ? 0.1 : 1);
}

size_t width_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat64:
    case ncclInt64:
    case ncclUint64:
      return 8;
    case ncclFloat32:
    case ncclInt32:
    case ncclUint32:
      return 4;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    default:
      return 1;
  }
}

float half_to_float(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                   : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}
uint16_t float_to_half(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  int exponent = 0;
  const float fraction = std::frexp(std::fabs(value), &exponent);  // in [0.5, 1)
  if (fraction == 0) return sign;
  const auto mantissa = static_cast<int>(std::nearbyint(std::ldexp(fraction, 11)));  // 1024 to 2048
  return static_cast<uint16_t>(sign + ((exponent + 13) << 10) + mantissa);
}
double load(ncclDataType_t type, const char* at) {
  const auto as = [&](auto value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  switch (type) {
    case ncclFloat64:
      return as(double{});
    case ncclFloat32:
      return as(float{});
    case ncclInt32:
      return as(int32_t{});
    case ncclInt64:
      return static_cast<double>(as(int64_t{}));
    case ncclFloat16:
      return half_to_float(as(uint16_t{}));
    case ncclBfloat16: {
      const uint32_t bits = static_cast<uint32_t>(as(uint16_t{})) << 16;
      float value = 0;
      std::memcpy(&value, &bits, sizeof value);
      return value;
    }
    default:
      return as(uint8_t{});
  }
}
void store(ncclDataType_t type, double number, char* at) {
  const auto as = [&](auto value) { std::memcpy(at, &value, sizeof value); };
  switch (type) {
    case ncclFloat64:
      return as(number);
    case ncclFloat32:
      return as(static_cast<float>(number));
    case ncclInt32:
      return as(static_cast<int32_t>(number));
    case ncclInt64:
      return as(static_cast<int64_t>(number));
    case ncclFloat16:
      return as(float_to_half(static_cast<float>(number)));
    case ncclBfloat16: {
      const auto value = static_cast<float>(number);
      uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof bits);
      return as(static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16));
    }
    default:
      return as(static_cast<uint8_t>(number));
  }
}

enum class Kind { kAllReduce, kBroadcast, kReduceScatter, kAllGather };
struct Call {
  Kind kind;
  const char* in;
  char* out;
  size_t count;  // as the function counts
  ncclDataType_t type;
  ncclRedOp_t op;
  int root;
};

double combine(ncclRedOp_t op, double a, double b) {
  return op == ncclMax ? std::max(a, b) : op == ncclMin ? std::min(a, b) : a + b;
}

// Every rank's piece is in its slot: what this rank gets of it.
void reduce(const ncclComm* comm, const Call& call, size_t bytes, char* out) {
  const size_t width = width_of(call.type);
  for (size_t at = 0; at < bytes; at += width) {
    double all = load(call.type, comm->shared->slot[0] + at);
    for (int r = 1; r < comm->size; ++r) all = combine(call.op, all, load(call.type, comm->shared->slot[r] + at));
    store(call.type, call.op == ncclAvg ? all / comm->size : all, out + at);
  }
}

bool piece(ncclComm* comm, const Call& call, size_t begin, size_t bytes, size_t whole) {
  if (call.kind == Kind::kReduceScatter) {
    // For one rank after the other.
    for (int to = 0; to < comm->size; ++to) {
      std::memcpy(comm->shared->slot[comm->rank], call.in + static_cast<size_t>(to) * whole + begin, bytes);
      if (!meet(comm)) return false;
      if (to == comm->rank) reduce(comm, call, bytes, call.out + begin);
      if (!meet(comm)) return false;
    }
    return true;
  }
  const char* from = call.kind == Kind::kBroadcast ? call.out : call.in;
  std::memcpy(comm->shared->slot[comm->rank], from + begin, bytes);
  if (!meet(comm)) return false;
  if (call.kind == Kind::kAllReduce) reduce(comm, call, bytes, call.out + begin);
  if (call.kind == Kind::kBroadcast) std::memcpy(call.out + begin, comm->shared->slot[call.root], bytes);
  if (call.kind == Kind::kAllGather)
    for (int r = 0; r < comm->size; ++r)
      std::memcpy(call.out + static_cast<size_t>(r) * whole + begin, comm->shared->slot[r], bytes);
  return meet(comm);
}

void work(ncclComm* comm, const Call& call) {
  const std::string me = my_name();
  const bool now = comm->collectives++ >= static_cast<int>(gpu_double::number("GPU_DOUBLE_FROM", 0));
  const bool fails = now && among("GPU_DOUBLE_FAIL", me);
  if (fails) comm->state = ncclRemoteError;
  while (fails || (now && among("GPU_DOUBLE_HANG", me))) {
    if (comm->aborted) return;
    nap();
  }
  const size_t whole = call.count * width_of(call.type);
  for (size_t begin = 0; begin < (whole > kMoved ? kSlot : whole); begin += kSlot)
    if (!piece(comm, call, begin, std::min(kSlot, whole - begin), whole)) return;
  const double seconds = 2.0 * (comm->size - 1) / comm->size * static_cast<double>(whole) / rate_of(comm);
  std::this_thread::sleep_for(std::chrono::duration<double>(whole > kMoved ? seconds : 0));
  if (!among("GPU_DOUBLE_LAG", me)) return;
  // Long enough for the others to have left, if they do not wait for this one: nothing tells that they never will.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  if (comm->shared->left == 0) return;
  comm->state = ncclRemoteError;
  while (!comm->aborted) nap();
}

thread_local int groups = 0;

// Between ncclGroupStart and ncclGroupEnd of a non-blocking communicator all is in progress, as it is after them.
ncclResult_t enqueue(const Call& call, ncclComm_t comm, cudaStream_t stream) {
  if (comm->state != ncclSuccess) return ncclInvalidUsage;
  gpu_double::queue(stream, [comm, call] { work(comm, call); });
  return ncclSuccess;
}

ncclResult_t make(ncclComm_t* comm, int size, const ncclUniqueId& id, int rank) {
  if (size > kMostRanks || rank < 0 || rank >= size || std::strncmp(id.internal, kMagic, sizeof kMagic - 1) != 0)
    return ncclInvalidArgument;
  *comm = new ncclComm;
  (*comm)->rank = rank;
  (*comm)->size = size;
  const char* const folder = std::getenv("GPU_DOUBLE_FOLDER");
  (*comm)->path = std::string(folder != nullptr ? folder : "/dev/shm") + "/" + id.internal;
  (*comm)->starter = std::thread(start, *comm);
  return ncclInProgress;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> next{0};
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  std::snprintf(id->internal, sizeof id->internal, "%s%d-%d-%lld", kMagic, static_cast<int>(::getpid()),
                next.fetch_add(1), static_cast<long long>(now));
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (config == nullptr || config->magic != 0xcafebeef || config->blocking != 0) return ncclInvalidArgument;
  return make(comm, size, id, rank);
}
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  const ncclResult_t made = make(comm, size, id, rank);
  if (made != ncclInProgress) return made;
  (*comm)->starter.join();
  return (*comm)->state;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  *state = comm->state;
  return ncclSuccess;
}
// What is queued ends soon, and still uses the communicator: it is left to the end of the process.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (!comm->aborted.exchange(true) && comm->shared != nullptr) ++comm->shared->left;
  if (comm->starter.joinable()) comm->starter.join();
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return comm->state;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return ncclCommAbort(comm);
}
ncclResult_t ncclGroupStart(void) {
  ++groups;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd(void) {
  if (groups == 0) return ncclInvalidUsage;
  --groups;
  return ncclInProgress;
}
const char* ncclGetErrorString(ncclResult_t code) {
  return code == ncclRemoteError   ? "remote process exited or there was a network error"
         : code == ncclSystemError ? "unhandled system error (run with NCCL_DEBUG=INFO for details)"
                                   : "an error of the double";
}
ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return enqueue({Kind::kAllReduce, static_cast<const char*>(in), static_cast<char*>(out), count, type, op, 0}, comm,
                 stream);
}
ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return enqueue({Kind::kBroadcast, static_cast<const char*>(in), static_cast<char*>(out), count, type, ncclSum, root},
                 comm, stream);
}
ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return enqueue({Kind::kReduceScatter, static_cast<const char*>(in), static_cast<char*>(out), count, type, op, 0},
                 comm, stream);
}
ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return enqueue({Kind::kAllGather, static_cast<const char*>(in), static_cast<char*>(out), count, type, ncclSum, 0},
                 comm, stream);
}
}
