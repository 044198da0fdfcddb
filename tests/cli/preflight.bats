#!/usr/bin/env bats
# Checks of the nodes before the first learner starts: on this machine, without Slurm.
# shellcheck disable=SC2016  # expanded by the shells of learners
bats_require_minimum_version 1.5.0
# shellcheck source=tests/cli/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
setup() {
  dlrun_setup
  export XDG_CACHE_HOME=$PWD/cache
  preflight=$top_builddir/launcher/preflight/dl-preflight
}
grade() { jq -r --arg name "$1" '.checks[] | select(.name == $name) | .grade + " " + (.text // "")' <<<"$output"; }

@test "quick checks grade this machine and leave nothing behind" {
  mkdir job
  run "$preflight" --job-dir job --peers localhost
  [ "$status" -eq 0 ]
  for name in job_dir tmp shm names memory load gpus; do [ -n "$(grade $name)" ]; done
  [ "$(grade job_dir)" = "good " ]
  [ "$(grade names)" = "good " ]
  [ -z "$(ls -A job)" ]
  [ ! -e cache ]
  [ "$(jq '.checks | length' <<<"$output")" -eq 7 ]
}

@test "a folder that cannot be written and a name that nobody knows are bad; so is an option of another program" {
  run "$preflight" --job-dir /proc/none --peers localhost,no-such-host.invalid
  [ "$status" -eq 0 ]
  [[ $(grade job_dir) == "bad cannot write into /proc/none: No such file or directory" ]]
  [[ $(grade names) == "bad the name no-such-host.invalid is not resolved: "* ]]
  run "$preflight" --nonsense
  [ "$status" -ne 0 ]
}

@test "full checks measure once, and again when what was measured is too old, of another boot, or damaged" {
  run "$preflight" --full --max-age 1000
  [ "$status" -eq 0 ]
  for name in memory_bandwidth compute disk_write; do
    [ "$(jq -r --arg name $name '.checks[] | select(.name == $name) | .value > 1000000 and (has("age_s") | not)' <<<"$output")" = true ]
  done
  value=$(jq '.checks[] | select(.name == "compute") | .value' <<<"$output")
  run "$preflight" --full --max-age 1000
  [ "$(jq '.checks[] | select(.name == "compute") | .value' <<<"$output")" = "$value" ]
  [ "$(jq '.checks[] | select(.name == "compute") | .age_s > 0' <<<"$output")" = true ]
  [ "$(jq '.checks[] | select(.name == "job_dir") | has("age_s")' <<<"$output")" = false ]
  file=$(echo cache/slurm-dl/preflight/*.json)
  fresh() { [ "$(jq '.checks[] | select(.name == "compute") | has("age_s")' <<<"$output")" = false ]; }
  run "$preflight" --full --max-age 0
  fresh
  sed -i '1s/^./z/' "$file"
  run "$preflight" --full --max-age 1000
  fresh
  echo rubbish >"$file"
  run "$preflight" --full --max-age 1000
  fresh
}

@test "GPUs: their number and health, as the management library tells them" {
  cat >double.c <<'C'
#include <stdlib.h>
static int number(const char *name) { const char *text = getenv(name); return text ? atoi(text) : 0; }
int nvmlInit_v2(void) { return number("INIT"); }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = number("COUNT"); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = device; return number("LOST") == (int)index + 1 ? 15 : 0; }
int nvmlDeviceGetTotalEccErrors(void *d, int kind, int since, unsigned long long *n) { *n = number("ECC"); return d && kind == 1 && since == 0 ? 0 : 3; }
int nvmlDeviceGetRemappedRows(void *d, unsigned *c, unsigned *u, unsigned *p, unsigned *f) { *c = *u = 0; *p = number("PENDING"); *f = number("FAILED"); return d ? 0 : 3; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *d, unsigned long long *r) { *r = number("THROTTLE"); return d ? 0 : 3; }
C
  cc -shared -fPIC -o libnvidia-ml.so.1 double.c || skip "no C compiler"
  export LD_LIBRARY_PATH=$PWD
  check() { # WHAT EXPECTED: with the environment WHAT
    run env "${@:2}" "$preflight" --gpus 2
    [[ $(grade gpus) == "$1" ]] || { echo "${*:2}: $(grade gpus)"; return 1; }
  }
  check "good " COUNT=2
  check "good " COUNT=2 THROTTLE=4
  check "bad 1 GPU is here, 2 were allocated" COUNT=1
  check "bad GPU 1 does not answer" COUNT=2 LOST=2
  check "bad GPU 0: 3 uncorrected memory errors since it was reset" COUNT=2 ECC=3
  check "bad GPU 0: memory rows wait to be remapped: it needs a reset" COUNT=2 PENDING=1
  check "bad GPU 0: remapping of memory rows failed" COUNT=2 FAILED=1
  check "warning GPU 0 is slowed down by its hardware (heat or power; reasons 0x40)" COUNT=2 THROTTLE=64
  check "bad NVIDIA's driver does not answer" INIT=9
  unset LD_LIBRARY_PATH
  [[ $("$preflight" | jq -r '.checks[] | select(.name == "gpus") | .grade') != bad ]]
}

@test "GPUs: how fast they copy, as CUDA's driver lets them; a slow one, a full one and a broken one are named" {
  # Copies take as long as the GPU's rate says; memory of GPU i begins at (i + 1) << 40, so a mixed-up argument is found.
  cat >double.c <<'C'
#include <stdlib.h>
#include <string.h>
#include <time.h>
#define MIB 1048576ull
static int number(const char *name) { const char *text = getenv(name); return text ? atoi(text) : 0; }
static int current, contexts[16];
static int gpu_of(unsigned long long p) { return (int)(p >> 40) - 1; }
static int copied(int gpu, unsigned long long bytes) { /* 64 MiB: 2 ms, SLOW's 10 ms */
  if (gpu != current || bytes != 64 * MIB) return 1;
  struct timespec t = {0, number("SLOW") == gpu + 1 ? 10000000 : 2000000};
  nanosleep(&t, 0);
  return number("BROKEN") == gpu + 1 ? 214 : 0;
}
int cuInit(unsigned flags) { return flags ? 1 : number("INIT"); }
int cuDeviceGetCount(int *n) { *n = number("COUNT"); return 0; }
int cuDevicePrimaryCtxRetain(void **c, int d) { *c = &contexts[d]; return 0; }
int cuCtxSetCurrent(void *c) { current = (int)((int *)c - contexts); return 0; }
int cuCtxSynchronize(void) { return 0; }
int cuMemAllocHost_v2(void **p, unsigned long n) { *p = malloc(n); return *p ? 0 : 2; }
int cuMemAlloc_v2(unsigned long long *p, unsigned long n) {
  static unsigned long long next[16];
  *p = ((unsigned long long)(current + 1) << 40) + next[current];
  next[current] += n;
  return number("FULL") == current + 1 ? 2 : 0;
}
int cuMemcpyHtoD_v2(unsigned long long to, const void *from, unsigned long n) { return from ? copied(gpu_of(to), n) : 1; }
int cuMemcpyDtoH_v2(void *to, unsigned long long from, unsigned long n) { memset(to, 1, n); return copied(gpu_of(from), n); }
int cuMemcpyDtoD_v2(unsigned long long to, unsigned long long from, unsigned long n) { return to != from && gpu_of(to) == gpu_of(from) ? copied(gpu_of(to), n) : 1; }
int cuMemcpyPeer(unsigned long long to, void *tc, unsigned long long from, void *fc, unsigned long n) {
  return tc == &contexts[gpu_of(to)] && fc == &contexts[gpu_of(from)] && tc != fc ? copied(gpu_of(from), n) : 1;
}
int cuGetErrorName(int code, const char **name) { *name = code == 214 ? "CUDA_ERROR_ECC_UNCORRECTABLE" : "CUDA_ERROR_OTHER"; return 0; }
C
  cc -shared -fPIC -o libcuda.so.1 double.c || skip "no C compiler"
  measure() { run env LD_LIBRARY_PATH="$PWD" "$@" "$preflight" --full --max-age 100 --gpus 4; }
  measure COUNT=4
  local name rate
  for name in gpu_from_host gpu_to_host gpu_memory gpu_to_gpu; do
    [[ $(grade $name) == "good " ]] || { echo "$name: $(grade $name)"; return 1; }
    rate=$(jq -r ".checks[] | select(.name == \"$name\") | .value / 1e9 | floor" <<<"$output")
    ((rate >= 2 && rate <= 34)) || { echo "$name: $rate GB/s"; return 1; }
  done
  measure COUNT=4 SLOW=3
  [[ $(grade gpu_from_host) =~ ^"bad GPU 2 copies "[0-9.]+" GB/s (gpu_from_host), the median of 4 GPUs is " ]] || { grade gpu_from_host; return 1; }
  measure COUNT=4 BROKEN=2
  [[ $(grade gpu_from_host) == "bad GPU 1: cuMemcpyHtoD failed: CUDA_ERROR_ECC_UNCORRECTABLE" ]]
  [[ $(grade gpu_memory) == "skipped not measured" ]]
  measure COUNT=4 FULL=1
  [[ $(grade gpu_from_host) == "warning GPU 0 has no 128 MiB of free memory: another program uses it" ]]
  measure COUNT=1
  [[ $(grade gpu_memory) == "good " && $(grade gpu_to_gpu) == "skipped the node has one GPU alone, which is compared with nothing" ]]
  measure INIT=100
  [[ $(grade gpu_from_host) == "bad CUDA does not start: CUDA_ERROR_OTHER" ]]
  run env LD_LIBRARY_PATH="$PWD" COUNT=4 "$preflight" --full --max-age 100
  [[ $(grade gpu_from_host) == "skipped the job has no GPUs" ]]
}

@test "NCCL between nodes, by doubles: the rate of each group, and what fails or hangs, in one sentence and within its time" {
  local library=$top_builddir/tests/lib/gpu_double/.libs/libgpudouble.so.1
  [ -e "$library" ] || skip "built without NCCL"
  mkdir gpu
  for name in libcuda.so.1 libnccl.so.2; do ln -s "$(readlink -f "$library")" gpu/$name; done
  measure() { # NAME GROUPS NODES VARIABLE=VALUE...: each node's line to NAME/NODE.out
    local node
    mkdir "$1"
    for node in $3; do
      env LD_LIBRARY_PATH="$PWD/gpu" "${@:4}" SLURMD_NODENAME="$node" "$preflight-nccl" "$1" "$2" >"$1/$node.out" 3>&- &
    done
  }
  measure good 'a,b;c,d,e' 'a b c d e' GPU_DOUBLE_COUNT=2 GPU_DOUBLE_SLOW=d
  wait
  for node in a b; do jq -e '.bytes_per_s > 2.2e9 and .bytes_per_s < 21e9' good/$node.out; done
  for node in c d e; do jq -e '.bytes_per_s < 2.1e9' good/$node.out; done
  measure hang 'a,b' 'a b' GPU_DOUBLE_HANG=b GPU_DOUBLE_FROM=2
  measure absent 'a,b' 'a b' GPU_DOUBLE_NO_SHOW=b
  measure fault 'a,b' 'a b' GPU_DOUBLE_FAIL=a,b
  measure lag 'a,b' 'a b' GPU_DOUBLE_LAG=b
  measure large 'a,b,c,d,e' 'a b c d e' GPU_DOUBLE_LAG=b # with so many nodes none hears when the others are done, and all wait
  measure alone 'a,b' 'a'
  measure none 'a,b' 'a b' LD_LIBRARY_PATH=
  measure one 'a' 'a'
  begin=$SECONDS
  wait
  ((SECONDS - begin < 40))
  [ "$(jq -r .text hang/a.out)" = "NCCL's all-reduce did not end within 10 s" ]
  [ "$(jq -r .text absent/a.out)" = "NCCL's communicator was not made within 15 s" ]
  [ "$(jq -r .text fault/b.out)" = "NCCL: remote process exited or there was a network error" ]
  for node in a b; do jq -e '.bytes_per_s > 1e7 and .text == ""' lag/$node.out; done
  for node in a b c d e; do jq -e '.bytes_per_s > 1e7 and .text == ""' large/$node.out; done
  [ "$(jq -r .text alone/a.out)" = "b did not join the measurement in time" ]
  [ "$(jq -r '.text, .skipped' one/a.out | xargs)" = "one GPU alone takes part; needed: two or more true" ]
  if ! ldconfig -p | grep -q libcuda.so.1; then [ "$(jq -r '.text, .skipped' none/a.out | xargs)" = "a has no libcuda.so.1 true" ]; fi
  run "$preflight-nccl"
  [ "$status" -eq 2 ]
}

@test "dlrun --preflight: warnings are told and the job starts; a bad machine starts nothing; off checks nothing" {
  run "$dlrun" --preflight quick --job-dir job -n 2 -- sh -c 'echo "rank $RANK"'
  [ "$status" -eq 0 ]
  [[ $output == *"[1] rank 1"* ]]
  [ "$(jq '.nodes | length' job/preflight.json)" = 1 ]
  run "$dlrun" --job-dir off -- true
  [ "$status" -eq 0 ]
  [ ! -e off/preflight.json ]
  run "$dlrun" --preflight half -- true
  [ "$status" -eq 2 ]
  [[ $output == "dlrun: --preflight: 'half' is not a kind of check; allowed: off, quick, full" ]]
  DL_PREFLIGHT=full run "$dlrun" --job-dir full -q -- true
  [ "$status" -eq 0 ]
  [ "$(jq '[.nodes[0].checks[] | select(.unit == "FLOP/s")] | length' full/preflight.json)" = 1 ]
}
