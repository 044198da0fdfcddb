// SPDX-License-Identifier: Apache-2.0
// dlckpt.h and dlckpt_read.h let one thread at a time use an object. A call that comes while another thread is in one
// is refused instead of running beside it: it would change what that one reads, and end the program at times.
#pragma once

#include <atomic>

namespace dl::ckpt {

constexpr const char* kAnotherThread =
    "another thread is in a call on this object, which one thread at a time may use, so this call has done nothing; "
    "let one wait for the other";

// What an object has for this.
class OneThread {
 public:
  // Whether the calling thread's last call on this object was refused. The object's own message is then in the hands of
  // the other thread.
  bool refused_here() const noexcept { return last_refusal() == this; }

 private:
  friend class Turn;
  static const OneThread*& last_refusal() noexcept {
    static thread_local const OneThread* refused = nullptr;
    return refused;
  }
  std::atomic_flag taken_ = ATOMIC_FLAG_INIT;
};

// One call on the object. It is false if another thread is in one.
class Turn {
 public:
  explicit Turn(OneThread* object) noexcept
      : object_(object->taken_.test_and_set(std::memory_order_acquire) ? nullptr : object) {
    const OneThread*& refusal = OneThread::last_refusal();
    if (!object_) {
      refusal = object;
    } else if (refusal == object) {
      refusal = nullptr;
    }
  }
  ~Turn() {
    if (object_) object_->taken_.clear(std::memory_order_release);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  OneThread* object_;
};

}  // namespace dl::ckpt
