// SPDX-License-Identifier: Apache-2.0
#include "launcher/collectives/mpi_handles.h"

#include <sched.h>

#include <array>
#include <chrono>

#include "launcher/collectives/elements.h"

namespace dl::learner {
namespace {

using Clock = std::chrono::steady_clock;

// MPI passes neither our dtype nor our op to a user's function, so each pair has a function of its own.
template <int kDtype, int kOp>
void reduce_half(void* in, void* inout, int* count, MPI_Datatype* /*type*/) {
  reduce_elements(kDtype, kOp, in, inout, static_cast<size_t>(*count));
}

struct HalfOperation {
  int dtype;
  int op;
  MPI_User_function* function;
  MPI_Op made;
};
std::array<HalfOperation, 6>& half_operations() {
  static std::array<HalfOperation, 6> table = {{
      {DLLEARNER_F16, DLLEARNER_SUM, reduce_half<DLLEARNER_F16, DLLEARNER_SUM>, MPI_OP_NULL},
      {DLLEARNER_F16, DLLEARNER_MAX, reduce_half<DLLEARNER_F16, DLLEARNER_MAX>, MPI_OP_NULL},
      {DLLEARNER_F16, DLLEARNER_MIN, reduce_half<DLLEARNER_F16, DLLEARNER_MIN>, MPI_OP_NULL},
      {DLLEARNER_BF16, DLLEARNER_SUM, reduce_half<DLLEARNER_BF16, DLLEARNER_SUM>, MPI_OP_NULL},
      {DLLEARNER_BF16, DLLEARNER_MAX, reduce_half<DLLEARNER_BF16, DLLEARNER_MAX>, MPI_OP_NULL},
      {DLLEARNER_BF16, DLLEARNER_MIN, reduce_half<DLLEARNER_BF16, DLLEARNER_MIN>, MPI_OP_NULL},
  }};
  return table;
}

class MpiRequest final : public Request {
 public:
  MpiRequest(MPI_Request request, const char* what, double timeout_s, const Mean& mean)
      : request_(request), what_(what), timeout_s_(timeout_s), mean_(mean) {}

  Result<bool> test() override {
    int done = 0;
    DL_TRY(mpi_status(what_, MPI_Test(&request_, &done, MPI_STATUS_IGNORE)));
    if (done != 0) finish();
    return done != 0;
  }

  Status wait() override {
    if (timeout_s_ <= 0) {
      DL_TRY(mpi_status(what_, MPI_Wait(&request_, MPI_STATUS_IGNORE)));
      finish();
      return {};
    }
    const auto deadline = Clock::now() + std::chrono::duration<double>(timeout_s_);
    for (unsigned turn = 1;; ++turn) {
      DL_TRY_ASSIGN(const bool done, test());
      if (done) return {};
      if (turn % kTestsPerLook != 0) continue;
      ::sched_yield();  // with more ranks than cores, the peer may be waiting for this core
      if (Clock::now() >= deadline)
        return Error{Errc::kTimeout, std::string(what_) + ": another rank did not take part within " +
                                         std::to_string(static_cast<long>(timeout_s_)) + " s"};
    }
  }

 private:
  static constexpr unsigned kTestsPerLook = 16;

  void finish() {
    if (mean_.data != nullptr) divide_elements(mean_.dtype, mean_.data, mean_.count, mean_.divisor);
    mean_.data = nullptr;
  }

  MPI_Request request_;
  const char* what_;
  double timeout_s_;
  Mean mean_;
};

}  // namespace

Error mpi_error(const std::string& what, int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) length = 0;
  return Error{Errc::kIo, what + ": " +
                              (length > 0 ? std::string(text.data(), static_cast<size_t>(length))
                                          : "MPI error " + std::to_string(code))};
}

Status mpi_status(const std::string& what, int code) {
  if (code != MPI_SUCCESS) return mpi_error(what, code);
  return {};
}

MPI_Datatype mpi_type(int dtype) {
  switch (dtype) {
    case DLLEARNER_F32:
      return MPI_FLOAT;
    case DLLEARNER_F64:
      return MPI_DOUBLE;
    case DLLEARNER_F16:
    case DLLEARNER_BF16:
      return MPI_UINT16_T;
    case DLLEARNER_I32:
      return MPI_INT32_T;
    case DLLEARNER_I64:
      return MPI_INT64_T;
    default:
      return MPI_UINT8_T;
  }
}

Result<MPI_Op> mpi_operation(int dtype, int op) {
  if (op == DLLEARNER_MEAN) op = DLLEARNER_SUM;
  for (HalfOperation& half : half_operations()) {
    if (half.dtype != dtype || half.op != op) continue;
    if (half.made == MPI_OP_NULL) DL_TRY(mpi_status("make an operation", MPI_Op_create(half.function, 1, &half.made)));
    return half.made;
  }
  return op == DLLEARNER_MAX ? MPI_MAX : op == DLLEARNER_MIN ? MPI_MIN : MPI_SUM;
}

void free_mpi_operations() {
  for (HalfOperation& half : half_operations())
    if (half.made != MPI_OP_NULL) MPI_Op_free(&half.made);
}

std::unique_ptr<Request> make_mpi_request(MPI_Request request, const char* what, double timeout_s, const Mean& mean) {
  return std::make_unique<MpiRequest>(request, what, timeout_s, mean);
}

}  // namespace dl::learner
