// SPDX-License-Identifier: Apache-2.0
// Result<T>: a value, or an Error that carries a sentence for the user and a code for the caller.
//
// The interface is a subset of C++23's std::expected, so that std::expected can replace it one day. Inside slurm-dl
// errors are values; exceptions come only from the standard library and never cross a C boundary (see guard.h).
#pragma once

#include <new>
#include <string>
#include <type_traits>
#include <utility>

namespace dl {

// The kind of a failure. At each edge (SPANK, job_submit, libdlckpt, exit codes) one table maps these to what the
// caller there expects.
enum class Errc {
  kInvalid,      // the user's input is malformed or out of range
  kConflict,     // two things the user asked for exclude one another
  kNotFound,     // something named does not exist
  kDenied,       // not permitted
  kExists,       // something that must not exist does
  kBusy,         // held by somebody else; may succeed later
  kNoSpace,      // disk or quota full
  kIo,           // an operating system call failed; sys_errno has the cause
  kCorrupt,      // a checksum or a structure is wrong
  kTimeout,      // a deadline passed
  kUnsupported,  // known, but not available in this build or on this system
  kInternal,     // a fault of slurm-dl itself
};

// A failure. `text` is one sentence without a final full stop, starting with what was being done or with the name of
// the input at fault: "--dl-gpus: 'x' is not a number; allowed: [TYPE:]N with N from 0 to 1024".
//
// Thousands of lines pass one on, so its members are compiled once, not in each place.
struct Error {
  Errc code = Errc::kInternal;
  std::string text;
  int sys_errno = 0;  // errno at the point of failure, 0 if none

  Error() = default;
  Error(Errc kind, std::string sentence, int cause = 0);
  Error(const Error& other);
  Error(Error&& other) noexcept;
  Error& operator=(const Error& other);
  Error& operator=(Error&& other) noexcept;
  ~Error();

  // Puts "context: " in front of the text.
  Error&& with_context(const std::string& context) &&;
};

// Error from errno: "what: Permission denied". ENOSPC and EDQUOT give kNoSpace, EACCES and EPERM kDenied, ENOENT
// kNotFound, EEXIST kExists, all else kIo.
Error errno_error(const std::string& what, int sys_errno);

// Throws std::bad_variant_access, for whoever asks a Result for what it does not have.
[[noreturn]] void throw_wrong_access();

// A union and a flag rather than a std::variant, which took a tenth of the time of compiling everything.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)), has_value_(true) {}       // NOLINT(google-explicit-constructor)
  Result(Error error) : error_(std::move(error)), has_value_(false) {}  // NOLINT(google-explicit-constructor)
  Result(const Result& other) : has_value_(other.has_value_) {
    if (has_value_) {
      ::new (&value_) T(other.value_);
    } else {
      ::new (&error_) Error(other.error_);
    }
  }
  Result(Result&& other) noexcept(std::is_nothrow_move_constructible_v<T>) : has_value_(other.has_value_) {
    if (has_value_) {
      ::new (&value_) T(std::move(other.value_));
    } else {
      ::new (&error_) Error(std::move(other.error_));
    }
  }
  Result& operator=(Result other) noexcept {
    static_assert(std::is_nothrow_move_constructible_v<T>, "a failed move would leave neither a value nor an error");
    this->~Result();
    return *::new (this) Result(std::move(other));
  }
  ~Result() {
    if (has_value_) {
      value_.~T();
    } else {
      error_.~Error();
    }
  }

  bool has_value() const noexcept { return has_value_; }
  explicit operator bool() const noexcept { return has_value_; }

  // Precondition of all four: has_value(). A wrong call throws std::bad_variant_access, which guard() catches.
  T& value() & {
    require(true);
    return value_;
  }
  const T& value() const& {
    require(true);
    return value_;
  }
  T&& value() && { return std::move(value()); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // Precondition: !has_value().
  Error& error() & {
    require(false);
    return error_;
  }
  const Error& error() const& {
    require(false);
    return error_;
  }
  Error&& error() && { return std::move(error()); }

 private:
  void require(bool value) const {
    if (has_value_ != value) throw_wrong_access();
  }

  union {
    T value_;
    Error error_;
  };
  bool has_value_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() noexcept {}
  Result(Error error) : error_(std::move(error)), failed_(true) {}  // NOLINT(google-explicit-constructor)
  Result(const Result& other) : failed_(other.failed_) {
    if (failed_) error_ = other.error_;
  }
  Result(Result&& other) noexcept : failed_(other.failed_) {
    if (failed_) error_ = std::move(other.error_);
  }
  Result& operator=(Result other) noexcept {
    this->~Result();
    return *::new (this) Result(std::move(other));
  }
  ~Result() {
    if (failed_) error_.~Error();
  }

  bool has_value() const noexcept { return !failed_; }
  explicit operator bool() const noexcept { return has_value(); }
  Error& error() & { return error_; }
  const Error& error() const& { return error_; }
  Error&& error() && { return std::move(error_); }

 private:
  // In a union, so that only a failure destroys it: an empty error owns nothing.
  union {
    Error error_ = Error();
  };
  bool failed_ = false;
};

using Status = Result<void>;

// Drops a result on purpose; `why` is for the reader of the code.
template <typename T>
void ignore(const Result<T>& /*result*/, const char* /*why*/) {}

}  // namespace dl

// Returns the error of `expr` (a Result) from the enclosing function.
#define DL_TRY(expr)                                             \
  do {                                                           \
    auto dl_try_result = (expr);                                 \
    if (!dl_try_result) return std::move(dl_try_result).error(); \
  } while (false)
// DL_TRY_ASSIGN(auto x, f()): x = *f(), or returns f()'s error.
#define DL_TRY_CONCAT_(a, b) a##b
#define DL_TRY_CONCAT(a, b) DL_TRY_CONCAT_(a, b)
#define DL_TRY_ASSIGN(decl, expr) DL_TRY_ASSIGN_(DL_TRY_CONCAT(dl_try_, __LINE__), decl, expr)
#define DL_TRY_ASSIGN_(tmp, decl, expr)    \
  auto tmp = (expr);                       \
  if (!tmp) return std::move(tmp).error(); \
  decl = std::move(tmp).value()
