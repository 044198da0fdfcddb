/* SPDX-License-Identifier: Apache-2.0
 *
 * dlpool.hpp: elastic pools for C++17, over dlpool.h, which has the whole contract. Any class becomes a pool that has
 *
 *     class Counter {
 *      public:
 *       std::string apply(const dl::PoolKey& key, std::string_view bytes);       // changes the state of one key
 *       std::string read(const dl::PoolKey& key, std::string_view bytes) const;
 *       std::string save(int slot) const;                                        // all keys of a slot
 *       void load(int slot, std::string_view state);                             // in place of what the slot held
 *       void drop(int slot);
 *       int wanted(const dl::PoolLoad& load);                                    // members that the pool should have
 *     };
 *
 *     int main() {                                                               // a member
 *       Counter counter;
 *       const dl::PoolStatus status = dl::Pool<Counter>(&counter).serve();
 *     }
 *
 *     dl::PoolClient pool;                                                       // anywhere else
 *     dl::PoolAnswer answer = pool.update("visits", "1");
 *
 * An object is used by one thread. apply() may depend on nothing but the state of its slot and its arguments, since
 * owner and copy each carry it out. A class that does not keep its state by slot can hold it in a PoolMap, which
 * has save, load and drop.
 *
 * In a child of fork() these objects, which were made before, can only be destroyed; it makes others of its own.
 *
 * Where exceptions are enabled, one of apply() or read() becomes an answer that failed (its state must be as it was),
 * one of save() leaves the slot where it is, one of load() or drop() ends this member, as std::bad_alloc of apply()
 * does, and one of wanted() counts as the members that there are. Nothing here throws but for want of memory, and
 * PoolMap::load().
 */
#ifndef DLPOOL_HPP
#define DLPOOL_HPP

#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dlpool.h"

namespace dl {

struct PoolKey {
  std::string_view name;
  int slot = 0;
};

using PoolLoad = dlpool_load;

/* An outcome: true if it is DLPOOL_OK. */
class [[nodiscard]] PoolStatus {
 public:
  PoolStatus() = default;
  explicit PoolStatus(dlpool_result code) : code_(code), message_(code == DLPOOL_OK ? "" : dlpool_error()) {}
  PoolStatus(dlpool_result code, std::string message) : code_(code), message_(std::move(message)) {}
  explicit operator bool() const noexcept { return code_ == DLPOOL_OK; }
  dlpool_result code() const noexcept { return code_; }
  const std::string& message() const noexcept { return message_; }

 private:
  dlpool_result code_ = DLPOOL_OK;
  std::string message_;
};

namespace detail {
inline const char* pool_option(const std::string& text) noexcept {
  return text.empty() ? nullptr : text.c_str();
}
}  // namespace detail

/* Where the pool is. Empty members come from the environment: DL_POOL and DL_POOL_SECRET. */
struct PoolPlace {
  std::string directory, secret_file;
  double timeout_s = 0; /* of a client's calls; 0: 60 */

  /* Points into this object. */
  dlpool_options c() const noexcept {
    return {sizeof(dlpool_options), detail::pool_option(directory), detail::pool_option(secret_file), timeout_s};
  }
};

/* The directory, in a thread of its own, until this object is destroyed. */
class PoolDirectory {
 public:
  struct Options {
    std::string listen, secret_file;
    int port = 0, min = 1, max = 1;
    bool copies = true, fixed = false;
    std::function<void(int wanted, int present)> size; /* called in the directory's thread; must not throw */
  };
  explicit PoolDirectory(Options options) : options_(std::make_unique<Options>(std::move(options))) {
    dlpool_directory_options c{};
    c.struct_size = sizeof c;
    c.listen = detail::pool_option(options_->listen);
    c.port = options_->port;
    c.secret_file = detail::pool_option(options_->secret_file);
    c.min = options_->min;
    c.max = options_->max;
    c.without_copies = options_->copies ? 0 : 1;
    c.fixed = options_->fixed ? 1 : 0;
    if (options_->size)
      c.size = [](void* user, int wanted, int present) { static_cast<Options*>(user)->size(wanted, present); };
    c.user = options_.get();
    status_ = PoolStatus(dlpool_directory_open(&c, &directory_));
  }
  PoolDirectory(const PoolDirectory&) = delete;
  PoolDirectory& operator=(const PoolDirectory&) = delete;
  ~PoolDirectory() { dlpool_directory_close(directory_); }

  const PoolStatus& status() const noexcept { return status_; } /* of opening it */
  int port() const noexcept { return dlpool_directory_port(directory_); }
  dlpool_facts facts() const {
    dlpool_facts facts{};
    facts.struct_size = sizeof facts;
    if (directory_ != nullptr) dlpool_directory_facts(directory_, &facts);
    return facts;
  }

 private:
  std::unique_ptr<Options> options_;
  dlpool_directory* directory_ = nullptr;
  PoolStatus status_;
};

namespace detail {
inline int pool_answer(dlpool_bytes* to, std::string_view bytes, int result, int no_memory) {
  return dlpool_put(to, bytes.data(), bytes.size()) == DLPOOL_OK || result != 0 ? result : no_memory;
}
inline std::string_view pool_text(const void* data, std::size_t size) {
  return {static_cast<const char*>(data), size};
}
/* body() returns what is answered; no_memory is returned where there is none. */
template <typename Body>
int pool_call(dlpool_bytes* to, int no_memory, Body&& body) noexcept {
#if defined(__cpp_exceptions)
  try {
    return pool_answer(to, body(), 0, no_memory);
  } catch (const std::bad_alloc&) {
    return pool_answer(to, "out of memory", no_memory, no_memory);
  } catch (const std::exception& e) {
    return pool_answer(to, e.what(), 1, 1);
  } catch (...) {
    return 1;
  }
#else
  return pool_answer(to, body(), 0, no_memory);
#endif
}
/* The bytes of a slot are not those that were saved. */
[[noreturn]] inline void pool_cut_short() {
#if defined(__cpp_exceptions)
  throw std::runtime_error("the saved keys of a slot are cut short");
#else
  std::terminate(); /* this member can say it to nobody, and the slot must not be served without them */
#endif
}
/* False: body() threw. */
template <typename Body>
bool pool_try(Body&& body) noexcept {
#if defined(__cpp_exceptions)
  try {
    body();
  } catch (...) {
    return false;
  }
#else
  body();
#endif
  return true;
}
}  // namespace detail

/* A member: this process's part of the pool of objects of class T. */
template <typename T>
class Pool {
 public:
  /* The object is borrowed, and is used by serve() alone while that runs. */
  explicit Pool(T* object, const PoolPlace& place = {}) : part_{object} {
    dlpool_object c{};
    c.struct_size = sizeof c;
    c.user = &part_;
    c.apply = [](void* user, int slot, const void* key, std::size_t key_size, const void* bytes, std::size_t size,
                 dlpool_bytes* answer) {
      /* A copy may have the memory that is missing here, and then their states would differ. */
      return call(user, answer, DLPOOL_END_MEMBER, [&](T* mine) -> std::string {
        return mine->apply(PoolKey{detail::pool_text(key, key_size), slot}, detail::pool_text(bytes, size));
      });
    };
    c.read = [](void* user, int slot, const void* key, std::size_t key_size, const void* bytes, std::size_t size,
                dlpool_bytes* answer) {
      return call(user, answer, 1, [&](const T* mine) -> std::string {
        return mine->read(PoolKey{detail::pool_text(key, key_size), slot}, detail::pool_text(bytes, size));
      });
    };
    c.save = [](void* user, int slot, dlpool_bytes* state) {
      return call(user, state, 1, [&](const T* mine) -> std::string { return mine->save(slot); });
    };
    c.load = [](void* user, int slot, const void* state, std::size_t size, dlpool_bytes* why) {
      return call(user, why, 1, [&](T* mine) -> std::string {
        mine->load(slot, detail::pool_text(state, size));
        return {};
      });
    };
    c.drop = [](void* user, int slot) {
      Part* part = static_cast<Part*>(user);
      if (!detail::pool_try([&] { part->object->drop(slot); })) part->is_broken = true;
    };
    c.wanted = [](void* user, const dlpool_load* load) {
      const Part* part = static_cast<Part*>(user);
      if (part->is_broken) return DLPOOL_END_MEMBER;
      int wanted = load->members;
      detail::pool_try([&] { wanted = part->object->wanted(*load); });
      return wanted < 1 ? 1 : wanted;
    };
    const dlpool_options o = place.c();
    status_ = PoolStatus(dlpool_member_create(&o, &c, &member_));
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() { dlpool_member_destroy(member_); }

  /* Serves until this member may end. */
  PoolStatus serve() { return status_ ? PoolStatus(dlpool_member_serve(member_)) : status_; }
  /* Asks to leave; any thread, any signal handler. */
  void leave() noexcept { dlpool_member_leave(member_); }

 private:
  struct Part {
    T* object;
    bool is_broken = false; /* drop() has thrown */
  };
  template <typename Body>
  static int call(void* user, dlpool_bytes* to, int no_memory, Body&& body) noexcept {
    const Part* part = static_cast<Part*>(user);
    if (part->is_broken) return DLPOOL_END_MEMBER;
    return detail::pool_call(to, no_memory, [&] { return body(part->object); });
  }
  Part part_;
  dlpool_member* member_ = nullptr;
  PoolStatus status_;
};

/* What a call was answered. */
struct PoolAnswer {
  PoolStatus status;
  std::string bytes;
  explicit operator bool() const noexcept { return static_cast<bool>(status); }
};

struct PoolCall {
  bool read = false;
  std::string key, bytes;
};

/* A client, which addresses all members as one. One thread at a time. */
class PoolClient {
 public:
  explicit PoolClient(const PoolPlace& place = {}) {
    const dlpool_options o = place.c();
    status_ = PoolStatus(dlpool_client_open(&o, &client_));
  }
  PoolClient(const PoolClient&) = delete;
  PoolClient& operator=(const PoolClient&) = delete;
  ~PoolClient() { dlpool_client_close(client_); }

  PoolAnswer update(std::string_view key, std::string_view bytes) { return one(false, key, bytes); }
  PoolAnswer read(std::string_view key, std::string_view bytes = {}) { return one(true, key, bytes); }
  /* Those of different slots at the same time. */
  std::vector<PoolAnswer> call(const std::vector<PoolCall>& calls) {
    std::vector<dlpool_call> c(calls.size());
    for (std::size_t i = 0; i < calls.size(); ++i) c[i] = call_of(calls[i].read, calls[i].key, calls[i].bytes);
    return carry_out(&c);
  }

 private:
  static dlpool_call call_of(bool read, std::string_view key, std::string_view bytes) {
    dlpool_call call{};
    call.read = read ? 1 : 0;
    call.key = key.data();
    call.key_size = key.size();
    call.bytes = bytes.data();
    call.size = bytes.size();
    return call;
  }
  PoolAnswer one(bool read, std::string_view key, std::string_view bytes) {
    std::vector<dlpool_call> c{call_of(read, key, bytes)};
    return std::move(carry_out(&c).front());
  }
  std::vector<PoolAnswer> carry_out(std::vector<dlpool_call>* calls) {
    std::vector<PoolAnswer> answers(calls->size());
    if (!status_) {
      for (PoolAnswer& answer : answers) answer.status = status_;
      return answers;
    }
    const PoolStatus whole(dlpool_call_many(client_, calls->data(), calls->size()));
    for (std::size_t i = 0; i < calls->size(); ++i) {
      const dlpool_call& call = (*calls)[i];
      const std::string_view bytes = detail::pool_text(call.answer, call.answer_size);
      if (call.result == DLPOOL_OK)
        answers[i].bytes = bytes;
      else if (call.result == DLPOOL_E_OBJECT)
        answers[i].status = PoolStatus(call.result, std::string(bytes));
      else
        answers[i].status = PoolStatus(call.result, whole.message());
    }
    return answers;
  }
  dlpool_client* client_ = nullptr;
  PoolStatus status_;
};

/* Values by slot and key, for objects that keep one value for each key. Value has std::string save() const and
 * void load(std::string_view). */
template <typename Value>
class PoolMap {
 public:
  PoolMap() : slots_(DLPOOL_SLOTS) {}
  Value& operator[](const PoolKey& key) { return at(key.slot)[std::string(key.name)]; }
  /* nullptr if there is none. */
  const Value* find(const PoolKey& key) const {
    const auto& slot = slots_[static_cast<std::size_t>(key.slot)];
    const auto found = slot.find(key.name);
    return found == slot.end() ? nullptr : &found->second;
  }
  std::size_t keys() const {
    std::size_t count = 0;
    for (const auto& slot : slots_) count += slot.size();
    return count;
  }
  std::string save(int slot) const {
    std::string bytes;
    const auto put = [&bytes](std::string_view text) {
      const std::uint64_t size = text.size();
      bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
      bytes += text;
    };
    for (const auto& [key, value] : slots_[static_cast<std::size_t>(slot)]) {
      put(key);
      put(value.save());
    }
    return bytes;
  }
  /* Throws if these are not bytes of save(); where exceptions are disabled it ends the program. */
  void load(int slot, std::string_view bytes) {
    const auto get = [&bytes]() -> std::string_view {
      std::uint64_t size = 0;
      if (bytes.size() < sizeof size) detail::pool_cut_short();
      std::memcpy(&size, bytes.data(), sizeof size);
      bytes.remove_prefix(sizeof size);
      if (bytes.size() < size) detail::pool_cut_short();
      const std::string_view text = bytes.substr(0, static_cast<std::size_t>(size));
      bytes.remove_prefix(text.size());
      return text;
    };
    drop(slot);
    while (!bytes.empty()) {
      const std::string key(get());
      at(slot)[key].load(get());
    }
  }
  void drop(int slot) { at(slot).clear(); }

 private:
  std::map<std::string, Value, std::less<>>& at(int slot) { return slots_[static_cast<std::size_t>(slot)]; }
  std::vector<std::map<std::string, Value, std::less<>>> slots_;
};

}  // namespace dl
#endif /* DLPOOL_HPP */
