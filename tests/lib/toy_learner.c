/* SPDX-License-Identifier: Apache-2.0
 *
 * A learner for the cluster tests, in C over libdlckpt: counts train steps in a tensor, as training would change
 * weights. toy_learner TOTAL STEP_MS [WHAT@STEP]... runs train steps until TOTAL are done, each STEP_MS milliseconds
 * long, saving when asked. WHAT, before train step STEP of the first attempt (of every attempt: WHAT!STEP): kill
 * (SIGKILL to itself), exit (code 3), and for rank 1 only kill1, exit1. refuse: from that step on a stop is answered by
 * exit code 76 without a save; stuck: its save before a stop never ends. Prints one line for each thing it does.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "checkpoint/include/dlckpt.h"

static int number(const char* name) {
  const char* text = getenv(name);
  return text != NULL ? atoi(text) : 0;
}

static void sleep_ms(long ms) {
  struct timespec left = {ms / 1000, (ms % 1000) * 1000000L};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
}

static void misbehave(const char* what, int rank) {
  if (strcmp(what, "kill") == 0 || (strcmp(what, "kill1") == 0 && rank == 1)) raise(SIGKILL);
  if (strcmp(what, "exit") == 0 || (strcmp(what, "exit1") == 0 && rank == 1)) exit(3);
}

int main(int argc, char** argv) {
  const int rank = number("DL_RANK"), attempt = number("DL_ATTEMPT");
  const int64_t total = argc > 1 ? atoll(argv[1]) : 10;
  const long step_ms = argc > 2 ? atol(argv[2]) : 100;
  int refuse = 0, stuck = 0;
  setvbuf(stdout, NULL, _IOLBF, 0);
  dlckpt_ctx* c = NULL;
  int rc = dlckpt_open(NULL, &c);
  if (rc != DLCKPT_OK) {
    printf("open: %s\n", dlckpt_open_error());
    return rc;
  }
  /* A notice of Slurm's may reach every process of a step. */
  signal(SIGTERM, SIG_IGN);
  int64_t counted = 0, step = 0;
  dlckpt_tensor(c, "model/counted", DLCKPT_I64, 0, NULL, NULL, NULL, &counted, DLCKPT_REPLICATED);
  rc = dlckpt_restore(c, DLCKPT_LATEST, &step);
  if (rc != DLCKPT_OK && rc != DLCKPT_E_NOT_FOUND) {
    printf("restore: %s\n", dlckpt_errmsg(c));
    return rc;
  }
  printf("attempt %d starts at train step %lld with %lld counted\n", attempt, (long long)step, (long long)counted);
  for (; step < total; step++) {
    int want = dlckpt_want(c, step);
    if ((want & DLCKPT_WANT_EXIT) && refuse) return 76;
    if ((want & DLCKPT_WANT_EXIT) && stuck) {
      printf("stuck in its save\n");
      sleep_ms(600000);
    }
    if (want & DLCKPT_WANT_SAVE) {
      rc = dlckpt_save(c, step);
      printf("saved at train step %lld: %s\n", (long long)step, rc == DLCKPT_OK ? "ok" : dlckpt_errmsg(c));
      if (rc != DLCKPT_OK) return rc;
    }
    if (want & DLCKPT_WANT_EXIT) {
      printf("stops at train step %lld with code %d\n", (long long)step, dlckpt_exit_code(c));
      rc = dlckpt_exit_code(c);
      dlckpt_close(c);
      return rc;
    }
    for (int i = 3; i < argc; i++) {
      char what[32];
      char mark;
      long long at;
      if (sscanf(argv[i], "%31[a-z0-9]%c%lld", what, &mark, &at) != 3 || step < at || (mark == '@' && attempt > 1))
        continue;
      if (strcmp(what, "refuse") == 0) refuse = 1;
      if (strcmp(what, "stuck") == 0) stuck = 1;
      if (step == at || mark == '!') misbehave(what, rank);
    }
    sleep_ms(step_ms);
    counted++;
  }
  dlckpt_finished(c);
  rc = dlckpt_save(c, total);
  if (rc == DLCKPT_OK) rc = dlckpt_wait(c, -1, NULL);
  printf("done: %lld counted, %s\n", (long long)counted, counted == total ? "none lost" : "WRONG");
  dlckpt_close(c);
  return rc != DLCKPT_OK ? rc : (counted == total ? 0 : 9);
}
