/* SPDX-License-Identifier: Apache-2.0
 *
 * dllearner.h: the public C API of libdllearner, with which a training program in C or C++ runs on several learners
 * if its framework cannot do that by itself.
 *
 * How to use it
 *     dllearner_ctx *c;
 *     if (dllearner_open(NULL, &c) != DLLEARNER_OK) { ... dllearner_error() ... }
 *     dllearner_broadcast(c, weights, n, DLLEARNER_F32, 0);            // all start with rank 0's
 *     dllearner_buckets *b;                                            // count[i]: elements of parameter i
 *     dllearner_buckets_create(c, DLLEARNER_F32, parameters, count, 0, &b);
 *     for (each train step) {
 *         for (i = parameters; i-- > 0;) { ... backward ...; dllearner_buckets_ready(b, i, gradient[i]); }
 *         dllearner_buckets_finish(b);                                 // gradient[] is now the mean over all learners
 *         ... optimiser ...
 *     }
 *     dllearner_buckets_destroy(b);
 *     dllearner_close(c);
 *
 * Terms (slurm-dl(7)): a *learner* is one process of the training, numbered by its *rank*. With parameter servers the
 * last ranks of the job are *servers*; ranks and sizes from this library then count only the learners.
 *
 * Memory: host memory is moved by MPI, memory of a GPU by NCCL (found out for each call from the CUDA driver that the
 * program has loaded; the library is not linked with CUDA). All buffers of one call lie in the same kind of memory, on
 * all ranks. Buffers are borrowed until the call returns, those of a started operation until it is done.
 *
 * Collective calls ("collective" below) are made by all learners in the same order with the same counts, dtype, op and
 * root. A blocking call and a started one do not match each other: all ranks call the one or the other. Buckets and
 * parameter servers use communicators of their own, so their calls need not be in one order with the others.
 *
 * Results: every rank gets the same bits. Runs with another number of ranks add in another order, so floating-point
 * sums then differ in the last bits. DLLEARNER_F16 and _BF16 are added in 32 bits, pair by pair, each sum rounded.
 *
 * Threads: a process may call the library from any thread, but from one at a time (the library starts MPI with
 * MPI_THREAD_SERIALIZED). A program that started MPI itself with a lower level keeps to the rules of that level.
 * Functions whose block says "Threads any" may be called by several threads at once.
 *
 * Errors: functions that can fail return a dllearner_result: DLLEARNER_OK (0), or the error. Each block names the
 * errors that it can give, without their prefix DLLEARNER_E_; INTERNAL is possible everywhere. dllearner_error() then
 * has one sentence for the user. The library prints nothing, and never exits or aborts (Open MPI itself does:
 * dllearner(3), DEAD PEERS). After TIMEOUT or PEER the context can only be closed.
 */
#ifndef DLLEARNER_H
#define DLLEARNER_H

#include <stddef.h>
#include <stdint.h>
#if defined(__cplusplus) && __cplusplus >= 201103L
#include <initializer_list>
#include <string>
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define DLLEARNER_API_VERSION 4 /* 4: dllearner_vote. 3: dl_metric. 2: functions return dllearner_result; ABI of 1 */

typedef struct dllearner_ctx dllearner_ctx;         /* opaque; owned by the caller between open and close */
typedef struct dllearner_request dllearner_request; /* an operation that was started */
typedef struct dllearner_buckets dllearner_buckets; /* gradients that are averaged while others are computed */
typedef struct dllearner_ps dllearner_ps;           /* a learner's end of a parameter server */

/* What a function returns. The enum has the size of an int; values are part of the ABI, and fit an exit status. */
typedef enum dllearner_result {
  DLLEARNER_OK = 0,
  DLLEARNER_E_INVALID = 1,     /* an argument is malformed or out of range; nothing was done */
  DLLEARNER_E_UNSUPPORTED = 2, /* not in this build (MPI, NCCL), or not for this dtype */
  DLLEARNER_E_WORLD = 3,       /* ranks do not agree: started without MPI, or with different options */
  DLLEARNER_E_PEER = 4,        /* MPI or NCCL failed, mostly because another rank is gone */
  DLLEARNER_E_TIMEOUT = 5,     /* another rank did not take part in time */
  DLLEARNER_E_MEMORY = 6,      /* out of memory */
  DLLEARNER_E_STATE = 7,       /* called too early, too late or by the wrong rank: see the function */
  DLLEARNER_E_INTERNAL = 8,    /* a fault of the library */
  DLLEARNER_E_IO = 9           /* a file could not be written (dl_metric, dllearner_vote) */
} dllearner_result;

/* Element types; sizes in bytes in parentheses. Values are part of the ABI. */
typedef enum dllearner_dtype {
  DLLEARNER_F32 = 1,  /* (4) */
  DLLEARNER_F64 = 2,  /* (8) */
  DLLEARNER_F16 = 3,  /* (2) IEEE 754 half */
  DLLEARNER_BF16 = 4, /* (2) */
  DLLEARNER_I32 = 5,  /* (4) */
  DLLEARNER_I64 = 6,  /* (8) */
  DLLEARNER_U8 = 7    /* (1) sums wrap around */
} dllearner_dtype;

/* MEAN is the sum divided by the number of ranks; for floating-point dtypes alone (else INVALID). */
typedef enum dllearner_op { DLLEARNER_SUM = 1, DLLEARNER_MAX = 2, DLLEARNER_MIN = 3, DLLEARNER_MEAN = 4 } dllearner_op;

typedef enum dllearner_role { DLLEARNER_LEARNER = 1, DLLEARNER_SERVER = 2 } dllearner_role;

#define DLLEARNER_NO_TIMEOUT (-1.0)
#define DLLEARNER_MAX_COUNT 2147483647 /* elements of one call, per rank */

/* Options of dllearner_open. Zero the struct, set struct_size, then what you want. The same on all ranks. */
typedef struct dllearner_options {
  size_t struct_size; /* sizeof(dllearner_options): lets the struct grow */
  int servers;        /* the last so many ranks are parameter servers; 0: from DL_SERVERS, else none; -1: none. At least
                         one learner must be left */
  double timeout_s;   /* longest wait for another rank: TIMEOUT after it. 0: 600. DLLEARNER_NO_TIMEOUT: wait in MPI's
                         own blocking calls; a peer's death then ends the job only if the
                         launcher notices it (dlrun and mpirun do) */
} dllearner_options;

/* dllearner_open: joins the ranks of the job. Rank and size are DL_RANK and DL_WORLD_SIZE (dlrun), and must be what MPI
 * says; without them they are MPI's; a program that nothing launched is a world of one, which needs no MPI. Starts MPI
 * if the program has not.
 *   options  may be NULL: all from the environment
 *   out      on success a context, to be closed by dllearner_close; on error NULL
 *   Errors   INVALID, UNSUPPORTED (more than one rank, without MPI in this build), WORLD, PEER, MEMORY, STATE (MPI was
 *            already finalised in this process)
 *   Ranks    collective over all of the job, servers too
 */
dllearner_result dllearner_open(const dllearner_options* options, dllearner_ctx** out);

/* dllearner_close: frees the context. Destroy buckets and parameter servers, and wait for started operations, before.
 * Finalises MPI if the library started it and this was its last context: no other can be opened then. After a call that
 * failed with PEER or TIMEOUT it waits for nobody and leaves MPI as it is: exit then. Never fails.
 *   ctx      may be NULL
 *   Ranks    collective
 */
void dllearner_close(dllearner_ctx* ctx);

/* dllearner_rank: tells the rank of this process among the learners (of a server: among the servers), from 0.
 *   Returns  -1 if ctx is NULL
 *   Threads  any
 */
int dllearner_rank(const dllearner_ctx* ctx);

/* dllearner_size: tells how many learners there are.
 *   Returns  -1 if ctx is NULL
 *   Threads  any
 */
int dllearner_size(const dllearner_ctx* ctx);

/* dllearner_servers: tells how many servers there are.
 *   Returns  -1 if ctx is NULL
 *   Threads  any
 */
int dllearner_servers(const dllearner_ctx* ctx);

/* dllearner_role_of: tells what this process is.
 *   Returns  a dllearner_role; 0 if ctx is NULL
 *   Threads  any
 */
int dllearner_role_of(const dllearner_ctx* ctx);

/* Operations of the learners. This holds for each:
 *   count    in elements, 0 to DLLEARNER_MAX_COUNT
 *   Errors   INVALID, UNSUPPORTED (GPU memory, without NCCL), PEER, TIMEOUT, MEMORY, STATE (called by a server)
 *   Ranks    collective over the learners
 */

/* dllearner_all_reduce: recv[i] becomes op over all ranks of send[i].
 *   send     may be recv, which saves a copy; otherwise they must not overlap
 */
dllearner_result dllearner_all_reduce(dllearner_ctx* ctx, const void* send, void* recv, size_t count,
                                      dllearner_dtype dtype, dllearner_op op);

/* dllearner_broadcast: copies data of rank root into data of all others.
 *   root     0 to dllearner_size() - 1
 */
dllearner_result dllearner_broadcast(dllearner_ctx* ctx, void* data, size_t count, dllearner_dtype dtype, int root);

/* dllearner_reduce_scatter: recv[i] of rank r becomes op over all ranks of send[r * count + i].
 *   send     size * count elements; must not overlap recv
 *   recv     count elements
 */
dllearner_result dllearner_reduce_scatter(dllearner_ctx* ctx, const void* send, void* recv, size_t count,
                                          dllearner_dtype dtype, dllearner_op op);

/* dllearner_all_gather: recv[r * count + i] becomes send[i] of rank r.
 *   send     count elements; may be this rank's place in recv, which saves a copy
 *   recv     size * count elements
 */
dllearner_result dllearner_all_gather(dllearner_ctx* ctx, const void* send, void* recv, size_t count,
                                      dllearner_dtype dtype);

/* dllearner_barrier: returns when all learners have called it. */
dllearner_result dllearner_barrier(dllearner_ctx* ctx);

/* The same operations, started: each function returns at once. Started operations advance only while the program is
 * inside a call of this library. This holds for each:
 *   out      on success the operation, to be given to dllearner_wait or dllearner_test until it is done. Until then its
 *            buffers are borrowed: the program must not change send, nor read or change recv (of a broadcast: data)
 *   Errors   those of the operation
 *   Ranks    collective over the learners
 */

/* dllearner_all_reduce_start: starts dllearner_all_reduce. */
dllearner_result dllearner_all_reduce_start(dllearner_ctx* ctx, const void* send, void* recv, size_t count,
                                            dllearner_dtype dtype, dllearner_op op, dllearner_request** out);

/* dllearner_broadcast_start: starts dllearner_broadcast. */
dllearner_result dllearner_broadcast_start(dllearner_ctx* ctx, void* data, size_t count, dllearner_dtype dtype,
                                           int root, dllearner_request** out);

/* dllearner_reduce_scatter_start: starts dllearner_reduce_scatter. */
dllearner_result dllearner_reduce_scatter_start(dllearner_ctx* ctx, const void* send, void* recv, size_t count,
                                                dllearner_dtype dtype, dllearner_op op, dllearner_request** out);

/* dllearner_all_gather_start: starts dllearner_all_gather. */
dllearner_result dllearner_all_gather_start(dllearner_ctx* ctx, const void* send, void* recv, size_t count,
                                            dllearner_dtype dtype, dllearner_request** out);

/* dllearner_barrier_start: starts dllearner_barrier. */
dllearner_result dllearner_barrier_start(dllearner_ctx* ctx, dllearner_request** out);

/* dllearner_wait: waits until an operation is done, and frees it.
 *   request  *request becomes NULL, also on error. If it is NULL already, nothing is waited for
 *   Errors   those of the operation
 *   Ranks    each by itself
 */
dllearner_result dllearner_wait(dllearner_request** request);

/* dllearner_test: tells without waiting whether an operation is done; if so, frees it.
 *   request  *request becomes NULL once the operation is done or has failed
 *   done     becomes 1 if the operation is done (or *request was NULL), else 0
 *   Errors   those of the operation
 *   Ranks    each by itself
 */
dllearner_result dllearner_test(dllearner_request** request, int* done);

/* dllearner_buckets_create: prepares the averaging of gradients in pieces ("buckets") of about bucket_bytes, while the
 * rest of the backward pass is still computed. Parameters are numbered in the order of the forward pass. The bucket of
 * the last parameters is started first, and all ranks start the buckets in the same order, whichever gradients are
 * ready first. A bucket whose gradients lie one behind the other in memory, in the order of their numbers, is averaged
 * in place. The gradients of others are copied together and back; on a GPU they are averaged one by one in a single
 * launch. All gradients lie in the same kind of memory, on all ranks.
 *   dtype         F32, F64, F16 or BF16
 *   parameters    how many there are
 *   counts        elements of each parameter, each >= 1; copied
 *   bucket_bytes  0: 25 MiB. A larger parameter has a bucket of its own
 *   out           on success the buckets, to be destroyed by dllearner_buckets_destroy
 *   Errors        INVALID, PEER, TIMEOUT, MEMORY, STATE
 *   Ranks         collective
 */
dllearner_result dllearner_buckets_create(dllearner_ctx* ctx, dllearner_dtype dtype, size_t parameters,
                                          const size_t* counts, size_t bucket_bytes, dllearner_buckets** out);

/* dllearner_buckets_ready: says that the gradient of a parameter is complete, and starts its bucket if that is full
 * now. Call it once for each parameter between two calls of dllearner_buckets_finish, in any order.
 *   gradient  borrowed until finish returns. On a GPU: work on it that is queued on the default stream is waited for
 *   Errors    INVALID (also if gradients before it lie in another kind of memory), STATE (a second call for this
 *             parameter), and those of dllearner_all_reduce
 *   Ranks     each by itself
 */
dllearner_result dllearner_buckets_ready(dllearner_buckets* buckets, size_t parameter, void* gradient);

/* dllearner_buckets_finish: waits until all gradients are averaged over the learners; the means replace the gradients.
 *   Errors   STATE (a gradient is not ready: this call waited for nothing; call dllearner_buckets_ready for that one,
 *            then finish again), and those of dllearner_all_reduce
 *   Ranks    collective over the learners
 */
dllearner_result dllearner_buckets_finish(dllearner_buckets* buckets);

/* dllearner_buckets_count: tells how many buckets there are.
 *   buckets_total   may be NULL. All buckets
 *   buckets_copied  may be NULL. Those whose gradients the last finish had to copy together and back
 *   Errors          INVALID
 *   Ranks           each by itself
 */
dllearner_result dllearner_buckets_count(const dllearner_buckets* buckets, size_t* buckets_total,
                                         size_t* buckets_copied);

/* dllearner_buckets_destroy: frees the buckets. Never fails.
 *   buckets  may be NULL
 *   Ranks    collective over the learners
 */
void dllearner_buckets_destroy(dllearner_buckets* buckets);

/* A parameter server keeps the weights and their optimiser on the servers (options.servers), which take no GPU;
 * learners push gradients and pull weights, both float32 in host memory. The weights are divided evenly over the
 * servers. Each train step of a learner is: pull, compute, push. A job has one parameter server at a time.
 *
 *     if (dllearner_role_of(c) == DLLEARNER_SERVER) { rc = dllearner_serve(c, NULL, NULL); dllearner_close(c); ... }
 *     dllearner_ps_create(c, &options, weights, n, &ps);
 *     for (...) { dllearner_ps_pull(ps, weights); ... dllearner_ps_push(ps, gradient); }
 *     dllearner_ps_destroy(ps);
 */
typedef enum dllearner_ps_mode {
  DLLEARNER_PS_SYNC = 1,   /* once all learners have pushed for a train step, the mean of their gradients is applied; a
                              pull waits for that. Gradients are added in the order of ranks: each run has the same
                              bits */
  DLLEARNER_PS_ASYNC = 2,  /* each gradient, divided by the number of learners, is applied as soon as it arrives */
  DLLEARNER_PS_BOUNDED = 3 /* as ASYNC, but a pull waits while this learner is more than `staleness` pushes ahead of
                              the slowest */
} dllearner_ps_mode;

typedef struct dllearner_ps_options {
  size_t struct_size;             /* sizeof(dllearner_ps_options) */
  int mode;                       /* a DLLEARNER_PS_ */
  int64_t staleness;              /* of DLLEARNER_PS_BOUNDED; >= 0 */
  double learning_rate, momentum; /* v = momentum * v + gradient; weights -= learning_rate * v. Finite, >= 0 */
} dllearner_ps_options;

/* dllearner_update_fn: a function of the program that a server calls in place of SGD with momentum.
 *   user     what dllearner_serve was given; the function keeps its own state there
 *   weights  to be changed in place: `count` of all weights, beginning with number `first`
 *   update   number of the call, from 0
 */
typedef void (*dllearner_update_fn)(void* user, float* weights, const float* gradient, size_t count, size_t first,
                                    int64_t update);

/* dllearner_serve: serves one parameter server, from the learners' dllearner_ps_create until the last of them has
 * called dllearner_ps_destroy; then returns.
 *   update   NULL: SGD with momentum
 *   user     passed to update
 *   Errors   STATE (called by a learner, or what a learner did is out of order), WORLD (learners do not agree on
 *            options), PEER, TIMEOUT (no message for timeout_s), MEMORY
 *   Ranks    called by every server
 */
dllearner_result dllearner_serve(dllearner_ctx* ctx, dllearner_update_fn update, void* user);

/* dllearner_ps_create: connects a learner with the parameter server.
 *   options  the same on all learners
 *   weights  those of learner 0 are the initial weights
 *   count    1 to servers * DLLEARNER_MAX_COUNT, the same on all learners
 *   out      on success the learner's end of the connection, to be destroyed by dllearner_ps_destroy
 *   Errors   INVALID, WORLD (learners do not agree), STATE (no servers, or called by one), PEER, TIMEOUT, MEMORY
 *   Ranks    collective over the learners, while all servers serve
 */
dllearner_result dllearner_ps_create(dllearner_ctx* ctx, const dllearner_ps_options* options, const float* weights,
                                     size_t count, dllearner_ps** out);

/* dllearner_ps_pull: gets the newest weights that the mode allows. They include what this learner has pushed.
 *   weights  filled in: all count elements, in host memory
 *   Errors   INVALID, UNSUPPORTED (GPU memory), PEER, TIMEOUT, STATE
 *   Ranks    each learner by itself
 */
dllearner_result dllearner_ps_pull(dllearner_ps* ps, float* weights);

/* dllearner_ps_push: sends a gradient. Returns when its memory may be used again.
 *   gradient  all count elements, in host memory
 *   Errors    INVALID, UNSUPPORTED (GPU memory), PEER, TIMEOUT, STATE (no pull since the last push)
 *   Ranks     each learner by itself
 */
dllearner_result dllearner_ps_push(dllearner_ps* ps, const float* gradient);

/* dllearner_ps_destroy: ends the connection; nobody waits for this learner's gradients any more. Never fails.
 *   ps       may be NULL
 *   Ranks    each learner by itself
 */
void dllearner_ps_destroy(dllearner_ps* ps);

/* Metrics (loss, accuracy and others) that a program reports; "dlctl metrics" shows them. No context is needed: not
 * dllearner_open, nor checkpoints. MPI is not started, though the library is linked with it.
 *
 *     const dl_metric_value values[] = {{"loss", loss}, {"accuracy", accuracy}};
 *     dl_metric(values, 2, step, DL_METRIC_VALIDATE);                       // C
 *     dl_metric({{"loss", loss}, {"accuracy", accuracy}}, step);            // C++11, of the training
 */
typedef enum dl_metric_group { DL_METRIC_TRAIN = 1, DL_METRIC_VALIDATE = 2, DL_METRIC_TEST = 3 } dl_metric_group;

typedef struct dl_metric_value {
  const char* name; /* 1 to 200 bytes of UTF-8: "loss", "val/acc@1" */
  double value;     /* NaN and infinities, too */
} dl_metric_value;

#define DL_METRIC_NO_STEP (-1)

/* dl_metric: reports values of this moment, as one record of JSON that is appended to the file that DL_METRICS_FILE
 * names. dlrun sets that variable for learner 0 alone. Where it is not set (outside of a job, in other learners), or
 * where RANK or LOCAL_RANK is not 0 (in workers that learner 0 starts), nothing is written and the call succeeds. The
 * file must be a regular one, not a link. The call takes as long as the file system needs for one write. Once writes
 * have taken more than 2 s plus a twentieth of the time since the first record, further records are left out, and the
 * next record that is written says how many. A file holds at most 256 MiB.
 *   values   count of them, 1 or more; borrowed until the call returns
 *   step     the train step that they belong to, 0 to 10^12; a resumed job goes on counting. DL_METRIC_NO_STEP: none;
 *            in a program that uses libdlckpt, the train step at the time when dlrun reads the record, half a second
 *            later or more
 *   group    what they were measured on
 *   Errors   INVALID (also if the values take more than 64 KiB as a record), IO (nothing, or a part, was written, or
 *            the file is full; training can go on), MEMORY
 *   Threads  any, several at once; also in a child process after fork
 *   Ranks    each by itself
 */
dllearner_result dl_metric(const dl_metric_value* values, size_t count, int64_t step, dl_metric_group group);

/* dllearner_vote: says how many learners the job needs, compared with those that it has: "dlctl status" and "dlctl why"
 * show it. The job's vote is the median of all its learners' votes, where a learner that has not voted counts as one
 * that votes for no change; of two medians the one nearer to 0. So more than half of the learners have to agree. A
 * learner's newest vote counts, for 10 minutes: repeat it as long as it holds. It is lost when the learner ends. Where
 * the site lets dlpolicyd choose the sizes of elastic jobs, the job is moved to the number of learners that the votes
 * ask for, within its range (dlpolicyd(8)); elsewhere a vote changes no size. No context is needed: not dllearner_open,
 * nor checkpoints. Where the program does not run under dlrun (DL_PROGRESS is not set, or names no file) nothing is
 * done and the call succeeds. Votes of parameter servers do not count. The call costs some microseconds; dlrun takes
 * one vote a second of each learner, the newest.
 *
 *     dllearner_vote(+2, "loader stalls 40 %");              // C and C++
 *     dllearner_vote(-1, "rank " + std::to_string(rank));    // C++11, also without a reason
 *
 *   change   learners to add, or if negative to give back, -100000 to 100000; 0: the number is right
 *   reason   for people: at most 200 bytes of UTF-8 without control characters, borrowed until the call returns. NULL
 *            or "": none
 *   Errors   INVALID, IO (the page cannot be written, or is none; training can go on), MEMORY
 *   Threads  any, several at once; also in a child process after fork
 *   Ranks    each by itself
 */
dllearner_result dllearner_vote(int change, const char* reason);

/* dllearner_error: tells why the last call of this thread that failed did so.
 *   Returns  one sentence, never NULL; valid until the next call of this thread fails
 *   Threads  any; each has its own sentence
 */
const char* dllearner_error(void);

/* dllearner_result_name: gives the name of a result.
 *   result   any number
 *   Returns  "DLLEARNER_E_PEER" and so on, "unknown" for others; static
 *   Threads  any
 */
const char* dllearner_result_name(int result);

/* dllearner_dtype_size: gives the size of one element.
 *   Returns  bytes; 0 for an unknown dtype
 *   Threads  any
 */
size_t dllearner_dtype_size(dllearner_dtype dtype);

/* dllearner_mpi_version: tells which MPI the library uses.
 *   Returns  "Open MPI v4.1.4, ...", or "none" in a build without MPI; static
 *   Threads  any
 */
const char* dllearner_mpi_version(void);

/* dllearner_has_nccl: tells whether this build can work on memory of a GPU.
 *   Returns  1 if it has a part for NCCL, else 0
 *   Threads  any
 */
int dllearner_has_nccl(void);

/* dllearner_version: gives the version of the library.
 *   Returns  "0.2.0"; static
 *   Threads  any
 */
const char* dllearner_version(void);

#ifdef __cplusplus
}
#endif

#if defined(__cplusplus) && __cplusplus >= 201103L
/* The same for C++11 and later. */
inline dllearner_result dl_metric(std::initializer_list<dl_metric_value> values, int64_t step = DL_METRIC_NO_STEP,
                                  dl_metric_group group = DL_METRIC_TRAIN) {
  return dl_metric(values.begin(), values.size(), step, group);
}

inline dllearner_result dllearner_vote(int change, const std::string& reason = std::string()) {
  return dllearner_vote(change, reason.c_str());
}
#endif
#endif /* DLLEARNER_H */
