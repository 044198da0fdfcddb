// SPDX-License-Identifier: Apache-2.0
// libFuzzer's entry points for the target that DL_FUZZ_TARGET names (tests/fuzz/run builds one program for each).
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "tests/fuzz/json_mutator.h"
#include "tests/fuzz/own_mutators.h"
#include "tests/fuzz/target.h"

#if defined(DL_FUZZ_OWN)
#define DL_FUZZ_JSON_AT 0
#endif

#ifdef DL_FUZZ_JSON_AT
namespace {

// JSON begins behind so many bytes: of the input, or of each of its parts.
constexpr size_t kHead = DL_FUZZ_JSON_AT;

std::optional<std::string> mutated(const std::string& text, size_t max_size, unsigned seed) {
  using namespace dl::ckpt::fuzz;
#if defined(DL_FUZZ_OWN)
  return DL_FUZZ_OWN(text, seed, max_size);
#elif defined(DL_FUZZ_PART_END)
  return mutate_parts(text, {DL_FUZZ_PART_END, kHead}, seed, max_size);
#elif defined(DL_FUZZ_SEAL)
  if (seed % 16 < 13) return mutate_character(text, seed);
  auto json = mutate_json(text, seed, max_size);
  if (json) json = seal_manifest(*json);
  if (json && json->size() > max_size) json.reset();
  return json;
#else
  auto json = mutate_json(text.substr(kHead), seed, max_size - kHead);
  if (!json) return std::nullopt;
  std::string head = text.substr(0, kHead);
  if (!head.empty() && seed % 8 == 1) head.back() = static_cast<char>(seed >> 8);
  return head + *json;
#endif
}

size_t put(const std::optional<std::string>& text, uint8_t* out) {
  if (!text) return 0;
  std::memcpy(out, text->data(), text->size());
  return text->size();
}

}  // namespace
#endif

extern "C" {

size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t* data, size_t size, const uint8_t* other, size_t other_size,
                                 uint8_t* out, size_t max_size, unsigned seed);

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dl::ckpt::fuzz::DL_FUZZ_TARGET(data, size);
  return 0;
}

#ifdef DL_FUZZ_JSON_AT
// Of so many changes one is blind; all others keep the form of the input.
#ifndef DL_FUZZ_BLIND
#define DL_FUZZ_BLIND 8
#endif
size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  if (seed % DL_FUZZ_BLIND != 0 && size > kHead && max_size > kHead) {
    const size_t put_there = put(mutated(std::string(reinterpret_cast<const char*>(data), size), max_size, seed), data);
    if (put_there > 0) return put_there;
  }
  return LLVMFuzzerMutate(data, size, max_size);
}

#ifdef DL_FUZZ_PART_END
size_t LLVMFuzzerCustomCrossOver(const uint8_t* data, size_t size, const uint8_t* other, size_t other_size,
                                 uint8_t* out, size_t max_size, unsigned seed) {
  const auto text = [](const uint8_t* bytes, size_t n) { return std::string(reinterpret_cast<const char*>(bytes), n); };
  return put(
      dl::ckpt::fuzz::cross_parts(text(data, size), text(other, other_size), {DL_FUZZ_PART_END, kHead}, seed, max_size),
      out);
}
#endif
#endif
}
