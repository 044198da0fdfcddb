#!/usr/bin/env bats
# All that a training needs and makes lies in a real S3 server: PyTorch trains from there through the nodes' caches, is preempted twice, goes on
# on another node, and its results and checkpoints arrive there whole.
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
# shellcheck source=tests/lib/s3_server.bash
source "$top_srcdir/tests/lib/s3_server.bash"

steps=400 # at most two minutes before they become fast

setup_file() {
  cluster_up --nodes 2 --gpus-per-node 0 --grace 30
  [[ -z $DL_NO_CLUSTER ]] || return 0
  printf '[data]\ncache = "/dev/shm/dl-cache"\n' >>"$DL_SANDBOX_DIR/etc/dl.toml"
  export DL_TEST_WHY=
  /usr/bin/python3 -c 'import torch' 2>/dev/null || DL_TEST_WHY="/usr/bin/python3 has no PyTorch"
  cd "$BATS_FILE_TMPDIR" || return 1
  local server port address name
  server=$("$top_srcdir/packaging/install-rclone" 2>no-rclone) || DL_TEST_WHY=$(cat no-rclone)
  [[ -z $DL_TEST_WHY ]] || return 0
  for name in $(compgen -e | grep -E '^(RCLONE|AWS)_'); do unset "$name"; done # of another configuration
  # The client is that of the machine, if it has one.
  command -v rclone >/dev/null || { mkdir bin && ln -s "$server" bin/rclone && export PATH=$PWD/bin:$PATH; }
  mkdir -p s3/bucket/set/deep
  for name in 1 2 3 4; do head -c $((name * 64000)) /dev/urandom >s3/bucket/set/deep/"$name"; done
  head -c 12800000 /dev/urandom >s3/bucket/set/large
  port=$(on_login python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
  address=$(on_login hostname -I | tr ' ' '\n' | grep -m1 '^10\.77\.'):$port
  s3_serve "$address" on_login "$server"
  export RCLONE_CONFIG=$PWD/rclone.conf
  on_login bash -c "source '$top_srcdir/tests/lib/s3_server.bash'; s3_remote $address Other"
  cat >train.py <<'END_OF_PROGRAM'
import os, time
import torch, torch.distributed as dist
import dlckpt

dist.init_process_group("gloo")
torch.set_num_threads(1)
rank = dist.get_rank()
texts = []
for folder, folders, names in os.walk(os.environ["DATA_DIR"]):
    folders.sort()
    texts += [open(os.path.join(folder, name), "rb").read() for name in sorted(names)]
samples = torch.frombuffer(bytearray(b"".join(texts)), dtype=torch.uint8).float().reshape(-1, 64) / 255
torch.manual_seed(1)
network = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(32, 64))
model = torch.nn.parallel.DistributedDataParallel(network, find_unused_parameters=True)
torch.manual_seed(1 + rank)
opt = torch.optim.Adam(model.parameters(), 0.01)
batches = dlckpt.GlobalBatches(len(samples), 60, seed=1)
job = dlckpt.attach(model=model, opt=opt, data=batches)
said = open(os.path.join(os.environ["RESULT_DIR"], "learner-%d" % rank), "a")
print("attempt", os.environ["DL_ATTEMPT"], "begins at", job.train_step, file=said, flush=True)
for step in job.steps(int(os.environ["STEPS"])):
    batch = samples[next(batches)]
    opt.zero_grad()
    ((model(batch) - batch) ** 2).mean().mul(batches.loss_weight).backward()
    opt.step()
    time.sleep(0 if os.path.exists("fast") else 0.3)
if rank == 0:
    with open(os.path.join(os.environ["RESULT_DIR"], "weights"), "wb") as out:
        out.write(b"".join(p.detach().numpy().tobytes() for p in network.parameters()))
dist.barrier()
END_OF_PROGRAM
  # What the interrupted training must end with: two learners that read the files themselves, without Slurm.
  mkdir undisturbed && touch undisturbed/fast
  (cd undisturbed && STEPS=$steps "$stage/bin/dlrun" --framework pytorch --learners 2 --data ../s3/bucket/set --job-dir job -- /usr/bin/python3 ../train.py \
    >out 2>&1 </dev/null 3>&-) || { cat undisturbed/out && return 1; }
}
teardown_file() { cluster_down; }
setup() {
  cluster_setup
  [[ -z $DL_TEST_WHY ]] || skip "$DL_TEST_WHY"
  s3=$BATS_FILE_TMPDIR/s3/bucket
}
teardown() {
  [[ -n ${BATS_TEST_COMPLETED:-} ]] || tail -n 40 slurm-*.out 2>/dev/null || true
  cluster_teardown
}

# blocker NODE: a job of a higher tier that takes the whole node, and gives it back when it is cancelled.
blocker() { submit -p batch -w "$1" --exclusive --job-name=blocker --output=/dev/null --wrap 'exec sleep 600'; }
# attempt_node JOB: the node on which it runs.
attempt_node() { job_field "$1" NodeList; }
is_sent() { on_login dlckpt ls --json "lab:bucket/ckpt/$1" 2>/dev/null | jq -e 'any(.[]; .state == "committed")' >/dev/null; }
fetched() { jq .fetched "dl-$1/data/fetch-$2.json"; }

@test "PyTorch trains from S3, is preempted, goes on on another node, and has the weights of an undisturbed run; a warm node fetches nothing" {
  cp "$BATS_FILE_TMPDIR/train.py" .
  printf '#!/bin/bash\nexec dlrun -- /usr/bin/python3 train.py\n' >train.sh
  second=$(blocker n2)
  wait_state "$second" RUNNING 60
  job=$(STEPS=$steps submit -p borrow -N1 --exclusive --requeue --open-mode=append --job-name=train --dl-framework=pytorch --dl-learners=2 \
    --dl-data=lab:bucket/set --dl-results=lab:bucket/out --dl-checkpoint="$PWD/ckpt,every=10steps,objects=lab:bucket/ckpt/%j" train.sh)
  wait_step "$job" 15 120
  [ "$(attempt_node "$job")" = n1 ]
  all=$(du -b --apparent-size -c "$s3"/set/large "$s3"/set/deep/* | tail -n 1 | cut -f1)
  [ "$(fetched "$job" n1)" = "$all" ]

  wait_for 120 "the store has a checkpoint" is_sent "$job"

  # Both nodes are taken, and the folder of the checkpoints is lost: only the store has them.
  first=$(blocker n1)
  wait_state "$first" RUNNING 120
  wait_state "$job" PENDING 60
  rm -r ckpt
  on_login scancel "$second"
  wait_file slurm-"$job".out "was fetched from lab:bucket/ckpt/$job" 120
  [ "$(attempt_node "$job")" = n2 ]
  [ "$(fetched "$job" n2)" = "$all" ]
  wait_for 60 "the second attempt has begun" grep -qs '^attempt 2' "dl-$job/results/learner-0"
  from=$(sed -n 's/^attempt 2 begins at //p' "dl-$job/results/learner-0")
  ((from >= 10))
  wait_step "$job" $((from + 5)) 120

  # Back on the first node, whose cache has all of it.
  third=$(blocker n2)
  wait_state "$third" RUNNING 120
  touch fast
  on_login scancel "$first"
  wait_completed "$job" 120
  assert_contains "$(cat "dl-$job/results/learner-1")" '^attempt 3 begins at [1-9]'
  [ "$(jq -c '[.fetched, .bytes == .total, .total]' "dl-$job/data/fetch-n1.json")" = "[0,true,$all]" ]

  cmp "$BATS_FILE_TMPDIR/undisturbed/job/results/weights" "$s3/out/$job/results/weights"
  diff -r "dl-$job/results" "$s3/out/$job/results"
  [ "$(jq '.left | length' "$s3/out/$job/dl-results.json")" = 0 ]
  for attempt in 1 2 3; do grep -q "\"logs/attempt-$attempt/learner-0" "$s3/out/$job/dl-results.json"; done
  jq -r '.files[] | "\(.size) \(.path)"' "$s3/out/$job/dl-results.json" | while read -r size path; do
    [ "$(stat -c %s "$s3/out/$job/$path")" = "$size" ] || { echo "$path has not $size bytes" && return 1; }
  done
  on_login dlckpt fetch "lab:bucket/ckpt/$job" "$PWD/copy"
  [ "$(on_login dlckpt ls --json copy | jq '.[0].step')" = $steps ]
  on_login dlckpt verify copy
  [ "$(find copy -name 'r*.h5' | wc -l)" = 2 ]
  nowhere_planted . "$DL_SANDBOX_DIR/log" "$DL_SANDBOX_DIR/state"
}
