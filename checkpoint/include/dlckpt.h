/* SPDX-License-Identifier: Apache-2.0
 *
 * dlckpt.h: the public C API of libdlckpt, slurm-dl's checkpoint service.
 *
 * How to use it
 *     dlckpt_ctx *c;
 *     if (dlckpt_open(NULL, &c) != DLCKPT_OK) { ... dlckpt_open_error() ... }
 *     dlckpt_tensor(c, "model/w", DLCKPT_F32, 2, shape, NULL, NULL, w, DLCKPT_REPLICATED);
 *     int64_t step = 0;
 *     rc = dlckpt_restore(c, DLCKPT_LATEST, &step);        // DLCKPT_E_NOT_FOUND: no checkpoint yet, step stays 0
 *     for (; step < total; step++) {
 *         int want = dlckpt_want(c, step);
 *         if (want & DLCKPT_WANT_SAVE) dlckpt_save(c, step);
 *         if (want & DLCKPT_WANT_EXIT) exit(dlckpt_exit_code(c));
 *         ... train step `step` ...
 *     }
 *     dlckpt_save(c, total);
 *     rc = dlckpt_wait(c, -1, NULL);                       // saves run in the background; now this one is durable
 *     dlckpt_close(c);
 *
 * Terms (slurm-dl(7)): a *train step* labels a checkpoint; the checkpoint of train step s holds the state after s train
 * steps are done, so training resumes by running train step s. All learners ("ranks") of a job write one checkpoint
 * together; it exists once its manifest is durable, and not before. The library loads only committed checkpoints, and
 * only data whose checksums match.
 *
 * Ranks find one another through the checkpoint directory, which all must see; they need no MPI. (So that each stored
 * byte is read only once, a restore also passes bytes from rank to rank over TCP, if they can connect.) Every function
 * marked "collective" must be called by all ranks with the same train step, and returns the same outcome on all of
 * them. A rank that waits for another for longer than the timeout gives up with DLCKPT_E_TIMEOUT; then nothing is
 * committed.
 *
 * Threads: a context may be used by one thread at a time. A call that comes while another thread is in one does nothing
 * and returns DLCKPT_E_INVALID (functions that return no error: what they return in a child of fork(), below), with a
 * message of its own; dlckpt_close then closes nothing, and dlckpt_close_error says so. A wait of the program's own is
 * needed all the same. Different contexts are independent. Saving starts threads of
 * the library's own, which live until dlckpt_close and block all signals; they read registered memory only between
 * dlckpt_save and its return (lazy saves: the return of dlckpt_before_mutation). The threads of a restore end before it
 * returns, except one that listens for the other ranks until dlckpt_close. The library prints nothing, never
 * exits or aborts, and leaves signals alone. A child of fork() may only close its parent's context, and this does
 * nothing. Every other call on that context in the child does nothing and returns DLCKPT_E_INVALID at once
 * (dlckpt_want: 0, dlckpt_latest: -1, dlckpt_exit_code: 76). The child may open contexts of its own.
 *
 * GPUs: tensors may lie in device or managed memory of the CUDA driver, in any context, also memory of another process
 * (cuIpcOpenMemHandle). Registration detects this by asking the driver that the program has
 * loaded; the library is not linked with CUDA and never loads it. A save first waits for all work that is queued, on
 * any stream, in the contexts of the tensors' memory, and a restore does so before it writes (memory from a pool
 * belongs to no context: then in the primary context of its device); so neither may be called while a stream of these
 * contexts is being captured. Once a call has returned, what the library's threads still do leaves captures alone, also
 * in the mode global. The program itself must wait for work on other devices that uses this memory. The library
 * copies on streams of its own, which it makes for each save. As on the host, the copies are complete, and any stream
 * may use the memory, when dlckpt_save, dlckpt_before_mutation (lazy saves) or dlckpt_restore has returned. Staging
 * memory is pinned from the first save of such tensors on, if the driver allows it. The library's threads make the
 * memory's context current for themselves; the caller's current context is the same after a call as before. Contexts
 * that tensors lie in must exist as long as their memory is registered. If a call of the driver fails, that save or
 * restore returns DLCKPT_E_IO (DLCKPT_E_MEMORY if the device has no memory left), with the call's name in the message.
 * As everywhere in CUDA, a child of fork() cannot use its parent's device memory: it must not register it.
 *
 * Errors: functions return DLCKPT_OK (0) or another dlckpt_error, all within 1..255 so that they may be used as exit
 * codes; dlckpt_errmsg(ctx) then holds one sentence for the user, valid until the next call on that context.
 * After any error the context can still be used and closed, and every committed checkpoint is untouched.
 */
#ifndef DLCKPT_H
#define DLCKPT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DLCKPT_API_VERSION 3

typedef struct dlckpt_ctx dlckpt_ctx; /* opaque; owned by the caller between open and close */

typedef enum dlckpt_error {
  DLCKPT_OK = 0,
  DLCKPT_E_INVALID = 1,   /* an argument is malformed or out of range; nothing was done */
  DLCKPT_E_NOT_FOUND = 2, /* no checkpoint (or no such train step, tensor or blob) */
  DLCKPT_E_BUSY = 3,      /* the directory is in use by another job; the message names it */
  DLCKPT_E_DENIED = 4,    /* not permitted, or read-only file system */
  DLCKPT_E_NO_SPACE = 5,  /* disk or quota full; the attempt was removed, older checkpoints are untouched */
  DLCKPT_E_IO = 6,        /* a system call failed (also fsync); the attempt was removed, as with NO_SPACE */
  DLCKPT_E_CORRUPT = 7,   /* checkpoints exist, but none verifies */
  DLCKPT_E_MISMATCH = 8, /* the checkpoint does not fit what is registered (name, dtype or shape); nothing was loaded */
  DLCKPT_E_TIMEOUT = 9,  /* another rank did not arrive in time */
  DLCKPT_E_MEMORY = 10,  /* out of memory */
  DLCKPT_E_INTERNAL = 11, /* a fault of the library; every function may return this, and MEMORY */
  DLCKPT_E_IN_FLIGHT = 12 /* DLCKPT_SKIP_IF_BUSY: an earlier save is not durable yet; nothing was done */
} dlckpt_error;

/* Element types; sizes in bytes in parentheses. Stored little-endian, bit for bit. Values are part of the ABI. */
typedef enum dlckpt_dtype {
  DLCKPT_F64 = 1,    /* (8) IEEE 754 */
  DLCKPT_F32 = 2,    /* (4) */
  DLCKPT_F16 = 3,    /* (2) */
  DLCKPT_BF16 = 4,   /* (2) 1-8-7, a custom float in HDF5 */
  DLCKPT_F8E4M3 = 5, /* (1) stored as uint8 with the attribute dtype="float8_e4m3fn" */
  DLCKPT_F8E5M2 = 6, /* (1) stored as uint8 with the attribute dtype="float8_e5m2" */
  DLCKPT_I64 = 7,
  DLCKPT_I32 = 8,
  DLCKPT_I16 = 9,
  DLCKPT_I8 = 10,
  DLCKPT_U64 = 11,
  DLCKPT_U32 = 12,
  DLCKPT_U16 = 13,
  DLCKPT_U8 = 14,
  DLCKPT_BOOL = 15, /* (1) 0 or 1; stored as uint8 with the attribute dtype="bool" */
  DLCKPT_C64 = 16,  /* (8) two F32 */
  DLCKPT_C128 = 17  /* (16) two F64 */
} dlckpt_dtype;

/* Flags of dlckpt_tensor. */
enum {
  DLCKPT_REPLICATED = 1,  /* ranks that register the same box (all do, without offset and extent) hold the same values;
                             one of them writes it. Different boxes must not overlap, and together cover the whole (2-D
                             meshes, HSDP). All ranks give offset and extent, or none. */
  DLCKPT_OPTIONAL = 2,    /* restore leaves it alone, without error, if the checkpoint does not have it */
  DLCKPT_FROZEN = 4,      /* is not expected to change between saves: from the first save on it is stored with the
                             tensors stored only once (options.reuse). Only a hint: if it changes, it is saved */
  DLCKPT_ANOTHER_PART = 8 /* adds a box of a tensor that this rank has registered already, instead of replacing it;
                             dtype, shape and the other flags as before; the boxes must not overlap */
};

/* Bits that dlckpt_want returns. */
enum { DLCKPT_WANT_SAVE = 1, DLCKPT_WANT_EXIT = 2 };

/* Flags of dlckpt_save_flags. */
enum {
  DLCKPT_SYNC = 1,        /* returns when the checkpoint is durable */
  DLCKPT_LAZY = 2,        /* returns at once (for memory of a GPU, when what is queued there is done); a thread of the
                             library copies. Memory may be read, but must not change
                             before dlckpt_before_mutation has returned */
  DLCKPT_SKIP_IF_BUSY = 4 /* does not wait for an earlier save: returns DLCKPT_E_IN_FLIGHT, the same on all ranks */
};

/* options.mode */
enum { DLCKPT_MODE_ASYNC = 1, DLCKPT_MODE_SYNC = 2, DLCKPT_MODE_LAZY = 3 };

#define DLCKPT_LATEST ((int64_t)-1)
#define DLCKPT_EVERY_AUTO (-1.0)
#define DLCKPT_MAX_DIMS 32

/* Options of dlckpt_open. Zero the struct, set struct_size, then the fields you want; 0 and NULL mean "from the
 * environment". Strings are copied. */
typedef struct dlckpt_options {
  size_t struct_size;   /* sizeof(dlckpt_options): lets the struct grow */
  const char* dir;      /* checkpoint directory. Else DL_CHECKPOINT_DIR, else the path in DL_CHECKPOINT, else
                           CHECKPOINT_DIR. Created if missing (its parent must exist). A relative path is of the working
                           directory at the time of dlckpt_open. */
  int rank, world_size; /* world_size 0: from DL_ROLE_RANK/DL_ROLE_SIZE (which do not count parameter servers), else
                           DL_RANK/DL_WORLD_SIZE, else RANK/WORLD_SIZE, else OMPI_COMM_WORLD_RANK/_SIZE, else PMIX_RANK
                           with SLURM_NTASKS, else SLURM_PROCID/SLURM_STEP_NUM_TASKS, else 0 of 1 */
  const char* run_id;   /* the same on all ranks, different for each start of the job. Else DL_RUN_ID, else made up
                           if world_size is 1, else TORCHELASTIC_RUN_ID with MASTER_ADDR, MASTER_PORT and the number
                           of torchrun's restarts, else mpirun's PMIX_NAMESPACE, else the ids of Slurm's job and job
                           step with the number of restarts, else an error */
  double every_s;       /* save about every so many seconds; DLCKPT_EVERY_AUTO: the library chooses the interval from
                           the measured cost of saves, see libdlckpt(3). Under dlrun the interval that was asked for at
                           submission counts instead, and dlrun says when to save */
  int64_t every_steps;  /* save at every train step divisible by this */
  int keep;             /* newest checkpoints to keep, >= 1; else keep= of DL_CHECKPOINT, else 3 */
  double timeout_s;     /* longest wait for another rank; default 600 */
  /* Since API version 2. */
  int64_t
      keep_every; /* checkpoints of train steps divisible by this are kept as well; else keep-every= of DL_CHECKPOINT */
  const char* best;      /* and the best by a metric (dlckpt_metric): "loss:min:2"; else best= of DL_CHECKPOINT */
  int mode;              /* how dlckpt_save saves: a DLCKPT_MODE_. Else DL_CHECKPOINT_MODE (async, sync, lazy), else
                            async */
  uint64_t memory_bytes; /* staging memory of this rank, at least 1 MiB. Else DL_CHECKPOINT_MEMORY (like 2GiB), else as
                           much as the state, at most half of what the job's cgroup leaves. If it is less than the
                           state, a save blocks until part of the state is written. More than the cgroup leaves is
                           refused (MEMORY) */
  int write_threads;     /* used where io_uring is not available; default 4 */
  int recycle; /* 1: files of retired checkpoints are written again in place, so that the file system need not find new
                  blocks (not where local_dir is given); 2: they are not. Else DL_CHECKPOINT_RECYCLE (1 or 0), else 1 */
  const char* local_dir; /* absolute path on each node; saves go there first. DL_CHECKPOINT_LOCAL (PATH[,partner]) has
                            precedence; else local= of DL_CHECKPOINT, else none. Its parent must exist. */
  int partner; /* not 0: each node's local files are also kept by the next node; else ",partner" of DL_CHECKPOINT_LOCAL,
                  else partner of DL_CHECKPOINT */
  int reuse;   /* 1: tensors (of 64 KiB and more) that do not change from save to save are stored once: in a file of
                  their own, which later checkpoints share by hard links; 2: every checkpoint has its own copy. Else
                  DL_CHECKPOINT_REUSE (1 or 0), else 1 */
  /* Since API version 3. */
  int environment_first; /* 0: these options have precedence over the environment. Not 0: the environment has precedence
                            for dir (DL_CHECKPOINT_DIR, DL_CHECKPOINT), every_s with every_steps (every= of
                            DL_CHECKPOINT), keep (its keep=) and mode (DL_CHECKPOINT_MODE). So the wishes given at
                            submission count, and one program runs unchanged on a laptop and in a job: the Python
                            module's attach() does this. CHECKPOINT_DIR never has precedence over dir. */
  const char* objects;   /* "NAME:PATH", a folder of a remote of the user's rclone configuration, the same on all ranks:
                            each checkpoint that is published is also sent there, by the program dlckpt beside the next
                            train steps; see libdlckpt(3). DL_CHECKPOINT_OBJECTS has precedence; else objects= of
                            DL_CHECKPOINT, else none. Never a credential: those are in rclone's configuration */
} dlckpt_options;

/* What dlckpt_resolve returns: the options and what the environment says, put together. */
typedef struct dlckpt_settings {
  size_t struct_size;        /* set it to sizeof(dlckpt_settings) before the call */
  unsigned from_environment; /* DLCKPT_SETTING_ bits: which settings below come from the environment */
  const char* dir;           /* NULL: neither options nor environment name one; dlckpt_open would refuse that. Valid
                                until the calling thread's next dlckpt_resolve, as run_id is */
  double every_s;            /* 0: not by time; DLCKPT_EVERY_AUTO */
  int64_t every_steps;       /* 0: not by train steps */
  int keep;
  int mode; /* a DLCKPT_MODE_ */
  int rank, world_size;
  const char* run_id; /* if it is made up, another at each call */
} dlckpt_settings;
enum { DLCKPT_SETTING_DIR = 1, DLCKPT_SETTING_EVERY = 2, DLCKPT_SETTING_KEEP = 4, DLCKPT_SETTING_MODE = 8 };

/* dlckpt_open: opens a checkpoint directory for this rank, and removes from it the files of attempts that can no
 * longer commit. Rank 0 takes the directory's lease, or uses the one in DL_CHECKPOINT_LEASE.
 *   options  NULL: all from the environment. Copied
 *   out      on success a context, to be closed by dlckpt_close; on error NULL
 *   Errors   BUSY (another job holds the directory, or this process has it open), NOT_FOUND (the parent of dir),
 *            INVALID (also if dir is one checkpoint in a directory of them, or if options.objects cannot be used, such
 *            as for want of dlckpt or rclone on this node, or because others may read rclone's configuration),
 *            DENIED, NO_SPACE, IO, MEMORY; dlckpt_open_error returns the message
 *   Ranks    not collective: each rank on its own, in any order
 */
dlckpt_error dlckpt_open(const dlckpt_options* options, dlckpt_ctx** out);

/* dlckpt_resolve: returns the settings that dlckpt_open would use, without opening anything.
 *   options  NULL: all from the environment
 *   out      filled in; set its struct_size before the call
 *   Errors   INVALID, as of dlckpt_open; dlckpt_open_error returns the message
 */
dlckpt_error dlckpt_resolve(const dlckpt_options* options, dlckpt_settings* out);

/* dlckpt_open_error: why dlckpt_open, dlckpt_resolve or dlckpt_reader_open failed last in the calling thread.
 *   Returns  one sentence, never NULL; valid until the thread's next such call
 */
const char* dlckpt_open_error(void);

/* dlckpt_close: waits for the save in flight, then releases everything, also the lease. Never fails. Call dlckpt_wait
 * before it to learn the outcome of that save. With options.objects rank 0 first waits until the newest checkpoint is
 * in the object store: as long as bytes move, which has no limit but the job's, and in which the job keeps its GPUs; it
 * gives up when nothing has moved for timeout_s (600 s by default), and 5 seconds after dlrun has asked the program to
 * end. If the newest checkpoint is not there at the end, dlckpt_close_error says so: print it. The next run that
 * restores from this directory sends it, or `dlckpt send DIR NAME:PATH`.
 *   ctx      may be NULL
 */
void dlckpt_close(dlckpt_ctx* ctx);

/* dlckpt_close_error: what the calling thread's last dlckpt_close has left undone.
 *   Returns  never NULL; "" if nothing; else one sentence, which says which checkpoint is not in the object store, why,
 *            and what to do; or that another thread is in a call, so that the context stays open. Valid until the
 *            thread's next dlckpt_close
 */
const char* dlckpt_close_error(void);

/* dlckpt_tensor: registers memory to be saved and restored. A path that is registered already is replaced.
 *   path     1..512 bytes UTF-8 like "model/layers.0.weight"; '/' makes groups; no empty part, no control character
 *   ndim     0..DLCKPT_MAX_DIMS; 0: a scalar
 *   shape    ndim global sizes, each >= 0; may be NULL for a scalar
 *   offset,  this rank's box within shape, or NULL, NULL for the whole. Boxes of different ranks must not overlap and
 *   extent   must together cover the whole at save; at restore any box is allowed (so N ranks may load what M saved)
 *   data     memory of the box, on the host or a GPU, in C (row-major) order without gaps. The library uses it until
 *            the path is registered again, dlckpt_forget or dlckpt_close. May be NULL if the box is empty
 *   flags    DLCKPT_REPLICATED and so on
 *   Errors   INVALID (also device memory under a driver older than CUDA 11), MEMORY, IO (the driver cannot tell where
 *            data lies)
 *   Ranks    not collective; but all must have registered the same paths before they save or restore
 */
dlckpt_error dlckpt_tensor(dlckpt_ctx* ctx, const char* path, dlckpt_dtype dtype, int ndim, const int64_t* shape,
                           const int64_t* offset, const int64_t* extent, void* data, unsigned flags);

/* dlckpt_tensor_strided: the same for memory with gaps or in another order. The checkpoint stores it in C order, as all
 * tensors; restore puts each element back in its place and does not touch the gaps.
 *   stride_bytes  of each dimension, the distance from one element of the box to the next; may be negative, or 0
 *                 (restore then leaves the last value there). NULL: C order without gaps
 *   data          the box's first element
 *   Errors, ranks as dlckpt_tensor
 * On a GPU rows at even distances are copied with one call. If the last dimension has gaps or is not the one that
 * varies fastest in memory, each element counts as a row, which is slow: make a dense copy and register that.
 */
dlckpt_error dlckpt_tensor_strided(dlckpt_ctx* ctx, const char* path, dlckpt_dtype dtype, int ndim,
                                   const int64_t* shape, const int64_t* offset, const int64_t* extent,
                                   const int64_t* stride_bytes, void* data, unsigned flags);

enum { DLCKPT_ON_HOST = 0, DLCKPT_MANAGED = 1, DLCKPT_ON_DEVICE = 2 };

/* dlckpt_where: tells where memory lies, in the same way as dlckpt_tensor finds it out.
 *   Returns  DLCKPT_ON_HOST (also for memory that the CUDA driver has pinned, and for any memory in a process without
 *            that driver), DLCKPT_MANAGED or DLCKPT_ON_DEVICE; -1: the driver cannot tell
 *   Threads  any
 */
int dlckpt_where(const void* data);

/* dlckpt_blob: registers bytes: random states, data cursors, JSON. Register them again before each save.
 *   path      as of dlckpt_tensor
 *   data      at most 1 GiB, in host memory. Copied at once
 *   per_rank  0: rank 0's bytes count, and every rank finds them after restore. Not 0: each rank saves its own; after
 *             a restore on more ranks than saved, the additional ranks find none
 *   Errors    INVALID, MEMORY
 *   Ranks     as dlckpt_tensor
 */
dlckpt_error dlckpt_blob(dlckpt_ctx* ctx, const char* path, const void* data, size_t size, int per_rank);

/* dlckpt_get_blob: gives the bytes of a blob that dlckpt_restore or dlckpt_peek has loaded.
 *   data, size  filled in. The context owns the bytes; they are valid until its next restore, peek or close
 *   Errors      NOT_FOUND (the checkpoint has no blob of this path for this rank), INVALID
 *   Ranks       not collective
 */
dlckpt_error dlckpt_get_blob(dlckpt_ctx* ctx, const char* path, const void** data, size_t* size);

/* dlckpt_member: registers a file that the program writes itself (file mode). Each save copies the file's present
 * content into the checkpoint, with checksums, and commits it together with all the rest; restore puts it back (it
 * writes a file of another name, then renames it). From the beginning of a save until it is durable (dlckpt_wait), the
 * file may be replaced by another (rename), but not be written to: otherwise the save fails with DLCKPT_E_IO.
 *   name      as the path of dlckpt_tensor, in the same name space
 *   path      of the file; its directory must exist at restore. May differ at the next start. A relative path is of the
 *             working directory at the time of this call
 *   per_rank  0: rank 0's file is saved, and each rank that registered the member finds it restored (so where all see
 *             one file system, register it on rank 0 alone). Not 0: each rank saves and finds its own; after a restore
 *             on more ranks than saved, the additional ranks find none
 *   Errors    INVALID (also more than 10,000 of a rank). A file that is missing is DLCKPT_E_NOT_FOUND of the save, a
 *             member that the checkpoint lacks DLCKPT_E_MISMATCH of the restore
 *   Ranks     as dlckpt_tensor
 */
dlckpt_error dlckpt_member(dlckpt_ctx* ctx, const char* name, const char* path, int per_rank);

/* dlckpt_forget: unregisters a tensor, blob or member.
 *   Errors   NOT_FOUND, INVALID
 *   Ranks    as dlckpt_tensor
 */
dlckpt_error dlckpt_forget(dlckpt_ctx* ctx, const char* path);

/* dlckpt_metric: puts a number of the training, such as a validation loss, into the manifest of the next save; it stays
 * with that checkpoint, and options.best may choose by it. Setting it again replaces the value. A value belongs to one
 * save: afterwards no metric is set.
 *   name     1..64 letters, digits and . _ + - /, beginning with a letter or digit
 *   value    finite
 *   Errors   INVALID (also a value that is not finite: then the checkpoint has no such metric)
 *   Ranks    rank 0's values count; those of other ranks are ignored
 */
dlckpt_error dlckpt_metric(dlckpt_ctx* ctx, const char* name, double value);

/* dlckpt_want: says whether to save or to exit before train step `step` is run. Usually neither: then the call costs a
 * store and a load of shared memory, and with every=auto a look at the clock.
 *   step     must not decrease from call to call, except after a restore
 *   Returns  a set of DLCKPT_WANT_ bits, the same on all ranks; never an error
 *   Ranks    collective. Under dlrun it may wait for one round trip, until all ranks know the train step agreed on.
 *            Without dlrun, several ranks that save by time follow the clock of rank 0: at a few train steps, agreed on
 *            beforehand, the others wait here, at most for the timeout, and read from a small file whether rank 0 wants
 *            a save. It comes within half a train step of its time, unless train steps become longer
 */
int dlckpt_want(dlckpt_ctx* ctx, int64_t step);

/* dlckpt_save: saves everything registered as the checkpoint of train step `step`; it is
 * dlckpt_save_flags(ctx, step, 0).
 * dlckpt_save_flags: asynchronous unless asked otherwise: returns when the registered memory may change again, which
 * takes about as long as one memcpy of it. Then threads of the library write it, and the ranks commit it (file fsync,
 * manifest last, rename, directory fsync) and retire the oldest checkpoints beyond `keep`, never the one just written.
 * The library frees the space of retired ones in the background. Rely on the checkpoint only when dlckpt_wait says that
 * it is durable.
 *   step     >= 0. If this run has written or restored a committed checkpoint of it already, nothing is done
 *   flags    DLCKPT_SYNC and so on
 *   A save is synchronous (durable on return) with DLCKPT_SYNC, with DLCKPT_MODE_SYNC, and at the train step for which
 *            dlckpt_want returned DLCKPT_WANT_EXIT
 *   Only one save is in flight at a time: a second call waits for the first. If the first failed, the second is done
 *            all the same and may return DLCKPT_OK; dlckpt_errmsg then tells of the failure, and dlckpt_stats counts it
 *   If an earlier checkpoint did not reach the object store (options.objects), dlckpt_errmsg of rank 0 says so after
 *            DLCKPT_OK, once for failures in a row, in a sentence that begins with "objects="; no save fails for it.
 *            dlckpt_close_error tells whether the newest is missing there at the end
 *   Errors   of a synchronous save: NO_SPACE, IO, DENIED, TIMEOUT, INVALID (boxes overlap or leave a hole; a member is
 *            not a regular file), NOT_FOUND (the file of a member, or the checkpoint directory: somebody removed or
 *            renamed it), BUSY (the lease was lost to another job), MEMORY: nothing is committed. Of an asynchronous
 *            one: INVALID (step, flags), IN_FLIGHT (TIMEOUT, if another rank does not answer whether it is busy) and
 *            IO (no thread can be started); dlckpt_wait returns the others
 *   Ranks    collective, with the same step and flags
 */
dlckpt_error dlckpt_save(dlckpt_ctx* ctx, int64_t step);
dlckpt_error dlckpt_save_flags(dlckpt_ctx* ctx, int64_t step, unsigned flags);

/* dlckpt_before_mutation: waits until a lazy save has copied the registered memory. Call it before that memory changes
 * (before the optimizer's step). Without such a save it costs one load.
 *   Errors   INVALID (ctx is NULL)
 *   Ranks    not collective
 */
dlckpt_error dlckpt_before_mutation(dlckpt_ctx* ctx);

/* dlckpt_wait: waits until no save is in flight.
 *   timeout_s     in seconds; negative: as long as it takes
 *   durable_step  may be NULL. Set after all outcomes except INVALID: the newest train step that this run knows to be
 *                 committed; -1: none
 *   Returns       the outcome of the last save, which a synchronous save would have returned itself
 *   Errors        TIMEOUT (the save is still in flight, or has itself timed out; the message says which), INVALID
 *                 (timeout_s is not a number), and those of dlckpt_save
 *   Ranks         not collective
 */
dlckpt_error dlckpt_wait(dlckpt_ctx* ctx, double timeout_s, int64_t* durable_step);

/* The last finished save as this rank saw it, and totals since dlckpt_open. Times are in seconds. */
typedef struct dlckpt_save_stats {
  size_t struct_size;     /* set it to sizeof(dlckpt_save_stats) before the call */
  int64_t step;           /* -1: none yet */
  int outcome;            /* a dlckpt_error */
  int level;              /* 0: the checkpoint directory; 1: the nodes alone (local_dir) */
  uint64_t bytes;         /* state that this rank had to store */
  uint64_t written_bytes; /* of data files */
  uint64_t reused_bytes;  /* not written, because unchanged since an earlier save */
  double blocked_s;       /* how long the call of dlckpt_save took */
  double copy_s;          /* copying to staging memory */
  double write_s;         /* from the start of writing until all was written */
  double fsync_s;
  double commit_s;  /* after fsync, until all ranks had committed */
  double durable_s; /* from the call until the checkpoint existed; 0 if it failed */
  uint64_t saves, failed_saves, total_written_bytes;
  double total_blocked_s;
  /* Rank 0, with options.objects, at the time of the call: */
  int64_t object_step; /* the last train step that is in the object store; -1: none of this run */
  uint64_t object_saves, failed_object_saves; /* sent; not sent. A failure that may be temporary has been tried four
                                                 times, another one once */
} dlckpt_save_stats;

/* dlckpt_stats: returns how long saves took and what they wrote. A save in flight does not count yet.
 *   out      filled in; set its struct_size before the call
 *   Errors   INVALID (out or its struct_size)
 *   Ranks    not collective
 */
dlckpt_error dlckpt_stats(dlckpt_ctx* ctx, dlckpt_save_stats* out);

/* dlckpt_restore: loads a checkpoint into what is registered. Every block's checksum is verified before bytes of it
 * reach registered memory. All ranks together read each stored block that any of them needs exactly once, whatever
 * world size wrote it, and pass parts to one another over TCP (dlckpt-format(5) and libdlckpt(3) say how; if they
 * cannot connect, each rank reads what it needs itself). Tensors of the checkpoint that are not registered are not
 * read. Waits for the save in flight.
 * With options.objects rank 0 first fetches from the object store what is newer than the newest checkpoint of the
 * directory (or of the train step, if the directory has none of it). If the store does not answer, the directory's
 * checkpoint is loaded, and dlckpt_errmsg says so; if there is none, the result is IO, so that no program starts anew
 * where it should have gone on. timeout_s does not bound the fetch, which takes as long as its bytes do: a server that
 * says nothing for 300 s ends one try, and there are four.
 *   step           a train step, or DLCKPT_LATEST: the newest checkpoint that verifies. Blocks are verified while they
 *                  are loaded. If one does not verify when others are in memory already, all ranks go on to the next
 *                  older checkpoint and load that completely, so that the outcome is never a mixture. Then the return
 *                  value is DLCKPT_OK, but dlckpt_errmsg says which checkpoints were passed over (else it is "")
 *   restored_step  may be NULL. Set on success only
 *   Errors         registered memory is unchanged (unless a newer checkpoint was passed over while it was loaded) after
 *                  INVALID (a train step cannot have this number), NOT_FOUND (there is no such checkpoint) and MISMATCH
 *                  (the checkpoint does not fit what is registered). Its content is undefined after CORRUPT (none
 *                  verifies), IO, TIMEOUT, MEMORY, and NO_SPACE or DENIED (a member cannot be put back): load another
 *                  checkpoint, or start anew
 *   Ranks          collective
 */
dlckpt_error dlckpt_restore(dlckpt_ctx* ctx, int64_t step, int64_t* restored_step);

/* dlckpt_peek: chooses a checkpoint as dlckpt_restore does, but loads only its blobs (dlckpt_get_blob), for programs
 * that learn from them what to register. The next dlckpt_restore of that train step takes the same checkpoint, and does
 * not read the blobs again. A checkpoint that a restore found damaged is passed over by DLCKPT_LATEST from then on:
 * after DLCKPT_E_CORRUPT, peek and restore again. If the nodes hold a newer checkpoint (options.local_dir), the ranks
 * first copy it to the directory. With options.objects rank 0 first fetches from the object store as dlckpt_restore
 * does, and timeout_s does not bound that either.
 *   found_step  may be NULL. Set on success only
 *   Errors      as dlckpt_restore, but registered memory is never touched
 *   Ranks       collective
 */
dlckpt_error dlckpt_peek(dlckpt_ctx* ctx, int64_t step, int64_t* found_step);

/* What the last dlckpt_restore or dlckpt_peek on this rank read. */
typedef struct dlckpt_load_stats {
  size_t struct_size;      /* set it to sizeof(dlckpt_load_stats) before the call */
  int64_t step;            /* -1: none yet */
  uint64_t needed_bytes;   /* bytes of the stored blocks that all ranks together need; the sum of their read_bytes is
                              the same, unless each reads for itself (exchange 0 with more than one rank) */
  uint64_t read_bytes;     /* of blocks, read from files by this rank */
  uint64_t sent_bytes;     /* to other ranks */
  uint64_t received_bytes; /* from other ranks */
  double seconds;          /* the whole call */
  int exchange;            /* 1: bytes could go from rank to rank */
} dlckpt_load_stats;

/* dlckpt_restore_stats: returns what the last restore or peek read.
 *   out      filled in; set its struct_size before the call
 *   Errors   INVALID (out or its struct_size)
 *   Ranks    not collective
 */
dlckpt_error dlckpt_restore_stats(dlckpt_ctx* ctx, dlckpt_load_stats* out);

/* dlckpt_latest: looks for the newest committed checkpoint in the directory (manifests verified, data not). Newest
 * means committed last, which is not the highest train step after somebody went back to an older one on purpose. Waits
 * for the save in flight.
 *   Returns  its train step; -1: there is none, or the directory cannot be read
 *   Ranks    not collective
 */
int64_t dlckpt_latest(dlckpt_ctx* ctx);

/* dlckpt_exit_code: returns the exit code for a learner that exits after DLCKPT_WANT_EXIT.
 *   Returns  75 (EX_TEMPFAIL): the state of that train step is committed; 76: it was not saved (the last periodic
 *            checkpoint counts)
 */
int dlckpt_exit_code(const dlckpt_ctx* ctx);

/* dlckpt_finished: tells dlrun that training has come to its end, so that dlrun lets the program finish if a stop is
 * asked for now. Does nothing without dlrun.
 *   Ranks    not collective
 */
void dlckpt_finished(dlckpt_ctx* ctx);

/* dlckpt_errmsg: the message of the last call on ctx.
 *   Returns  never NULL; "" after success (but see dlckpt_save_flags and dlckpt_restore). Valid until the next call
 */
const char* dlckpt_errmsg(const dlckpt_ctx* ctx);

/* dlckpt_error_name: "DLCKPT_E_NO_SPACE" and so on; static. Any number may be given. */
const char* dlckpt_error_name(int error);

/* dlckpt_dtype_size: bytes of one element; 0 for an unknown dtype. */
size_t dlckpt_dtype_size(dlckpt_dtype dtype);

/* dlckpt_dtype_name: NumPy's name, "float32", "bfloat16", ...; static; NULL for an unknown dtype. */
const char* dlckpt_dtype_name(dlckpt_dtype dtype);

/* dlckpt_version: "0.2.0"; static. */
const char* dlckpt_version(void);

#ifdef __cplusplus
}
#endif
#endif /* DLCKPT_H */
