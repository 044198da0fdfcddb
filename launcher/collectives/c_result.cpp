// SPDX-License-Identifier: Apache-2.0
#include "launcher/collectives/c_result.h"

#include <string>

namespace dl::learner {
namespace {

// Programs that were compiled when these functions returned int still read the right register.
static_assert(sizeof(dllearner_result) == sizeof(int));

thread_local std::string sentence;
thread_local bool lost = false;  // there was no memory for the sentence

dllearner_result code_of(Errc code) {
  switch (code) {
    case Errc::kInvalid:
      return DLLEARNER_E_INVALID;
    case Errc::kUnsupported:
      return DLLEARNER_E_UNSUPPORTED;
    case Errc::kConflict:
      return DLLEARNER_E_WORLD;
    case Errc::kIo:
      return DLLEARNER_E_PEER;
    case Errc::kTimeout:
      return DLLEARNER_E_TIMEOUT;
    case Errc::kBusy:
      return DLLEARNER_E_STATE;
    default:
      return DLLEARNER_E_INTERNAL;
  }
}

}  // namespace

dllearner_result keep_error(const Error& error) noexcept {
  return keep_error(code_of(error.code), error.text.c_str());
}

dllearner_result keep_error(dllearner_result code, const char* text) noexcept {
  try {
    sentence = text;
    lost = false;
  } catch (...) {
    lost = true;
  }
  return code;
}

const char* kept_error() noexcept {
  return lost ? "out of memory" : sentence.c_str();
}

}  // namespace dl::learner
