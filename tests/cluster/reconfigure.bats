#!/usr/bin/env bats
# scontrol reconfigure. Up to 23.02 slurmctld reads its files again; from 23.11 on a new slurmctld takes the place of the
# running one, which goes on if the new one does not start.
# shellcheck disable=SC2016  # expanded by the shells of jobs
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup_file() { cluster_up --nodes 2 --gpus-per-node 2; }
teardown_file() { cluster_down; }
setup() {
  cluster_setup
  toml=$DL_SANDBOX_DIR/etc/dl.toml
  kept_toml=$(cat "$toml"; echo)
}
teardown() {
  printf '%s' "$kept_toml" >"$toml"
  end_service
  cluster_teardown
}

# The sandbox keeps its slurmctld in the foreground. Here it is a service of the system's, as on a cluster.
as_service() {
  dl_sandbox daemon stop slurmctld
  on_login env -i PATH="$PATH:/usr/sbin" SLURM_CONF="$DL_SANDBOX_DIR/etc/slurm.conf" slurmctld
  touch service
  wait_for 20 "slurmctld answers" controller_answers
}
end_service() {
  [[ -e service ]] || return 0
  on_login scontrol shutdown slurmctld || true
  wait_for 20 "slurmctld has ended" eval '! controller_answers'
  wait_for 20 "slurmctld is gone" no_controller
  rm -f service
  dl_sandbox daemon start slurmctld
  wait_for 20 "slurmctld answers" controller_answers
  wait_nodes idle 30
}
no_controller() { ! on_login sh -c 'pgrep -x slurmctld --ns $$ --nslist net' >/dev/null; }
said() { cat "$BATS_TEST_TMPDIR/submit.err"; }
log() { cat "$DL_SANDBOX_DIR/log/slurmctld.log"; }

# bats test_tags=versions
@test "a broken dl.toml does not cost a running slurmctld its configuration at a reconfigure" {
  printf '%s\n[defaults]\nframework = "mpi"\n' "$kept_toml" >"$toml"
  as_service
  submit --dl-learners=1 --wrap true
  assert_contains "$(said)" 'dl: understood as mpi, 1 learner'
  running=$(submit --wrap 'sleep 20')
  wait_state "$running" RUNNING 20
  echo '[defaults' >"$toml"
  if slurm_at_least 23.11; then
    run on_login scontrol reconfigure
    [ "$status" -ne 0 ]
    assert_contains "$(log)" 'dl: .*dl.toml:1: '
    assert_contains "$(log)" 'dl: the reconfigure is refused: the slurmctld that runs goes on with the configuration it has; mend the file, then'
  else
    on_login scontrol reconfigure
  fi
  wait_for 20 "slurmctld answers" controller_answers
  submit --dl-learners=1 --wrap true
  assert_contains "$(said)" 'dl: understood as mpi, 1 learner'
  # Mended, it is taken.
  printf '%s\n[defaults]\nframework = "jax"\n' "$kept_toml" >"$toml"
  on_login scontrol reconfigure
  wait_for 20 "slurmctld answers" controller_answers
  wait_for 10 "the new configuration is used" eval 'submit --dl-learners=1 --wrap true && grep -q "dl: understood as jax, 1 learner" "$BATS_TEST_TMPDIR/submit.err"'
  [ "$(job_state "$running")" = RUNNING ] || [ "$(job_state "$running")" = COMPLETED ]
}

@test "a slurmctld in the foreground outlives a reconfigure with a broken dl.toml" {
  echo '[defaults' >"$toml"
  sleep 1.1 # slurmctld looks at the file once a second
  on_login scontrol reconfigure
  wait_for 20 "slurmctld answers" controller_answers
  job=$(submit --wrap true)
  wait_state "$job" COMPLETED 30
}

# bats test_tags=versions
@test "a job of dlrun goes on over reconfigures and a restart of slurmctld" {
  printf '#!/bin/bash\ndlrun -- sh -c "$@"\necho "dlrun ended with $?"\n' >shell.sh
  job=$(submit --output=out --dl-framework=generic --dl-learners=4 --dl-gpus=1 shell.sh 'for i in $(seq 80); do sleep 0.1; done; echo done')
  wait_state "$job" RUNNING 20
  on_login scontrol reconfigure
  wait_for 20 "slurmctld answers" controller_answers
  sleep 1 # it answers before it has started itself anew, and does not tell when it has
  on_login scontrol reconfigure
  # slurmctld 26.05.5 forgets a SIGTERM that comes while it starts itself anew for a reconfigure.
  wait_for 20 "slurmctld answers" controller_answers
  sleep 1 # as above
  dl_sandbox daemon stop slurmctld
  dl_sandbox daemon start slurmctld
  wait_for 20 "slurmctld answers" controller_answers
  wait_state "$job" COMPLETED 60
  [ "$(grep -c '^\[[0-3]\] done' out)" -eq 4 ]
  assert_contains "$(cat out)" 'dlrun ended with 0'
}

# dlrun_script: go.sh runs a learner of the shell's words that sbatch hands it.
dlrun_script() { printf '#!/bin/bash\ndlrun -- sh -c "$@"\necho "dlrun ended with $?"\n' >go.sh; }
# break_toml: the file as it is after a slip of the administrator's; the running slurmctld has read the one before.
break_toml() { printf '%s\n[launcher]\ngrase = 30\n' "$kept_toml" >"$toml"; }
waits_for_the_mend() { [[ $(job_field "$1" Comment) == *'reason='*'dl.toml:'*"$2"* ]]; }

@test "a job that meets a typo in dl.toml waits in the queue until the file is mended" {
  dlrun_script
  break_toml
  job=$(submit --comment=mine --open-mode=append --output=out --dl-framework=generic --dl-learners=1 go.sh 'echo done')
  wait_for 30 "the comment says why" waits_for_the_mend "$job" "waits until the file is mended"
  wait_state "$job" PENDING 60
  assert_contains "$(job_field "$job" Comment)" "^mine \| dl:PENDING .*dl.toml:[0-9]+: launcher.grase: .*allowed: "
  assert_contains "$(cat out)" 'dlrun: .*dl.toml:[0-9]+: launcher.grase: .*; the job waits until the file is mended, and is tried again in 5 minutes'
  [ "$(grep -c 'dlrun ended' out)" -eq 0 ]
  printf '%s' "$kept_toml" >"$toml"
  wait_for 30 "it has left its nodes" in_state "$job" PENDING
  sleep 2 # a node takes no job that begins in the second in which it ended there
  on_login scontrol update JobId="$job" StartTime=now+2
  wait_state "$job" COMPLETED 60
  assert_contains "$(cat out)" '^done$'
}

# bats test_tags=versions
@test "a job that has run before goes on with the settings that it ran with when it meets a typo in dl.toml" {
  printf '%s\n[launcher]\njob_dir = "of-%%j"\nloop_guard = 7\n' "$kept_toml" >"$toml"
  dlrun_script
  job=$(submit --requeue --open-mode=append --output=out --dl-framework=generic --dl-learners=1 go.sh \
    'if [ -e ran ]; then echo again; else touch ran; sleep 60; fi')
  wait_for 30 "it has run" test -e ran
  [ -s "of-$job/site.toml" ]
  break_toml
  on_login scontrol requeue "$job"
  wait_state "$job" PENDING 60
  sleep 2 # a node takes no job that begins in the second in which it ended there
  on_login scontrol update JobId="$job" StartTime=now+2
  wait_state "$job" COMPLETED 60
  assert_contains "$(cat out)" 'dlrun: .*dl.toml:[0-9]+: launcher.grase: .*; the job goes on with the settings that it ran with before'
  assert_contains "$(cat out)" '^again$'
  [ ! -e "dl-$job" ]
  assert_contains "$(cat "of-$job/site.toml")" 'loop_guard = 7'
}

@test "with a typo in dl.toml a job that may not be requeued goes on with built-in settings, one that waited too often is held" {
  break_toml
  dlrun_script
  job=$(submit --no-requeue --output=out --dl-framework=generic --dl-learners=1 go.sh 'echo done')
  wait_state "$job" COMPLETED 60
  assert_contains "$(cat out)" 'dl.toml:[0-9]+: launcher.grase: .*; the job may not be put back into the queue \(--no-requeue\), and goes on with the built-in settings'
  assert_contains "$(cat out)" '^done$'
  # Twelve restarts of Slurm's, without their hours.
  mkdir bin
  printf '#!/bin/sh\nPATH=%s\nif [ "$1" = show ]; then scontrol "$@" | sed "s/Restarts=[0-9]*/Restarts=12/"; else exec scontrol "$@"; fi\n' \
    "$PATH" >bin/scontrol
  chmod +x bin/scontrol
  sed -i '2i PATH=$PWD/bin:$PATH' go.sh
  job=$(submit --output=held --dl-framework=generic --dl-learners=1 go.sh 'echo done')
  wait_for 60 "it is held" eval '[[ $(job_field "$job" Reason) == *[hH]eld* ]]'
  assert_contains "$(job_field "$job" Comment)" 'dl:HALTED .*dl.toml:[0-9]+: .*put back 12 times and is held now: mend the file, then dlctl resume'
  # Where a person looks on, or runs outside of Slurm, it ends at once.
  run on_login dlrun --learners 1 -- true
  [ "$status" -eq 2 ]
  assert_contains "$output" 'dlrun: .*dl.toml:[0-9]+: launcher.grase: '
  printf '%s' "$kept_toml" >"$toml"
  wait_state "$job" PENDING 60
  on_login dlctl resume "$job"
  wait_state "$job" COMPLETED 60
  assert_contains "$(cat held)" '^done$'
}

# own_folder: the site's own folder, which it names in dl.toml.
own_folder() {
  mkdir entries
  printf 'summary = "of the site"\n' >entries/ours.toml
  printf 'summary = "of the site"\n' >entries/other.toml
  printf '%s' "$kept_toml" | sed "s|^catalogue = \[\(.*\)\]|catalogue = [\1, \"$PWD/entries\"]|" >"$toml"
  grep -q "$PWD/entries" "$toml"
}

@test "a broken entry of the catalogue fails no job: others go on, its own waits until it is mended" {
  own_folder
  dlrun_script
  sleep 1.1 # slurmctld looks at the files once a second
  theirs=$(submit -H --no-requeue --output=theirs --dl-framework=other --dl-learners=1 go.sh 'echo done')
  mine=$(submit -H --no-requeue --output=mine --dl-framework=ours --dl-learners=1 go.sh 'echo done')
  printf 'sumary = "a slip"\n' >entries/ours.toml
  on_login scontrol release "$theirs" "$mine"
  wait_state "$theirs" COMPLETED 60
  assert_contains "$(cat theirs)" 'dlrun: .*ours.toml:1: sumary: .*; the job goes on without that entry of the catalogue'
  wait_for 30 "it waits" eval '[[ $(cat mine) == *"waits up to 10 minutes for the file to be mended"* ]]'
  assert_contains "$(cat mine)" 'ours.toml:1: sumary: .*may not be put back into the queue \(--no-requeue\)'
  printf 'summary = "of the site"\n' >entries/ours.toml
  wait_state "$mine" COMPLETED 60
  assert_contains "$(cat mine)" '^done$'
}
