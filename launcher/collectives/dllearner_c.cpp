// SPDX-License-Identifier: Apache-2.0
// The C functions of dllearner.h, except those of parameter servers (server_c.cpp).
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "config.h"
#include "launcher/collectives/buckets.h"
#include "launcher/collectives/c_handles.h"
#include "launcher/collectives/c_result.h"
#include "launcher/collectives/device.h"
#include "launcher/collectives/elements.h"

using namespace dl;           // NOLINT(google-build-using-namespace)
using namespace dl::learner;  // NOLINT(google-build-using-namespace)

struct dllearner_request {
  Context* context;
  std::unique_ptr<Request> request;
};
struct dllearner_buckets {
  Context* context;
  std::unique_ptr<Buckets> buckets;
};

namespace {

Error is_null(const char* name) {
  return Error{Errc::kInvalid, std::string(name) + ": the pointer is NULL"};
}

Operation make(Kind kind, const void* in, void* out, size_t count, int dtype, int op = DLLEARNER_SUM, int root = 0) {
  Operation operation;
  operation.kind = kind;
  operation.in = in;
  operation.out = out;
  operation.count = count;
  operation.dtype = dtype;
  operation.op = op;
  operation.root = root;
  return operation;
}

dllearner_result run(dllearner_ctx* ctx, const Operation& operation) noexcept {
  return answer([&]() -> Status {
    if (ctx == nullptr) return is_null("ctx");
    return ctx->context->run(operation);
  });
}

dllearner_result start(dllearner_ctx* ctx, const Operation& operation, dllearner_request** out) noexcept {
  if (out != nullptr) *out = nullptr;
  return answer([&]() -> Status {
    if (ctx == nullptr) return is_null("ctx");
    if (out == nullptr) return is_null("out");
    auto handle = std::make_unique<dllearner_request>(dllearner_request{ctx->context.get(), nullptr});
    DL_TRY_ASSIGN(handle->request, ctx->context->start(operation));
    *out = handle.release();
    return {};
  });
}

Status noted(Context* context, Status status) {
  if (!status) context->note(status.error());
  return status;
}

}  // namespace

extern "C" {

dllearner_result dllearner_open(const dllearner_options* options, dllearner_ctx** out) {
  if (out != nullptr) *out = nullptr;
  return answer([&]() -> Status {
    if (out == nullptr) return is_null("out");
    auto handle = std::make_unique<dllearner_ctx>();
    DL_TRY_ASSIGN(handle->context, Context::open(options));
    *out = handle.release();
    return {};
  });
}

void dllearner_close(dllearner_ctx* ctx) {
  delete ctx;
}

int dllearner_rank(const dllearner_ctx* ctx) {
  return ctx != nullptr ? ctx->context->rank() : -1;
}
int dllearner_size(const dllearner_ctx* ctx) {
  if (ctx == nullptr) return -1;
  const int group = ctx->context->size();
  return ctx->context->is_server() ? ctx->context->channel()->size() - group : group;
}
int dllearner_servers(const dllearner_ctx* ctx) {
  return ctx != nullptr ? ctx->context->servers() : -1;
}
int dllearner_role_of(const dllearner_ctx* ctx) {
  if (ctx == nullptr) return 0;
  return ctx->context->is_server() ? DLLEARNER_SERVER : DLLEARNER_LEARNER;
}

dllearner_result dllearner_all_reduce(dllearner_ctx* ctx, const void* send, void* recv, size_t count,
                                      dllearner_dtype dtype, dllearner_op op) {
  return run(ctx, make(Kind::kAllReduce, send, recv, count, dtype, op));
}
dllearner_result dllearner_broadcast(dllearner_ctx* ctx, void* data, size_t count, dllearner_dtype dtype, int root) {
  return run(ctx, make(Kind::kBroadcast, nullptr, data, count, dtype, DLLEARNER_SUM, root));
}
dllearner_result dllearner_reduce_scatter(dllearner_ctx* ctx, const void* send, void* recv, size_t count,
                                          dllearner_dtype dtype, dllearner_op op) {
  return run(ctx, make(Kind::kReduceScatter, send, recv, count, dtype, op));
}
dllearner_result dllearner_all_gather(dllearner_ctx* ctx, const void* send, void* recv, size_t count,
                                      dllearner_dtype dtype) {
  return run(ctx, make(Kind::kAllGather, send, recv, count, dtype));
}
dllearner_result dllearner_barrier(dllearner_ctx* ctx) {
  return run(ctx, Operation{});
}

dllearner_result dllearner_all_reduce_start(dllearner_ctx* ctx, const void* send, void* recv, size_t count,
                                            dllearner_dtype dtype, dllearner_op op, dllearner_request** out) {
  return start(ctx, make(Kind::kAllReduce, send, recv, count, dtype, op), out);
}
dllearner_result dllearner_broadcast_start(dllearner_ctx* ctx, void* data, size_t count, dllearner_dtype dtype,
                                           int root, dllearner_request** out) {
  return start(ctx, make(Kind::kBroadcast, nullptr, data, count, dtype, DLLEARNER_SUM, root), out);
}
dllearner_result dllearner_reduce_scatter_start(dllearner_ctx* ctx, const void* send, void* recv, size_t count,
                                                dllearner_dtype dtype, dllearner_op op, dllearner_request** out) {
  return start(ctx, make(Kind::kReduceScatter, send, recv, count, dtype, op), out);
}
dllearner_result dllearner_all_gather_start(dllearner_ctx* ctx, const void* send, void* recv, size_t count,
                                            dllearner_dtype dtype, dllearner_request** out) {
  return start(ctx, make(Kind::kAllGather, send, recv, count, dtype), out);
}
dllearner_result dllearner_barrier_start(dllearner_ctx* ctx, dllearner_request** out) {
  return start(ctx, Operation{}, out);
}

dllearner_result dllearner_wait(dllearner_request** request) {
  return answer([&]() -> Status {
    if (request == nullptr) return is_null("request");
    const std::unique_ptr<dllearner_request> handle(std::exchange(*request, nullptr));
    if (handle == nullptr) return {};
    return noted(handle->context, handle->request->wait());
  });
}

dllearner_result dllearner_test(dllearner_request** request, int* done) {
  if (done != nullptr) *done = 0;
  return answer([&]() -> Status {
    if (request == nullptr) return is_null("request");
    if (done == nullptr) return is_null("done");
    if (*request == nullptr) {
      *done = 1;
      return {};
    }
    auto state = (*request)->request->test();
    if (state && !*state) return {};
    const std::unique_ptr<dllearner_request> handle(std::exchange(*request, nullptr));
    if (!state) return noted(handle->context, std::move(state).error());
    *done = 1;
    return {};
  });
}

dllearner_result dllearner_buckets_create(dllearner_ctx* ctx, dllearner_dtype dtype, size_t parameters,
                                          const size_t* counts, size_t bucket_bytes, dllearner_buckets** out) {
  if (out != nullptr) *out = nullptr;
  return answer([&]() -> Status {
    if (ctx == nullptr) return is_null("ctx");
    if (out == nullptr) return is_null("out");
    if (counts == nullptr && parameters > 0) return is_null("counts");
    if (!is_floating(dtype))
      return Error{Errc::kInvalid, "dtype: " + std::to_string(dtype) + " has no mean; allowed: F32, F64, F16, BF16"};
    std::vector<size_t> copy(counts, counts + parameters);
    DL_TRY_ASSIGN(auto plan, plan_buckets(copy, element_size(dtype), bucket_bytes));
    DL_TRY_ASSIGN(auto group, ctx->context->duplicate_group());
    auto handle = std::make_unique<dllearner_buckets>();
    handle->context = ctx->context.get();
    handle->buckets =
        std::make_unique<Buckets>(std::move(group), dtype, std::move(copy), std::move(plan), ctx->context->timeout_s());
    *out = handle.release();
    return {};
  });
}

dllearner_result dllearner_buckets_ready(dllearner_buckets* buckets, size_t parameter, void* gradient) {
  return answer([&]() -> Status {
    if (buckets == nullptr) return is_null("buckets");
    DL_TRY(buckets->context->usable(true));
    return noted(buckets->context, buckets->buckets->ready(parameter, gradient));
  });
}

dllearner_result dllearner_buckets_finish(dllearner_buckets* buckets) {
  return answer([&]() -> Status {
    if (buckets == nullptr) return is_null("buckets");
    DL_TRY(buckets->context->usable(true));
    return noted(buckets->context, buckets->buckets->finish());
  });
}

dllearner_result dllearner_buckets_count(const dllearner_buckets* buckets, size_t* buckets_total,
                                         size_t* buckets_copied) {
  return answer([&]() -> Status {
    if (buckets == nullptr) return is_null("buckets");
    if (buckets_total != nullptr) *buckets_total = buckets->buckets->total();
    if (buckets_copied != nullptr) *buckets_copied = buckets->buckets->copied();
    return {};
  });
}

void dllearner_buckets_destroy(dllearner_buckets* buckets) {
  if (buckets == nullptr) return;
  if (buckets->context->broken()) buckets->buckets->abandon();
  delete buckets;
}

const char* dllearner_error(void) {
  return kept_error();
}

const char* dllearner_result_name(int result) {
  switch (result) {
    case DLLEARNER_OK:
      return "DLLEARNER_OK";
    case DLLEARNER_E_INVALID:
      return "DLLEARNER_E_INVALID";
    case DLLEARNER_E_UNSUPPORTED:
      return "DLLEARNER_E_UNSUPPORTED";
    case DLLEARNER_E_WORLD:
      return "DLLEARNER_E_WORLD";
    case DLLEARNER_E_PEER:
      return "DLLEARNER_E_PEER";
    case DLLEARNER_E_TIMEOUT:
      return "DLLEARNER_E_TIMEOUT";
    case DLLEARNER_E_MEMORY:
      return "DLLEARNER_E_MEMORY";
    case DLLEARNER_E_STATE:
      return "DLLEARNER_E_STATE";
    case DLLEARNER_E_INTERNAL:
      return "DLLEARNER_E_INTERNAL";
    case DLLEARNER_E_IO:
      return "DLLEARNER_E_IO";
    default:
      return "unknown";
  }
}

size_t dllearner_dtype_size(dllearner_dtype dtype) {
  return element_size(dtype);
}
const char* dllearner_mpi_version(void) {
  return mpi_version();
}
int dllearner_has_nccl(void) {
  return has_device_backend() ? 1 : 0;
}
const char* dllearner_version(void) {
  return PACKAGE_VERSION;
}

}  // extern "C"
