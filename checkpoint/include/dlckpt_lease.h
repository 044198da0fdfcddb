/* SPDX-License-Identifier: Apache-2.0
 *
 * dlckpt_lease.h: the lease on a checkpoint directory, for dlrun and for the Python module's tests. This header is not
 * installed: in programs dlckpt_open takes the lease.
 *
 * At most one job at a time may write into a checkpoint directory. A file LEASE (JSON: owner, token, host, boot id,
 * pid, job id, renewed_ms) is created exclusively. Its holder releases it; or another takes it over when the holder is
 * surely gone (same Slurm job id in a later start; same host and boot, and no such process) or has not renewed the
 * lease in time. That time is DLCKPT_LEASE_EXPIRY_S, or one hour if dlckpt_open took the lease without dlrun, because
 * then only calls of the program (want, save, restore) renew it. dlrun takes the lease before the learners start and
 * passes the token in DL_CHECKPOINT_LEASE.
 *
 * Threads: one thread at a time may use a lease. Errors: dlckpt_open_error() returns the message.
 */
#ifndef DLCKPT_LEASE_H
#define DLCKPT_LEASE_H

#include "dlckpt.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DLCKPT_LEASE_EXPIRY_S 60

typedef struct dlckpt_lease dlckpt_lease; /* opaque; owned by the caller between acquire and release */

/* dlckpt_lease_acquire: takes the lease of a directory.
 *   owner    "job 12" and the like, shown to whoever is refused
 *   job_id   Slurm's; may be NULL
 *   out      on success a lease, to be released; on error NULL
 *   Errors   BUSY (the message names holder and age), NOT_FOUND (dir), DENIED, NO_SPACE, IO, INVALID, MEMORY
 */
dlckpt_error dlckpt_lease_acquire(const char* dir, const char* owner, const char* job_id, dlckpt_lease** out);

/* dlckpt_lease_token: returns the token for DL_CHECKPOINT_LEASE.
 *   Returns  valid until the lease is released; "" if lease is NULL
 */
const char* dlckpt_lease_token(const dlckpt_lease* lease);

/* dlckpt_lease_renew: records that the holder lives. Call it at least every DLCKPT_LEASE_EXPIRY_S / 4 seconds.
 *   Errors   BUSY (another job has taken the lease; stop writing), DENIED, NO_SPACE, IO (not renewed, but still held as
 *            far as known; try again), NOT_FOUND (the directory is gone), INVALID (NULL, or a child of fork())
 */
dlckpt_error dlckpt_lease_renew(dlckpt_lease* lease);

/* dlckpt_lease_release: releases the lease, unless another job has taken it, and frees the memory. Never fails.
 *   lease    may be NULL
 */
void dlckpt_lease_release(dlckpt_lease* lease);

#ifdef __cplusplus
}
#endif
#endif /* DLCKPT_LEASE_H */
