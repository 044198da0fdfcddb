/* SPDX-License-Identifier: Apache-2.0
 *
 * A learner that writes down when it trains, for ./resizes: stepper FOLDER STEP_MS MIB. It trains until it is told to
 * stop, with MIB MiB to save. FOLDER/EVENT.ATTEMPT.RANK holds seconds of CLOCK_MONOTONIC, which all processes of one
 * machine share: "first" (its first train step begins) and "last" (its last one has ended); "saved" holds how many
 * seconds the save before its stop took.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "checkpoint/include/dlckpt.h"

static const char* folder;
static int rank, attempt;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Whole at once: a reader never finds half a number. */
static void note(const char* event, double value) {
  char path[4096], temporary[4112];
  snprintf(path, sizeof path, "%s/%s.%d.%d", folder, event, attempt, rank);
  snprintf(temporary, sizeof temporary, "%s.tmp", path);
  FILE* file = fopen(temporary, "w");
  if (file == NULL || fprintf(file, "%.6f\n", value) < 0 || fclose(file) != 0 || rename(temporary, path) != 0) {
    perror(path);
    exit(1);
  }
}

static int number(const char* name) {
  const char* text = getenv(name);
  return text != NULL ? atoi(text) : 0;
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  folder = argv[1];
  const long step_ms = atol(argv[2]);
  const int64_t bytes = atoll(argv[3]) << 20;
  rank = number("DL_RANK");
  attempt = number("DL_ATTEMPT");
  signal(SIGTERM, SIG_IGN);
  char* state = calloc(1, (size_t)bytes);
  dlckpt_ctx* c = NULL;
  if (state == NULL || dlckpt_open(NULL, &c) != DLCKPT_OK) return 1;
  int64_t step = 0;
  dlckpt_tensor(c, "model/state", DLCKPT_U8, 1, &bytes, NULL, NULL, state, DLCKPT_REPLICATED);
  const int rc = dlckpt_restore(c, DLCKPT_LATEST, &step);
  if (rc != DLCKPT_OK && rc != DLCKPT_E_NOT_FOUND) return rc;
  note("first", now());
  for (;; step++) {
    const int want = dlckpt_want(c, step);
    const double began = now();
    if ((want & DLCKPT_WANT_EXIT) != 0) note("last", began);
    if ((want & DLCKPT_WANT_SAVE) != 0 && dlckpt_save(c, step) != DLCKPT_OK) return 1;
    if ((want & DLCKPT_WANT_EXIT) != 0) {
      if (dlckpt_wait(c, -1, NULL) != DLCKPT_OK) return 1;
      note("saved", now() - began);
      const int code = dlckpt_exit_code(c);
      dlckpt_close(c);
      return code;
    }
    struct timespec left = {step_ms / 1000, (step_ms % 1000) * 1000000L};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
    for (int64_t i = 0; i < bytes; i += 4096) state[i]++;
  }
}
