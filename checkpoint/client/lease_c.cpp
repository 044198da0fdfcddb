// SPDX-License-Identifier: Apache-2.0
// The lease functions of dlckpt.h. They need no libhdf5: dlrun links only them, since loading HDF5 and its dependencies
// took 8 ms at each start.
#include "checkpoint/client/c_errors.h"
#include "checkpoint/include/dlckpt_lease.h"
#include "checkpoint/store/directory.h"
#include "checkpoint/store/lease.h"

struct dlckpt_lease {
  dl::ckpt::Lease lease;
};

extern "C" {

dlckpt_error dlckpt_lease_acquire(const char* dir, const char* owner, const char* job_id, dlckpt_lease** out) {
  if (!out) return DLCKPT_E_INVALID;
  *out = nullptr;
  return dl::ckpt::run(dl::ckpt::open_message(), [&]() -> dl::Status {
    if (!dir || !*dir || !owner)
      return dl::Error{dl::Errc::kInvalid, "dir or owner is NULL, or dir is empty; allowed: both given"};
    DL_TRY_ASSIGN(dl::ckpt::Lease lease, dl::ckpt::Lease::acquire(dl::ckpt::posix_io(), dl::ckpt::from_root(dir), owner,
                                                                  job_id ? job_id : "", DLCKPT_LEASE_EXPIRY_S));
    *out = new dlckpt_lease{std::move(lease)};
    return {};
  });
}

const char* dlckpt_lease_token(const dlckpt_lease* lease) {
  return lease ? lease->lease.token().c_str() : "";
}

dlckpt_error dlckpt_lease_renew(dlckpt_lease* lease) {
  if (!lease) return DLCKPT_E_INVALID;
  return dl::ckpt::run(dl::ckpt::open_message(), [&] { return lease->lease.renew(); });
}

void dlckpt_lease_release(dlckpt_lease* lease) {
  dl::guard(
      0, [](const char*) {},
      [&] {
        delete lease;
        return 0;
      });
}

}  // extern "C"
