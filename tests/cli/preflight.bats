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
  [ "$(grade job_dir)" = "good " ] && [ "$(grade names)" = "good " ]
  [ -z "$(ls -A job)" ] && [ ! -e cache ]
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
  check "bad 1 GPUs are here, 2 were allocated" COUNT=1
  check "bad GPU 1 does not answer" COUNT=2 LOST=2
  check "bad GPU 0: 3 uncorrected memory errors since it was reset" COUNT=2 ECC=3
  check "bad GPU 0: memory rows wait to be remapped: it needs a reset" COUNT=2 PENDING=1
  check "bad GPU 0: remapping of memory rows failed" COUNT=2 FAILED=1
  check "warning GPU 0 is slowed down by its hardware (heat or power; reasons 0x40)" COUNT=2 THROTTLE=64
  check "bad NVIDIA's driver does not answer" INIT=9
  unset LD_LIBRARY_PATH
  [[ $("$preflight" | jq -r '.checks[] | select(.name == "gpus") | .grade') != bad ]]
}

@test "dlrun --preflight: warnings are told and the job starts; a bad machine starts nothing; off checks nothing" {
  run "$dlrun" --preflight quick --job-dir job -n 2 -- sh -c 'echo "rank $RANK"'
  [ "$status" -eq 0 ] && [[ $output == *"[1] rank 1"* ]]
  [ "$(jq '.nodes | length' job/preflight.json)" = 1 ]
  run "$dlrun" --job-dir off -- true
  [ "$status" -eq 0 ] && [ ! -e off/preflight.json ]
  run "$dlrun" --preflight half -- true
  [ "$status" -eq 2 ]
  [[ $output == "dlrun: --preflight: 'half' is not a kind of check; allowed: off, quick, full" ]]
  DL_PREFLIGHT=full run "$dlrun" --job-dir full -q -- true
  [ "$status" -eq 0 ]
  [ "$(jq '[.nodes[0].checks[] | select(.unit == "FLOP/s")] | length' full/preflight.json)" = 1 ]
}
