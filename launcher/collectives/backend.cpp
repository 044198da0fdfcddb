// SPDX-License-Identifier: Apache-2.0
#include "launcher/collectives/backend.h"

#include <cstring>
#include <string>

#include "launcher/collectives/elements.h"

namespace dl::learner {
namespace {

class Done final : public Request {
 public:
  Result<bool> test() override { return true; }
  Status wait() override { return {}; }
};

class AloneBackend final : public Backend {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Result<std::unique_ptr<Request>> start(const Operation& operation) override {
    DL_TRY(run(operation));
    return std::unique_ptr<Request>(std::make_unique<Done>());
  }
  Status run(const Operation& operation) override {
    if (operation.in != nullptr && operation.in != operation.out && operation.count > 0)
      std::memcpy(operation.out, operation.in, operation.count * element_size(operation.dtype));
    return {};
  }
  Result<std::unique_ptr<Backend>> duplicate() override { return make_alone_backend(); }
};

Error invalid(const std::string& text) {
  return Error{Errc::kInvalid, text};
}

}  // namespace

Status check_operation(const Operation& operation, int size) {
  if (operation.kind == Kind::kBarrier) return {};
  if (element_size(operation.dtype) == 0)
    return invalid("dtype: " + std::to_string(operation.dtype) + " is unknown; allowed: DLLEARNER_F32 to DLLEARNER_U8");
  if (operation.count > DLLEARNER_MAX_COUNT)
    return invalid("count: " + std::to_string(operation.count) + " is too large; allowed: 0 to " +
                   std::to_string(DLLEARNER_MAX_COUNT) + " elements");
  const bool reduces = operation.kind == Kind::kAllReduce || operation.kind == Kind::kReduceScatter;
  if (reduces && !is_op(operation.op))
    return invalid("op: " + std::to_string(operation.op) + " is unknown; allowed: DLLEARNER_SUM to DLLEARNER_MEAN");
  if (reduces && operation.op == DLLEARNER_MEAN && !is_floating(operation.dtype))
    return invalid("op: DLLEARNER_MEAN of integers would be no integer; allowed with it: F32, F64, F16, BF16");
  if (operation.kind == Kind::kBroadcast && (operation.root < 0 || operation.root >= size))
    return invalid("root: " + std::to_string(operation.root) + " is not a rank of this world; allowed: 0 to " +
                   std::to_string(size - 1));
  if (operation.count > 0 &&
      (operation.out == nullptr || (operation.kind != Kind::kBroadcast && operation.in == nullptr)))
    return invalid("in or out is NULL, and count is " + std::to_string(operation.count) +
                   "; allowed: NULL only where count is 0");
  return {};
}

std::unique_ptr<Backend> make_alone_backend() {
  return std::make_unique<AloneBackend>();
}

}  // namespace dl::learner
