#!/usr/bin/env bats
# A PyTorch training with a fixed batch that dlpolicyd lets grow where it is, and whose GPUs their owner then claims: each sample of each data
# epoch is seen once, and its losses are those of a training that nobody disturbed.
# shellcheck disable=SC2154,SC2030,SC2031  # variables of the helpers; each test is a subshell
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
# shellcheck source=tests/cluster/reclaim.bash
source "$(dirname "$BATS_TEST_FILENAME")/reclaim.bash"

epochs=60

# Six nodes of one GPU; one is nlp's, five are vision's.
setup_file() { nodes=6 grace=60s elastic_up; }
teardown_file() { cluster_down; }
setup() {
  reclaim_setup
  needs_torch
  cat >train.py <<'END_OF_PROGRAM'
import os, sys, time
import torch, torch.distributed as dist
import dlckpt
dist.init_process_group("gloo")
torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
torch.manual_seed(1)
x = torch.randn(600, 8)
y = torch.sin(x.sum(1, keepdim=True)) + 0.1 * torch.randn(600, 1)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
batches = dlckpt.GlobalBatches(600, dlckpt.find_batch(60), seed=1, epochs=int(sys.argv[1]))
job = dlckpt.attach(model=model, opt=opt, data=batches)
assert job.batch == 60, job.batch
ddp = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
out = open("learner-%d.txt" % job.world.rank, "a")
for step in job.steps():
    index = next(batches)
    opt.zero_grad()
    loss = ((ddp(x[index]) - y[index]) ** 2).mean() * batches.loss_weight
    loss.backward()
    opt.step()
    whole = loss.detach() / job.world.size
    dist.all_reduce(whole)
    print(step, job.world.size, os.environ["DL_ATTEMPT"], repr(float(whole)), *index, file=out, flush=True)
    if os.path.exists("slow"):
        time.sleep(0.012 * len(index))  # so that more learners are faster
dist.barrier()
END_OF_PROGRAM
  # check.py EPOCHS: compares what all learners did here with undisturbed/, a training with one learner.
  cat >check.py <<'END_OF_CHECK'
import glob, os, sys
sys.path.insert(0, os.environ["top_srcdir"] + "/checkpoint/python")
import dlckpt
def lines(pattern):
    for name in glob.glob(pattern):
        for line in open(name):
            step, size, attempt, loss, *samples = line.split()
            yield int(step), int(size), int(attempt), float(loss), list(map(int, samples))
undisturbed = {step: loss for step, _, _, loss, _ in lines("undisturbed/learner-0.txt")}
samples, losses, sizes = {}, {}, {}
for step, size, attempt, loss, some in lines("learner-*.txt"):
    assert sizes.setdefault(step, (attempt, size)) == (attempt, size), "train step %d was run twice" % step
    assert losses.setdefault(step, loss) == loss, step
    samples.setdefault(step, []).extend(some)
assert sorted(samples) == list(range(10 * int(sys.argv[1]))) == sorted(undisturbed), len(samples)
order = dlckpt.GlobalBatches(600, 60, seed=1, rank=0, world_size=1)
for epoch in range(int(sys.argv[1])):
    seen = []
    for step in range(10 * epoch, 10 * epoch + 10):
        assert sorted(samples[step]) == sorted(next(order)), step
        seen += samples[step]
    assert sorted(seen) == list(range(600)), epoch
passed = []
for step in sorted(sizes):
    if sizes[step][1:] != tuple(passed[-1:]):
        passed.append(sizes[step][1])
apart = [abs(losses[s] / undisturbed[s] - 1) for s in sorted(losses)]
first = next(s for s in sorted(sizes) if sizes[s][1] != passed[0])
print("# sizes", passed, "in", len(losses), "train steps; losses are apart by at most %.1e of %.3f to %.3f" % (
    max(apart), undisturbed[0], undisturbed[len(losses) - 1]), flush=True)
assert passed[:2] == [1, 2] and max(passed) == 6 and passed[-1] == 1, passed
assert passed[:passed.index(6) + 1] == sorted(passed[:passed.index(6) + 1]), passed
# With as many learners the losses are the same, to the last bit. With other numbers only the order of sums differs: by some 1e-16 each in
# double precision, which a few hundred steps of a training that converges do not make a million times larger; one sample more or less does.
assert not any(apart[:first]), first
assert max(apart) < 1e-9, max(apart)
END_OF_CHECK
  printf '#!/bin/bash\nexport OMP_NUM_THREADS=1\nexec dlrun -- /usr/bin/python3 train.py %s\n' "$epochs" >train_torch.sh
}
teardown() {
  [[ -n ${BATS_TEST_COMPLETED:-} ]] || tail -n 40 slurm-*.out 2>/dev/null || true
  reclaim_teardown
}

size_is() { [[ $(tail -n 1 learner-0.txt 2>/dev/null) =~ ^[0-9]+\ $1\  ]]; }
none_left() { [ -z "$(on_login squeue -h --name="dl-companion-$1" -o %i)" ]; }

@test "a PyTorch job grows from 2 to 6 learners by companions and shrinks to 1 by a claim while it trains: each sample once, and the losses of an undisturbed run" {
  mkdir undisturbed
  (cd undisturbed && OMP_NUM_THREADS=1 PYTHONWARNINGS=ignore "$stage/bin/dlrun" --framework pytorch --learners 1 -- \
    /usr/bin/python3 ../train.py "$epochs" >out 2>&1 </dev/null 3>&-)
  touch slow
  blocker=$(learners=4 training --account=vision deaf.sh)
  wait_state "$blocker" RUNNING 20
  job=$(submit --account=nlp --time=20 --dl-framework=pytorch --dl-learners=1:6 --dl-gpus=1 --dl-checkpoint="$PWD/ckpt" train_torch.sh)
  wait_for 60 "job $job trains with 2 learners" size_is 2
  on_login scancel "$blocker"
  wait_for 120 "job $job trains with 6 learners" size_is 6
  [ "$(restarts_of "$job")" = 0 ]

  claim=$(learners=5 training --account=vision train.sh 100000 50)
  wait_state "$claim" RUNNING 60
  wait_for 60 "job $job trains with 1 learner" size_is 1
  wait_for 20 "no companion is left" none_left "$job"
  rm slow
  wait_state "$job" COMPLETED 60
  [ "$(job_state "$claim")" = RUNNING ]
  /usr/bin/python3 check.py "$epochs" >&3
}
