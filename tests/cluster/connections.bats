#!/usr/bin/env bats
# The two ways between dlrun and its agents (launcher/supervise/lost_nodes.md), between two nodes of a real Slurm: each is cut
# by a packet filter, or reset, and the job trains on as long as one of them works.
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup_file() { cluster_up --nodes 3 --gpus-per-node 2; }
teardown_file() { cluster_down; }
setup() {
  cluster_setup
  learner=$top_builddir/tests/lib/toy_learner
  [[ -x $learner ]] || skip "built without HDF5"
  command -v nft >/dev/null || [[ -x /usr/sbin/nft ]] || skip "needs nft (package nftables)"
  printf '#!/bin/bash\ndlrun --learners 2 -- %s "$@"\necho "dlrun ended with $?"\n' "$learner" >train.sh
}
teardown() {
  let_pass
  cluster_teardown
  on_login scontrol reconfigure # all nodes register at once
  wait_nodes idle 60
}

# nft: rules of the node n2.
nft() { on_node n2 env PATH="$PATH:/usr/sbin:/sbin" nft "$@"; }
let_pass() { nft delete table inet test 2>/dev/null || true; }
# stop_packets RULE...: of what n2 and dlrun's port (a number) send one another.
stop_packets() {
  nft add table inet test
  for hook in input output; do
    nft add chain inet test $hook "{ type filter hook $hook priority 0; }"
    for rule in "$@"; do nft add rule inet test $hook "$rule"; done
  done
}
output() { cat "slurm-$1.out" 2>/dev/null; }
control() { jq -r .port "$(find . -path '*/control.json' | head -n 1)"; }
# begin: a job of two learners on n1 and n2, which has saved once. Sets $job and $port, dlrun's.
begin() {
  job=$(submit -N2 --gpus-per-node=2 --dl-framework=generic --dl-checkpoint=ck,every=10steps train.sh 120 60)
  wait_file "slurm-$job.out" '^\[0\] saved at train step 20' 30
  port=$(control)
}
# went_on JOB: no attempt but the first, and no train step lost or repeated.
went_on() {
  wait_state "$1" COMPLETED 40
  assert_contains "$(output "$1")" '^(\[0\] )?done: 120 counted, none lost'
  assert_contains "$(output "$1")" 'dlrun ended with 0'
  run grep -cE 'attempt [2-9] starts|was lost' "slurm-$1.out"
  [ "$output" = 0 ]
}

@test "only TCP is dropped for 1.5 s: the job trains on" {
  begin
  stop_packets "tcp dport $port drop" "tcp sport $port drop"
  sleep 1.5 # less than either kernel waits (2 s, 2.5 s)
  let_pass
  went_on "$job"
}

@test "only TCP is dropped for 5 s, longer than either kernel waits: the connection is taken up again" {
  begin
  stop_packets "tcp dport $port drop" "tcp sport $port drop"
  sleep 5 # dlrun's kernel waits 2 s and the agent's 2.5 s, from the next data on that they send
  let_pass
  went_on "$job"
  assert_contains "$(output "$job")" 'dlrun: learner 1 on n2: the connection to its agent was broken \(connection timed out\) and taken up again after [0-9]+ ms'
}

@test "the connection is reset: it is taken up again, and the job trains on" {
  begin
  on_node n2 ss -HKt dport = "$port" >/dev/null
  wait_file "slurm-$job.out" 'learner 1 on n2: the connection to its agent was broken \(.*\) and taken up again after [0-9]{1,3} ms' 5
  went_on "$job"
}

@test "a firewall answers with resets for a second: the connection is taken up again, and the job trains on" {
  begin
  stop_packets "tcp dport $port reject with tcp reset"
  sleep 1 # as its name says
  let_pass
  went_on "$job"
  assert_contains "$(output "$job")" 'learner 1 on n2: the connection to its agent was broken \(.*\) and taken up again'
}

@test "only UDP is dropped: nothing happens" {
  begin
  stop_packets "meta l4proto udp drop"
  sleep 3 # longer than a node may be silent on both ways
  went_on "$job"
  run grep -c 'taken up again' "slurm-$job.out"
  [ "$output" = 0 ]
}

@test "both are dropped: the node is lost within 3.3 s, and nothing of it runs when its learner starts elsewhere" {
  job=$(submit -N3 --gpus-per-node=2 --dl-framework=generic --dl-checkpoint=ck,every=10steps train.sh 120 60)
  wait_file "slurm-$job.out" '^\[0\] saved at train step 20' 30
  port=$(control)
  its_learner=$(pgrep -P "$(agent_of "$job" 1)")
  stop_packets "tcp dport $port drop" "tcp sport $port drop" "meta l4proto udp drop"
  cut_ms=$(date +%s%3N)
  wait_file "slurm-$job.out" 'node n2 does not answer \(connection timed out\); n2 is left out' 10
  lost_ms=$(jq -s 'map(select(.learner == 1 and .state == "FAILED"))[0].time_ms' "$(find . -name events.jsonl | head -n 1)")
  echo "noticed after $((lost_ms - cut_ms)) ms"
  ((lost_ms - cut_ms <= 3300))
  wait_file "slurm-$job.out" 'attempt 2 starts at' 10
  run kill -0 "$its_learner"
  [ "$status" -eq 1 ]
  wait_state "$job" COMPLETED 40
  assert_contains "$(output "$job")" '^(\[0\] )?done: 120 counted, none lost'
}

@test "TCP stays dropped while the agent answers: after 10 s its way counts as broken, and a spare node takes its place" {
  job=$(submit -N3 --gpus-per-node=2 --dl-framework=generic --dl-checkpoint=ck,every=10steps train.sh 400 60)
  wait_file "slurm-$job.out" '^\[0\] saved at train step 20' 30
  port=$(control)
  its_learner=$(pgrep -P "$(agent_of "$job" 1)")
  stop_packets "tcp dport $port drop" "tcp sport $port drop"
  wait_file "slurm-$job.out" 'learner 1 on n2 was lost: its agent on n2 answers, but could not connect again within 10s .*; n2 is left out' 20
  wait_file "slurm-$job.out" 'attempt 2 starts at' 10
  run kill -0 "$its_learner"
  [ "$status" -eq 1 ]
}
