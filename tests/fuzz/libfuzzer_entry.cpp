// SPDX-License-Identifier: Apache-2.0
// libFuzzer's entry points for the target that DL_FUZZ_TARGET names (tests/fuzz/run builds one program for each).
#include <cstring>
#include <utility>

#include "tests/fuzz/json_mutator.h"
#include "tests/fuzz/target.h"

extern "C" {

size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed);

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dl::ckpt::fuzz::DL_FUZZ_TARGET(data, size);
  return 0;
}

#ifdef DL_FUZZ_JSON_AT
// Most mutations keep JSON JSON; it begins behind so many bytes.
size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  constexpr size_t kHead = DL_FUZZ_JSON_AT;
  if (seed % 8 == 0 || size <= kHead || max_size <= kHead) return LLVMFuzzerMutate(data, size, max_size);
#ifdef DL_FUZZ_SEAL
  constexpr bool kSeal = true;
#else
  constexpr bool kSeal = false;
#endif
  std::string text(reinterpret_cast<const char*>(data) + kHead, size - kHead);
  text = kSeal && seed % 16 < 13 ? dl::ckpt::fuzz::mutate_character(std::move(text), seed)
                                 : dl::ckpt::fuzz::mutate_json(text, seed, max_size - kHead, kSeal);
  std::memcpy(data + kHead, text.data(), text.size());
  return kHead + text.size();
}
#endif
}
