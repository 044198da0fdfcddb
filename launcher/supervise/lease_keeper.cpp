// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/lease_keeper.h"

#include <memory>

namespace dl::supervise {
namespace {

constexpr int64_t kRenewMs = 15000;

}  // namespace

Status LeaseKeeper::acquire(const std::string& dir, const std::string& owner, const std::string& job_id,
                            int64_t now_ms) {
  DL_TRY(lease_.acquire(dir, owner, job_id));
  held_ = true;
  token_ = lease_.token();
  renewed_ms_ = now_ms;
  return {};
}

void LeaseKeeper::tick(int64_t now_ms) {
  if (!held_ || renewing_ || now_ms - renewed_ms_ < kRenewMs) return;
  renewed_ms_ = now_ms;
  renewing_ = true;
  auto kept = std::make_shared<bool>(true);
  calls_.post([this, kept] { *kept = lease_.renew(); },
              [this, kept] {
                renewing_ = false;
                if (!held_) return lease_.release();
                if (!*kept) lost_();
              });
}

void LeaseKeeper::release() {
  held_ = false;
  if (!renewing_) lease_.release();
}

}  // namespace dl::supervise
