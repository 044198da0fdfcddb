/* SPDX-License-Identifier: Apache-2.0
 *
 * dlckpt_lease.h: the lease on a checkpoint directory, for dlrun and for the Python module's tests. Not installed:
 * programs leave it to dlckpt_open.
 *
 * At most one job at a time may write into a checkpoint directory. A file LEASE (JSON: owner, token, host, boot id,
 * pid, job id, renewed_ms) is created exclusively; it is given up by release, or taken over when its holder is surely
 * gone (same Slurm job id in a later start; same host and boot, and no such process) or has not renewed it for as long
 * as it promised: DLCKPT_LEASE_EXPIRY_S, or one hour where dlckpt_open took it without dlrun, because it is renewed
 * only by calls then (want, save, restore). dlrun takes it before the learners start and passes the token in
 * DL_CHECKPOINT_LEASE.
 *
 * Threads: a lease is for one thread at a time. Errors: the sentence is in dlckpt_open_error().
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
 *   Errors   BUSY (the sentence names holder and age), NOT_FOUND (dir), DENIED, NO_SPACE, IO, INVALID, MEMORY
 */
dlckpt_error dlckpt_lease_acquire(const char* dir, const char* owner, const char* job_id, dlckpt_lease** out);

/* dlckpt_lease_token: what DL_CHECKPOINT_LEASE is to hold.
 *   Returns  the lease's, until its release; "" if lease is NULL
 */
const char* dlckpt_lease_token(const dlckpt_lease* lease);

/* dlckpt_lease_renew: says that the holder lives. To be called at least every DLCKPT_LEASE_EXPIRY_S / 4.
 *   Errors   BUSY (it was lost to another; stop writing), DENIED, NO_SPACE, IO (not renewed, still held as far as
 *            known; try again), NOT_FOUND (the directory is gone), INVALID (NULL, or a child of fork())
 */
dlckpt_error dlckpt_lease_renew(dlckpt_lease* lease);

/* dlckpt_lease_release: gives it up, unless it was lost, and frees it. Never fails.
 *   lease    may be NULL
 */
void dlckpt_lease_release(dlckpt_lease* lease);

#ifdef __cplusplus
}
#endif
#endif /* DLCKPT_LEASE_H */
