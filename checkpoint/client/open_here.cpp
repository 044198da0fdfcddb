// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/client/open_here.h"

#include <unistd.h>

#include <filesystem>
#include <mutex>
#include <set>
#include <system_error>

namespace dl::ckpt {
namespace {

std::mutex open_mutex;

// Never destroyed, since a context may be closed when the process exits.
std::set<std::string>& open_now() {
  static auto* const open = new std::set<std::string>();
  return *open;
}

}  // namespace

Status OpenHere::enter(const std::string& dir, int rank) {
  std::error_code failure;
  const std::filesystem::path place = std::filesystem::weakly_canonical(dir, failure);
  const std::string key =
      std::to_string(::getpid()) + ":" + std::to_string(rank) + ":" + (failure ? dir : place.string());
  const std::lock_guard<std::mutex> lock(open_mutex);
  if (!open_now().insert(key).second)
    return Error{Errc::kBusy, dir + " is open in this process already, as rank " + std::to_string(rank) +
                                  "; allowed: one job, to which all objects are given at once, or the next one after "
                                  "the first is closed"};
  entered_ = key;
  return {};
}

OpenHere::~OpenHere() {
  if (entered_.empty()) return;
  const std::lock_guard<std::mutex> lock(open_mutex);
  open_now().erase(entered_);
}

}  // namespace dl::ckpt
