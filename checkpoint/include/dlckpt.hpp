/* SPDX-License-Identifier: Apache-2.0
 *
 * dlckpt.hpp: the functions of dlckpt.h for C++17 and later. dlckpt_read.hpp has those of dlckpt_read.h. There is
 * nothing to link but the C library, libdlckpt.
 *
 * How to use it
 *     auto checkpoint = dlckpt::Checkpoint::open();
 *     if (!checkpoint) die(checkpoint.message());
 *     std::vector<float> w(rows * columns);
 *     if (auto said = checkpoint->tensor("model/w", w.data(), {rows, columns}); !said) die(said.message());
 *     auto found = checkpoint->restore();
 *     if (!found) die(found.message());
 *     for (std::int64_t step = found->value_or(0); step < total; ++step) {
 *       const dlckpt::Want want = checkpoint->want(step);
 *       if (want.save)
 *         if (auto save = checkpoint->save(step); !save) complain(save.message());
 *       if (want.exit) return checkpoint->exit_code();
 *       ... train step `step` ...
 *     }
 *     auto save = checkpoint->save(total);
 *     if (!save) die(save.message());
 *     if (auto said = save->wait(); !said) die(said.message());
 *
 * Functions return errors as values: a Status, or a Result<T>, which holds a T on success. No function throws, except
 * that the standard library throws std::bad_alloc when memory runs out; so -fno-exceptions works. Each function calls
 * the C function with the same name, and dlckpt.h describes its errors, ranks and threads. Only one thread at a time
 * may use a Checkpoint and its Saves. Handles can be moved but not copied. The destructor closes what a handle holds.
 * Calls on a handle that was closed or moved from are refused with DLCKPT_E_INVALID. get() returns the C handle.
 */
#ifndef DLCKPT_HPP
#define DLCKPT_HPP

#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "dlckpt.h"

namespace dlckpt {

/* The outcome of a call. It is true in a condition if the call succeeded. message() then is usually "", but may hold a
 * remark: which damaged checkpoints were skipped, or that the save before this one failed. */
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(dlckpt_error code, std::string message) : code_(code), message_(std::move(message)) {}
  explicit operator bool() const noexcept { return code_ == DLCKPT_OK; }
  dlckpt_error code() const noexcept { return code_; }
  /* "DLCKPT_E_NO_SPACE" and so on. */
  const char* name() const noexcept { return dlckpt_error_name(code_); }
  const std::string& message() const noexcept { return message_; }

 private:
  dlckpt_error code_ = DLCKPT_OK;
  std::string message_;
};

/* A Status and, on success, a T. The operators * and -> return the T; they must not be used after an error. */
template <typename T>
class [[nodiscard]] Result : public Status {
 public:
  Result(Status error) : Status(std::move(error)) {}
  Result(T value, Status status) : Status(std::move(status)), value_(std::move(value)) {}
  T& operator*() & noexcept { return *value_; }
  const T& operator*() const& noexcept { return *value_; }
  T&& operator*() && noexcept { return *std::move(value_); }
  T* operator->() noexcept { return &*value_; }
  const T* operator->() const noexcept { return &*value_; }

 private:
  std::optional<T> value_;
};

using Dims = std::vector<std::int64_t>;

namespace detail {
template <typename T>
constexpr dlckpt_dtype integer(dlckpt_dtype with_sign, dlckpt_dtype without) {
  return std::is_signed_v<T> ? with_sign : without;
}
}  // namespace detail

/* The element type that holds a T. A type of your own, such as a bfloat16, is added as below; it must have the size and
 * the bit layout of the element type.
 *     template <> struct dlckpt::Element<my_bf16> { static constexpr dlckpt_dtype value = DLCKPT_BF16; }; */
template <typename T>
struct Element {
  static_assert((std::is_integral_v<T> && sizeof(T) <= 8) || std::is_same_v<std::remove_cv_t<T>, float> ||
                    std::is_same_v<std::remove_cv_t<T>, double>,
                "no element type of dlckpt holds this type: specialize dlckpt::Element, or give a dlckpt_dtype");
  static constexpr dlckpt_dtype value = std::is_same_v<T, bool>       ? DLCKPT_BOOL
                                        : std::is_floating_point_v<T> ? (sizeof(T) == 4 ? DLCKPT_F32 : DLCKPT_F64)
                                        : sizeof(T) == 1              ? detail::integer<T>(DLCKPT_I8, DLCKPT_U8)
                                        : sizeof(T) == 2              ? detail::integer<T>(DLCKPT_I16, DLCKPT_U16)
                                        : sizeof(T) == 4              ? detail::integer<T>(DLCKPT_I32, DLCKPT_U32)
                                                                      : detail::integer<T>(DLCKPT_I64, DLCKPT_U64);
};
template <>
struct Element<std::byte> {
  static constexpr dlckpt_dtype value = DLCKPT_U8;
};
template <>
struct Element<std::complex<float>> {
  static constexpr dlckpt_dtype value = DLCKPT_C64;
};
template <>
struct Element<std::complex<double>> {
  static constexpr dlckpt_dtype value = DLCKPT_C128;
};

/* The part of a tensor that this rank holds, and its memory layout. Empty members mean: the whole tensor, in C order,
 * without gaps. */
struct Part {
  Dims offset, extent; /* both or neither */
  Dims stride_bytes;   /* as in dlckpt_tensor_strided */
};

/* The members of dlckpt_options, with the same meaning. 0 or "": the value comes from the environment. */
struct Options {
  std::string dir;
  int rank = 0, world_size = 0;
  std::string run_id;
  double every_s = 0;
  std::int64_t every_steps = 0;
  int keep = 0;
  double timeout_s = 0;
  std::int64_t keep_every = 0;
  std::string best;
  int mode = 0;
  std::uint64_t memory_bytes = 0;
  int write_threads = 0, recycle = 0;
  std::string local_dir;
  int partner = 0, reuse = 0, environment_first = 0;
  std::string objects;

  /* The same for the C functions. Its strings belong to this object, which must live on unchanged. */
  dlckpt_options c() const noexcept {
    const auto text = [](const std::string& s) { return s.empty() ? nullptr : s.c_str(); };
    dlckpt_options o{};
    o.struct_size = sizeof o;
    o.dir = text(dir);
    o.rank = rank;
    o.world_size = world_size;
    o.run_id = text(run_id);
    o.every_s = every_s;
    o.every_steps = every_steps;
    o.keep = keep;
    o.timeout_s = timeout_s;
    o.keep_every = keep_every;
    o.best = text(best);
    o.mode = mode;
    o.memory_bytes = memory_bytes;
    o.write_threads = write_threads;
    o.recycle = recycle;
    o.local_dir = text(local_dir);
    o.partner = partner;
    o.reuse = reuse;
    o.environment_first = environment_first;
    o.objects = text(objects);
    return o;
  }
};

/* The result of resolve(); the members are those of dlckpt_settings. */
struct Settings {
  unsigned from_environment = 0;  /* DLCKPT_SETTING_ bits */
  std::optional<std::string> dir; /* nullopt: neither options nor environment name one */
  double every_s = 0;
  std::int64_t every_steps = 0;
  int keep = 0, mode = 0;
};

/* What is due before a train step. */
struct Want {
  bool save = false, exit = false;
};

/* The kind of memory: DLCKPT_ON_HOST, DLCKPT_MANAGED or DLCKPT_ON_DEVICE; -1: the driver does not know it. */
inline int where(const void* data) noexcept {
  return dlckpt_where(data);
}
inline std::size_t size_of(dlckpt_dtype dtype) noexcept {
  return dlckpt_dtype_size(dtype);
}
/* NumPy's name; "" for an unknown one. */
inline std::string_view name_of(dlckpt_dtype dtype) noexcept {
  const char* name = dlckpt_dtype_name(dtype);
  return name ? name : "";
}
inline const char* version() noexcept {
  return dlckpt_version();
}
/* What the Checkpoint that this thread closed or destroyed last has left undone; "" if nothing. Print it. */
inline const char* close_error() noexcept {
  return dlckpt_close_error();
}

namespace detail {
struct Context {
  explicit Context(dlckpt_ctx* opened) noexcept : ctx(opened) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() { dlckpt_close(ctx); }
  dlckpt_ctx* ctx;
  std::uint64_t saves = 0; /* begun */
};
inline Status refused(std::string message) {
  return {DLCKPT_E_INVALID, std::move(message)};
}
/* A C string ends at a NUL, so such a name would mean another one. */
inline bool has_nul(const std::string& text) noexcept {
  return text.find('\0') != std::string::npos;
}
inline bool has_nul(const Options& options) noexcept {
  return has_nul(options.dir) || has_nul(options.run_id) || has_nul(options.best) || has_nul(options.local_dir) ||
         has_nul(options.objects);
}
inline Status nul_in(const char* what) {
  return refused(std::string(what) + " holds a NUL character");
}
inline const std::int64_t* numbers(const Dims& dims) noexcept {
  return dims.empty() ? nullptr : dims.data();
}
inline Status dimensions(const std::string& path, std::size_t wanted, const char* what, const Dims& given) {
  if (given.empty() || given.size() == wanted) return {};
  return refused(path + ": " + what + " has " + std::to_string(given.size()) + " numbers, and the tensor " +
                 std::to_string(wanted) + " dimensions");
}
}  // namespace detail

/* What options and environment mean together, without opening anything: dlckpt_resolve. */
inline Result<Settings> resolve(const Options& options = {}) {
  if (detail::has_nul(options)) return detail::nul_in("an option");
  const dlckpt_options o = options.c();
  dlckpt_settings s{};
  s.struct_size = sizeof s;
  if (const dlckpt_error code = dlckpt_resolve(&o, &s); code != DLCKPT_OK) return Status(code, dlckpt_open_error());
  Settings all{s.from_environment, std::nullopt, s.every_s, s.every_steps, s.keep, s.mode};
  if (s.dir) all.dir = s.dir;
  return {std::move(all), Status()};
}

/* A save that was begun. Destroying this object does not stop the save. */
class [[nodiscard]] Save {
 public:
  Save(Save&&) = default;
  Save& operator=(Save&&) = default;
  Save(const Save&) = delete;
  Save& operator=(const Save&) = delete;
  ~Save() = default;

  std::int64_t step() const noexcept { return step_; }
  /* The outcome of this save, as from dlckpt_wait: TIMEOUT while it is in flight. INVALID if its Checkpoint was closed
   * or asked for a later save; the message of the later save tells whether this one failed. */
  Status wait(double timeout_s = -1) {
    const std::shared_ptr<detail::Context> context = context_.lock();
    if (!context)
      return detail::refused("the save of train step " + std::to_string(step_) +
                             " cannot be waited for: its Checkpoint was closed");
    if (context->saves != number_)
      return detail::refused("the save of train step " + std::to_string(step_) +
                             " cannot be waited for: a later one was asked for");
    const dlckpt_error code = dlckpt_wait(context->ctx, timeout_s, nullptr);
    return {code, dlckpt_errmsg(context->ctx)};
  }

 private:
  friend class Checkpoint;
  Save(const std::shared_ptr<detail::Context>& context, std::int64_t step)
      : context_(context), number_(context->saves), step_(step) {}
  std::weak_ptr<detail::Context> context_;
  std::uint64_t number_;
  std::int64_t step_;
};

/* An open checkpoint directory, for saving and restoring: dlckpt_open to dlckpt_close. */
class Checkpoint {
 public:
  static Result<Checkpoint> open(const Options& options = {}) {
    if (detail::has_nul(options)) return detail::nul_in("an option");
    const dlckpt_options c = options.c();
    auto context = std::make_shared<detail::Context>(nullptr); /* first, so that nothing is thrown with ctx open */
    if (const dlckpt_error code = dlckpt_open(&c, &context->ctx); code != DLCKPT_OK)
      return Status(code, dlckpt_open_error());
    return {Checkpoint(std::move(context)), Status()};
  }
  Checkpoint(Checkpoint&&) = default;
  Checkpoint& operator=(Checkpoint&&) = default;
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;
  ~Checkpoint() = default;
  /* Waits for the save in flight and the object store; close_error() tells what is not there then. The destructor does
   * the same. */
  void close() { context_.reset(); }
  /* The C handle, owned by this object; nullptr after a move or close(). */
  dlckpt_ctx* get() const noexcept { return context_ ? context_->ctx : nullptr; }

  /* Registers a whole tensor, of which all ranks hold the same values. `data` must stay valid, as for dlckpt_tensor. */
  template <typename T>
  Status tensor(const std::string& path, T* data, const Dims& shape, unsigned flags = DLCKPT_REPLICATED) {
    return part(path, Element<T>::value, data, shape, {}, flags);
  }
  Status tensor(const std::string& path, dlckpt_dtype dtype, void* data, const Dims& shape,
                unsigned flags = DLCKPT_REPLICATED) {
    return part(path, dtype, data, shape, {}, flags);
  }
  /* Registers a part of a tensor, or memory with gaps. */
  template <typename T>
  Status part(const std::string& path, T* data, const Dims& shape, const Part& part_of, unsigned flags = 0) {
    return part(path, Element<T>::value, data, shape, part_of, flags);
  }
  Status part(const std::string& path, dlckpt_dtype dtype, void* data, const Dims& shape, const Part& part_of,
              unsigned flags = 0) {
    if (detail::has_nul(path)) return detail::nul_in("a path");
    if (Status s = detail::dimensions(path, shape.size(), "offset", part_of.offset); !s) return s;
    if (Status s = detail::dimensions(path, shape.size(), "extent", part_of.extent); !s) return s;
    if (Status s = detail::dimensions(path, shape.size(), "stride_bytes", part_of.stride_bytes); !s) return s;
    if (shape.size() > DLCKPT_MAX_DIMS) return detail::refused(path + ": more than 32 dimensions");
    return said(dlckpt_tensor_strided(get(), path.c_str(), dtype, static_cast<int>(shape.size()),
                                      detail::numbers(shape), detail::numbers(part_of.offset),
                                      detail::numbers(part_of.extent), detail::numbers(part_of.stride_bytes), data,
                                      flags));
  }
  Status blob(const std::string& path, std::string_view bytes, bool per_rank = false) {
    if (detail::has_nul(path)) return detail::nul_in("a path");
    return said(dlckpt_blob(get(), path.c_str(), bytes.data(), bytes.size(), per_rank ? 1 : 0));
  }
  /* The bytes belong to this object and are valid until the next restore(), peek() or close(). */
  Result<std::string_view> get_blob(const std::string& path) {
    if (detail::has_nul(path)) return detail::nul_in("a path");
    const void* data = nullptr;
    std::size_t size = 0;
    const dlckpt_error code = dlckpt_get_blob(get(), path.c_str(), &data, &size);
    return result(code, std::string_view(static_cast<const char*>(data), size));
  }
  Status member(const std::string& name, const std::string& path, bool per_rank = false) {
    if (detail::has_nul(name) || detail::has_nul(path)) return detail::nul_in("a name or path");
    return said(dlckpt_member(get(), name.c_str(), path.c_str(), per_rank ? 1 : 0));
  }
  Status forget(const std::string& path) {
    if (detail::has_nul(path)) return detail::nul_in("a path");
    return said(dlckpt_forget(get(), path.c_str()));
  }
  Status metric(const std::string& name, double value) {
    if (detail::has_nul(name)) return detail::nul_in("a name");
    return said(dlckpt_metric(get(), name.c_str(), value));
  }

  /* Restores the newest checkpoint that verifies, and returns its train step. nullopt: there is no checkpoint yet, and
   * memory is unchanged. */
  Result<std::optional<std::int64_t>> restore() { return newest(dlckpt_restore); }
  /* Restores the checkpoint of one train step; NOT_FOUND if there is none. */
  Status restore(std::int64_t step) { return said(dlckpt_restore(get(), step, nullptr)); }
  Result<std::optional<std::int64_t>> peek() { return newest(dlckpt_peek); }
  Status peek(std::int64_t step) { return said(dlckpt_peek(get(), step, nullptr)); }
  /* The newest train step in the directory; nullopt: there is none. */
  std::optional<std::int64_t> latest() {
    const std::int64_t step = get() ? dlckpt_latest(get()) : -1;
    return step < 0 ? std::nullopt : std::optional<std::int64_t>(step);
  }

  Want want(std::int64_t step) {
    const int set = get() ? dlckpt_want(get(), step) : 0;
    return {(set & DLCKPT_WANT_SAVE) != 0, (set & DLCKPT_WANT_EXIT) != 0};
  }
  Result<Save> save(std::int64_t step, unsigned flags = 0) {
    const dlckpt_error code = dlckpt_save_flags(get(), step, flags);
    /* dlckpt_wait tells of the newest save, also of one that failed at once: an older Save cannot be asked any more. */
    if (context_ && code != DLCKPT_E_IN_FLIGHT) ++context_->saves;
    Status status = said(code);
    if (!status) return status;
    return {Save(context_, step), std::move(status)};
  }
  Status before_mutation() { return said(dlckpt_before_mutation(get())); }
  /* The outcome of the last save, and the newest train step that is durable; nullopt: none is. */
  Result<std::optional<std::int64_t>> wait(double timeout_s = -1) {
    std::int64_t durable = -1;
    const dlckpt_error code = dlckpt_wait(get(), timeout_s, &durable);
    return result(code, durable < 0 ? std::nullopt : std::optional<std::int64_t>(durable));
  }
  Result<dlckpt_save_stats> stats() {
    dlckpt_save_stats all{};
    all.struct_size = sizeof all;
    const dlckpt_error code = dlckpt_stats(get(), &all);
    return result(code, all);
  }
  Result<dlckpt_load_stats> restore_stats() {
    dlckpt_load_stats all{};
    all.struct_size = sizeof all;
    const dlckpt_error code = dlckpt_restore_stats(get(), &all);
    return result(code, all);
  }
  int exit_code() const noexcept { return dlckpt_exit_code(get()); }
  void finished() noexcept { dlckpt_finished(get()); }

 private:
  explicit Checkpoint(std::shared_ptr<detail::Context> context) noexcept : context_(std::move(context)) {}
  Status said(dlckpt_error code) const {
    if (!get()) return detail::refused("the checkpoint directory was closed, or moved to another handle");
    return {code, dlckpt_errmsg(get())};
  }
  template <typename T>
  Result<T> result(dlckpt_error code, T value) const {
    Status status = said(code);
    if (!status) return status;
    return {std::move(value), std::move(status)};
  }
  Result<std::optional<std::int64_t>> newest(dlckpt_error (*call)(dlckpt_ctx*, std::int64_t, std::int64_t*)) {
    std::int64_t step = -1;
    const dlckpt_error code = call(get(), DLCKPT_LATEST, &step);
    if (code == DLCKPT_E_NOT_FOUND) return {std::nullopt, Status(DLCKPT_OK, dlckpt_errmsg(get()))};
    return result(code, std::optional<std::int64_t>(step));
  }
  std::shared_ptr<detail::Context>
      context_; /* the only owner: a Save holds a weak_ptr to see whether it still exists */
};

}  // namespace dlckpt
#endif /* DLCKPT_HPP */
