#!/usr/bin/env bats
# How sites configure Slurm: jobs that are suspended, gang scheduling, send_user_signal, PreemptExemptTime, no extern step,
# switches, configless nodes, a backup slurmctld. Learners are tests/lib/toy_learner.c, which says whether a train step
# was lost.
# shellcheck disable=SC2016  # expanded by the shells of jobs
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup_file() {
  local notice=PreemptParameters=send_user_signal
  slurm_at_least 23.02 || notice=SlurmctldParameters=preempt_send_user_signal
  cluster_up --nodes 3 --gpus-per-node 2 --grace 20 --conf PreemptMode=SUSPEND,GANG --conf SchedulerTimeSlice=5 \
    --conf SelectTypeParameters=CR_Core --conf PrologFlags=Alloc --conf $notice --conf PreemptExemptTime=00:00:04 \
    --conf 'PartitionName=shared Nodes=ALL PriorityTier=1 PreemptMode=SUSPEND OverSubscribe=FORCE:1 MaxTime=INFINITE'
}
teardown_file() { cluster_down; }
setup() {
  cluster_setup
  learner=$top_builddir/tests/lib/toy_learner
  [[ -x $learner ]] || skip "built without HDF5"
  conf=$DL_SANDBOX_DIR/etc/slurm.conf
  conf_now=$(cat "$conf")
  kept_toml=$(cat "$DL_SANDBOX_DIR/etc/dl.toml")
  printf '#!/bin/bash\ndlrun -- %s "$@"\necho "dlrun ended with $?"\n' "$learner" >train.sh
}
teardown() {
  printf '%s\n' "$kept_toml" >"$DL_SANDBOX_DIR/etc/dl.toml"
  rm -rf "$DL_SANDBOX_DIR/etc/frameworks.d"
  cluster_teardown
}

output() { cat "slurm-$1.out" 2>/dev/null; }
said() { cat "$BATS_TEST_TMPDIR/submit.err"; }
events() { jq -r 'select(.learner == null) | "\(.attempt) \(.state) \(.reason // "")"' "dl-$1/events.jsonl"; }
has_event() { events "$1" 2>/dev/null | grep -qE -- "$2"; }
wait_event() { wait_for "$3" "job $1 has the event '$2'" has_event "$1" "$2"; }
controller_answers() { on_login scontrol ping 2>/dev/null | grep -q "${1:-} is UP"; }
# nothing_lost JOB LEARNERS: in one attempt, without a word of anything lost, hung or slow.
nothing_lost() {
  [ "$(output "$1" | grep -c 'done: .* none lost')" -eq "$2" ]
  assert_contains "$(output "$1")" 'dlrun ended with 0'
  run grep -E 'hang|lost:|slow|no progress|did not answer|restart|not used|could not' "slurm-$1.out"
  [ -z "$output" ]
}

@test "a job that is suspended for longer than it may hang goes on where it was" {
  cp "$DL_SANDBOX_DIR/etc/dl.toml" short.toml && printf '[launcher]\nagent_timeout = "4s"\n' >>short.toml
  sed -i 's/dlrun/DL_CONFIG=short.toml &/' train.sh
  job=$(submit -N2 --dl-framework=generic --dl-learners=4 --dl-hang-timeout=6s --dl-checkpoint=ck train.sh 6 2000)
  starting=$(submit -w n3 --dl-framework=generic --dl-learners=2 --dl-checkpoint=ck2 train.sh 20 50)
  wait_file "slurm-$starting.out" '^dlrun: .* learners' 20
  on_login scontrol suspend "$starting" # before or after its agents have come
  wait_event "$job" PROCESSING 20
  wait_step "$job" 2 30 # from then on the hang timeout holds
  on_login scontrol suspend "$job"
  sleep 11 # more than dlrun waits for a learner (6 s), an agent (4 s) and a way to it (10 s)
  assert_contains "$(on_login dlctl status "$job")" 'suspended, by a person or for another job'
  run on_login dlctl pause "$job"
  [ "$status" -ne 0 ]
  assert_contains "$output" 'it is SUSPENDED, so it cannot save; let it go on first: scontrol resume'
  on_login scontrol resume "$job"
  on_login scontrol resume "$starting"
  wait_state "$job" COMPLETED 40
  nothing_lost "$job" 4
  wait_state "$starting" COMPLETED 40
  nothing_lost "$starting" 2
}

# Gang scheduling may also suspend a job in its first second; Slurm 24.11 then leaves srun waiting for its step for minutes,
# with slurm-dl or without, so this waits until all learners run.
@test "preempted by suspension (gang scheduling): it goes on when the other job has ended, and nothing is lost" {
  job=$(submit -p shared -N3 -n12 --dl-framework=generic --dl-learners=12 --dl-hang-timeout=3s --dl-checkpoint=ck,every=2s train.sh 80 50)
  wait_event "$job" PROCESSING 20
  other=$(submit -p batch -N3 -n12 --wrap 'sleep 6')
  wait_state "$job" SUSPENDED 20
  wait_state "$other" COMPLETED 30
  wait_state "$job" COMPLETED 40
  nothing_lost "$job" 12
}

@test "send_user_signal: the steps get --signal instead of SIGTERM; the job saves and goes back within its grace" {
  job=$(submit -p borrow -N3 --dl-framework=generic --dl-learners=6 --dl-gpus=1 --dl-checkpoint=ck train.sh 160 50)
  wait_event "$job" PROCESSING 20
  began=$SECONDS
  other=$(submit -p batch -N3 --gpus-per-node=2 --wrap true)
  wait_event "$job" 'PENDING preempted: saved at train step [0-9]+' 30
  wait_state "$other" COMPLETED 20
  ((SECONDS - began >= 3 && SECONDS - began < 18)) # after PreemptExemptTime, within the grace
  wait_event "$job" '^2 PROCESSING' 30
  assert_contains "$(cat "$DL_SANDBOX_DIR/log/slurmctld.log")" 'job_signal: 12 of running JobId='"$job"
  wait_completed "$job" 60
  [ "$(output "$job" | grep -c 'done: 160 counted, none lost')" -eq 6 ]
}

@test "without an extern step, and with switches asked for" {
  dl_sandbox daemon stop slurmctld
  printf '%s\n' "$conf_now" TopologyPlugin=topology/tree >"$conf"
  printf '%s\n' 'SwitchName=s1 Nodes=n[1-2]' 'SwitchName=s2 Nodes=n3' 'SwitchName=top Switches=s[1-2]' >"$DL_SANDBOX_DIR/etc/topology.conf"
  dl_sandbox daemon start slurmctld
  wait_for 20 "slurmctld answers" controller_answers
  job=$(submit --switches=1@1:00 -N2 --dl-framework=generic --dl-learners=4 --dl-gpus=1 --dl-checkpoint=ck,every=10steps train.sh 40 50)
  wait_state "$job" COMPLETED 40
  nothing_lost "$job" 4
  assert_contains "$(job_field "$job" NodeList)" '^n\[1-2\]$'
  assert_contains "$(on_login dlctl status "$job")" "^job +$job train.sh"
  [ -d "dl-$job" ]
}

# configless NODE: its slurmd gets Slurm's files from slurmctld. Its commands find munge's usual socket.
configless() {
  local address
  address=$(sed -nE 's/^SlurmctldHost=login\((.*)\)/\1/p' "$conf")
  dl_sandbox daemon stop "slurmd@$1"
  on_node "$1" sh -c 'mount -t tmpfs none /run && mkdir -p /run/munge /run/slurm && ln -s "$0" /run/munge/munge.socket.2' "$DL_SANDBOX_DIR/munge/socket"
  on_node "$1" env -i PATH="$PATH:/usr/sbin" HOME=/root slurmd -N "$1" --conf-server "$address"
  wait_for 10 "slurmd has its files" test -e "$DL_SANDBOX_DIR/nodes/$1/spool/conf-cache/plugstack.conf"
}

@test "configless nodes: the site's dl.toml is the one in Slurm's own folder, or the one that plugstack.conf names; else a word" {
  dl_sandbox daemon stop slurmctld
  { grep -v ^SlurmctldParameters= <<<"$conf_now"; echo "SlurmctldParameters=enable_configless$(sed -n 's/^SlurmctldParameters=/,/p' <<<"$conf_now")"; } >"$conf"
  dl_sandbox daemon start slurmctld
  wait_for 20 "slurmctld answers" controller_answers
  mkdir -p "$DL_SANDBOX_DIR/etc/frameworks.d"
  printf 'summary = "of this site"\nfamilies = ["ffdl"]\n' >"$DL_SANDBOX_DIR/etc/frameworks.d/ours.toml"
  printf '[launcher]\njob_dir = "ours-%%j"\n' >>"$DL_SANDBOX_DIR/etc/dl.toml"
  configless n1
  wait_nodes idle 30
  printf '#!/bin/bash\nsrun true && dlrun -- true\n' >ours.sh
  job=$(submit -w n1 --dl-framework=ours --dl-learners=1 ours.sh)
  wait_state "$job" COMPLETED,FAILED 30
  assert_contains "$(output "$job")" "dlrun: 1 learner of ours on n1; logs in $PWD/ours-$job/logs"
  # A node without a file of the site's at all.
  on_node n1 mount -t tmpfs none /etc/slurm
  printf '#!/bin/bash\ndlrun -- sh -c "echo DL_CONFIG=\\$DL_CONFIG"\n' >alone.sh
  job=$(submit -w n1 --dl-framework=generic --dl-learners=1 alone.sh)
  wait_state "$job" COMPLETED 30
  assert_contains "$(output "$job")" 'this host has no /etc/slurm/dl.toml, so the built-in settings hold: slurmctld hands out slurm.conf here'
  # plugstack.conf is handed out.
  local plugstack=$DL_SANDBOX_DIR/etc/plugstack.conf
  sed -i "s|spank_dl.so|& config=$DL_SANDBOX_DIR/etc/dl.toml|" "$plugstack"
  on_login scontrol reconfigure
  wait_for 20 "slurmctld answers" controller_answers
  wait_for 10 "the node has the new file" grep -q config= "$DL_SANDBOX_DIR/nodes/n1/spool/conf-cache/plugstack.conf"
  job=$(submit -w n1 --dl-framework=ours --dl-learners=1 ours.sh)
  wait_state "$job" COMPLETED,FAILED 30
  assert_contains "$(output "$job")" "dlrun: 1 learner of ours on n1; logs in $PWD/ours-$job/logs"
}

@test "a backup slurmctld takes over in mid-job: jobs, submissions, dlctl and a pause go on" {
  dl_sandbox daemon stop slurmctld
  local address
  address=$(sed -nE 's/^NodeName=n3 NodeAddr=([^ ]*) .*/\1/p' "$conf")
  { grep ^SlurmctldHost= <<<"$conf_now"; echo "SlurmctldHost=n3($address)"; grep -v ^SlurmctldHost= <<<"$conf_now"; echo SlurmctldTimeout=3; } >"$conf"
  dl_sandbox daemon start slurmctld
  wait_for 20 "slurmctld answers" controller_answers
  on_node n3 env -i PATH="$PATH:/usr/sbin" HOME=/root SLURM_CONF="$conf" slurmctld
  wait_for 20 "the backup answers" controller_answers n3
  for node in n2 n3; do # they learn of it
    dl_sandbox daemon stop slurmd@$node
    dl_sandbox daemon start slurmd@$node
  done
  wait_nodes idle 30
  job=$(submit -w n2,n3 --dl-framework=generic --dl-learners=4 --dl-gpus=1 --dl-checkpoint=ck train.sh 300 50)
  wait_event "$job" PROCESSING 20
  dl_sandbox daemon kill slurmctld
  assert_contains "$(on_login dlctl status "$job")" '^state +PROCESSING'
  other=$(submit -w n2 --dl-framework=generic --dl-learners=1 --wrap 'dlrun -- true')
  assert_contains "$(said)" 'dl: understood as generic, 1 learner'
  wait_state "$other" COMPLETED 40
  on_login dlctl pause "$job"
  on_login dlctl resume "$job"
  wait_state "$job" COMPLETED 200 # a backup looks at its queue when it has found its bearings
  [ "$(output "$job" | grep -c 'done: 300 counted, none lost')" -eq 4 ]
  wait_for 20 "the comment says COMPLETED" eval '[[ $(job_field '"$job"' Comment) == *dl:COMPLETED* ]]'
}
