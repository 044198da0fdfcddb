// SPDX-License-Identifier: Apache-2.0
// The fuzz targets: each is a function that takes any bytes, must not crash, and aborts if a promise is broken. Run by
// libFuzzer (libfuzzer_entry.cpp) and over the committed corpus by `make check` (replay.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <unordered_set>

namespace dl::ckpt::fuzz {

void manifest(const uint8_t* data, size_t size);
void packed_index(const uint8_t* data, size_t size);
void user_block(const uint8_t* data, size_t size);
void data_file(const uint8_t* data, size_t size);
void messages(const uint8_t* data, size_t size);
void event_files(const uint8_t* data, size_t size);
void emetrics(const uint8_t* data, size_t size);
void log_index(const uint8_t* data, size_t size);
void frames(const uint8_t* data, size_t size);
void lease(const uint8_t* data, size_t size);
void safetensors(const uint8_t* data, size_t size);
void agent_words(const uint8_t* data, size_t size);
void pmix(const uint8_t* data, size_t size);
void sacct(const uint8_t* data, size_t size);
void tcp_store(const uint8_t* data, size_t size);
void data_journal(const uint8_t* data, size_t size);
void data_manifest(const uint8_t* data, size_t size);
void data_sources(const uint8_t* data, size_t size);
void rclone_lines(const uint8_t* data, size_t size);
void web_headers(const uint8_t* data, size_t size);
void pool_messages(const uint8_t* data, size_t size);

// The promises that were tried, for the replay; nullptr: nobody wants to know.
inline std::set<std::string>* tried_promises = nullptr;

// Aborts if the promise does not hold, after printing it.
inline void must(bool holds, const char* promise) {
  if (tried_promises != nullptr) tried_promises->insert(promise);
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", promise);
  std::abort();
}

// Whether a text is given for the first time, as far as is remembered. What follows from a text alone need not be tried
// for it again.
class FirstTime {
 public:
  bool operator()(const std::string& text) {
    constexpr size_t kMaxBytes = size_t{16} << 20;
    if (bytes_ > kMaxBytes) {
      texts_.clear();
      bytes_ = 0;
    }
    const bool first = texts_.insert(text).second;
    if (first) bytes_ += text.size();
    return first;
  }

 private:
  std::unordered_set<std::string> texts_;
  size_t bytes_ = 0;
};

// Takes the input apart into numbers and texts; at its end it gives zeros.
class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return at_ >= size_; }
  uint8_t u8() { return empty() ? 0 : data_[at_++]; }
  uint64_t number(int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) value |= static_cast<uint64_t>(u8()) << (8 * i);
    return value;
  }
  std::string rest() {
    std::string text(reinterpret_cast<const char*>(data_) + at_, size_ - at_);
    at_ = size_;
    return text;
  }

 private:
  const uint8_t* data_;
  size_t size_, at_ = 0;
};

}  // namespace dl::ckpt::fuzz
