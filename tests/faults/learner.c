/* SPDX-License-Identifier: Apache-2.0
 *
 * The learner of the fault matrix, in C over libdlckpt: two ranks train weights together, and rank 1 stands still at a
 * chosen place, so that a fault meets it there and nowhere else.
 *
 *   fault_learner TOTAL STEP_MS PHASE    PHASE: none, deploying, training, saving or finishing
 *
 * In the first attempt, at PHASE, it writes its process id to $FAULT_DIR/at.PHASE.RANK and waits for
 * $FAULT_DIR/open.PHASE.RANK, whose first word says what to do: go (on), or leak (leave processes behind; and die,
 * unless it is finishing). All ranks stand still in deploying, rank 1 alone in the others, where rank 0 waits for it,
 * as in any data-parallel training.
 *
 * The weights follow from the train steps alone, so a run that was disturbed ends with the same bits, also one that
 * went on with fewer ranks. Each train step counts itself in the state: one that is run twice or left out shows (exit
 * code 9). $FAULT_DIR/steps-RANK.log: a line "ATTEMPT STEP TIME_MS" for each train step that was run;
 * $FAULT_DIR/weights-RANK.bin: the weights at the end.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* accept4 */
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "checkpoint/include/dlckpt.h"

enum { kWeights = 1 << 16, kMaxRanks = 2, kSamples = 12, kMaxSteps = 1000, kHeldStep = 9, kHeldSave = 12 };

static int rank, world, attempt;
static const char* held_phase = "none";
static const char* folder = ".";
static atomic_int hold_next_fsync;
static int peers[kMaxRanks];     /* rank 0: one connection for each other rank; others: peers[0] */
static double weights[kWeights]; /* of all ranks together; each has its part at the front */
static int part;
static int64_t counted[kMaxSteps];

static int number(const char* name) {
  const char* text = getenv(name);
  return text != NULL ? atoi(text) : 0;
}

static void sleep_ms(long ms) {
  struct timespec left = {ms / 1000, (ms % 1000) * 1000000L};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) continue;
}

/* A clock that is the same for all processes of the machine, whatever the time of day is changed to. */
static long long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The first word of our gate, "" while it is shut. */
static void read_gate(const char* phase, char* word, size_t size) {
  char path[512];
  snprintf(path, sizeof path, "%s/open.%s.%d", folder, phase, rank);
  word[0] = 0;
  FILE* file = fopen(path, "r");
  if (file == NULL) return;
  if (fgets(word, (int)size, file) == NULL) word[0] = 0;
  fclose(file);
  word[strcspn(word, " \n")] = 0;
}

static int holds(const char* phase) {
  return attempt == 1 && strcmp(held_phase, phase) == 0 && (rank == 1 || strcmp(phase, "deploying") == 0);
}

/* Processes that nobody waits for: one in a session of its own which keeps our output open, one that is nobody's child
 * and has an empty environment. */
static void leak(void) {
  char path[512], text[32];
  int ends[2];
  snprintf(path, sizeof path, "%s/leaked", folder);
  const pid_t first = fork();
  if (first == 0) {
    setsid();
    execlp("sleep", "sleep", "600", (char*)NULL);
    _exit(1);
  }
  if (pipe(ends) != 0) exit(10);
  const pid_t between = fork();
  if (between == 0) {
    setsid();
    const pid_t second = fork();
    if (second == 0) {
      char* const argv[] = {"sleep", "600", NULL};
      char* const none[] = {NULL};
      execve("/bin/sleep", argv, none);
      _exit(1);
    }
    const int length = snprintf(text, sizeof text, "%d\n", (int)second);
    _exit(write(ends[1], text, (size_t)length) == length ? 0 : 1);
  }
  waitpid(between, NULL, 0);
  const ssize_t n = read(ends[0], text, sizeof text - 1);
  text[n > 0 ? n : 0] = 0;
  FILE* file = fopen(path, "w");
  if (file == NULL) exit(10);
  fprintf(file, "%d\n%s", (int)first, text);
  fclose(file);
}

static void hold(const char* phase) {
  char path[512], temporary[520], word[32];
  snprintf(path, sizeof path, "%s/at.%s.%d", folder, phase, rank);
  snprintf(temporary, sizeof temporary, "%s.new", path);
  FILE* file = fopen(temporary, "w");
  if (file == NULL) exit(10);
  fprintf(file, "%d\n", (int)getpid());
  fclose(file);
  if (rename(temporary, path) != 0) exit(10);
  for (read_gate(phase, word, sizeof word); word[0] == 0; read_gate(phase, word, sizeof word)) sleep_ms(2);
  if (strcmp(word, "leak") != 0 || rank != 1) return;
  leak();
  if (strcmp(phase, "finishing") != 0) raise(SIGKILL);
}

/* Found by libdlckpt before libc's: a save is held after its data were written and before they are durable. */
int fsync(int fd) {
  if (atomic_exchange(&hold_next_fsync, 0)) hold("saving");
  return (int)syscall(SYS_fsync, fd);
}

static void fail(const char* what) {
  printf("learner %d: %s: %s\n", rank, what, strerror(errno));
  exit(1);
}

static void all_of(int fd, void* data, size_t size, int sending) {
  char* at = data;
  while (size > 0) {
    const ssize_t n = sending ? send(fd, at, size, MSG_NOSIGNAL) : recv(fd, at, size, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = ECONNRESET;
    if (n <= 0) fail("a peer was lost");
    at += n;
    size -= (size_t)n;
  }
}

/* A star with rank 0 in its middle, at MASTER_ADDR and MASTER_PORT. */
static void meet(void) {
  const int one = 1;
  const char* address = getenv("MASTER_ADDR");
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)number("MASTER_PORT"))};
  if (rank == 0) {
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr*)&at, sizeof at) != 0 || listen(listener, 16) != 0)
      fail("listen on MASTER_PORT");
    for (int i = 1; i < world; i++) {
      int32_t who = 0;
      const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
      if (fd < 0) fail("accept");
      all_of(fd, &who, sizeof who, 0);
      if (who < 1 || who >= world) fail("a stranger came");
      peers[who] = fd;
    }
    close(listener);
    return;
  }
  struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found = NULL;
  if (address == NULL || getaddrinfo(address, getenv("MASTER_PORT"), &hints, &found) != 0) fail("MASTER_ADDR");
  for (int i = 0;; i++) {
    peers[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(peers[0], found->ai_addr, found->ai_addrlen) == 0) break;
    if (i > 3000) fail("connect to rank 0");
    close(peers[0]);
    sleep_ms(10);
  }
  freeaddrinfo(found);
  int32_t who = rank;
  all_of(peers[0], &who, sizeof who, 1);
}

/* The sum of `value` over all ranks, which all must be at the same train step. */
static int64_t sum_over_ranks(int64_t step, int64_t value) {
  int64_t message[2] = {step, value};
  if (rank != 0) {
    all_of(peers[0], message, sizeof message, 1);
    all_of(peers[0], message, sizeof message, 0);
    return message[1];
  }
  for (int i = 1; i < world; i++) {
    int64_t other[2];
    all_of(peers[i], other, sizeof other, 0);
    if (other[0] != step) {
      printf("rank %d is at train step %lld, rank 0 at %lld\n", i, (long long)other[0], (long long)step);
      exit(8);
    }
    message[1] += other[1];
  }
  for (int i = 1; i < world; i++) all_of(peers[i], message, sizeof message, 1);
  return message[1];
}

/* The samples of a train step are the same, however many ranks share them. */
static void train(int64_t step) {
  int64_t own = 0;
  for (int sample = rank; sample < kSamples; sample += world) own += (sample + 1) * (step + 7) % 101;
  const int64_t sum = sum_over_ranks(step, own);
  for (int i = 0; i < part; i++)
    weights[i] = weights[i] * 0.9990234375 + (double)((step * 31 + (rank * part + i) % 97) * sum % 1009) * 0.001;
  counted[step]++;
}

static void note_step(int fd, int64_t step) {
  char line[96];
  const int length = snprintf(line, sizeof line, "%d %lld %lld\n", attempt, (long long)step, now_ms());
  if (write(fd, line, (size_t)length) != length) fail("write steps log");
}

static void write_weights(void) {
  char path[512];
  snprintf(path, sizeof path, "%s/weights-%d.bin", folder, rank);
  FILE* file = fopen(path, "wb");
  if (file == NULL || fwrite(weights, sizeof weights[0], (size_t)part, file) != (size_t)part || fclose(file) != 0)
    fail("write weights");
}

static int save(dlckpt_ctx* c, int64_t step) {
  const int held = step == kHeldSave && holds("saving");
  char word[32] = "";
  if (held) atomic_store(&hold_next_fsync, 1);
  const int rc = dlckpt_save(c, step);
  /* A save in the background: the loop stands still with it. */
  while (held && word[0] == 0) {
    read_gate("saving", word, sizeof word);
    sleep_ms(2);
  }
  printf("saves at train step %lld: %s\n", (long long)step, rc == DLCKPT_OK ? "ok" : dlckpt_errmsg(c));
  return rc;
}

static int end(dlckpt_ctx* c, int64_t total) {
  dlckpt_finished(c);
  int rc = save(c, total);
  if (rc == DLCKPT_OK) rc = dlckpt_wait(c, -1, NULL);
  if (rc != DLCKPT_OK) {
    printf("last save: %s\n", dlckpt_errmsg(c));
    return 4;
  }
  if (holds("finishing")) hold("finishing");
  for (int64_t i = 0; i < total; i++) {
    if (counted[i] == 1) continue;
    printf("train step %lld was run %lld times\n", (long long)i, (long long)counted[i]);
    return 9;
  }
  write_weights();
  dlckpt_close(c);
  return 0;
}

int main(int argc, char** argv) {
  rank = number("DL_RANK");
  world = number("DL_WORLD_SIZE");
  attempt = number("DL_ATTEMPT");
  if (getenv("FAULT_DIR") != NULL) folder = getenv("FAULT_DIR");
  if (argc > 3) held_phase = argv[3];
  const int64_t total = argc > 1 ? atoll(argv[1]) : 24;
  const long step_ms = argc > 2 ? atol(argv[2]) : 20;
  if (world < 1 || world > kMaxRanks || total > kMaxSteps) return 2;
  setvbuf(stdout, NULL, _IOLBF, 0);
  signal(SIGTERM, SIG_IGN); /* a notice of Slurm's may reach every process of a step */
  char path[512];
  snprintf(path, sizeof path, "%s/steps-%d.log", folder, rank);
  const int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (log < 0) fail("open steps log");
  if (holds("deploying")) hold("deploying");
  if (world > 1) meet();
  dlckpt_ctx* c = NULL;
  if (dlckpt_open(NULL, &c) != DLCKPT_OK) {
    printf("open: %s\n", dlckpt_open_error());
    return 4;
  }
  int64_t step = 0;
  part = kWeights / world;
  const int64_t shape = kWeights, offset = (int64_t)part * rank, extent = part, steps = kMaxSteps;
  dlckpt_tensor(c, "model/weights", DLCKPT_F64, 1, &shape, &offset, &extent, weights, 0);
  dlckpt_tensor(c, "train/counted", DLCKPT_I64, 1, &steps, NULL, NULL, counted, DLCKPT_REPLICATED);
  int rc = dlckpt_restore(c, DLCKPT_LATEST, &step);
  if (rc != DLCKPT_OK && rc != DLCKPT_E_NOT_FOUND) {
    printf("restore: %s\n", dlckpt_errmsg(c));
    return 4;
  }
  printf("attempt %d starts at train step %lld\n", attempt, (long long)step);
  for (; step < total; step++) {
    const int want = dlckpt_want(c, step);
    if ((want & DLCKPT_WANT_SAVE) && save(c, step) != DLCKPT_OK) return 4;
    if (want & DLCKPT_WANT_EXIT) {
      rc = dlckpt_exit_code(c);
      dlckpt_close(c);
      return rc;
    }
    if (step == kHeldStep && holds("training")) hold("training");
    train(step);
    sleep_ms(step_ms);
    note_step(log, step);
  }
  return end(c, total);
}
