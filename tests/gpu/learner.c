/* SPDX-License-Identifier: Apache-2.0 */
/* A training whose weights lie in the memory of a GPU: gradients are summed by libdllearner, over NCCL if there are
 * several learners, and libdlckpt saves the weights from where they lie. There are two shards of data at any number of
 * learners, so one learner and two end with the same bits.
 *
 *     learner STEPS MILLISECONDS [LATE]
 *
 * LATE: at this train step the last learner stays away for a while. The others must give up after two seconds: NCCL's
 * kernel, which waits for it on the GPU, is ended, and the GPU works on.
 * CUDA_RUNTIME names CUDA's runtime library, which is loaded at run time: to compile this needs no CUDA. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "dlckpt.h"
#include "dllearner.h"

enum { WEIGHTS = 100000, SHARDS = 2, TO_DEVICE = 1, TO_HOST = 2 };

static int (*cuda_malloc)(void**, size_t);
static int (*cuda_copy)(void*, const void*, size_t, int, void*);
static int (*cuda_stream)(void**, unsigned);
static int (*cuda_wait)(void*);
static void* stream;
static int rank;

static void fail(const char* what, const char* why) {
  printf("rank %d: %s: %s\n", rank, what, why);
  fflush(stdout);
  exit(1);
}
static void load(void* library, const char* name, void* function) {
  void* symbol = dlsym(library, name);
  if (symbol == NULL) fail(name, "not in CUDA's runtime library");
  memcpy(function, &symbol, sizeof symbol);
}
static void start_cuda(void) {
  const char* name = getenv("CUDA_RUNTIME");
  void* library = dlopen(name != NULL ? name : "libcudart.so", RTLD_NOW | RTLD_GLOBAL);
  if (library == NULL) fail("CUDA's runtime library", dlerror());
  load(library, "cudaMalloc", &cuda_malloc);
  load(library, "cudaMemcpyAsync", &cuda_copy);
  load(library, "cudaStreamCreateWithFlags", &cuda_stream);
  load(library, "cudaStreamSynchronize", &cuda_wait);
  if (cuda_stream(&stream, 1) != 0) fail("a stream", "CUDA refuses it");
}
static float* allocate(void) {
  void* memory = NULL;
  if (cuda_malloc(&memory, WEIGHTS * sizeof(float)) != 0) fail("memory of the GPU", "CUDA refuses it");
  return memory;
}
static void copy(void* to, const void* from, int kind) {
  if (cuda_copy(to, from, WEIGHTS * sizeof(float), kind, stream) != 0 || cuda_wait(stream) != 0)
    fail("a copy", "CUDA refuses it");
}
static void good(int code, const char* what) {
  if (code != DLLEARNER_OK) fail(what, dllearner_error());
}
static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Some numbers that depend on the weights, so that a wrong one is never forgotten. */
static void add_gradient(int shard, int64_t step, const float* weights, float* gradient) {
  uint32_t state = (uint32_t)(step * SHARDS + shard) * 2654435761U + 1;
  for (int i = 0; i < WEIGHTS; ++i) {
    state = state * 1664525U + 1013904223U;
    gradient[i] += ((float)(state >> 8) / 16777216.0F - 0.5F) + 0.01F * weights[i];
  }
}

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? atoll(argv[1]) : 10;
  const int ms = argc > 2 ? atoi(argv[2]) : 0;
  const int64_t late = argc > 3 ? atoll(argv[3]) : -1;
  dllearner_ctx* world = NULL;
  dllearner_options options = {.struct_size = sizeof options, .timeout_s = 2};
  good(dllearner_open(late >= 0 ? &options : NULL, &world), "open");
  rank = dllearner_rank(world);
  const int size = dllearner_size(world);
  start_cuda();
  float *weights = allocate(), *gradient = allocate();
  float* on_host = calloc(WEIGHTS, sizeof(float));
  float* sum = calloc(WEIGHTS, sizeof(float));
  if (on_host == NULL || sum == NULL) fail("memory", "there is none");
  copy(weights, on_host, TO_DEVICE);
  dlckpt_ctx* checkpoints = NULL;
  int64_t step = 0;
  if (getenv("DL_CHECKPOINT_DIR") != NULL) {
    const int64_t shape[] = {WEIGHTS};
    if (dlckpt_open(NULL, &checkpoints) != DLCKPT_OK) fail("open", dlckpt_open_error());
    if (dlckpt_tensor(checkpoints, "weights", DLCKPT_F32, 1, shape, NULL, NULL, weights, DLCKPT_REPLICATED) !=
        DLCKPT_OK)
      fail("tensor", dlckpt_errmsg(checkpoints));
    const int code = dlckpt_restore(checkpoints, DLCKPT_LATEST, &step);
    if (code == DLCKPT_E_NOT_FOUND)
      step = 0;
    else if (code != DLCKPT_OK)
      fail("restore", dlckpt_errmsg(checkpoints));
    else
      printf("rank %d: resumed at train step %lld\n", rank, (long long)step);
  }
  for (; step < steps; ++step) {
    const int want = checkpoints != NULL ? dlckpt_want(checkpoints, step) : 0;
    if ((want & DLCKPT_WANT_SAVE) && dlckpt_save(checkpoints, step) != DLCKPT_OK)
      fail("save", dlckpt_errmsg(checkpoints));
    if (want & DLCKPT_WANT_EXIT) {
      const int code = dlckpt_exit_code(checkpoints);
      dlckpt_close(checkpoints);
      return code;
    }
    copy(on_host, weights, TO_HOST);
    memset(sum, 0, WEIGHTS * sizeof(float));
    for (int shard = rank; shard < SHARDS; shard += size) add_gradient(shard, step, on_host, sum);
    copy(gradient, sum, TO_DEVICE);
    if (step == late && rank == size - 1) sleep(60);
    const double begin = seconds_now();
    const int code = dllearner_all_reduce(world, gradient, gradient, WEIGHTS, DLLEARNER_F32, DLLEARNER_SUM);
    if (code == DLLEARNER_E_TIMEOUT && step == late) {
      printf("rank %d: gave up: %s\n", rank, dllearner_error());
      dllearner_close(world);
      copy(on_host, weights, TO_HOST);
      printf("rank %d: figure: %.2f s to give up, to close and to use the GPU again\n", rank, seconds_now() - begin);
      fflush(stdout);
      return 3;
    }
    good(code, "all-reduce");
    copy(sum, gradient, TO_HOST);
    for (int i = 0; i < WEIGHTS; ++i) on_host[i] -= 0.1F * sum[i];
    copy(weights, on_host, TO_DEVICE);
    const struct timespec pause = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&pause, NULL);
  }
  uint64_t hash = 1469598103934665603U;
  copy(on_host, weights, TO_HOST);
  for (size_t i = 0; i < WEIGHTS * sizeof(float); ++i) hash = (hash ^ ((unsigned char*)on_host)[i]) * 1099511628211U;
  printf("rank %d of %d: weights %016llx\n", rank, size, (unsigned long long)hash);
  if (checkpoints != NULL) {
    dlckpt_finished(checkpoints);
    dlckpt_close(checkpoints);
  }
  dllearner_close(world);
  return 0;
}
