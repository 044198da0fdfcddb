#!/usr/bin/env bats
# dlrun --bind: learners on CPUs of their own. On a machine with two CPUs at least; NUMA nodes are made up by hwloc
# (HWLOC_SYNTHETIC), what is bound is real.
# shellcheck disable=SC2016  # much here is expanded by the shells of learners
bats_require_minimum_version 1.5.0
# shellcheck source=tests/cli/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
setup() {
  dlrun_setup
  mapfile -t cpus < <(python3 -c 'import os
for cpu in sorted(os.sched_getaffinity(0)): print(cpu)')
  ((${#cpus[@]} >= 2)) || skip "one CPU cannot be divided"
  # Two of them, whatever this machine has.
  two=(taskset -c "${cpus[0]},${cpus[1]}")
  unset DL_BIND SLURM_CPUS_ON_NODE
}
show='echo "$LOCAL_RANK: $(sed -n "s/^Cpus_allowed_list:[[:space:]]*//p" /proc/self/status)"'
of() { sed -n "s/^$1: //p" "job/logs/latest/learner-$1.log"; }

@test "cores: the CPUs are divided; none: each learner may use all" {
  run "${two[@]}" "$dlrun" -q --job-dir job --bind cores -n 2 -- sh -c "$show"
  [ "$status" -eq 0 ]
  [ "$(of 0)" = "${cpus[0]}" ]
  [ "$(of 1)" = "${cpus[1]}" ]
  rm -r job
  DL_BIND=cores run "${two[@]}" "$dlrun" -q --job-dir job --bind none -n 2 -- sh -c "$show"
  [ "$(of 0)" = "$(of 1)" ]
  [ "$(of 0)" != "${cpus[0]}" ]
  rm -r job
  # More learners than CPUs: each has one, none is left out.
  DL_BIND=cores run "${two[@]}" "$dlrun" -q --job-dir job -n 4 -- sh -c "$show"
  [ "$(of 0) $(of 1) $(of 2) $(of 3)" = "${cpus[0]} ${cpus[0]} ${cpus[1]} ${cpus[1]}" ]
}

@test "numa: in turn, and by the GPUs where NVML knows their place; a driver that hangs holds nobody up" {
  [ "${cpus[0]} ${cpus[1]}" = "0 1" ] || skip "the made-up machine has CPUs 0 and 1, this one has not"
  export HWLOC_SYNTHETIC="pack:2 [numa] core:1 pu:1" HWLOC_THISSYSTEM=1
  run taskset -c 0,1 "$dlrun" -q --job-dir job --bind numa -n 2 -- sh -c "$show"
  [ "$status" -eq 0 ]
  [ "$(of 0) $(of 1)" = "0 1" ]
  rm -r job
  cat >double.c <<'C'
#include <stdlib.h>
#include <unistd.h>
int nvmlInit_v2(void) { return getenv("HANG") ? (pause(), 1) : 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = (void *)(long)(index + 1); return index > 1 ? 2 : 0; }
int nvmlDeviceGetCpuAffinity(void *device, unsigned n, unsigned long *set) { set[0] = device == (void *)1 ? 2 : 1; return n > 0 ? 0 : 2; } /* crosswise */
C
  cc -shared -fPIC -o libnvidia-ml.so.1 double.c || skip "no C compiler"
  export LD_LIBRARY_PATH=$PWD CUDA_VISIBLE_DEVICES=0,1
  run taskset -c 0,1 "$dlrun" -q --job-dir job --bind numa -n 2 -g 1 -- sh -c "$show"
  [ "$(of 0) $(of 1)" = "1 0" ]
  rm -r job
  HANG=1 run timeout 20 taskset -c 0,1 "$dlrun" -q --job-dir job --bind numa -n 2 -g 1 -- sh -c "$show"
  [ "$status" -eq 0 ]
  [ "$(of 0) $(of 1)" = "0 1" ]
}

@test "a node that does not keep jobs apart: the learner runs unbound, and its log says why" {
  SLURM_CPUS_ON_NODE=1 run "${two[@]}" "$dlrun" -q --job-dir job --bind cores -n 1 -- sh -c "$show"
  [ "$status" -eq 0 ]
  if ((${#cpus[@]} == $(nproc --all))) && ((${#cpus[@]} == 2)); then
    contains "$(cat job/logs/latest/learner-0.log)" '^dl-bind: this learner is not bound: Slurm gave the job 1 of the 2 CPUs of this node but lets it use them all'
    [ "$(of 0)" != "${cpus[0]}" ]
  fi
  rm -r job
  SLURM_CPUS_ON_NODE=2 run "${two[@]}" "$dlrun" -q --job-dir job --bind cores -n 2 -- sh -c "$show"
  [ "$(of 1)" = "${cpus[1]}" ]
}

@test "what the command says of itself is as without: exit codes, a missing command, one that cannot be executed" {
  run -7 "$dlrun" --bind cores -- sh -c 'exit 7'
  run -127 "$dlrun" --bind cores -- no-such-command
  touch plain
  run -126 "$dlrun" --bind cores -- ./plain
  run -139 "$dlrun" --bind cores -- sh -c 'kill -SEGV $$'
}

@test "bad values are refused; the plan and the written script name the way" {
  run -2 "$dlrun" --bind half -- true
  [ "$output" = "dlrun: --bind: 'half' is not a way to bind; allowed: none, cores, numa" ]
  DL_BIND=NUMA run -2 "$dlrun" -- true
  [ "$output" = "dlrun: DL_BIND: 'NUMA' is not a way to bind; allowed: none, cores, numa" ]
  [ "$("$dlrun" --bind numa --dry-run --json -- true | jq -r .bind)" = numa ]
  contains "$("$dlrun" --bind cores --dry-run -- true)" '^bound to +cores'
  run -2 "$top_builddir/launcher/bind/dl-bind" cores 0 1
  contains "$output" 'is started by dl-agent'
}
