/* SPDX-License-Identifier: Apache-2.0
 *
 * dlckpt_read.h: reading a checkpoint of libdlckpt without owning its directory.
 *
 * It serves evaluation beside training, fine-tuning from another user's weights, and tools. A reader takes no lease,
 * writes nothing and asks no other rank, so the directory may belong to another user, lie on a file system that is
 * mounted read-only, or be in use by the job that trains. Programs can ask for shapes before they allocate memory.
 *
 *     dlckpt_reader *r;
 *     if (dlckpt_reader_open("/shared/run/ckpt", DLCKPT_LATEST, &r) != DLCKPT_OK) { ... dlckpt_open_error() ... }
 *     dlckpt_tensor_info info = {sizeof info};
 *     rc = dlckpt_reader_find(r, "model/embed.weight", &info);
 *     float *w = malloc(info.bytes);
 *     rc = dlckpt_reader_load(r, info.path, NULL, NULL, w, info.bytes);
 *     dlckpt_reader_close(r);
 *
 * A reader sees only committed checkpoints, and verifies each block before it returns a byte of it. It does not see
 * checkpoints that are only at the node-local level: the job itself copies them to the shared directory. The job that
 * owns the directory goes on removing checkpoints that it no longer keeps, also while they are read: then reading fails
 * with DLCKPT_E_NOT_FOUND, and another checkpoint can be opened. `dlckpt pin` (dlckpt(1)) protects one from removal.
 *
 * Threads: a reader may be used by one thread at a time, and a call that comes while another thread is in one does
 * nothing: DLCKPT_E_INVALID (dlckpt_reader_step: -1, dlckpt_reader_count: 0), and dlckpt_reader_close closes nothing;
 * loading large tensors starts threads that end before the call returns. Different readers are independent. Errors:
 * functions return DLCKPT_OK or another dlckpt_error; dlckpt_reader_errmsg() returns the message, or
 * dlckpt_open_error() if there is no reader yet. After any error the reader can still be used and closed. A reader
 * works in a child of fork() as in its parent; each closes its own copy.
 */
#ifndef DLCKPT_READ_H
#define DLCKPT_READ_H

#include "dlckpt.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dlckpt_reader dlckpt_reader;

typedef struct dlckpt_tensor_info {
  size_t struct_size; /* set it to sizeof(dlckpt_tensor_info) before the call */
  const char* path;   /* as it was registered; owned by the reader, valid until dlckpt_reader_older or _close */
  dlckpt_dtype dtype;
  int ndim;             /* 0: a scalar */
  const int64_t* shape; /* of the whole tensor, however it was divided over ranks; owned like path */
  uint64_t bytes;       /* of the whole tensor */
} dlckpt_tensor_info;

/* dlckpt_reader_open: opens the newest checkpoint of a directory that looks complete: its manifest verifies, and all
 * its files have the right size.
 *   step     DLCKPT_LATEST: of any train step; else of this one
 *   out      on success a reader, to be closed; on error NULL
 *   Errors   NOT_FOUND (no such directory or checkpoint; the message names the existing ones), CORRUPT (none of them is
 *            complete), DENIED, IO, INVALID, MEMORY; dlckpt_open_error returns the message
 */
dlckpt_error dlckpt_reader_open(const char* dir, int64_t step, dlckpt_reader** out);

/* dlckpt_reader_close: frees the reader. Never fails.
 *   reader   may be NULL
 */
void dlckpt_reader_close(dlckpt_reader* reader);

/* dlckpt_reader_step: the train step of the checkpoint that is read; -1 if reader is NULL. */
int64_t dlckpt_reader_step(const dlckpt_reader* reader);

/* dlckpt_reader_older: rejects the checkpoint and takes the next older one that looks complete.
 *   Errors   NOT_FOUND (none is older), and those of dlckpt_reader_open; the reader then keeps its checkpoint
 */
dlckpt_error dlckpt_reader_older(dlckpt_reader* reader);

/* dlckpt_reader_steps: the train steps of all checkpoints that are committed in the directory now. The first was
 * committed last; it does not always have the highest train step.
 *   steps    filled with at most `capacity` of them
 *   count    set to the number of all, which may exceed `capacity`
 *   Errors   IO, DENIED, INVALID
 */
dlckpt_error dlckpt_reader_steps(dlckpt_reader* reader, int64_t* steps, size_t capacity, size_t* count);

/* dlckpt_reader_count: how many tensors the checkpoint holds. They are in the order of their paths (bytewise). */
size_t dlckpt_reader_count(const dlckpt_reader* reader);

/* dlckpt_reader_tensor, dlckpt_reader_find: describe the tensor at an index, or of a path.
 *   index    from 0 to dlckpt_reader_count - 1
 *   out      filled in; set its struct_size before the call
 *   Errors   NOT_FOUND, INVALID (reader, out or its struct_size)
 */
dlckpt_error dlckpt_reader_tensor(dlckpt_reader* reader, size_t index, dlckpt_tensor_info* out);
dlckpt_error dlckpt_reader_find(dlckpt_reader* reader, const char* path, dlckpt_tensor_info* out);

/* dlckpt_reader_load: loads a tensor, or a box of it.
 *   offset,  NULL, NULL for the whole; else the elements [offset, offset + extent), both with as many numbers as the
 *   extent   tensor has dimensions
 *   data     host memory; filled in C order without gaps. Its content is undefined after an error
 *   size     bytes at data; must be exactly the size of the elements
 *   Errors   NOT_FOUND (no such tensor; the checkpoint was removed meanwhile), INVALID (the box does not lie in the
 *            tensor; size), CORRUPT (the message names file and block), IO, MEMORY
 */
dlckpt_error dlckpt_reader_load(dlckpt_reader* reader, const char* path, const int64_t* offset, const int64_t* extent,
                                void* data, size_t size);

/* dlckpt_reader_blob: gives the bytes of a blob.
 *   rank        the rank that saved the blob; -1: the blob that is common to all ranks
 *   data, size  filled in. The reader owns the bytes; they are valid until the next call of this function or close
 *   Errors      NOT_FOUND, CORRUPT, IO, MEMORY, INVALID
 */
dlckpt_error dlckpt_reader_blob(dlckpt_reader* reader, const char* path, int rank, const void** data, size_t* size);

/* dlckpt_reader_errmsg: the message of the last call on the reader.
 *   Returns  never NULL; "" after success. But after open and older it says which newer checkpoints were passed over
 *            and why. Valid until the next call on the reader
 */
const char* dlckpt_reader_errmsg(const dlckpt_reader* reader);

#ifdef __cplusplus
}
#endif
#endif /* DLCKPT_READ_H */
