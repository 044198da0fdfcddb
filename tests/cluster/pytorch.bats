#!/usr/bin/env bats
# The main job: the PyTorch example on a real Slurm, interrupted in every way there is, against the same training
# uninterrupted. Weights are compared bit for bit where the number of learners is the same, samples in any case.
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

example=$top_srcdir/frameworks/pytorch/example
steps=80

setup_file() {
  cluster_up --nodes 2 --gpus-per-node 2 --grace 30
  [[ -z $DL_NO_CLUSTER ]] || return 0
  # What the interrupted trainings must end with: two learners, without Slurm.
  export DL_TEST_TORCH=no
  /usr/bin/python3 -c 'import torch, sklearn' 2>/dev/null || return 0
  DL_TEST_TORCH=yes
  (cd "$BATS_FILE_TMPDIR" && PYTHONWARNINGS=ignore "$stage/bin/dlrun" --framework pytorch --learners 2 -- \
    /usr/bin/python3 "$example/train_digits.py" --steps $steps >reference.out 2>&1 </dev/null 3>&-)
}
teardown_file() { cluster_down; }
setup() {
  cluster_setup
  [[ $DL_TEST_TORCH == yes ]] || skip "/usr/bin/python3 has no PyTorch or no scikit-learn"
}
teardown() {
  [[ -n ${BATS_TEST_COMPLETED:-} ]] || tail -n 40 train.out 2>/dev/null || true
  cluster_teardown
}

# train LEARNERS [more options of sbatch]: submits the example with a delay that leaves time to interrupt it.
train() {
  local learners=$1
  shift
  PYTHON=/usr/bin/python3 submit --job-name=train --output=train.out --time=10 --dl-framework=pytorch --dl-learners="$learners" --dl-gpus=1 \
    --dl-checkpoint="$PWD/ckpt,every=${every:-30steps}" "$@" "$example/train_digits.sbatch" --steps $steps \
    --step-delay "${delay:-0.1}" --log-samples "$PWD"
}
# past JOB N: whether learner 0 has begun train step N.
past() { [[ -e learner-0.txt ]] && awk -v n="$2" '$1 >= n { found = 1 } END { exit !found }' learner-0.txt; }
wait_past() { wait_for 120 "job $1 is past train step $2" past "$1" "$2"; }
ended() { in_state_hurried "$1" COMPLETED,FAILED,CANCELLED,TIMEOUT,NODE_FAIL || [[ -z $(job_state "$1") ]]; }
wait_completed() {
  wait_for 120 "job $1 has ended" ended "$1"
  grep -q '^.*weights sha256' train.out
}
hash_in() { sed -n 's/.*weights sha256: //p' "$1" | tail -n 1; }
assert_same_weights() {
  local expected
  expected=$(hash_in "$BATS_FILE_TMPDIR/reference.out")
  [[ -n $expected ]]
  [[ $(hash_in train.out) == "$expected" ]]
}
# The train steps at which it was stopped and resumed are the same: nothing was trained twice.
assert_resumed_where_it_stopped() {
  local stopped resumed
  stopped=$(sed -nE 's/.*dlckpt: stopping at train step ([0-9]+), saved.*/\1/p' train.out | tail -n 1)
  resumed=$(sed -nE 's/.*dlckpt: resumed at train step ([0-9]+) .*/\1/p' train.out | tail -n 1)
  [[ -n $stopped && $stopped == "$resumed" ]]
}
# assert_each_sample_once: over all learners and attempts, what was trained on in each train step is what a single learner
# would have been given.
assert_each_sample_once() {
  /usr/bin/python3 - "$steps" <<'END'
import glob, sys
sys.path.insert(0, __import__("os").environ["top_srcdir"] + "/checkpoint/python")
import dlckpt
seen = {}
for name in sorted(glob.glob("learner-*.txt")):
    for line in open(name):
        step, *samples = map(int, line.split())
        seen.setdefault(step, []).extend(samples)
batches = dlckpt.GlobalBatches(1437, 60, seed=1, rank=0, world_size=1)
for step in range(int(sys.argv[1])):
    assert sorted(seen[step]) == sorted(next(batches)), "train step %d" % step
assert len(seen) == int(sys.argv[1])
END
}

@test "preempted by a higher tier in mid-training, it resumes and ends with the weights of an uninterrupted run" {
  job=$(train 2 --dl-tier=borrow)
  wait_past "$job" 15
  urgent=$(submit --job-name=urgent --output=urgent.out --dl-framework=generic --dl-learners=4 --dl-gpus=1 --dl-tier=guaranteed --wrap 'dlrun -- sleep 2')
  wait_state "$urgent" RUNNING,COMPLETED 60
  wait_completed "$job"
  assert_same_weights
  assert_resumed_where_it_stopped
  assert_each_sample_once
  # Slurm 24.05 to 25.11 start a preempted job once more after its end; that start runs nothing.
  local restarts=1
  if slurm_at_least 24.05 && ! slurm_at_least 26.05; then restarts=2; fi
  [ "$(job_field "$job" Restarts)" = $restarts ]
}

@test "paused and resumed, also with --export=NONE, it ends with the weights of an uninterrupted run" {
  cat >train.sh <<END
#!/bin/bash
exec $stage/bin/dlrun -- /usr/bin/python3 $example/train_digits.py --steps $steps --step-delay 0.1 --log-samples $PWD
END
  job=$(submit --export=NONE --job-name=train --output=train.out --dl-framework=pytorch --dl-learners=2 --dl-gpus=1 \
    --dl-checkpoint=ckpt train.sh)
  wait_past "$job" 10
  on_login dlctl pause "$job"
  wait_state "$job" PENDING 40
  assert_contains "$(on_login dlctl status "$job")" HALTED
  on_login dlctl resume "$job"
  wait_completed "$job"
  assert_same_weights
  assert_resumed_where_it_stopped
  assert_each_sample_once
}

@test "stopped by its time limit, it goes on by itself and ends with the weights of an uninterrupted run" {
  # Slow in its first start, so that the limit comes in its middle however long the import of PyTorch takes.
  cat >train.sh <<END
#!/bin/bash
delay=2
[ "\${SLURM_RESTART_COUNT:-0}" = 0 ] || delay=0
exec dlrun -- /usr/bin/python3 $example/train_digits.py --steps $steps --step-delay \$delay --log-samples $PWD
END
  job=$(submit --job-name=train --output=train.out --time=10 --dl-framework=pytorch --dl-learners=2 --dl-gpus=1 \
    --dl-checkpoint=ckpt train.sh)
  wait_past "$job" 3
  on_login scontrol update jobid="$job" endtime=now+40
  wait_for 120 "job $job stops" grep -q 'stopping at train step' train.out
  wait_for 60 "job $job runs again" grep -q 'resumed at train step' train.out
  on_login scontrol update jobid="$job" timelimit=10
  wait_completed "$job"
  assert_same_weights
  assert_resumed_where_it_stopped
}

@test "slurmctld is restarted in mid-training, and nobody notices" {
  job=$(train 2)
  wait_past "$job" 10
  dl_sandbox daemon stop slurmctld  # a kill would lose a job younger than its last written state
  sleep 1 # for so long it is away
  dl_sandbox daemon start slurmctld
  wait_completed "$job"
  assert_same_weights
  run grep -c 'resumed at train step' train.out
  [ "$output" = 0 ]
}

# resume_at BEFORE AFTER: paused with BEFORE learners, a new job of AFTER learners goes on in the same directory.
resume_at() {
  job=$(train "$1")
  wait_past "$job" 10
  on_login dlctl pause "$job"
  wait_state "$job" PENDING 40
  on_login scancel "$job"
  second=$(delay=0 train "$2")
  wait_completed "$second"
  grep -q "saved by $1 learners, now $2" train.out
  assert_resumed_where_it_stopped
  assert_each_sample_once
  awk '/held-out accuracy/ { good = $(NF - 1) > 93 } END { exit !good }' train.out
}

@test "from 2 to 3 learners no sample is trained twice or left out" { resume_at 2 3; }

@test "from 4 to 2 learners no sample is trained twice or left out" { resume_at 4 2; }

@test "on a full disk it says so, trains on, and its last good checkpoint stays" {
  # Nodes have mounts of their own: the small disk is made by the job's one node, where all its learners are.
  # --no-requeue: the job would be held until there is room again, and its script not go on.
  mkdir small
  cat >train.sh <<END
#!/bin/bash
mount -t tmpfs -o size=1m none $PWD/small && mkdir $PWD/small/ckpt
( while [ "\$(ls -d $PWD/small/ckpt/step-* 2>/dev/null | wc -l)" -lt 1 ]; do sleep 0.1; done; head -c 2M /dev/zero >$PWD/small/filler ) 2>/dev/null &
dlrun --checkpoint $PWD/small/ckpt,every=20steps -- /usr/bin/python3 $example/train_digits.py --steps 50 --step-delay 0.02
echo "exit status \$?"
rm $PWD/small/filler
dlckpt verify $PWD/small/ckpt && dlckpt ls $PWD/small/ckpt
END
  job=$(submit --job-name=full --no-requeue --output=train.out -N1 --dl-framework=pytorch --dl-learners=2 --dl-gpus=1 train.sh)
  wait_for 120 "job $job has ended" ended "$job"
  assert_contains "$(cat train.out)" 'train step 40 was not saved: .*DLCKPT_E_NO_SPACE.*train step 20 is the newest'
  assert_contains "$(cat train.out)" '^ +20 .*committed'
}

@test "a checkpoint directory that cannot be written is refused before a learner trains" {
  touch file
  every=5steps
  job=$(submit --output=train.out --dl-framework=pytorch --dl-learners=1 --dl-gpus=0 --dl-checkpoint="$PWD/file/ckpt" "$example/train_digits.sbatch")
  wait_for 90 "job $job has ended" ended "$job"
  [ "$(job_state "$job")" != COMPLETED ]
  assert_contains "$(cat train.out)" "$PWD/file/ckpt"
  [ ! -e learner-0.txt ]
}

@test "a PyTorch without libuv begins anew with the store at learner 0, by itself" {
  without_libuv || skip "this PyTorch does not insist on libuv"
  job=$(unset USE_LIBUV; train 2)
  wait_completed "$job"
  assert_contains "$(cat train.out)" "dlrun: this PyTorch has no libuv: learner 0 hosts the store \\(with USE_LIBUV=0 in the job's environment this second"
  assert_same_weights
}

@test "so does that of a single learner, which hosts its store itself" {
  without_libuv || skip "this PyTorch does not insist on libuv"
  echo 'import torch.distributed as d; d.init_process_group("gloo"); d.barrier(); print("met", flush=True)' >meet.py
  job=$(unset USE_LIBUV; submit --output=train.out --dl-framework=pytorch --dl-learners=1 --wrap 'exec dlrun -- /usr/bin/python3 meet.py')
  wait_for 90 "job $job has ended" ended "$job"
  assert_contains "$(cat train.out)" "dlrun: this PyTorch has no libuv: learner 0 hosts the store"
  assert_contains "$(cat train.out)" "^met"
}

@test "a second job on the same checkpoint directory is refused by name and trains nothing" {
  job=$(train 1)
  wait_past "$job" 3
  second=$(submit --output=second.out --dl-framework=pytorch --dl-learners=1 --dl-gpus=1 --dl-checkpoint="$PWD/ckpt" "$example/train_digits.sbatch" --log-samples /nonexistent)
  wait_for 90 "job $second has ended" ended "$second"
  [ "$(job_state "$second")" != COMPLETED ]
  assert_contains "$(cat second.out)" "job $job"
  [ "$(job_state "$job")" = RUNNING ]
}

@test "a plain srun of the same script, without dlrun, finds its rank and its checkpoints" {
  run on_login srun -n2 --output=train.out --dl-framework=pytorch --dl-checkpoint="$PWD/ckpt,every=10steps" /usr/bin/python3 "$example/train_digits.py" --steps 20
  [ "$status" -eq 0 ] || { cat train.out; false; }
  assert_contains "$(on_login dlckpt ls "$PWD/ckpt")" '^ +20 .* 2 +committed'
}
