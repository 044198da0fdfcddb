/* SPDX-License-Identifier: Apache-2.0
 *
 * dlckpt_batch.h: which global batch a learner trains with. A job that asked for --dl-batch=MIN:MAX gets another batch
 * with each number of learners, which may change whenever the job is started anew from a checkpoint. These functions of
 * libdlckpt return that batch; they need no context and no checkpoint directory.
 *
 * How to use it
 *     dlckpt_batch b, step;
 *     b.struct_size = sizeof b;
 *     if (dlckpt_batch_find(64, 0, 0, &b) != DLCKPT_OK) { ... dlckpt_open_error() ... }
 *     int64_t cursor = 0;                                  // samples trained on by all; saved with the weights
 *     dlckpt_tensor(c, "samples", DLCKPT_I64, 0, NULL, NULL, NULL, &cursor, DLCKPT_REPLICATED);
 *     ... restore ...
 *     while (cursor < epochs * samples) {
 *         dlckpt_batch_step(&b, epochs * samples - cursor, &step);
 *         for (int64_t pass = 0; pass < step.accumulation; pass++) {
 *             int64_t first, count;
 *             dlckpt_batch_part(&step, pass, &first, &count);
 *             ... forward and backward with `count` samples, from number (cursor + first) % samples on ...
 *         }
 *         ... average gradients over learners; optimiser, with learning rate * b.lr_scale ...
 *         cursor += step.batch;
 *     }
 *
 * A program that counts samples in this way sees each sample of each data epoch once, with whatever numbers of learners
 * it was started. A program that does not call these functions keeps its own batch, and trains correctly if its batch
 * does not depend on the number of learners.
 *
 * Threads: any. Errors: dlckpt_open_error() returns the calling thread's message.
 */
#ifndef DLCKPT_BATCH_H
#define DLCKPT_BATCH_H

#include "dlckpt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* rule= of --dl-batch. Values are part of the ABI. */
typedef enum dlckpt_batch_rule {
  DLCKPT_BATCH_NONE = 0,
  DLCKPT_BATCH_LINEAR = 1,
  DLCKPT_BATCH_SQRT = 2,
  DLCKPT_BATCH_ADASCALE = 3
} dlckpt_batch_rule;

/* A global batch, and how it is divided over passes and learners. */
typedef struct dlckpt_batch {
  size_t struct_size;   /* sizeof(dlckpt_batch), to be set before dlckpt_batch_find: lets the struct grow */
  int64_t batch;        /* samples of a train step, of all learners together; >= 1 */
  int64_t local_batch;  /* this learner's samples of a train step, all passes together */
  int64_t accumulation; /* passes (forward and backward) of a train step; >= 1 */
  double lr_scale;      /* factor for the program's own learning rate; 1 for the program's own batch. With ADASCALE 1:
                           call dlckpt_batch_lr_scale when the noise scale is known */
  int rule;             /* a DLCKPT_BATCH_ */
  int chosen;           /* 1: --dl-batch was asked for; 0: this is the program's own batch */
  int64_t reference;    /* the batch for which the program's own learning rate is meant */
  int rank, world_size; /* of this learner */
} dlckpt_batch;

/* dlckpt_batch_find: returns the batch that was chosen for this job (DL_GLOBAL_BATCH and so on, set by dlrun and by the
 * plugin), or the program's own batch if the job has no --dl-batch.
 *   own         the program's own global batch; 0: it has none, and the call fails in a job without --dl-batch
 *   rank, world_size   of this learner; world_size 0: both from the environment, as dlckpt_open does it
 *   out         filled in on success; out->struct_size must be set
 *   Errors      INVALID (no batch at all, a batch with fewer samples than learners, or variables with values that dlrun
 *               never sets), MEMORY
 */
dlckpt_error dlckpt_batch_find(int64_t own, int rank, int world_size, dlckpt_batch* out);

/* dlckpt_batch_step: returns the size of the next train step if training ends after `left` more samples: the whole
 * batch as long as enough samples are left, then steps that are smaller, or larger by fewer samples than there are
 * learners, so that training ends exactly at the last sample and each learner has a sample in each of its passes. (If
 * fewer samples than learners are left, some learners have none.)
 *   whole    what dlckpt_batch_find has filled in
 *   left     samples that are not trained on yet, of all learners together; >= 1. -1: training has no end
 *   out      filled in on success; may be the same struct as whole
 *   Errors   INVALID
 */
dlckpt_error dlckpt_batch_step(const dlckpt_batch* whole, int64_t left, dlckpt_batch* out);

/* dlckpt_batch_part: returns which samples of a train step this learner computes in one pass; they are consecutive. The
 * parts of all learners and passes make up the whole train step, in the order of passes, and within a pass in the order
 * of ranks.
 *   step     what dlckpt_batch_find or dlckpt_batch_step has filled in
 *   pass     0 to step->accumulation - 1
 *   first    set to the number of the first sample, counted from 0 within the train step
 *   count    set to the number of samples
 *   Errors   INVALID
 */
dlckpt_error dlckpt_batch_part(const dlckpt_batch* step, int64_t pass, int64_t* first, int64_t* count);

/* dlckpt_batch_lr_scale: returns the factor for the learning rate when the program has measured its gradient noise
 * scale (dlckpt-python(3), THE NOISE OF GRADIENTS): with ADASCALE (noise / reference + 1) / (noise / batch + 1).
 * dlckpt_metric(ctx, "noise_scale", noise) reports the noise scale to dlrun, so that dlctl scaling takes it into
 * account.
 *   noise    in samples. Negative, or not a number: not known
 *   Returns  batch->lr_scale for other rules, and if the noise is not known; 1 if batch is NULL
 */
double dlckpt_batch_lr_scale(const dlckpt_batch* batch, double noise);

#ifdef __cplusplus
}
#endif
#endif /* DLCKPT_BATCH_H */
