/* SPDX-License-Identifier: Apache-2.0
 * A rank of tests/cli/collectives.bats: every operation in every dtype against what it must give, blocking and started,
 * buckets against plain sums; and how it fails. Prints "rank R of N: PART ok", or what is wrong and exits with 1.
 * GPU_MEMORY in the environment: the memory is that of a GPU, of tests/lib/gpu_double (which the host can touch).
 *   collective_ranks all | open | die RANK | late RANK SECONDS */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/collectives/include/dllearner.h"

static dllearner_ctx* ctx;
static int rank, size;

static void fail(const char* what, int code) {
  printf("rank %d of %d: %s: %s: %s\n", rank, size, what, dllearner_result_name(code), dllearner_error());
  fflush(stdout);
  _exit(code == 0 ? 1 : code);
}
static void good(int code, const char* what) {
  if (code != DLLEARNER_OK) fail(what, code);
}

static int on_gpu(void) {
  return getenv("GPU_MEMORY") != NULL;
}
/* Never freed: the process ends soon. */
static void* memory(size_t bytes) {
  static int (*allocate)(void**, size_t);
  void* address = NULL;
  if (!on_gpu()) return calloc(1, bytes);
  if (allocate == NULL) {
    void* cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    void* symbol = cuda != NULL ? dlsym(cuda, "cudaMalloc") : NULL;
    if (symbol == NULL) fail("no double of CUDA", 0);
    memcpy(&allocate, &symbol, sizeof allocate);
  }
  if (allocate(&address, bytes) != 0) fail("memory of the GPU", 0);
  return memset(address, 0, bytes);
}

/* Small whole numbers: exact in every dtype, half ones too. */
static double get(dllearner_dtype type, const void* data, size_t i) {
  switch (type) {
    case DLLEARNER_F32:
      return ((const float*)data)[i];
    case DLLEARNER_F64:
      return ((const double*)data)[i];
    case DLLEARNER_I32:
      return ((const int32_t*)data)[i];
    case DLLEARNER_I64:
      return (double)((const int64_t*)data)[i];
    case DLLEARNER_U8:
      return ((const uint8_t*)data)[i];
    case DLLEARNER_BF16: {
      uint32_t bits = (uint32_t)((const uint16_t*)data)[i] << 16;
      float value;
      memcpy(&value, &bits, sizeof value);
      return value;
    }
    case DLLEARNER_F16: {
      uint16_t bits = ((const uint16_t*)data)[i];
      return bits == 0 ? 0 : ldexp(1024 + (bits & 1023), (bits >> 10) - 25);
    }
  }
  return NAN;
}
static void put(dllearner_dtype type, void* data, size_t i, int value) {
  float number = (float)value;
  uint32_t bits;
  memcpy(&bits, &number, sizeof bits);
  switch (type) {
    case DLLEARNER_F32:
      ((float*)data)[i] = number;
      break;
    case DLLEARNER_F64:
      ((double*)data)[i] = value;
      break;
    case DLLEARNER_I32:
      ((int32_t*)data)[i] = value;
      break;
    case DLLEARNER_I64:
      ((int64_t*)data)[i] = value;
      break;
    case DLLEARNER_U8:
      ((uint8_t*)data)[i] = (uint8_t)value;
      break;
    case DLLEARNER_BF16:
      ((uint16_t*)data)[i] = (uint16_t)(bits >> 16);
      break;
    case DLLEARNER_F16:
      ((uint16_t*)data)[i] = (uint16_t)(value == 0 ? 0 : (bits - 0x38000000u) >> 13);
      break;
  }
}

enum { kCount = 1000 };
static int value_of(int r, size_t i) {
  return (int)(i % 7) + r;
}
static double wanted(dllearner_op op, size_t i) {
  double all = 0;
  if (op == DLLEARNER_MAX) return value_of(size - 1, i);
  if (op == DLLEARNER_MIN) return value_of(0, i);
  for (int r = 0; r < size; ++r) all += value_of(r, i);
  return op == DLLEARNER_MEAN ? all / size : all;
}
static void same(dllearner_dtype type, const void* data, size_t i, double want, const char* what) {
  double got = get(type, data, i);
  double slack = type == DLLEARNER_BF16 ? 0.01 : type == DLLEARNER_F16 ? 0.001 : 1e-6;
  if (fabs(got - want) <= slack * fabs(want)) return;
  printf("rank %d of %d: %s, dtype %d, element %zu: %g, not %g\n", rank, size, what, (int)type, i, got, want);
  exit(1);
}

static void finish(int started, dllearner_request* request, const char* what) {
  int done = 0;
  if (!started) return;
  if (request == NULL) fail("no request", 0);
  if (started == 1) {
    good(dllearner_wait(&request), what);
  } else {
    while (!done) good(dllearner_test(&request, &done), what);
  }
  if (request != NULL) fail("a request that is done was not freed", 0);
}

static void operations(dllearner_dtype type, int started) {
  const size_t width = dllearner_dtype_size(type);
  void* in = memory((size_t)size * kCount * width);
  void* out = memory((size_t)size * kCount * width);
  dllearner_request* request = NULL;
  for (int op = DLLEARNER_SUM; op <= DLLEARNER_MEAN; ++op) {
    const int refused = op == DLLEARNER_MEAN && type >= DLLEARNER_I32;
    for (size_t i = 0; i < kCount; ++i) put(type, in, i, value_of(rank, i));
    int code = started ? dllearner_all_reduce_start(ctx, in, out, kCount, type, (dllearner_op)op, &request)
                       : dllearner_all_reduce(ctx, in, out, kCount, type, (dllearner_op)op);
    if (refused) {
      if (code != DLLEARNER_E_INVALID) fail("a mean of integers was not refused", code);
      continue;
    }
    good(code, "all-reduce");
    finish(started, request, "all-reduce");
    for (size_t i = 0; i < kCount; ++i) same(type, out, i, wanted((dllearner_op)op, i), "all-reduce");
    code = started ? dllearner_all_reduce_start(ctx, in, in, kCount, type, (dllearner_op)op, &request)
                   : dllearner_all_reduce(ctx, in, in, kCount, type, (dllearner_op)op);
    good(code, "all-reduce in place");
    finish(started, request, "all-reduce in place");
    if (memcmp(in, out, kCount * width) != 0) fail("all-reduce in place gives other bits", 0);
    for (int r = 0; r < size; ++r)
      for (size_t i = 0; i < kCount; ++i) put(type, in, (size_t)r * kCount + i, value_of(rank, i) + r);
    code = started ? dllearner_reduce_scatter_start(ctx, in, out, kCount, type, (dllearner_op)op, &request)
                   : dllearner_reduce_scatter(ctx, in, out, kCount, type, (dllearner_op)op);
    good(code, "reduce-scatter");
    finish(started, request, "reduce-scatter");
    const double more = op == DLLEARNER_SUM ? (double)rank * size : rank;
    for (size_t i = 0; i < kCount; ++i) same(type, out, i, wanted((dllearner_op)op, i) + more, "reduce-scatter");
  }
  for (int root = 0; root < size; ++root) {
    for (size_t i = 0; i < kCount; ++i) put(type, in, i, value_of(rank, i));
    good(started ? dllearner_broadcast_start(ctx, in, kCount, type, root, &request)
                 : dllearner_broadcast(ctx, in, kCount, type, root),
         "broadcast");
    finish(started, request, "broadcast");
    for (size_t i = 0; i < kCount; ++i) same(type, in, i, value_of(root, i), "broadcast");
  }
  for (int in_place = 0; in_place < 2; ++in_place) {
    void* mine = in_place ? (char*)out + (size_t)rank * kCount * width : in;
    for (size_t i = 0; i < kCount; ++i) put(type, mine, i, value_of(rank, i));
    good(started ? dllearner_all_gather_start(ctx, mine, out, kCount, type, &request)
                 : dllearner_all_gather(ctx, mine, out, kCount, type),
         "all-gather");
    finish(started, request, "all-gather");
    for (int r = 0; r < size; ++r)
      for (size_t i = 0; i < kCount; ++i) same(type, out, (size_t)r * kCount + i, value_of(r, i), "all-gather");
  }
  good(started ? dllearner_barrier_start(ctx, &request) : dllearner_barrier(ctx), "barrier");
  finish(started, request, "barrier");
}

/* Several operations in flight at once, ended in another order than they were started in. */
static void in_flight(void) {
  float* data[5];
  dllearner_request* request[5];
  for (int k = 0; k < 5; ++k) {
    data[k] = memory(3000 * sizeof(float));
    for (int i = 0; i < 3000; ++i) data[k][i] = (float)(rank + k);
    good(dllearner_all_reduce_start(ctx, data[k], data[k], 3000, DLLEARNER_F32, DLLEARNER_SUM, &request[k]), "start");
  }
  for (int k = 4; k >= 0; --k) good(dllearner_wait(&request[k]), "wait");
  for (int k = 0; k < 5; ++k)
    for (int i = 0; i < 3000; ++i)
      if (data[k][i] != (float)(size * k + size * (size - 1) / 2)) fail("an operation in flight is wrong", 0);
}

/* Each rank has its gradients ready in another order; contiguous ones and scattered ones; other calls in between. The
 * mean must have the same bits on all ranks, and be that of a plain all-reduce within rounding. */
static void buckets(void) {
  enum { kParameters = 9, kAll = 9 * 1234 + 36 };
  size_t counts[kParameters];
  float* const flat = memory(kAll * sizeof(float));
  float* const plain = memory(kAll * sizeof(float));
  float* const first = memory(kAll * sizeof(float));
  float* apart[kParameters];
  dllearner_buckets* b;
  for (size_t p = 0; p < kParameters; ++p) {
    counts[p] = 1234 + p;
    apart[p] = memory(2000 * sizeof(float));
  }
  good(dllearner_buckets_create(ctx, DLLEARNER_F32, kParameters, counts, 12000, &b), "buckets");
  for (int round = 0; round < 4; ++round) {
    const int contiguous = round % 2 == 0;
    float* gradient[kParameters];
    size_t at = 0;
    for (size_t p = 0; p < kParameters; ++p) {
      gradient[p] = contiguous ? flat + at : apart[p];
      for (size_t i = 0; i < counts[p]; ++i)
        gradient[p][i] = plain[at + i] = sinf((float)(at + i) * 0.37f + (float)rank * 1.7f) * 3;
      at += counts[p];
    }
    if (dllearner_buckets_finish(b) != DLLEARNER_E_STATE) fail("finish without gradients was not refused", 0);
    for (size_t k = 0; k < kParameters; ++k) {
      const size_t p = round < 2 ? kParameters - 1 - k : (k * 2 + (size_t)rank) % kParameters;
      good(dllearner_buckets_ready(b, p, gradient[p]), "ready");
      if (k == 0 && dllearner_buckets_ready(b, p, gradient[p]) != DLLEARNER_E_STATE) fail("ready twice", 0);
      if (k == 3) good(dllearner_barrier(ctx), "a barrier between gradients");
    }
    good(dllearner_buckets_finish(b), "finish");
    size_t total = 0, copied = 0;
    good(dllearner_buckets_count(b, &total, &copied), "count");
    if (total != 5 || (contiguous && copied != 0) || (!contiguous && copied != (on_gpu() ? 0 : 4))) fail("copies", 0);
    good(dllearner_all_reduce(ctx, plain, plain, kAll, DLLEARNER_F32, DLLEARNER_MEAN), "plain");
    at = 0;
    for (size_t p = 0; p < kParameters; at += counts[p++])
      for (size_t i = 0; i < counts[p]; ++i) {
        if (fabsf(gradient[p][i] - plain[at + i]) > 1e-6f) fail("a bucket's mean is wrong", 0);
        flat[at + i] = gradient[p][i];
      }
    if (on_gpu()) {
      float host = 0;
      good(dllearner_buckets_ready(b, 0, flat), "ready");
      if (dllearner_buckets_ready(b, 1, &host) != DLLEARNER_E_INVALID) fail("memory of two kinds was not refused", 0);
      for (size_t p = 1; p < kParameters; ++p) good(dllearner_buckets_ready(b, p, apart[p]), "ready");
      memcpy(first, flat, kAll * sizeof(float));
      good(dllearner_buckets_finish(b), "finish");
      memcpy(flat, first, kAll * sizeof(float));
    }
    memcpy(first, flat, kAll * sizeof(float));
    good(dllearner_broadcast(ctx, first, kAll, DLLEARNER_F32, 0), "broadcast");
    if (memcmp(first, flat, kAll * sizeof(float)) != 0) fail("ranks have other bits", 0);
  }
  dllearner_buckets_destroy(b);
}

/* A sum whose last bits depend on the order: still the same on all ranks. */
static void same_bits(void) {
  enum { kMany = 100003 };
  static const dllearner_dtype types[] = {DLLEARNER_F32, DLLEARNER_F64, DLLEARNER_F16, DLLEARNER_BF16};
  char* data = memory((size_t)kMany * 8);
  char* first = memory((size_t)kMany * 8);
  for (int k = 0; k < 4; ++k) {
    const size_t width = dllearner_dtype_size(types[k]);
    for (size_t i = 0; i < kMany; ++i) {
      if (types[k] == DLLEARNER_F32) ((float*)data)[i] = sinf((float)i + (float)rank * 0.3f);
      if (types[k] == DLLEARNER_F64) ((double*)data)[i] = sin((double)i + rank * 0.3);
      if (width == 2) ((uint16_t*)data)[i] = (uint16_t)(0x3c00 + (i * 31 + (size_t)rank * 977) % 700);
    }
    good(dllearner_all_reduce(ctx, data, data, kMany, types[k], DLLEARNER_MEAN), "mean");
    memcpy(first, data, kMany * width);
    good(dllearner_broadcast(ctx, first, kMany * width, DLLEARNER_U8, size - 1), "broadcast");
    if (memcmp(first, data, kMany * width) != 0) fail("ranks have other bits", 0);
  }
}

static void all(void) {
  for (int type = DLLEARNER_F32; type <= DLLEARNER_U8; ++type)
    for (int started = 0; started < 3; ++started) operations((dllearner_dtype)type, started);
  in_flight();
  same_bits();
  buckets();
  if (dllearner_broadcast(ctx, &rank, 1, DLLEARNER_I32, size) != DLLEARNER_E_INVALID)
    fail("a root beyond the world", 0);
}

int main(int argc, char** argv) {
  const char* part = argc > 1 ? argv[1] : "all";
  const int who = argc > 2 ? atoi(argv[2]) : -1;
  const unsigned seconds = argc > 3 ? (unsigned)atoi(argv[3]) : 0;
  dllearner_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  if (strcmp(part, "late") == 0) options.timeout_s = 1;
  if (getenv("NO_TIMEOUT") != NULL) options.timeout_s = DLLEARNER_NO_TIMEOUT;
  int code = dllearner_open(&options, &ctx);
  if (code != DLLEARNER_OK) {
    printf("open: %s: %s\n", dllearner_result_name(code), dllearner_error());
    return code;
  }
  rank = dllearner_rank(ctx);
  size = dllearner_size(ctx);
  if (strcmp(part, "all") == 0) all();
  if (strcmp(part, "die") == 0 || strcmp(part, "late") == 0) {
    float* data = memory((1 << 20) * sizeof(float));
    for (int round = 0; round < 3; ++round) {
      if (round == 2 && rank == who && strcmp(part, "die") == 0) _exit(9);
      if (round == 2 && rank == who) sleep(seconds);
      good(dllearner_all_reduce(ctx, data, data, 1 << 20, DLLEARNER_F32, DLLEARNER_SUM), "all-reduce");
    }
  }
  printf("rank %d of %d: %s ok\n", rank, size, part);
  dllearner_close(ctx);
  return 0;
}
