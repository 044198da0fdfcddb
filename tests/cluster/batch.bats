#!/usr/bin/env bats
# --dl-batch on a real Slurm with real PyTorch: an elastic job comes back at other sizes, each with its batch, and sees every
# sample of every data epoch once.
# shellcheck disable=SC2030,SC2031  # each test is a subshell
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup_file() {
  cluster_up --nodes 4 --gpus-per-node 1 --grace 30
}
teardown_file() { cluster_down; }
setup() {
  cluster_setup
  needs_torch
  cat >train.py <<'END_OF_PROGRAM'
import os, time
import torch, torch.distributed as dist
import dlckpt
dist.init_process_group("gloo")
torch.manual_seed(1)
x = torch.arange(96.).reshape(96, 1) / 96
y = 3 * x - 1
model = torch.nn.Linear(1, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.01)
batches = dlckpt.GlobalBatches(96, dlckpt.find_batch(16), seed=1, epochs=int(os.environ.get("EPOCHS", 20)))
job = dlckpt.attach(model=model, opt=opt, data=batches)
for group in opt.param_groups:
    group["lr"] = 0.01 * job.lr_scale
for name, value in (("DL_GLOBAL_BATCH", job.batch), ("DL_LOCAL_BATCH", job.local_batch), ("DL_ACCUMULATION", job.accumulation)):
    assert os.environ[name] == str(value), (name, os.environ[name], value)
ddp = torch.nn.parallel.DistributedDataParallel(model)
out = open("learner-%d.txt" % job.world.rank, "a")
for step in job.steps():
    index = next(batches)
    opt.zero_grad()
    loss = ((ddp(x[index]) - y[index]) ** 2).mean() * batches.loss_weight
    loss.backward()
    opt.step()
    print(step, job.world.size, job.batch, "%g" % job.lr_scale, os.environ["DL_ATTEMPT"], *index, file=out, flush=True)
    time.sleep(0.4 if str(job.world.size) in os.environ["SLOW"] and not os.path.exists("fast") else 0.02)
dist.barrier()
if job.world.rank == 0:
    print("trained on", job.samples, "samples", flush=True)
END_OF_PROGRAM
  # check.py EPOCHS BATCH…: each sample of each data epoch was trained on once, in order, with batches of these sizes. Of a train step that
  # was lost and run again the last time counts.
  cat >check.py <<'END_OF_CHECK'
import collections, glob, os, sys
sys.path.insert(0, os.environ["top_srcdir"] + "/checkpoint/python")
import dlckpt
steps = collections.defaultdict(lambda: collections.defaultdict(list))
sizes = {}
for name in glob.glob("learner-*.txt"):
    for line in open(name):
        step, learners, batch, scale, attempt, *samples = line.split()
        key = int(step), int(attempt)
        assert sizes.setdefault(key, (learners, batch, scale)) == (learners, batch, scale), line
        steps[key[0]][key[1]] += map(int, samples)
order = dlckpt.GlobalBatches(96, 1, seed=1, rank=0, world_size=1)
left = 96 * int(sys.argv[1])
for step in range(len(steps)):
    attempt = max(steps[step])
    trained = steps[step][attempt]
    assert sorted(trained) == sorted(sum((next(order) for _ in range(len(trained))), [])), "train step %d" % step
    left -= len(trained)
    if left:
        assert len(trained) == int(sizes[step, attempt][1]), (step, len(trained), sizes[step, attempt])
assert left == 0, left
assert {size[1] for size in sizes.values()} == set(sys.argv[2:]), sizes
END_OF_CHECK
  printf '#!/bin/bash\nexport OMP_NUM_THREADS=1\nexec dlrun -- /usr/bin/python3 train.py\n' >train.sh
}
teardown() {
  if [[ -n ${lost:-} ]]; then
    dl_sandbox node heal n2
    on_login scontrol reconfigure # all nodes register at once
    wait_nodes idle 60
  fi
  [[ -n ${BATS_TEST_COMPLETED:-} ]] || tail -n 40 train.out 2>/dev/null || true
  cluster_teardown
}

# trained_with LEARNERS BATCH SCALE: whether two train steps were begun so.
trained_with() { [[ -e learner-0.txt ]] && (($(grep -cE "^[0-9]+ $1 $2 $3 " learner-0.txt) >= 2)); }
# saved: whether there is a checkpoint.
saved() { compgen -G 'ckpt/step-*' >/dev/null; }
# blocked N: N nodes are held by another job, whose id is printed.
blocked() {
  local id
  id=$(submit --job-name=block --output=/dev/null -N"$1" --gpus-per-node=1 --time=30 --wrap 'sleep 1000')
  wait_state "$id" RUNNING 30
  echo "$id"
}

@test "an elastic job that comes back at another size has another batch, and sees each sample of each epoch once" {
  block=$(blocked 3)
  job=$(SLOW="1 4" submit --job-name=train --output=train.out --time=20 --dl-framework=pytorch --dl-learners=1:4 --dl-gpus=1 \
    --dl-batch=16:64:4,rule=linear --dl-checkpoint="$PWD/ckpt" train.sh)
  assert_contains "$(cat "$BATS_TEST_TMPDIR/submit.err")" 'global batch 16 to 64'
  wait_for 90 "job $job trains with one learner" trained_with 1 16 1
  on_login dlctl pause "$job"
  wait_state "$job" PENDING 60
  on_login scancel "$block"
  # shellcheck disable=SC2016  # eval expands it, each time anew
  wait_for 30 "the nodes are free" eval '[[ -z $(job_state "$block") || $(job_state "$block") == CANCELLED ]]'
  on_login dlctl resume "$job"
  wait_for 90 "job $job trains with four learners" trained_with 4 64 4
  on_login dlctl pause "$job"
  wait_state "$job" PENDING 60
  block=$(blocked 2)
  on_login dlctl resume "$job"
  wait_for 90 "job $job trains with two learners" trained_with 2 32 2
  wait_state "$job" COMPLETED 120
  assert_contains "$(cat train.out)" 'with batches of 16 samples, now 64'
  assert_contains "$(cat train.out)" 'with batches of 64 samples, now 32'
  assert_contains "$(cat train.out)" 'trained on 1920 samples'
  on_login scancel "$block"
  /usr/bin/python3 check.py 20 16 64 32
}

@test "a learner lost with its node: the job goes on smaller with the batch of that size, and sees each sample once" {
  wait_nodes idle 60 # of the test before; with one node the job would begin with one learner
  job=$(SLOW=2 EPOCHS=8 submit --job-name=train --output=train.out --time=20 -x 'n[3-4]' --dl-framework=pytorch --dl-learners=1:2 --dl-gpus=1 \
    --dl-batch=16:64:4,rule=linear --dl-checkpoint="$PWD/ckpt,every=2steps" train.sh)
  wait_for 90 "job $job trains with two learners" trained_with 2 32 2
  wait_for 30 "a checkpoint is committed" saved
  lost=n2
  dl_sandbox node cut n2
  wait_state "$job" COMPLETED 120
  assert_contains "$(cat train.out)" 'n2 is left out; 1 learner on n1'
  assert_contains "$(cat train.out)" 'with batches of 32 samples, now 16'
  assert_contains "$(cat train.out)" 'trained on 768 samples'
  [ "$(job_field "$job" Restarts)" = 0 ]
  /usr/bin/python3 check.py 8 32 16
}

# began ATTEMPT LEARNERS: whether two train steps of this attempt were begun with so many learners.
began() { (($(grep -cE "^[0-9]+ $2 [0-9]+ [0-9.]+ $1 " learner-0.txt) >= 2)); }
# grow: the job gets a companion of one node, whose id is in $companion.
grow() {
  run on_login dlctl grow "$job"
  [ "$status" = 0 ] || { echo "$output" >&2; return 1; }
  companion=$(sed -nE "s/.*: companion ([0-9]+) is submitted.*/\\1/p" <<<"$output")
}
no_companion() { [[ -z $(on_login squeue -h --name="dl-companion-$job" -o %i) ]]; }

@test "a job grows twice while it trains, gives its first companion back and keeps the second, and sees each sample once" {
  wait_nodes idle 60
  block=$(blocked 3)
  job=$(SLOW="1 2 3" EPOCHS=100 submit --job-name=train --output=train.out --time=20 --dl-framework=pytorch --dl-learners=1:4 --dl-gpus=1 \
    --dl-batch=16:64:4,rule=linear --dl-checkpoint="$PWD/ckpt" train.sh)
  wait_for 90 "job $job trains with one learner" trained_with 1 16 1
  on_login scancel "$block"
  grow
  first=$companion
  wait_for 90 "job $job trains with two learners" began 2 2
  grow
  second=$companion
  wait_for 90 "job $job trains with three learners" began 3 3
  [ "$(job_state "$first") $(job_state "$second")" = "RUNNING RUNNING" ]
  node=$(job_field "$first" NodeList)
  on_login scancel "$first"
  wait_for 90 "job $job trains with two learners again" began 4 2
  assert_contains "$(cat train.out)" "$node is left out; 2 learners on "
  [ "$(job_state "$second")" = RUNNING ]
  touch fast
  wait_state "$job" COMPLETED 120
  assert_contains "$(cat train.out)" "trained on 9600 samples"
  [ "$(job_field "$job" Restarts)" = 0 ]
  /usr/bin/python3 check.py 100 16 32 48
  wait_for 30 "no companion is left" no_companion
}

@test "a job with more learners than the largest batch has samples is refused at submission" {
  run on_login sbatch --dl-learners=1:80 --dl-gpus=1 --dl-batch=16:64 --wrap true
  [ "$status" -ne 0 ]
  assert_contains "$output" "--dl-batch: '16:64' has no batch for 80 learners"
  run on_login sbatch --dl-learners=1:4 --dl-batch=64:16 --wrap true
  [ "$status" -ne 0 ]
  assert_contains "$output" "--dl-batch: '64:16' has a MIN above its MAX"
}
