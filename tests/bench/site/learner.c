/* SPDX-License-Identifier: Apache-2.0
 *
 * A learner that sleeps and saves: learner FOLDER STEPS STEP_MS MIB. It trains STEPS train steps of STEP_MS, with MIB
 * MiB to save, and resumes where an earlier attempt stopped. FOLDER/main.JOB and FOLDER/done.JOB hold seconds of
 * CLOCK_REALTIME, the clock that the scripts of jobs read, too, and the train steps that it has done. Where its
 * checkpoints go is said by the environment, under dlrun and under srun alike.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "checkpoint/include/dlckpt.h"

static void note(const char* folder, const char* event, int64_t step) {
  const char* job = getenv("SLURM_JOB_ID");
  char path[4096], temporary[4112];
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  snprintf(path, sizeof path, "%s/%s.%s", folder, event, job != NULL ? job : "0");
  snprintf(temporary, sizeof temporary, "%s.tmp", path);
  FILE* file = fopen(temporary, "w");
  if (file == NULL ||
      fprintf(file, "%lld.%06ld %lld\n", (long long)now.tv_sec, now.tv_nsec / 1000, (long long)step) < 0 ||
      fclose(file) != 0 || rename(temporary, path) != 0) {
    perror(path);
    exit(1);
  }
}

static int said(const char* what) {
  fprintf(stderr, "learner: %s: %s\n", what, dlckpt_open_error());
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const long long steps = atoll(argv[2]);
  const long step_ms = atol(argv[3]);
  const int64_t bytes = atoll(argv[4]) << 20;
  char* state = calloc(1, (size_t)bytes);
  dlckpt_ctx* c = NULL;
  note(argv[1], "main", 0);
  if (state == NULL || dlckpt_open(NULL, &c) != DLCKPT_OK) return said("dlckpt_open");
  int64_t step = 0;
  dlckpt_tensor(c, "model/state", DLCKPT_U8, 1, &bytes, NULL, NULL, state, DLCKPT_REPLICATED);
  const int rc = dlckpt_restore(c, DLCKPT_LATEST, &step);
  if (rc != DLCKPT_OK && rc != DLCKPT_E_NOT_FOUND) return said("dlckpt_restore");
  for (; step < steps; step++) {
    const int want = dlckpt_want(c, step);
    if ((want & DLCKPT_WANT_SAVE) != 0 && dlckpt_save(c, step) != DLCKPT_OK) return said("dlckpt_save");
    if ((want & DLCKPT_WANT_EXIT) != 0) {
      if (dlckpt_wait(c, -1, NULL) != DLCKPT_OK) return said("dlckpt_wait");
      const int code = dlckpt_exit_code(c);
      dlckpt_close(c);
      return code;
    }
    struct timespec left = {step_ms / 1000, (step_ms % 1000) * 1000000L};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
    for (int64_t i = 0; i < bytes; i += 4096) state[i]++;
  }
  if (dlckpt_save_flags(c, steps, DLCKPT_SYNC) != DLCKPT_OK) return said("dlckpt_save");
  dlckpt_close(c);
  note(argv[1], "done", steps);
  return 0;
}
