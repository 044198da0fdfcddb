// SPDX-License-Identifier: Apache-2.0
// A PMIx program without MPI, for what dlrun's PMIx servers do:
//   pmix_peer exchange      fences with data and without, direct modex, a sub-group's fence, publish and lookup
//   pmix_peer lost          rank 0 kills itself; the others wait for the notice of it, then say so and end
//   pmix_peer stuck         rank 0 kills itself; the others are in a fence with it, and must be let out
//   pmix_peer abort CODE    rank 1 calls PMIx_Abort with CODE; the others wait for their end
#include <pmix.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pmix_proc_t me;
static uint32_t size;

static void must(pmix_status_t status, const char* what) {
  if (status == PMIX_SUCCESS) return;
  printf("rank %u: %s: %s\n", me.rank, what, PMIx_Error_string(status));
  exit(1);
}

static void put(const char* key, uint32_t number) {
  pmix_value_t value;
  value.type = PMIX_UINT32;
  value.data.uint32 = number;
  must(PMIx_Put(PMIX_GLOBAL, key, &value), "put");
  must(PMIx_Commit(), "commit");
}

static uint32_t get(uint32_t rank, const char* key) {
  pmix_proc_t peer = me;
  peer.rank = rank;
  pmix_value_t* value = NULL;
  must(PMIx_Get(&peer, key, NULL, 0, &value), key);
  const uint32_t number = value->data.uint32;
  PMIX_VALUE_RELEASE(value);
  return number;
}

static void fence(const pmix_proc_t* peers, size_t count, bool collect) {
  pmix_info_t info;
  PMIX_INFO_CONSTRUCT(&info);
  PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
  must(PMIx_Fence(peers, count, &info, 1), "fence");
}

static void exchange(void) {
  pmix_proc_t all = me;
  all.rank = PMIX_RANK_WILDCARD;
  put("collected", 100 + me.rank);
  fence(&all, 1, true);
  uint32_t sum = 0;
  for (uint32_t rank = 0; rank < size; ++rank) sum += get(rank, "collected");
  put("asked", 1000 + me.rank);
  fence(&all, 1, false);
  sum += get((me.rank + 1) % size, "asked") - (me.rank + 1) % size;
  // The first and the last alone, on different nodes.
  if (me.rank == 0 || me.rank == size - 1) {
    pmix_proc_t two[2] = {me, me};
    two[0].rank = 0;
    two[1].rank = size - 1;
    fence(two, 2, true);
  }
  uint32_t answer = 42;
  pmix_info_t item;
  PMIX_INFO_CONSTRUCT(&item);
  PMIX_INFO_LOAD(&item, "the answer", &answer, PMIX_UINT32);
  if (me.rank == size - 1) must(PMIx_Publish(&item, 1), "publish");
  pmix_pdata_t found;
  PMIX_PDATA_CONSTRUCT(&found);
  strcpy(found.key, "the answer");
  int wait = 0;
  pmix_info_t how;
  PMIX_INFO_CONSTRUCT(&how);
  PMIX_INFO_LOAD(&how, PMIX_WAIT, &wait, PMIX_INT);
  must(PMIx_Lookup(&found, 1, &how, 1), "look up");
  printf("rank %u: sum %u, the answer of rank %u is %u\n", me.rank, sum, found.proc.rank, found.value.data.uint32);
  fence(&all, 1, false);
}

static volatile int told;
static volatile uint32_t lost;

static void on_event(size_t id, pmix_status_t status, const pmix_proc_t* source, pmix_info_t info[], size_t count,
                     pmix_info_t results[], size_t results_count, pmix_event_notification_cbfunc_fn_t done,
                     void* data) {
  (void)id, (void)status, (void)results, (void)results_count;
  lost = source->rank;
  for (size_t i = 0; i < count; ++i)
    if (strcmp(info[i].key, PMIX_EVENT_AFFECTED_PROC) == 0) lost = info[i].value.data.proc->rank;
  told = 1;
  if (done != NULL) done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static void wait_for_loss(void) {
  pmix_proc_t all = me;
  all.rank = PMIX_RANK_WILDCARD;
  pmix_status_t codes[] = {PMIX_ERR_PROC_ABORTED};
  PMIx_Register_event_handler(codes, 1, NULL, 0, on_event, NULL, NULL);
  fence(&all, 1, false);
  if (me.rank == 0) kill(getpid(), SIGKILL);
  for (int i = 0; i < 2000 && !told; ++i) usleep(10000);
  printf("rank %u: %s %u\n", me.rank, told ? "has heard that it has lost rank" : "has heard nothing", lost);
  fflush(stdout);
  pause();
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "exchange";
  setvbuf(stdout, NULL, _IOLBF, 0);
  must(PMIx_Init(&me, NULL, 0), "init");
  pmix_proc_t all = me;
  all.rank = PMIX_RANK_WILDCARD;
  pmix_value_t* value = NULL;
  must(PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &value), "job size");
  size = value->data.uint32;
  if (strcmp(what, "exchange") == 0) {
    exchange();
  } else if (strcmp(what, "lost") == 0) {
    wait_for_loss();
  } else if (strcmp(what, "stuck") == 0) {
    fence(&all, 1, false);
    if (me.rank == 0) kill(getpid(), SIGKILL);
    signal(SIGTERM, SIG_IGN);
    printf("rank %u: let out of the fence: %s\n", me.rank, PMIx_Error_string(PMIx_Fence(&all, 1, NULL, 0)));
    return 1;
  } else if (strcmp(what, "abort") == 0) {
    if (me.rank == 1) PMIx_Abort(argc > 2 ? atoi(argv[2]) : 1, "on purpose", NULL, 0), exit(0);
    pause();
  }
  must(PMIx_Finalize(NULL, 0), "finalize");
  return 0;
}
