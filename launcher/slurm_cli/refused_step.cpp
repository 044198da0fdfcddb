// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm_cli/refused_step.h"

#include <array>
#include <cstddef>

namespace dl::slurm_cli {
namespace {

constexpr int kOwnErrorOfSrun = 1;
constexpr int kBySignal = 128;
constexpr std::array<int, 5> kPauses = {1, 2, 4, 8, 15};  // seconds

}  // namespace

bool may_be_refused(int exit_status) {
  return exit_status == kOwnErrorOfSrun;
}

bool may_not_have_reached(int exit_status) {
  return exit_status > kBySignal;
}

std::optional<std::chrono::seconds> pause_after_refusal(int refused) {
  if (refused < 1 || refused > max_tries_again()) return std::nullopt;
  return std::chrono::seconds(kPauses[static_cast<size_t>(refused - 1)]);
}

int max_tries_again() {
  return static_cast<int>(kPauses.size());
}

}  // namespace dl::slurm_cli
