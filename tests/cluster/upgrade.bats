#!/usr/bin/env bats
# An upgrade of Slurm and of slurm-dl under jobs that run. A machine has the files of one Slurm (tests/packaging/exchange replaces them, in a root of
# its own), so what Slurm checks is done to it: the plugins are replaced by a build that is stamped for another Slurm and another
# slurm-dl, which this Slurm would refuse if they did not tell it its own version, and the daemons are started anew.
# Everything else here runs on 24.11, too (tests/versions).
# shellcheck disable=SC2016  # expanded by the shells of jobs
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

kJobs=50
setup_file() {
  export DL_UPGRADE_PLUGINS=/tmp/dlsb-upgrade-plugins.$$
  rm -rf "$DL_UPGRADE_PLUGINS" && mkdir -m 755 "$DL_UPGRADE_PLUGINS"
  lay_plugins
  # Each job has four processes or more on its node, two of them Slurm's own.
  cluster_up --nodes 4 --cpus-per-node 16 --gpus-per-node 2 --plugins "$DL_UPGRADE_PLUGINS"
}
teardown_file() {
  cluster_down
  rm -rf "$DL_UPGRADE_PLUGINS"
}
setup() {
  cluster_setup
  [[ -e $DL_UPGRADE_PLUGINS/spank_dl.so ]] || skip "the plugins are not built"
  plugstack=$DL_SANDBOX_DIR/etc/plugstack.conf
  cp "$plugstack" plugstack.before
}
teardown() {
  stop_policyd
  [[ ! -e $BATS_TEST_TMPDIR/dl.toml ]] || cp "$BATS_TEST_TMPDIR/dl.toml" "$DL_SANDBOX_DIR/etc/dl.toml"
  [[ ! -e plugstack.before ]] || cp plugstack.before "$plugstack"
  lay_plugins
  cluster_teardown
}

# lay_plugins: those of this build.
lay_plugins() {
  local from
  from=$(dirname "$(find "$stage" -name spank_dl.so -print -quit)") || return 0
  [[ -e $from/spank_dl.so ]] || return 0
  rm -rf "${DL_UPGRADE_PLUGINS:?}"/*
  cp -r "$from"/{spank_dl.so,job_submit_dl.so,slurm-dl} "$DL_UPGRADE_PLUGINS/"
}
# stamp FILE SLURM RELEASE: writes into a plugin that it was built for another Slurm (0x180b05), and is of another slurm-dl.
stamp() {
  python3 - "$@" <<'END'
import subprocess, sys
path, slurm, release = sys.argv[1:]
said = lambda *words: subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()
symbols = {line.split()[2]: int(line.split()[0], 16) for line in said("nm", "-D", "--defined-only", path)}
parts = [[int(word, 16) for word in line.split()[1:5]] for line in said("readelf", "-lW", path) if line.split()[:1] == ["LOAD"]]
def place(name):
    address = symbols[name]
    return next(address - virtual + offset for offset, virtual, _, size in parts if virtual <= address < virtual + size)
with open(path, "r+b") as file:
    file.seek(place("plugin_version"))
    file.write(int(slurm, 16).to_bytes(4, sys.byteorder))
    file.seek(place("dl_release"))
    old = file.read(16).split(b"\0")[0]
    assert len(release) <= len(old)
    file.seek(place("dl_release"))
    file.write(release.encode() + b"\0")
END
}
start_policyd() {
  local before
  [[ -x $stage/sbin/dlpolicyd ]] || return 0 # built without libslurm
  before=$(starts_of_daemon)
  dl_sandbox exec -- bash -c 'echo $$ >'"$PWD"'/daemon.pid; exec "$@"' -- "$stage/sbin/dlpolicyd" --pidfile "$PWD/lock" \
    --metrics-file "$PWD/metrics.prom" >>daemon.log 2>&1 3>&- &
  wait_started "$before"
  wait_rounds 1
}
stop_policyd() { [[ ! -e daemon.pid ]] || { kill_process -TERM "$(cat daemon.pid)" 2>/dev/null; rm -f daemon.pid; } || true; }
release_of_slurm() { slurm_version | cut -d. -f1-2; }
count_in_state() { on_login squeue -h -t all -o '%T %j' | grep -c "^$1 upgrade-" || true; }
all_in_state() { (($(count_in_state "$1") == kJobs)); }
controller_log() { cat "$DL_SANDBOX_DIR/log/slurmctld.log"; }
restart_all() {
  local daemon
  for daemon in slurmctld slurmd@n1 slurmd@n2 slurmd@n3 slurmd@n4; do dl_sandbox daemon stop "$daemon"; done
  "$@"
  for daemon in slurmctld slurmd@n1 slurmd@n2 slurmd@n3 slurmd@n4; do dl_sandbox daemon start "$daemon"; done
  wait_controller 60
}
no_node_drained() {
  local said
  said=$(on_login sinfo -h -N -o '%N %T %E')
  ! grep -E 'drain|down|fail' <<<"$said" || return 1
}
# What an upgrade brings: plugins that were built for another Slurm, and no part for the one that runs.
other_plugins() {
  local file
  lay_plugins
  mv "$DL_UPGRADE_PLUGINS/slurm-dl/$(release_of_slurm)" "$DL_UPGRADE_PLUGINS/slurm-dl/29.11"
  for file in spank_dl.so job_submit_dl.so slurm-dl/29.11/job_submit.so; do stamp "$DL_UPGRADE_PLUGINS/$file" 1d0b05 0.0.9; done
}

@test "a Slurm refuses a plugin that is stamped for another one and does not tell it its own version" {
  echo 'const char plugin_name[] = "old", plugin_type[] = "spank"; unsigned plugin_version = 0x1d0b05; int slurm_spank_init(void* s, int n, char** a) { return 0; }' >old.c
  cc -shared -fPIC -o old.so old.c 2>/dev/null
  echo "required $PWD/old.so" >"$plugstack"
  run on_login sbatch --wrap true
  [ "$status" -ne 0 ]
  assert_contains "$output" 'Incompatible (Slurm )?plugin.* version|Incompatible plugin version'
}

# bats test_tags=versions
@test "plugins for another Slurm and the restart of all daemons lose none of 50 jobs that run and drain no node; without its part slurmctld goes on, and says so" {
  local i job
  cp "$DL_SANDBOX_DIR/etc/dl.toml" "$BATS_TEST_TMPDIR/"
  printf '[tenants.bio]\nquota = 3\n' >>"$DL_SANDBOX_DIR/etc/dl.toml"
  start_policyd
  printf '#!/bin/bash\necho "$SLURM_RESTART_COUNT" >"ran.$SLURM_JOB_ID"\nwhile [ ! -e go ]; do sleep 1; done\necho ended >>"ran.$SLURM_JOB_ID"\n' >plain.sh
  printf '#!/bin/bash\necho "$SLURM_RESTART_COUNT" >"ran.$SLURM_JOB_ID"\ndlrun -- sh -c "while [ ! -e go ]; do sleep 1; done" && echo ended >>"ran.$SLURM_JOB_ID"\n' >ours.sh
  # A job of ours that starts its step after the upgrade, with plugins other than those with which it began.
  printf '#!/bin/bash\necho "$SLURM_RESTART_COUNT" >"ran.$SLURM_JOB_ID"\nwhile [ ! -e go ]; do sleep 1; done\nsrun sh -c "echo world=\\$WORLD_SIZE rank=\\$RANK" && echo ended >>"ran.$SLURM_JOB_ID"\n' >step.sh
  for ((i = 0; i < kJobs; i++)); do
    case $((i % 10)) in
      0) job=$(submit --job-name="upgrade-$i" --dl-framework=generic --dl-learners=1 ours.sh) ;;
      1) job=$(submit --job-name="upgrade-$i" --output=step.%j --dl-framework=pytorch --dl-learners=2 step.sh) ;;
      *) job=$(submit --job-name="upgrade-$i" --output=/dev/null --mem-per-cpu=10 plain.sh) ;;
    esac
  done
  wait_for 120 "all jobs run" all_in_state RUNNING
  wait_for 60 "all scripts have begun" eval '(($(ls ran.* | wc -l) == kJobs))'
  [ "$(on_login "$stage/bin/dlctl" doctor --slurm 29.11 --only plugins --json | jq -r '.[0].file')" = "$DL_UPGRADE_PLUGINS/slurm-dl/29.11/job_submit.so" ]

  stop_policyd
  restart_all other_plugins
  start_policyd
  wait_for 60 "all nodes answer" eval '! on_login sinfo -h -N -o %T | grep -q "\*"'
  no_node_drained
  [ "$(count_in_state RUNNING)" -eq "$kJobs" ]
  assert_contains "$(controller_log)" "dl: .*/slurm-dl/$(release_of_slurm)/job_submit.so is not there: slurmctld and the jobs that it has go on, but it refuses new jobs until"
  run submit --wrap true
  [ "$status" -ne 0 ]
  assert_contains "$output" "dl: no job can be accepted at the moment: the controller has no part of slurm-dl for Slurm $(release_of_slurm)"
  run on_login "$stage/bin/dlctl" doctor --only plugins
  [ "$status" -eq 1 ]
  assert_contains "$output" "^wrong  plugins: .*/slurm-dl/$(release_of_slurm)/job_submit.so: is not there: slurmctld of Slurm $(release_of_slurm) starts, and refuses every new job"
  # As the package for this Slurm brings it: no restart.
  cp -r "$(dirname "$(find "$stage" -name job_submit.so -print -quit)")" "$DL_UPGRADE_PLUGINS/slurm-dl/"
  sleep 2 # it looks for the file once a second
  # A new job of ours, and one that is plain, with plugins of which Slurm believes that they are its own.
  job=$(submit --output=new --dl-framework=pytorch --dl-learners=2 --wrap 'srun sh -c "echo world=\$WORLD_SIZE"')
  touch go
  wait_state "$job" COMPLETED 120
  [ "$(grep -c '^world=2$' new)" -eq 2 ]
  wait_for 180 "all jobs have ended" all_in_state COMPLETED
  [ "$(cat ran.* | grep -c ended)" -eq "$kJobs" ]
  [ "$(cat ran.* | grep -cE '^[1-9]')" -eq 0 ] # none was started twice
  [ "$(cat step.* | grep -c '^world=2 rank=[01]$')" -eq $((kJobs / 5)) ]
  no_node_drained
}

@test "a job of ours on nodes that do not load spank_dl.so goes back into the queue with a sentence, and is held in the end; a plain one runs" {
  local ours plain i
  printf '#!/bin/bash\ndlrun -- sh -c "echo learner"\necho "dlrun ended with $?"\n' >ours.sh
  ours=$(submit --hold --open-mode=append --output=out --comment=mine --dl-framework=generic --dl-learners=1 ours.sh)
  plain=$(submit --hold --wrap true)
  echo "optional /nowhere/spank_dl.so" >"$plugstack"
  on_login scontrol release "$ours" "$plain"
  wait_state "$plain" COMPLETED 30
  for i in 1 2 3; do
    wait_for 60 "it was put back" eval '[[ $(job_field "$ours" Comment) == *"(time $i of 3)"* ]]'
    wait_state "$ours" PENDING 60
    [ "$i" != 3 ] || break
    sleep 2 # a node takes no job that begins in the second in which it ended there
    on_login scontrol update JobId="$ours" StartTime=now+2
  done
  assert_contains "$(job_field "$ours" Comment)" '^mine \| dl:HALTED .*spank_dl.so does not run on n[1-4] \(time 3 of 3\), so that programs there would lack what --dl-\* flags give them'
  assert_contains "$(cat out)" 'dlrun: spank_dl.so does not run on n[1-4] \(time 1 of 3\).*; the job waits, and is tried again in 2 minutes'
  assert_contains "$(cat out)" "the job is held now: when it is mended, dlctl resume $ours"
  [ "$(grep -c 'learner\|dlrun ended' out)" -eq 0 ]
  no_node_drained
  cp plugstack.before "$plugstack"
  sleep 2 # a node takes no job that begins in the second in which it ended there
  on_login "$stage/bin/dlctl" resume "$ours"
  wait_state "$ours" COMPLETED 60
  assert_contains "$(cat out)" '^learner$'
}
