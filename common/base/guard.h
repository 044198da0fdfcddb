// SPDX-License-Identifier: Apache-2.0
// guard(): the one place where C++ stops at a C boundary. Every function that C calls is `noexcept` and consists of one
// call of guard(): an exception that left a SPANK hook would abort sbatch, and one that left job_submit would abort
// slurmctld.
#pragma once

#include <exception>
#include <utility>

namespace dl {

// Runs body(); if it throws, calls report(const char* what) (which must not throw; a second throw is swallowed) and
// returns on_throw. std::bad_alloc is included.
template <typename R, typename Body, typename Report>
R guard(R on_throw, Report&& report, Body&& body) noexcept {
  try {
    return std::forward<Body>(body)();
  } catch (const std::exception& e) {
    try {
      report(e.what());
    } catch (...) {  // report() threw, too: there is nothing left to do
    }
  } catch (...) {
    try {
      report("unknown exception");
    } catch (...) {
    }
  }
  return on_throw;
}

}  // namespace dl
