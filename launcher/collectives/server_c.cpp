// SPDX-License-Identifier: Apache-2.0
// The C functions of parameter servers.
#include <cmath>
#include <string>
#include <utility>

#include "launcher/collectives/c_handles.h"
#include "launcher/collectives/c_result.h"
#include "launcher/collectives/device.h"
#include "launcher/collectives/server.h"

using namespace dl;           // NOLINT(google-build-using-namespace)
using namespace dl::learner;  // NOLINT(google-build-using-namespace)

struct dllearner_ps {
  Context* context;
  std::unique_ptr<Client> client;
};

namespace {

Error invalid(const std::string& text) {
  return Error{Errc::kInvalid, text};
}

Result<Order> order_of(const dllearner_ps_options* options, size_t count, int servers) {
  if (options == nullptr) return invalid("options: the pointer is NULL");
  if (options->struct_size != sizeof(dllearner_ps_options))
    return invalid("struct_size: " + std::to_string(options->struct_size) +
                   " is not the size of dllearner_ps_options, " + std::to_string(sizeof(dllearner_ps_options)));
  if (options->mode < DLLEARNER_PS_SYNC || options->mode > DLLEARNER_PS_BOUNDED)
    return invalid("mode: " + std::to_string(options->mode) + " is unknown; allowed: DLLEARNER_PS_SYNC to _BOUNDED");
  if (options->staleness < 0)
    return invalid("staleness: " + std::to_string(options->staleness) + " is out of range; allowed: 0 and more");
  for (const double value : {options->learning_rate, options->momentum})
    if (!std::isfinite(value) || value < 0)
      return invalid("learning_rate or momentum: " + std::to_string(value) + " is out of range; allowed: 0 and more");
  const size_t most = static_cast<size_t>(servers) * DLLEARNER_MAX_COUNT;
  if (count == 0 || count > most)
    return invalid("count: " + std::to_string(count) + " is out of range; allowed: 1 to " + std::to_string(most));
  Order order;
  order.kind = OrderKind::kCreate;
  order.mode = options->mode;
  order.staleness = options->staleness;
  order.learning_rate = options->learning_rate;
  order.momentum = options->momentum;
  order.count = count;
  return order;
}

Status noted(Context* context, Status status) {
  if (!status) context->note(status.error());
  return status;
}

Status check_buffer(const void* data, const char* name) {
  if (data == nullptr) return invalid(std::string(name) + ": the pointer is NULL");
  if (is_device_memory(data))
    return Error{Errc::kUnsupported, std::string(name) + ": the memory is a GPU's; allowed: memory of the host"};
  return {};
}

}  // namespace

extern "C" {

dllearner_result dllearner_serve(dllearner_ctx* ctx, dllearner_update_fn update, void* user) {
  return answer([&]() -> Status {
    if (ctx == nullptr) return invalid("ctx: the pointer is NULL");
    Context* context = ctx->context.get();
    DL_TRY(context->usable(false));
    if (!context->is_server())
      return Error{Errc::kBusy, "serve: this rank is a learner; the last ranks are servers (options.servers)"};
    return noted(context, serve(context->channel(), context->servers(), context->timeout_s(), update, user));
  });
}

dllearner_result dllearner_ps_create(dllearner_ctx* ctx, const dllearner_ps_options* options, const float* weights,
                                     size_t count, dllearner_ps** out) {
  if (out != nullptr) *out = nullptr;
  return answer([&]() -> Status {
    if (ctx == nullptr) return invalid("ctx: the pointer is NULL");
    if (out == nullptr) return invalid("out: the pointer is NULL");
    Context* context = ctx->context.get();
    DL_TRY(context->usable(true));
    if (context->servers() == 0)
      return Error{
          Errc::kBusy,
          "this world has no parameter servers; ask for them with options.servers, DL_SERVERS or dlrun --servers"};
    DL_TRY_ASSIGN(const Order order, order_of(options, count, context->servers()));
    DL_TRY(check_buffer(weights, "weights"));
    auto handle = std::make_unique<dllearner_ps>();
    handle->context = context;
    auto client = Client::create(context->channel(), context->servers(), order, weights);
    if (!client) return noted(context, std::move(client).error());
    handle->client = std::move(client).value();
    *out = handle.release();
    return {};
  });
}

dllearner_result dllearner_ps_pull(dllearner_ps* ps, float* weights) {
  return answer([&]() -> Status {
    if (ps == nullptr) return invalid("ps: the pointer is NULL");
    DL_TRY(ps->context->usable(true));
    DL_TRY(check_buffer(weights, "weights"));
    return noted(ps->context, ps->client->pull(weights));
  });
}

dllearner_result dllearner_ps_push(dllearner_ps* ps, const float* gradient) {
  return answer([&]() -> Status {
    if (ps == nullptr) return invalid("ps: the pointer is NULL");
    DL_TRY(ps->context->usable(true));
    DL_TRY(check_buffer(gradient, "gradient"));
    return noted(ps->context, ps->client->push(gradient));
  });
}

void dllearner_ps_destroy(dllearner_ps* ps) {
  if (ps == nullptr) return;
  answer([&]() -> Status {
    if (ps->context->broken()) return {};
    return noted(ps->context, ps->client->leave());
  });
  delete ps;
}

}  // extern "C"
