// SPDX-License-Identifier: Apache-2.0
// The C functions of dlckpt.h: guard(), one table of errors, and messages.
#include "config.h"

#include <cmath>
#include <cstddef>
#include <cstring>

#include "checkpoint/client/c_errors.h"
#include "checkpoint/client/context.h"
#include "checkpoint/client/one_thread.h"
#include "checkpoint/format/dtype.h"
#include "checkpoint/include/dlckpt.h"
#include "common/base/guard.h"

struct dlckpt_ctx {
  std::unique_ptr<dl::ckpt::Context> context;
  std::string message;
  mutable dl::ckpt::OneThread one_thread;  // whose turn it is; that thread alone uses the other members
};

namespace {

using dl::Errc;
using dl::Error;
using dl::Status;
using dl::ckpt::open_message;
using dl::ckpt::run;
using dl::ckpt::tell;
using dl::ckpt::to_c;
using dl::ckpt::Turn;

// A child of fork() does not have the threads of a context. A function that waits for them would wait for ever, and
// others would act in the parent's name.
bool refused_in_child(dlckpt_ctx* ctx) noexcept {
  if (!ctx->context->forked()) return false;
  tell(&ctx->message,
       "this is a child of fork(): the checkpoint context belongs to its parent, and the child may only close it");
  return true;
}

// A note becomes the message of a call that succeeds.
template <typename Body>
dlckpt_error run(dlckpt_ctx* ctx, Body&& body, std::string* note = nullptr) noexcept {
  if (!ctx || refused_in_child(ctx)) return DLCKPT_E_INVALID;
  const Turn turn(&ctx->one_thread);
  if (!turn) return DLCKPT_E_INVALID;
  const dlckpt_error rc = run(&ctx->message, [&] { return body(*ctx->context); });
  if (rc == DLCKPT_OK && note) ctx->message.swap(*note);
  return rc;
}

// The same for functions that return no error. `otherwise` is what they return if they can do nothing.
template <typename T, typename Body>
T ask(dlckpt_ctx* ctx, T otherwise, Body&& body) noexcept {
  if (!ctx || refused_in_child(ctx)) return otherwise;
  const Turn turn(&ctx->one_thread);
  if (!turn) return otherwise;
  return dl::guard(
      otherwise, [&](const char* what) { tell(&ctx->message, what); }, [&] { return body(*ctx->context); });
}

// If checkpoints were passed over, the message says so although the call succeeds.
dlckpt_error restore_or_peek(dlckpt_ctx* ctx, int64_t step, int64_t* found,
                             dl::Result<int64_t> (dl::ckpt::Context::*call)(int64_t, std::string*)) noexcept {
  std::string note;
  return run(
      ctx,
      [&](dl::ckpt::Context& c) -> Status {
        DL_TRY_ASSIGN(const int64_t restored, (c.*call)(step, &note));
        if (found) *found = restored;
        return {};
      },
      &note);
}

}  // namespace

extern "C" {

dlckpt_error dlckpt_resolve(const dlckpt_options* options, dlckpt_settings* out) {
  return run(open_message(), [&]() -> Status {
    dlckpt_settings all{};
    if (!out || out->struct_size < offsetof(dlckpt_settings, every_s) || out->struct_size > sizeof all)
      return Error{Errc::kInvalid,
                   "out is NULL, or out->struct_size is not sizeof(dlckpt_settings), " + std::to_string(sizeof all)};
    DL_TRY_ASSIGN(dl::ckpt::Resolved resolved, dl::ckpt::resolve(options));
    thread_local std::string dir, run_id;
    const dl::ckpt::Settings& settings = resolved.settings;
    dir = settings.dir;
    run_id = settings.run_id;
    all.struct_size = out->struct_size;
    all.from_environment = resolved.from_environment;
    all.dir = dir.empty() ? nullptr : dir.c_str();
    all.every_s = settings.every_auto ? DLCKPT_EVERY_AUTO : settings.every_s;
    all.every_steps = settings.every_steps;
    all.keep = settings.keep;
    all.mode = settings.mode == dl::ckpt::Settings::kAsync  ? DLCKPT_MODE_ASYNC
               : settings.mode == dl::ckpt::Settings::kSync ? DLCKPT_MODE_SYNC
                                                            : DLCKPT_MODE_LAZY;
    all.rank = settings.rank;
    all.world_size = settings.world_size;
    all.run_id = run_id.c_str();
    std::memcpy(out, &all, out->struct_size);
    return {};
  });
}

dlckpt_error dlckpt_open(const dlckpt_options* options, dlckpt_ctx** out) {
  if (!out) return DLCKPT_E_INVALID;
  *out = nullptr;
  return run(open_message(), [&]() -> Status {
    DL_TRY_ASSIGN(dl::ckpt::Settings settings, dl::ckpt::resolve_settings(options));
    DL_TRY_ASSIGN(auto context, dl::ckpt::Context::open(std::move(settings), dl::ckpt::posix_io()));
    auto made = std::make_unique<dlckpt_ctx>();
    made->context = std::move(context);
    *out = made.release();
    return {};
  });
}

void dlckpt_close(dlckpt_ctx* ctx) {
  dl::guard(
      0, [](const char*) {},
      [&] {
        dl::ckpt::close_message()->clear();
        // A child of fork() does not have the threads that use the context, so its copy is not deleted.
        if (!ctx || ctx->context->forked()) return 0;
        {
          const Turn turn(&ctx->one_thread);
          if (!turn) {
            *dl::ckpt::close_message() = dl::ckpt::kAnotherThread;
            return 0;
          }
        }
        const std::unique_ptr<dlckpt_ctx> owned(ctx);
        *dl::ckpt::close_message() = ctx->context->leave();
        return 0;
      });
}

dlckpt_error dlckpt_tensor(dlckpt_ctx* ctx, const char* path, dlckpt_dtype dtype, int ndim, const int64_t* shape,
                           const int64_t* offset, const int64_t* extent, void* data, unsigned flags) {
  return run(ctx, [&](dl::ckpt::Context& c) {
    return c.registry().add_tensor(path, dtype, ndim, shape, offset, extent, data, flags);
  });
}

dlckpt_error dlckpt_tensor_strided(dlckpt_ctx* ctx, const char* path, dlckpt_dtype dtype, int ndim,
                                   const int64_t* shape, const int64_t* offset, const int64_t* extent,
                                   const int64_t* stride_bytes, void* data, unsigned flags) {
  return run(ctx, [&](dl::ckpt::Context& c) {
    return c.registry().add_tensor(path, dtype, ndim, shape, offset, extent, data, flags, stride_bytes);
  });
}

int dlckpt_where(const void* data) {
  return dl::guard(
      -1, [](const char*) {},
      [&] {
        const auto place = dl::ckpt::place_of(data);
        if (!place) return -1;
        switch (place->kind) {
          case dl::ckpt::MemoryPlace::Kind::kHost:
            break;
          case dl::ckpt::MemoryPlace::Kind::kManaged:
            return static_cast<int>(DLCKPT_MANAGED);
          case dl::ckpt::MemoryPlace::Kind::kDevice:
            return static_cast<int>(DLCKPT_ON_DEVICE);
        }
        return static_cast<int>(DLCKPT_ON_HOST);
      });
}

dlckpt_error dlckpt_blob(dlckpt_ctx* ctx, const char* path, const void* data, size_t size, int per_rank) {
  return run(ctx, [&](dl::ckpt::Context& c) { return c.registry().add_blob(path, data, size, per_rank != 0); });
}

dlckpt_error dlckpt_get_blob(dlckpt_ctx* ctx, const char* path, const void** data, size_t* size) {
  return run(ctx, [&](dl::ckpt::Context& c) -> Status {
    if (!path || !data || !size) return Error{Errc::kInvalid, "path, data or size is NULL; allowed: all three given"};
    const std::string* bytes = c.restored_blob(path);
    if (!bytes) return Error{Errc::kNotFound, std::string("the checkpoint has no blob '") + path + "' for this rank"};
    *data = bytes->data();
    *size = bytes->size();
    return {};
  });
}

dlckpt_error dlckpt_member(dlckpt_ctx* ctx, const char* name, const char* path, int per_rank) {
  return run(ctx, [&](dl::ckpt::Context& c) { return c.registry().add_member(name, path, per_rank != 0); });
}

dlckpt_error dlckpt_forget(dlckpt_ctx* ctx, const char* path) {
  return run(ctx, [&](dl::ckpt::Context& c) { return c.registry().remove(path); });
}

dlckpt_error dlckpt_metric(dlckpt_ctx* ctx, const char* name, double value) {
  return run(ctx, [&](dl::ckpt::Context& c) { return c.set_metric(name, value); });
}

int dlckpt_want(dlckpt_ctx* ctx, int64_t step) {
  return ask(ctx, 0, [&](dl::ckpt::Context& c) { return c.want(step); });
}

dlckpt_error dlckpt_save(dlckpt_ctx* ctx, int64_t step) {
  return dlckpt_save_flags(ctx, step, 0);
}

dlckpt_error dlckpt_save_flags(dlckpt_ctx* ctx, int64_t step, unsigned flags) {
  std::string note;
  return run(
      ctx, [&](dl::ckpt::Context& c) { return c.save(step, flags, &note); }, &note);
}

dlckpt_error dlckpt_before_mutation(dlckpt_ctx* ctx) {
  return run(ctx, [](dl::ckpt::Context& c) -> Status {
    c.before_mutation();
    return {};
  });
}

dlckpt_error dlckpt_wait(dlckpt_ctx* ctx, double timeout_s, int64_t* durable_step) {
  return run(ctx, [&](dl::ckpt::Context& c) -> Status {
    if (std::isnan(timeout_s))
      return Error{Errc::kInvalid, "timeout_s is not a number (NaN); allowed: seconds, 0 and more"};
    return c.wait(timeout_s, durable_step);
  });
}

dlckpt_error dlckpt_stats(dlckpt_ctx* ctx, dlckpt_save_stats* out) {
  return run(ctx, [&](dl::ckpt::Context& c) -> Status {
    dlckpt_save_stats all{};
    if (!out || out->struct_size < offsetof(dlckpt_save_stats, step) || out->struct_size > sizeof all)
      return Error{Errc::kInvalid,
                   "out is NULL, or out->struct_size is not sizeof(dlckpt_save_stats), " + std::to_string(sizeof all)};
    const dl::ckpt::SaveStats stats = c.stats();
    all.struct_size = out->struct_size;
    all.step = stats.step;
    all.outcome = stats.outcome ? static_cast<int>(DLCKPT_OK) : to_c(stats.outcome.error());
    all.level = stats.level;
    all.bytes = stats.bytes;
    all.written_bytes = stats.written_bytes;
    all.reused_bytes = stats.reused_bytes;
    all.blocked_s = stats.blocked_s;
    all.copy_s = stats.copy_s;
    all.write_s = stats.write_s;
    all.fsync_s = stats.fsync_s;
    all.commit_s = stats.commit_s;
    all.durable_s = stats.durable_s;
    all.saves = stats.saves;
    all.failed_saves = stats.failed_saves;
    all.total_written_bytes = stats.total_written_bytes;
    all.total_blocked_s = stats.total_blocked_s;
    all.object_step = stats.objects.step;
    all.object_saves = stats.objects.sent;
    all.failed_object_saves = stats.objects.failed;
    std::memcpy(out, &all, out->struct_size);
    return {};
  });
}

dlckpt_error dlckpt_restore(dlckpt_ctx* ctx, int64_t step, int64_t* restored_step) {
  return restore_or_peek(ctx, step, restored_step, &dl::ckpt::Context::restore);
}

dlckpt_error dlckpt_peek(dlckpt_ctx* ctx, int64_t step, int64_t* found_step) {
  return restore_or_peek(ctx, step, found_step, &dl::ckpt::Context::peek);
}

dlckpt_error dlckpt_restore_stats(dlckpt_ctx* ctx, dlckpt_load_stats* out) {
  return run(ctx, [&](dl::ckpt::Context& c) -> Status {
    if (!out || out->struct_size < offsetof(dlckpt_load_stats, step) || out->struct_size > sizeof *out)
      return Error{Errc::kInvalid,
                   "out is NULL, or out->struct_size is not sizeof(dlckpt_load_stats), " + std::to_string(sizeof *out)};
    const dl::ckpt::RestoreStats& stats = c.restore_stats();
    dlckpt_load_stats filled{};
    filled.struct_size = out->struct_size;
    filled.step = stats.step;
    filled.needed_bytes = stats.needed_bytes;
    filled.read_bytes = stats.read_bytes;
    filled.sent_bytes = stats.sent_bytes;
    filled.received_bytes = stats.received_bytes;
    filled.seconds = stats.seconds;
    filled.exchange = stats.exchange ? 1 : 0;
    std::memcpy(out, &filled, out->struct_size);
    return {};
  });
}

int64_t dlckpt_latest(dlckpt_ctx* ctx) {
  return ask(ctx, int64_t{-1}, [](dl::ckpt::Context& c) { return c.latest(); });
}

int dlckpt_exit_code(const dlckpt_ctx* ctx) {
  constexpr int kNotSaved = 76;
  if (!ctx || ctx->context->forked()) return kNotSaved;
  const Turn turn(&ctx->one_thread);
  return turn ? ctx->context->exit_code() : kNotSaved;
}

void dlckpt_finished(dlckpt_ctx* ctx) {
  ask(ctx, 0, [](dl::ckpt::Context& c) {
    c.finished();
    return 0;
  });
}

const char* dlckpt_errmsg(const dlckpt_ctx* ctx) {
  if (!ctx) return "the context is NULL";
  return ctx->one_thread.refused_here() ? dl::ckpt::kAnotherThread : ctx->message.c_str();
}

const char* dlckpt_error_name(int error) {
  switch (error) {
    case DLCKPT_OK:
      return "DLCKPT_OK";
    case DLCKPT_E_INVALID:
      return "DLCKPT_E_INVALID";
    case DLCKPT_E_NOT_FOUND:
      return "DLCKPT_E_NOT_FOUND";
    case DLCKPT_E_BUSY:
      return "DLCKPT_E_BUSY";
    case DLCKPT_E_DENIED:
      return "DLCKPT_E_DENIED";
    case DLCKPT_E_NO_SPACE:
      return "DLCKPT_E_NO_SPACE";
    case DLCKPT_E_IO:
      return "DLCKPT_E_IO";
    case DLCKPT_E_CORRUPT:
      return "DLCKPT_E_CORRUPT";
    case DLCKPT_E_MISMATCH:
      return "DLCKPT_E_MISMATCH";
    case DLCKPT_E_TIMEOUT:
      return "DLCKPT_E_TIMEOUT";
    case DLCKPT_E_MEMORY:
      return "DLCKPT_E_MEMORY";
    case DLCKPT_E_INTERNAL:
      return "DLCKPT_E_INTERNAL";
    case DLCKPT_E_IN_FLIGHT:
      return "DLCKPT_E_IN_FLIGHT";
    default:
      return "unknown error";
  }
}

size_t dlckpt_dtype_size(dlckpt_dtype dtype) {
  const auto* row = dl::ckpt::find_dtype(dtype);
  return row ? row->size : 0;
}

const char* dlckpt_dtype_name(dlckpt_dtype dtype) {
  const auto* row = dl::ckpt::find_dtype(dtype);
  return row ? row->name : nullptr;
}

const char* dlckpt_version(void) {
  return PACKAGE_VERSION;
}

}  // extern "C"
