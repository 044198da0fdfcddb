// SPDX-License-Identifier: Apache-2.0
// Collectives over memory of GPUs, in a module of its own (device.h). Each rank uses one GPU: the one that is current
// when such memory is used for the first time. The communicator is non-blocking, because a blocking one waits for ever
// for a rank that does not come, even while it is made.
//
// An operation starts after the work that the program has queued on the default stream; the program has to wait for
// work on other streams itself. Once the operation is done (wait, test), every stream sees its result.
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <sched.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "launcher/collectives/device.h"

namespace dl::learner {
namespace {

using Clock = std::chrono::steady_clock;

Status cuda_status(const char* what, cudaError_t code) {
  if (code == cudaSuccess) return {};
  return Error{Errc::kIo, std::string(what) + ": " + cudaGetErrorString(code)};
}
Status nccl_status(const char* what, ncclResult_t code) {
  if (code == ncclSuccess || code == ncclInProgress) return {};
  return Error{Errc::kIo, std::string(what) + ": " + ncclGetErrorString(code)};
}

ncclDataType_t nccl_type(int dtype) {
  switch (dtype) {
    case DLLEARNER_F32:
      return ncclFloat32;
    case DLLEARNER_F64:
      return ncclFloat64;
    case DLLEARNER_F16:
      return ncclFloat16;
    case DLLEARNER_BF16:
      return ncclBfloat16;
    case DLLEARNER_I32:
      return ncclInt32;
    case DLLEARNER_I64:
      return ncclInt64;
    default:
      return ncclUint8;
  }
}
ncclRedOp_t nccl_op(int op) {
  switch (op) {
    case DLLEARNER_MAX:
      return ncclMax;
    case DLLEARNER_MIN:
      return ncclMin;
    case DLLEARNER_MEAN:
      return ncclAvg;
    default:
      return ncclSum;
  }
}

// Owns the communicator and the stream. Requests share it, because they may outlive the backend.
struct Link {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  int device = 0;
  double timeout_s = 0;
  bool aborted = false;
  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  ~Link() {
    if (comm != nullptr && !aborted) {
      if (finalized()) {
        ncclCommDestroy(comm);
      } else {
        ncclCommAbort(comm);
      }
    }
    if (stream != nullptr) cudaStreamDestroy(stream);
  }
  bool late(Clock::time_point since) const {
    return timeout_s > 0 && Clock::now() - since >= std::chrono::duration<double>(timeout_s);
  }
  Error timed_out() {
    abort();
    return Error{Errc::kTimeout,
                 "NCCL: another rank did not take part within " + std::to_string(static_cast<long>(timeout_s)) + " s"};
  }
  // Waits until NCCL has done what it was asked; a non-blocking communicator may only have begun it.
  Status settle(const char* what, ncclResult_t code) {
    const auto begin = Clock::now();
    while (code == ncclInProgress && comm != nullptr) {
      if (late(begin)) return timed_out();
      ::sched_yield();
      DL_TRY(nccl_status(what, ncclCommGetAsyncError(comm, &code)));
    }
    Status status = nccl_status(what, code);
    if (!status) abort();
    return status;
  }
  // Aborts the communicator: kernels that wait for a dead peer would keep the GPU busy for ever.
  void abort() {
    if (comm != nullptr && !aborted) ncclCommAbort(comm);
    aborted = true;
  }

 private:
  // Finalises the communicator. What is not done within a second, because a peer is dead, is given up.
  bool finalized() {
    ncclResult_t code = ncclCommFinalize(comm);
    const auto begin = Clock::now();
    while (code == ncclInProgress && Clock::now() - begin < std::chrono::seconds(1)) {
      ::sched_yield();
      if (ncclCommGetAsyncError(comm, &code) != ncclSuccess) return false;
    }
    return code == ncclSuccess;
  }
};

class NcclRequest final : public Request {
 public:
  NcclRequest(std::shared_ptr<Link> link, cudaEvent_t done) : link_(std::move(link)), done_(done) {}
  ~NcclRequest() override { cudaEventDestroy(done_); }
  NcclRequest(const NcclRequest&) = delete;
  NcclRequest& operator=(const NcclRequest&) = delete;

  Result<bool> test() override {
    const cudaError_t state = cudaEventQuery(done_);
    // An error of another request has aborted the communicator.
    if (link_->aborted)
      return Error{Errc::kIo, "NCCL: its communicator was ended after an earlier error; close this context"};
    if (state == cudaSuccess) return true;
    if (state != cudaErrorNotReady) {
      DL_TRY(cuda_status("wait for NCCL", state));
    }
    ncclResult_t behind = ncclSuccess;
    DL_TRY(nccl_status("ask NCCL", ncclCommGetAsyncError(link_->comm, &behind)));
    Status failed = nccl_status("NCCL", behind);
    if (failed) return false;
    link_->abort();
    return std::move(failed).error();
  }
  Status wait() override {
    const auto begin = Clock::now();
    for (;;) {
      DL_TRY_ASSIGN(const bool done, test());
      if (done) return {};
      ::sched_yield();
      if (link_->late(begin)) return link_->timed_out();
    }
  }

 private:
  std::shared_ptr<Link> link_;
  cudaEvent_t done_;
};

// device.h's open_device_backend() calls this function of the module, to which it is not exported itself.
Result<std::unique_ptr<Backend>> open_backend(Backend* host, double timeout_s);

class NcclBackend final : public Backend {
 public:
  NcclBackend(std::shared_ptr<Link> link, Backend* host) : link_(std::move(link)), host_(host) {}
  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  void abandon() override { link_->abort(); }

  Result<std::unique_ptr<Request>> start(const Operation& o) override { return start_all({o}); }
  Result<std::unique_ptr<Request>> start_all(const std::vector<Operation>& operations) override {
    if (link_->aborted)
      return Error{Errc::kIo, "NCCL: its communicator was ended after an earlier error; close this context"};
    int before = 0;
    DL_TRY(cuda_status("ask for the current GPU", cudaGetDevice(&before)));
    DL_TRY(cuda_status("make the context's GPU the current one", cudaSetDevice(link_->device)));
    auto request = enqueue(operations);
    cudaSetDevice(before);
    return request;
  }

  Result<std::unique_ptr<Backend>> duplicate() override { return open_backend(host_, link_->timeout_s); }

 private:
  Result<std::unique_ptr<Request>> enqueue(const std::vector<Operation>& operations) {
    cudaEvent_t event = nullptr;
    DL_TRY(cuda_status("make an event", cudaEventCreateWithFlags(&event, cudaEventDisableTiming)));
    auto request = std::make_unique<NcclRequest>(link_, event);
    DL_TRY(cuda_status("mark the default stream", cudaEventRecord(event, cudaStreamLegacy)));
    DL_TRY(cuda_status("wait for the default stream", cudaStreamWaitEvent(link_->stream, event, 0)));
    // The event marks the end of what is in the stream, so NCCL must have queued everything before.
    DL_TRY(link_->settle("NCCL", call(operations)));
    DL_TRY(cuda_status("mark the operation", cudaEventRecord(event, link_->stream)));
    return std::unique_ptr<Request>(std::move(request));
  }
  // Starts the operations; several of them become one launch.
  ncclResult_t call(const std::vector<Operation>& operations) {
    if (operations.size() == 1) return call(operations.front());
    if (const ncclResult_t code = ncclGroupStart(); code != ncclSuccess) return code;
    ncclResult_t failed = ncclSuccess;
    for (const Operation& o : operations) {
      const ncclResult_t code = call(o);
      if (code != ncclSuccess && code != ncclInProgress && failed == ncclSuccess) failed = code;
    }
    const ncclResult_t ended = ncclGroupEnd();
    return failed != ncclSuccess ? failed : ended;
  }
  ncclResult_t call(const Operation& o) {
    const ncclDataType_t type = nccl_type(o.dtype);
    switch (o.kind) {
      case Kind::kAllReduce:
        return ncclAllReduce(o.in, o.out, o.count, type, nccl_op(o.op), link_->comm, link_->stream);
      case Kind::kBroadcast:
        return ncclBroadcast(o.out, o.out, o.count, type, o.root, link_->comm, link_->stream);
      case Kind::kReduceScatter:
        return ncclReduceScatter(o.in, o.out, o.count, type, nccl_op(o.op), link_->comm, link_->stream);
      case Kind::kAllGather:
        return ncclAllGather(o.in, o.out, o.count, type, link_->comm, link_->stream);
      case Kind::kBarrier:
        break;  // a barrier has no memory, so it is never started here
    }
    return ncclInvalidUsage;
  }

  std::shared_ptr<Link> link_;
  Backend* host_;
};

Result<std::unique_ptr<Backend>> open_backend(Backend* host, double timeout_s) {
  auto link = std::make_shared<Link>();
  link->timeout_s = timeout_s;
  ncclUniqueId id{};
  if (host->rank() == 0) DL_TRY(nccl_status("make NCCL's unique id", ncclGetUniqueId(&id)));
  Operation share;
  share.kind = Kind::kBroadcast;
  share.out = &id;
  share.count = sizeof id;
  DL_TRY(host->run(share));
  DL_TRY(cuda_status("ask for the current GPU", cudaGetDevice(&link->device)));
  DL_TRY(cuda_status("make a stream", cudaStreamCreateWithFlags(&link->stream, cudaStreamNonBlocking)));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  DL_TRY(link->settle("start NCCL", ncclCommInitRankConfig(&link->comm, host->size(), id, host->rank(), &config)));
  return std::unique_ptr<Backend>(std::make_unique<NcclBackend>(std::move(link), host));
}

}  // namespace
}  // namespace dl::learner

extern "C" {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wreturn-type-c-linkage"
dl::Result<std::unique_ptr<dl::learner::Backend>> dllearner_nccl_open(dl::learner::Backend* host, double timeout_s) {
  return dl::learner::open_backend(host, timeout_s);
}
#pragma GCC diagnostic pop
}
