/* SPDX-License-Identifier: Apache-2.0
 *
 * A learner that writes down when things happen: FOLDER/EVENT.ATTEMPT.RANK holds the seconds of CLOCK_MONOTONIC, which
 * all processes of one machine share. Rank and attempt are found under each launcher's own names.
 *
 *   learner FOLDER main           "main", and ends
 *   learner FOLDER wait           "main"; on SIGTERM "told", and ends
 *   learner FOLDER die COUNT      attempt 1: "main", waits for the COUNT learners' "main" and 200 ms more; rank 1 then
 *                                 writes "dies" and kills itself, the others do as with "wait". Later: as with "main".
 *   learner FOLDER train SECONDS  "main"; computes for so long in steps of about a millisecond, prints a line every 20;
 *                                 "steps" then holds how many a second
 *   collective FOLDER             built with MPI: the same program; MPI_Init, "main", MPI_Allreduce, "collective", ends
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef BENCH_MPI
#include <mpi.h>
#endif

static const char* folder;
static int rank, attempt;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int first_of(const char* const* names, int otherwise) {
  for (; *names != NULL; names++)
    if (getenv(*names) != NULL) return atoi(getenv(*names));
  return otherwise;
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

static void wait_for_end(void) {
  sigset_t set;
  int which;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigwait(&set, &which);
  note("told", now());
  exit(1);
}

static void die(int count) {
  char path[4096];
  for (int i = 0; i < count; i++) {
    snprintf(path, sizeof path, "%s/main.1.%d", folder, i);
    while (access(path, F_OK) != 0) usleep(1000);
  }
  usleep(200000);
  if (rank != 1) wait_for_end();
  note("dies", now());
  raise(SIGKILL);
}

static void train(double seconds) {
  volatile double sum = 0;
  const double end = now() + seconds, began = now();
  long steps = 0;
  while (now() < end) {
    for (int i = 0; i < 300000; i++) sum += i * 0.5;
    if (++steps % 20 == 0) {
      printf("step %ld, loss %.3f\n", steps, 1.0 / (double)steps);
      fflush(stdout);
    }
  }
  note("steps", (double)steps / (now() - began));
}

int main(int argc, char** argv) {
  const double began = now();
  const char* const ranks[] = {"OMPI_COMM_WORLD_RANK", "DL_RANK", "RANK", "SLURM_PROCID", NULL};
  const char* const ours[] = {"DL_ATTEMPT", NULL};
  const char* const restarts[] = {"TORCHELASTIC_RESTART_COUNT", NULL};
  sigset_t set;
  if (argc < 2) return 2;
  folder = argv[1];
  rank = first_of(ranks, 0);
  attempt = first_of(ours, first_of(restarts, 0) + 1);
  /* A SIGTERM that comes before it is waited for stays pending. */
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
#ifdef BENCH_MPI
  int one = 1, sum = 0;
  MPI_Init(&argc, &argv);
  note("main", began);
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  note("collective", now());
  MPI_Finalize();
  return sum > 0 ? 0 : 1;
#else
  const char* what = argc > 2 ? argv[2] : "main";
  if (strcmp(what, "main") != 0) sigprocmask(SIG_BLOCK, &set, NULL);
  note("main", began);
  if (strcmp(what, "wait") == 0) wait_for_end();
  if (strcmp(what, "die") == 0 && attempt == 1) die(argc > 3 ? atoi(argv[3]) : 1);
  if (strcmp(what, "train") == 0) train(argc > 3 ? atof(argv[3]) : 1);
  return 0;
#endif
}
