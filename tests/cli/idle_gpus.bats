#!/usr/bin/env bats
# GPUs that a learner holds and does not use: its owner is told. A double of NVIDIA's management library (tests/lib/nvml_double.c)
# says how much they are used: what it reads from a file is what the agents' samplers see. Without Slurm.
# shellcheck disable=SC2016,SC2154  # much here is expanded by the shells of learners; dlrun_setup sets variables
bats_require_minimum_version 1.5.0
# shellcheck source=tests/cli/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
setup_file() { nvml_double_build; }
setup() {
  dlrun_setup
  printf '[idle]\nafter = "2s"\nbelow = 5\n' >>dl.toml
  nvml_double_setup
}
# says PATTERN SECONDS: until dlrun has said it.
says() {
  local i
  for ((i = 0; i < $2 * 10; i++)); do
    ! grep -qE -- "$1" said || return 0
    sleep 0.1
  done
  cat said >&2
  return 1
}
# in_background OPTIONS…: dlrun with a learner that waits until there is a file named over.
in_background() {
  "$dlrun" --job-dir job "$@" -- sh -c 'until [ -e over ]; do sleep 0.1; done' >said 2>&1 3>&- &
}

@test "the learner whose GPUs are not used is named, in the output, in dlctl status and as an event; and it is told when they are used again" {
  echo 97 97 0 4 >uses
  in_background -n 2 -g 2
  says 'dlrun: warning: learner 1 has not used its 2 GPUs for [0-9]+s$' 15
  run "$top_builddir/launcher/ctl/dlctl" status job
  contains "$output" '^1 .* learner 1 has not used its 2 GPUs for [0-9]+s'
  [ "$(grep -c 'not used' said)" = 1 ]
  echo 97 97 0 5 >uses
  for _ in {1..120}; do
    ! grep -q 'uses its 2 GPUs again' job/events.jsonl || break
    sleep 0.1
  done
  touch over
  wait
  contains "$(jq -r 'select(.learner == null) | .reason' job/events.jsonl)" '^learner 1 has not used its 2 GPUs for'
  contains "$(jq -r 'select(.learner == null) | .reason' job/events.jsonl)" '^learner 1 uses its 2 GPUs again$'
  [ "$(grep -c 'not used' said)" = 1 ]
}

# One line tells of those that are idle in the same second (unit/supervise_idle_gpus.cpp); on a busy machine learners begin seconds apart.
@test "of several that are idle each is told of once; no sampler outlives its learner, and none counts as left behind" {
  echo 0 0 0 >uses
  in_background -n 3 -g 1 -r 1
  for rank in 0 1 2; do says "warning: .*learners? [(0-9, ]*$rank\b.* not used " 60; done
  touch over
  wait
  [ "$(grep 'not used' said | grep -oE 'learners? [(0-9, ]+' | grep -oE '[0-9]+' | sort | xargs)" = '0 1 2' ]
  run jq -r .reason job/events.jsonl
  run ! contains "$output" 'left'
  run pgrep -f "$top_builddir/launcher/agent/.*dl-agent"
  [ -z "$output" ] || for pid in $output; do [[ $(readlink "/proc/$pid/cwd") != "$PWD" ]]; done
}

@test "what cannot be measured is not called idle: no library, a GPU without a number, GPUs that may be others', a site that says never" {
  # try NAME USES GPUS [VARIABLE=VALUE...]: a learner that does nothing, all at the same time; what dlrun said: NAME.said
  try() {
    local name=$1 gpus=$3
    echo "$2" >"$name.uses"
    env NVML_DOUBLE="$PWD/$name.uses" "${@:4}" "$dlrun" --job-dir "$name" -g "$gpus" -- sh -c 'until [ -e over ]; do sleep 0.2; done' >"$name.said" 2>&1 3>&- &
  }
  sed 's/^after.*/after = 0/' dl.toml >never.toml
  try measured '0 0 0' 2 CUDA_VISIBLE_DEVICES=GPU-2,GPU-0
  try number '0 x' 2
  try whose '0 0 0' 2
  try library 0 1 LD_LIBRARY_PATH= CUDA_VISIBLE_DEVICES=0
  try never 0 1 DL_CONFIG="$PWD/never.toml"
  try below '5 0' 2
  wait_grep 'learner 0 has not used its 2 GPUs' measured.said
  sleep 3 # the others began later, and nothing is said of them
  touch over
  wait
  contains "$(cat measured.said)" 'learner 0 has not used its 2 GPUs'
  run grep -l 'dlrun: needs' ./*.said # none was refused for want of GPUs
  [ -z "$output" ]
  run cat number.said whose.said library.said never.said below.said
  [[ $output != *"not used"* ]] || { echo "$output"; return 1; }
}
