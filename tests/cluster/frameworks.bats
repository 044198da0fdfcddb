#!/usr/bin/env bats
# JAX and TensorFlow over two nodes of a real Slurm: their examples, what initialize() finds by itself, and that SLURM_*
# and the network interface are right for every learner.
# shellcheck disable=SC2016  # expanded by the shells of learners
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup_file() {
  cluster_up --nodes 2 --gpus-per-node 0
  local folder
  folder=$("$top_srcdir/packaging/install-frameworks" --path)
  export python=$folder/bin/python why_not=
  [[ -e $folder/complete ]] || why_not="there are no current frameworks in $folder (packaging/install-frameworks)"
}
teardown_file() { cluster_down; }
setup() {
  cluster_setup
  options=()
}
teardown() {
  [[ -n ${BATS_TEST_COMPLETED:-} ]] || tail -n 60 job.out 2>/dev/null || true
  cluster_teardown
}
ended() { in_state "$1" COMPLETED,FAILED,CANCELLED,TIMEOUT,NODE_FAIL || [[ -z $(job_state "$1") ]]; }
# learners FRAMEWORK N COMMAND…: a job of N learners on two nodes, to its end, with further ${options[@]}; its output is in job.out.
learners() {
  local framework=$1 count=$2 job
  shift 2
  printf '#!/bin/bash\nexport JAX_PLATFORMS=cpu CUDA_VISIBLE_DEVICES= TF_ENABLE_ONEDNN_OPTS=0\nexec dlrun -- %s\n' "$*" >job.sh
  job=$(submit -N2 "${options[@]}" --output=job.out --dl-framework="$framework" --dl-learners="$count" --dl-gpus=0 job.sh)
  wait_for 120 "job $job has ended" ended "$job"
}

@test "JAX: two processes on two nodes find each other with nothing but initialize(), and train" {
  [[ -z $why_not ]] || skip "$why_not"
  learners jax 2 "$python" "$top_srcdir/frameworks/jax/example/train_digits.py" --steps 150
  assert_contains "$(cat job.out)" 'held-out accuracy: 9[0-9.]+ % on 2 devices'
}

@test "frameworks that name packages of their own: three learners on two nodes train the example" {
  [[ -z $why_not ]] || skip "$why_not"
  local packages name
  for packages in "$top_srcdir"/frameworks/*/packages.python; do
    name=$(basename "$(dirname "$packages")")
    learners "$name" 3 "$python" "$top_srcdir/frameworks/$name/example/train_digits.py" --steps 100
    assert_contains "$(cat job.out)" 'held-out accuracy: 9[0-9.]+ % with 3 learners'
  done
}

horovod_python() {
  local folder
  folder=$("$top_srcdir/packaging/install-horovod" --path)
  [[ -e $folder/complete ]] || skip "$(cat "$folder.missing" 2>/dev/null || echo "there is no Horovod in $folder (packaging/install-horovod)")"
  horovod=$folder/bin/python
}

@test "Horovod: three learners on two nodes meet at dlrun and train" {
  horovod_python
  learners horovod 3 "$horovod" "$top_srcdir/frameworks/horovod/example/train_digits.py" --steps 100
  assert_contains "$(cat job.out)" 'held-out accuracy: 9[0-9.]+ % with 3 learners on 2 nodes'
}

@test "Horovod: one of two learners dies, and the training ends with the weights of an undisturbed one" {
  horovod_python
  local example=$top_srcdir/frameworks/horovod/example/train_digits.py weights
  learners horovod 2 "$horovod" "$example" --steps 100
  weights=$(grep -o 'weights sha256: .*' job.out)
  options=('--dl-checkpoint=ck,every=20steps' --dl-restarts=2)
  learners horovod 2 "$horovod" "$example" --steps 100 --crash 70
  assert_contains "$(cat job.out)" 'learner 1 .*exited with code 7; restart 1 of 2'
  assert_contains "$(cat job.out)" 'resumed at train step [46]0' # the save of train step 60 may not be durable yet
  assert_contains "$(cat job.out)" "$weights"
}

@test "Horovod over MPI: the same script with framework mpi" {
  horovod_python
  learners mpi 2 "$horovod" "$top_srcdir/frameworks/horovod/example/train_digits.py" --steps 100
  assert_contains "$(cat job.out)" 'held-out accuracy: 9[0-9.]+ % with 2 learners on 2 nodes'
}

@test "TensorFlow: two workers on two nodes train" {
  [[ -z $why_not ]] || skip "$why_not"
  learners tensorflow 2 "$python" "$top_srcdir/frameworks/tensorflow/example/train_digits.py" --steps 150
  assert_contains "$(cat job.out)" 'held-out accuracy: 9[0-9.]+ % with 2 workers'
}

@test "what learners find: SLURM_* of the step, the interface between the nodes, an address that the other node can reach" {
  cat >show.sh <<'SH'
echo "ids $SLURM_PROCID/$SLURM_NTASKS local $SLURM_LOCALID nodes $SLURM_STEP_NODELIST $SLURM_TASKS_PER_NODE $SLURM_STEP_TASKS_PER_NODE gtids $SLURM_GTIDS"
address=$(ip -o addr show dev "$GLOO_SOCKET_IFNAME" | grep -c "inet ${MASTER_ADDR%.*}\.")
echo "interface is ${GLOO_SOCKET_IFNAME:-none}, nccl $NCCL_SOCKET_IFNAME, on the network of rank 0: $address"
SH
  learners generic 3 bash ./show.sh
  assert_contains "$(cat job.out)" '^\[0\] ids 0/3 local 0 nodes [a-z]+\[1-2\] 2,1 2,1 gtids 0,1$'
  assert_contains "$(cat job.out)" '^\[1\] ids 1/3 local 1 nodes [a-z]+\[1-2\] 2,1 2,1 gtids 0,1$'
  assert_contains "$(cat job.out)" '^\[2\] ids 2/3 local 0 nodes [a-z]+\[1-2\] 2,1 2,1 gtids 2$'
  for rank in 0 1 2; do
    assert_contains "$(cat job.out)" "^\[$rank\] interface is ([a-z][a-z0-9]+), nccl =\1, on the network of rank 0: 1$"
  done
}

@test "parameter servers are tasks of their own, and are ended when the learners have ended" {
  printf '#!/bin/bash\nexec dlrun -- bash -c %q\n' 'echo "$DL_ROLE $DL_ROLE_RANK of $DL_ROLE_SIZE, task $SLURM_PROCID of $SLURM_NTASKS"
    [[ $DL_ROLE == learner ]] || exec sleep 1000; sleep 0.5' >job.sh
  job=$(submit -N2 --output=job.out --dl-framework=generic --dl-learners=3 --dl-servers=2 --dl-gpus=0 job.sh)
  assert_contains "$(cat "$BATS_TEST_TMPDIR/submit.err")" '3 learners on CPUs and 2 parameter servers'
  wait_state "$job" COMPLETED 40
  assert_contains "$(cat job.out)" '^\[2\] learner 2 of 3, task 2 of 5$'
  assert_contains "$(cat job.out)" '^\[4\] server 1 of 2, task 4 of 5$'
  [ "$(job_field "$job" NumTasks)" = 5 ]
}

@test "dlctl frameworks --nodes: what is installed where, from a login node and in an allocation" {
  run on_login dlctl frameworks --nodes all
  [ "$status" -eq 0 ] || { echo "$output" >&2; return 1; }
  assert_contains "$output" '^NAME +VERSION +FOUND +NODES$'
  assert_contains "$output" '^generic +any +- +[a-z]+\[1-2\]$'
  assert_contains "$output" '^mpi +any +mpirun .* +[a-z]+\[1-2\]$'
  run on_login salloc -Q -N1 dlctl frameworks --nodes all --json
  [ "$status" -eq 0 ] || { echo "$output" >&2; return 1; }
  [ "$(jq '[.frameworks[] | select(.name == "generic") | .nodes[]] | length' <<<"$output")" -eq 1 ]
  run on_login dlctl frameworks --nodes nosuch1
  [ "$status" -ne 0 ]
  assert_contains "$output" 'none of the nodes answered; srun says: .*[Nn]ode'
}
