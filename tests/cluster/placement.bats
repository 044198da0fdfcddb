#!/usr/bin/env bats
# Which nodes a job gets: packed and spread on nodes that are partly taken, with and without a topology; gangs; spares.
# shellcheck disable=SC2016,SC2030,SC2031  # some is expanded by the shells of jobs
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

# Four nodes of four GPUs.
setup_file() {
  local toml=$BATS_FILE_TMPDIR/dl.toml
  cat >"$toml" <<'END'
[nodes]
gpus_per_node = 4
[tiers.guaranteed]
partition = "batch"
[tiers.borrow]
partition = "batch"
[tenants.vision]
quota = 16
END
  [[ ! -d $stage/share/slurm-dl/frameworks.d ]] ||
    printf '[frameworks]\ncatalogue = ["%s"]\n' "$(readlink -f "$stage/share/slurm-dl/frameworks.d")" >>"$toml"
  cluster_up --nodes 4 --gpus-per-node 4 --cpus-per-node 8 --dl-toml "$toml" --conf Licenses=dl_vision:16
}
teardown_file() { cluster_down; }
setup() { cluster_setup; }
teardown() {
  [[ -z ${DL_NO_CLUSTER:-} ]] || return 0
  on_login scontrol delete ReservationName=spares >/dev/null 2>&1 || true
  [[ ! -e daemon.pid ]] || kill_process "$(cat daemon.pid)" 2>/dev/null || true
  cluster_teardown
  wait_for 20 "all GPUs are free" nothing_runs
}
nothing_runs() { [[ -z $(on_login squeue -h -t RUNNING,COMPLETING -o %i) ]]; }

# taken GPUS…: so many GPUs of n1, n2, … are in use.
taken() {
  local node=0 gpus job
  for gpus; do
    ((++node, gpus > 0)) || continue
    job=$(submit -A vision -o /dev/null -N1 -n1 --mem=1 -w "n$node" --gpus-per-node="$gpus" --wrap 'sleep 300')
    wait_state "$job" RUNNING 20
  done
}
# learners N OPTIONS…: N learners of one GPU each, which sleep.
learners() { submit -A vision -o /dev/null --mem-per-cpu=1 --dl-framework=generic --dl-learners="$1" --dl-gpus=1 "${@:2}" --wrap 'sleep 300'; }
# end JOB: until its GPUs are free again.
end() { on_login scancel "$1" && wait_state "$1" CANCELLED 20; }
# where JOB: the GPUs that a running job holds, by node: "n3:2 n4:4".
where() {
  wait_state "$1" RUNNING 20
  on_login scontrol --details show job "$1" | sed -nE 's/^ *Nodes=([^ ]+) .* GRES=gpu:([0-9]+).*/\1 \2/p' >held
  while read -r nodes gpus; do
    on_login scontrol show hostnames "$nodes" | sed "s/\$/:$gpus/"
  done <held | sort | paste -sd' '
}

# slurm_is FIRST LAST: the version of the Slurm that runs is one of these, or between them.
slurm_is() {
  local version
  version=$(on_login sbatch --version)
  printf '%s\n' "$1" "${version##* }" "$2" | sort --version-sort --check=quiet
}

@test "pack takes the fewest nodes that have room, and the one that it fills best" {
  taken 3 3 2 0
  job=$(learners 2)
  [ "$(where "$job")" = 'n3:2' ]
  end "$job"
  job=$(learners 6 --dl-placement=pack)
  [ "$(where "$job")" = 'n3:2 n4:4' ]
  [ "$(job_field "$job" Licenses)" = dl_vision:6 ]
}

@test "pack does not wait for a whole node where the GPUs are in pieces, unless it is told to" {
  taken 3 3 3 3
  job=$(learners 2)
  [ "$(where "$job" | wc -w)" = 2 ]
  job=$(learners 2 --nodes=1)
  assert_contains "$(job_field "$job" NumNodes)" '^1(-1)?$'
  wait_looked_at "$job" 20
}

@test "spread gives each learner a node, and as many learners to each where the user says how many nodes" {
  taken 3 2 0 0
  job=$(learners 4 --dl-placement=spread)
  [ "$(where "$job")" = 'n1:1 n2:1 n3:1 n4:1' ]
  [ "$(job_field "$job" Licenses)" = dl_vision:4 ]
  end "$job"
  job=$(learners 4 --dl-placement=spread --nodes=2)
  [[ $(where "$job") =~ ^n[1-4]:2\ n[1-4]:2$ ]]
  end "$job"
  job=$(learners 2:3 --dl-placement=spread)
  [ "$(where "$job" | tr ' ' '\n' | grep -c ':1$')" = 3 ]
}

@test "tasks that --ntasks-per-node adds are paid for" {
  # With one CPU for each task, Slurm from 25.11 on never starts it.
  job=$(submit -A vision -o /dev/null --mem-per-cpu=1 -n5 -N2 -c2 --ntasks-per-node=3 --gpus-per-task=1 --wrap 'sleep 60')
  if slurm_is 24.11.1 25.10; then held='n1:3 n2:2' paid=5; else held='n1:3 n2:3' paid=6; fi
  [ "$(where "$job")" = "$held" ]
  [ "$(job_field "$job" Licenses)" = "dl_vision:$paid" ]
}

@test "of two gangs that fit only one at a time, one runs whole and the other waits whole" {
  taken 4 4 0 0
  printf '#!/bin/bash\ndlrun --quiet -- sh -c '\''touch started.$SLURM_JOB_ID.$DL_RANK; sleep 6'\''\n' >gang.sh
  for number in 1 2; do
    submit -A vision -o "gang.$number" --mem-per-cpu=1 --dl-framework=generic --dl-learners=5 --dl-gpus=1 gang.sh >"id.$number" &
  done
  wait
  started() { find . -name "started.$1.*" | wc -l; }
  first=$(cat id.1) second=$(cat id.2)
  wait_for 20 "one of the gangs runs" eval 'in_state "$first" RUNNING || in_state "$second" RUNNING'
  in_state "$first" RUNNING || { first=$(cat id.2) second=$(cat id.1); }
  whole() { [ "$(started "$1")" = 5 ]; }
  wait_for 15 "all its learners run" whole "$first"
  [ "$(job_state "$second")" = PENDING ]
  [ "$(started "$second")" = 0 ]
  [ -z "$(on_login squeue -h -j "$second" -o %N)" ]
  wait_state "$first" COMPLETED 30
  wait_for 20 "all learners of the other run" whole "$second"
}

@test "dlctl quota tells how torn the free GPUs are, and a reservation keeps spares" {
  taken 3 2 0 0
  run on_login dlctl quota
  assert_contains "$output" '^gpu: 11 free on 4 nodes, at most 4 together, 27 % fragmentation$'
  on_login scontrol create reservation ReservationName=spares Nodes=n4 StartTime=now Duration=UNLIMITED Users=root Flags=IGNORE_JOBS
  counted() { [[ $(on_login dlctl quota --json | jq -c '.free[0] | [.gpus, .nodes, .most_on_node, .kept]') == "$1" ]]; }
  wait_for 40 "the reserved node's GPUs are kept" counted '[7,3,4,4]'
  job=$(learners 4)
  [ "$(where "$job")" = 'n3:4' ]
  job=$(learners 4)
  wait_looked_at "$job" 20 # 3 are free beside the spare node
  on_login scontrol delete ReservationName=spares
  [ "$(where "$job")" = 'n4:4' ]
}

@test "dlpolicyd lets a spread job run on the nodes that have room" {
  [[ -x $stage/sbin/dlpolicyd ]] || skip "built without libslurm"
  taken 4 4 0 0
  job=$(learners 4 --dl-placement=spread)
  wait_looked_at "$job" 20
  dl_sandbox exec -- bash -c 'echo $$ >'"$PWD"'/daemon.pid; exec "$@"' -- "$stage/sbin/dlpolicyd" --pidfile "$PWD/lock" \
    --state-file "$PWD/use.json" --metrics-file "$PWD/metrics.prom" --verbose >>daemon.log 2>&1 3>&- &
  assert_contains "$(where "$job")" '^n3:[1-3] n4:[1-3]$'
  wait_file metrics.prom '^dl_fragmentation\{gpu_type="gpu",learner_gpus="4"\} ' 5
  wait_file metrics.prom '^dl_leaf_switches 1$' 5
}

# From here on the cluster has a topology.
@test "with a topology, pack takes nodes of one switch, and dlpolicyd knows the switches" {
  printf 'SwitchName=s1 Nodes=n[1-2]\nSwitchName=s2 Nodes=n[3-4]\nSwitchName=top Switches=s[1-2]\n' >"$DL_SANDBOX_DIR/etc/topology.conf"
  echo TopologyPlugin=topology/tree >>"$DL_SANDBOX_DIR/etc/slurm.conf"
  dl_sandbox daemon stop slurmctld
  dl_sandbox daemon start slurmctld
  wait_nodes idle 30
  taken 2 0 0 0
  job=$(learners 8)
  [ "$(where "$job")" = 'n3:4 n4:4' ]
  end "$job"
  job=$(learners 2)
  [ "$(where "$job")" = 'n1:2' ]
  job=$(learners 2 --dl-placement=spread)
  [ "$(where "$job" | wc -w)" = 2 ]
  [[ -x $stage/sbin/dlpolicyd ]] || skip "built without libslurm"
  on_login "$stage/sbin/dlpolicyd" --once --pidfile "$PWD/lock" --state-file "$PWD/use.json" --metrics-file "$PWD/metrics.prom"
  assert_contains "$(cat metrics.prom)" '^dl_leaf_switches 2$'
}

# It goes on from the one before.
@test "topology.yaml with two topologies: pack takes nodes of one switch of the default one, and dlpolicyd knows the switches" {
  slurm_at_least 25.05 || skip "topology.yaml is read by Slurm 25.05 and later"
  sed -i '/^TopologyPlugin=/d' "$DL_SANDBOX_DIR/etc/slurm.conf"
  rm -f "$DL_SANDBOX_DIR/etc/topology.conf"
  cat >"$DL_SANDBOX_DIR/etc/topology.yaml" <<'YAML'
---
- topology: everywhere
  cluster_default: false
  flat: true
- topology: fat tree
  cluster_default: true
  tree:
    switches:
      - switch: top
        children: s[1-2]
      - switch: s1
        nodes: n[1,4]
      - switch: s2
        nodes: n[2-3]
YAML
  dl_sandbox daemon stop slurmctld
  dl_sandbox daemon start slurmctld
  wait_nodes idle 30
  assert_contains "$(on_login scontrol show topoconf)" 'topology: fat tree'
  taken 2 0 0 0
  job=$(learners 8)
  [ "$(where "$job")" = 'n2:4 n3:4' ]
  [[ -x $stage/sbin/dlpolicyd ]] || skip "built without libslurm"
  on_login "$stage/sbin/dlpolicyd" --once --pidfile "$PWD/lock" --state-file "$PWD/use.json" --metrics-file "$PWD/metrics.prom"
  assert_contains "$(cat metrics.prom)" '^dl_leaf_switches 2$'
}
