// SPDX-License-Identifier: Apache-2.0
// Collectives over one communicator. MPI's own waits have no timeout, so with a timeout every wait is a loop of tests
// with a deadline, and a blocking call is a non-blocking one that is waited for. Ranks must not mix the two kinds, so
// open_mpi_world checks that all ranks have the same timeout.
#include "launcher/collectives/elements.h"
#include "launcher/collectives/mpi_handles.h"

namespace dl::learner {
namespace {

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kAllReduce:
      return "all-reduce";
    case Kind::kBroadcast:
      return "broadcast";
    case Kind::kReduceScatter:
      return "reduce-scatter";
    case Kind::kAllGather:
      return "all-gather";
    case Kind::kBarrier:
      return "barrier";
  }
  return "operation";
}

class MpiBackend final : public Backend {
 public:
  MpiBackend(MPI_Comm comm, double timeout_s) : comm_(comm), timeout_s_(timeout_s) {
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
  }
  ~MpiBackend() override {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (!abandoned_ && finalized == 0) MPI_Comm_free(&comm_);
  }
  MpiBackend(const MpiBackend&) = delete;
  MpiBackend& operator=(const MpiBackend&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void abandon() override { abandoned_ = true; }

  Result<std::unique_ptr<Request>> start(const Operation& operation) override {
    MPI_Request request = MPI_REQUEST_NULL;
    DL_TRY(call(operation, &request));
    return make_mpi_request(request, name_of(operation.kind), timeout_s_, mean_of(operation));
  }

  Status run(const Operation& operation) override {
    if (timeout_s_ > 0) return Backend::run(operation);
    DL_TRY(call(operation, nullptr));
    const Mean mean = mean_of(operation);
    if (mean.data != nullptr) divide_elements(mean.dtype, mean.data, mean.count, mean.divisor);
    return {};
  }

  Result<std::unique_ptr<Backend>> duplicate() override {
    MPI_Comm comm = MPI_COMM_NULL;
    DL_TRY(mpi_status("duplicate a communicator", MPI_Comm_dup(comm_, &comm)));  // the error handler is copied, too
    return make_mpi_backend(comm, timeout_s_);
  }

 private:
  Mean mean_of(const Operation& operation) const {
    const bool reduces = operation.kind == Kind::kAllReduce || operation.kind == Kind::kReduceScatter;
    if (!reduces || operation.op != DLLEARNER_MEAN) return {};
    return {operation.out, operation.count, operation.dtype, size_};
  }

  // Without a request, makes the blocking call.
  Status call(const Operation& o, MPI_Request* request) {
    const int count = static_cast<int>(o.count);
    MPI_Datatype type = mpi_type(o.dtype);
    MPI_Op op = MPI_SUM;
    if (o.kind == Kind::kAllReduce || o.kind == Kind::kReduceScatter) {
      DL_TRY_ASSIGN(op, mpi_operation(o.dtype, o.op));
    }
    int code = MPI_SUCCESS;
    const void* in = o.in;
    switch (o.kind) {
      case Kind::kAllReduce:
        if (in == o.out) in = MPI_IN_PLACE;
        code = request != nullptr ? MPI_Iallreduce(in, o.out, count, type, op, comm_, request)
                                  : MPI_Allreduce(in, o.out, count, type, op, comm_);
        break;
      case Kind::kBroadcast:
        code = request != nullptr ? MPI_Ibcast(o.out, count, type, o.root, comm_, request)
                                  : MPI_Bcast(o.out, count, type, o.root, comm_);
        break;
      case Kind::kReduceScatter:
        code = request != nullptr ? MPI_Ireduce_scatter_block(in, o.out, count, type, op, comm_, request)
                                  : MPI_Reduce_scatter_block(in, o.out, count, type, op, comm_);
        break;
      case Kind::kAllGather: {
        const size_t offset = static_cast<size_t>(rank_) * o.count * element_size(o.dtype);
        if (in == static_cast<const char*>(o.out) + offset) in = MPI_IN_PLACE;
        code = request != nullptr ? MPI_Iallgather(in, count, type, o.out, count, type, comm_, request)
                                  : MPI_Allgather(in, count, type, o.out, count, type, comm_);
        break;
      }
      case Kind::kBarrier:
        code = request != nullptr ? MPI_Ibarrier(comm_, request) : MPI_Barrier(comm_);
        break;
    }
    return mpi_status(name_of(o.kind), code);
  }

  MPI_Comm comm_;
  double timeout_s_;
  int rank_ = 0;
  int size_ = 1;
  bool abandoned_ = false;
};

}  // namespace

std::unique_ptr<Backend> make_mpi_backend(MPI_Comm comm, double timeout_s) {
  return std::make_unique<MpiBackend>(comm, timeout_s);
}

}  // namespace dl::learner
