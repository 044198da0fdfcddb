#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Full disks, without Slurm: under the output, the job directory and the checkpoints.
# shellcheck disable=SC2016  # much here is expanded by the shells of learners
bats_require_minimum_version 1.5.0
# shellcheck source=tests/cli/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
setup() {
  dlrun_setup
}
teardown() {
  local left
  mapfile -t left < <(jobs -pr)
  if ((${#left[@]} > 0)); then kill "${left[@]}"; fi
  [ -z "${small:-}" ] || umount -l "$small"
}
# small_disk: a file system of 4 MiB in the folder small.
small_disk() {
  [ "$(id -u)" -eq 0 ] || skip "only root mounts a small file system"
  mkdir small
  mount -t tmpfs -o size=4m dl-small small 2>/dev/null || skip "a tmpfs cannot be mounted here"
  small=$PWD/small
}
# leave N: fills it but for so many blocks of 64 KiB.
leave() { dd if=/dev/zero of=small/filler bs=64k count=$((64 - $1)) status=none || true; }

@test "output that cannot be written (a full disk) is said at once and at the end, and does not change the exit status" {
  [ -c /dev/full ] || skip "no /dev/full"
  "$dlrun" --job-dir job -n 2 -- sh -c 'echo began; until [ -e go ]; do sleep 0.1; done; exit 3' >/dev/full 2>said 3>&- &
  pid=$!
  wait_grep '^dlrun: standard output: No space left on device; it goes on, and what is missing there is in the job directory$' said
  touch go
  status=0
  wait "$pid" || status=$?
  [ "$status" -eq 3 ]
  contains "$(tail -n 1 said)" '^dlrun: standard output: No space left on device: what is missing there is in the job directory$'
  [ "$(grep -c 'standard output' said)" -eq 2 ]
  contains "$(tail -n 1 job/events.jsonl)" '"FAILED".*standard output: No space left on device'
  [ "$(cat job/logs/attempt-1/learner-1.log)" = began ]
  # What dlrun says goes to standard error, so that nobody but the record can tell.
  "$dlrun" --job-dir other -n 2 -- true >out 2>/dev/full
  contains "$(tail -n 1 other/events.jsonl)" '"COMPLETED".*standard error: No space left on device'
  "$dlrun" -q --job-dir quiet -- echo hello >/dev/full 2>said
  [ ! -s said ]
}

@test "a disk that is full under the job directory: nothing begins there, or what is missing is said, and the program runs" {
  small_disk
  dd if=/dev/zero of=small/filler bs=4k status=none || true
  run "$dlrun" --job-dir small/job -n 1 -- touch ran
  [ "$status" -eq 73 ]
  contains "$output" '^dlrun: .*small/job.*No space left on device; allowed: .*--job-dir=PATH'
  [ ! -e ran ]
  leave 8
  run "$dlrun" --job-dir small/job -n 1 -- sh -c 'head -c 2000000 /dev/zero | tr "\0" x; exit 5'
  [ "$status" -eq 5 ]
  contains "$output" 'small/job/logs/.*: No space left on device; it goes on, but its log lacks what'
  contains "$(tail -n 1 <<<"$output")" '^dlrun: 1 log is incomplete: '
}

@test "a disk that is full under the checkpoints: the learner is told, what was committed stays, and goes on where there is room" {
  [ -x "$learner" ] || skip "built without HDF5"
  small_disk
  run "$dlrun" --job-dir first -n 1 --checkpoint small/ck,every=10steps -- "$learner" 20 5
  [ "$status" -eq 0 ]
  dd if=/dev/zero of=small/filler bs=4k status=none || true
  run "$dlrun" --job-dir second -n 1 --checkpoint small/ck,every=10steps -- "$learner" 60 5
  echo "$output" >&2
  contains "$output" 'No space left on device'
  rm small/filler
  run "$dlrun" --job-dir third -n 1 --checkpoint small/ck,every=10steps -- "$learner" 60 5
  [ "$status" -eq 0 ]
  contains "$output" 'starts at train step [1-9]'
}
