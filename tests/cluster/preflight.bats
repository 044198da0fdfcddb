#!/usr/bin/env bats
# Checks of the nodes before the first learner starts, on a real Slurm of three nodes, one of which is bad: the job directory
# cannot be written from it.
# shellcheck disable=SC2016  # expanded by the shells of learners
bats_require_minimum_version 1.5.0
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
# shellcheck source=tests/lib/job_directory.bash
source "$top_srcdir/tests/lib/job_directory.bash"

setup_file() { cluster_up --nodes 3 --gpus-per-node 2; }
teardown_file() { cluster_down; }
setup() {
  cluster_setup
  mkdir -m 1777 job
  printf '#!/bin/bash\nexec dlrun --job-dir %q -- sh -c '\''echo "rank $RANK on $(hostname)"'\''\n' "$PWD/job" >job.sh
}
teardown() {
  on_node n2 umount "$PWD/job" 2>/dev/null || true
  cluster_teardown
}
spoil_n2() { on_node n2 mount -t tmpfs -o ro none "$PWD/job"; }
hosts() { grep -oE 'on n[0-9]+' "$1" | sort -u | xargs; }

@test "good nodes: nothing is said, the links between them are measured in full checks" {
  job=$(submit --output=out --nodes=3 --dl-framework=generic --dl-learners=3 --dl-preflight=full job.sh)
  wait_state "$job" COMPLETED 90
  [ "$(hosts out)" = "on n1 on n2 on n3" ] || { cat out; false; }
  run ! grep -E 'preflight: .*\(bad\)' out
  [ "$(jq '.nodes | length' job/preflight.json)" = 3 ]
  run strange_files job
  [ -z "$output" ]
  if [[ -x $stage/libexec/slurm-dl/dl-preflight-links ]]; then
    on_login srun --mpi=list 2>&1 | grep -qw pmix || skip "links are measured by an MPI program, and this Slurm has no mpi/pmix plugin"
    [ "$(jq -r '[.links[] | select(.bytes_per_s > 1000000) | .a + .b] | sort | join(" ")' job/preflight.json)" = "n1n2 n1n3 n2n3" ]
    jq -e '.allreduce_bytes_per_s > 1000000' job/preflight.json
  fi
}

@test "a spare node takes the place of a bad one" {
  spoil_n2
  job=$(submit --output=out --dl-framework=generic --dl-learners=2:3 --dl-gpus=2 --dl-preflight=quick job.sh)
  wait_state "$job" COMPLETED 60
  assert_contains "$(cat out)" '^dlrun: preflight: n2: cannot write into .*/job: Read-only file system \(bad\)'
  assert_contains "$(cat out)" '^dlrun: preflight: n2 is left out; 2 learners on n\[1,3\]'
  [ "$(hosts out)" = "on n1 on n3" ]
}

@test "without a spare one the job goes back into the queue and stays away from the bad node" {
  spoil_n2
  # Slurm fills its nodes in order: n1 and n2 first.
  job=$(submit --output=out --open-mode=append --dl-framework=generic --dl-learners=2 --dl-gpus=2 --dl-preflight=quick job.sh)
  wait_state "$job" COMPLETED 90
  assert_contains "$(cat out)" '^dlrun: preflight: the job goes back into the queue and stays away from n2'
  [ "$(jq -r 'select(.state == "PENDING").reason' job/events.jsonl)" = 'preflight: the job goes back into the queue and stays away from n2' ]
  [ "$(job_field "$job" ExcNodeList)" = n2 ]
  [ "$(hosts out)" = "on n1 on n3" ]
}

@test "a bad node that one dlrun finds does not take the job from another one: that saves before the job goes back, once" {
  [[ -x $top_builddir/tests/lib/toy_learner ]] || skip "built without HDF5"
  spoil_n2
  printf '%s\n' '#!/bin/bash' \
    "dlrun --learners 1 --gpus 0 --preflight off --checkpoint ck,every=1000steps -- $top_builddir/tests/lib/toy_learner 40000 50 &" \
    "until grep -qs '^attempt . starts' dl-\$SLURM_JOB_ID/logs/attempt-*/learner-0.log; do sleep 0.2; done; sleep 1" \
    "dlrun --job-dir $PWD/job -- sh -c 'echo \"rank \$RANK on \$(hostname)\"'" wait >two.sh
  chmod 755 two.sh
  job=$(submit --output=out --open-mode=append --dl-framework=generic --dl-learners=2 --dl-gpus=2 --dl-preflight=quick two.sh)
  wait_file "dl-$job/logs/attempt-2/learner-0.log" '^attempt 2 starts at train step [1-9]' 60
  wait_for 30 "the second one has run" grep -q 'on n3' out
  assert_contains "$(jq -r 'select(.state == "PENDING").reason' "dl-$job/events.jsonl")" '^put back with another dlrun of the job: saved at train step'
  [ "$(job_field "$job" ExcNodeList)" = n2 ]
  [ "$(job_field "$job" Restarts)" = 1 ]
  on_login scancel "$job"
}

@test "a node that turns bad between two attempts is found before the second one, and left out" {
  wait_nodes idle 30 # dlrun itself is to run on n1, which stays good
  cat >learner.sh <<'EOF'
#!/bin/sh
echo "attempt $DL_ATTEMPT on $(hostname)"
[ "$DL_ATTEMPT" = 1 ] || exit 0
[ "$(hostname)" = n2 ] || exec sleep 600
while [ ! -e "$1" ]; do sleep 0.1; done
echo 'NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus'
exit 1
EOF
  printf '#!/bin/bash\nexec dlrun --job-dir %q -- sh %q %q\n' "$PWD/job" "$PWD/learner.sh" "$PWD/go" >job.sh
  job=$(submit --output=out --dl-framework=generic --dl-learners=2:3 --dl-gpus=2 --dl-restarts=2 --dl-preflight=quick job.sh)
  wait_for 60 "the learners run" grep -q 'attempt 1 on n2' out
  spoil_n2
  touch go
  wait_state "$job" COMPLETED 120
  assert_contains "$(cat out)" '^dlrun: preflight: n2: cannot write into .*/job: Read-only file system \(bad\)'
  assert_contains "$(cat out)" 'n2 is bad; n2 is left out; 2 learners on n\[1,3\]'
  [ "$(grep -oE 'attempt 2 on n[0-9]' out | sort | xargs)" = "attempt 2 on n1 attempt 2 on n3" ]
}

@test "a restart after the program's own failure checks nothing, one after a failure of a GPU does" {
  cat >learner.sh <<'EOF'
#!/bin/sh
if [ "$RANK" != 0 ]; then
  [ "$DL_ATTEMPT" = 3 ] && exit 0
  exec sleep 60
fi
[ -e "$1/preflight.json" ] && echo "attempt $DL_ATTEMPT was checked" || echo "attempt $DL_ATTEMPT was not checked"
rm -f "$1/preflight.json"
[ "$DL_ATTEMPT" = 1 ] && exit 3
[ "$DL_ATTEMPT" = 2 ] && echo 'NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus' && exit 1
exit 0
EOF
  printf '#!/bin/bash\nexec dlrun --job-dir %q -- sh %q %q\n' "$PWD/job" "$PWD/learner.sh" "$PWD/job" >job.sh
  job=$(submit --output=out --dl-framework=generic --dl-learners=2 --dl-gpus=2 --dl-restarts=3 --dl-preflight=quick job.sh)
  wait_state "$job" COMPLETED 60
  [ "$(grep -oE 'attempt [0-9] was.*' out | xargs)" = "attempt 1 was checked attempt 2 was not checked attempt 3 was checked" ]
}
