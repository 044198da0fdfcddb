#!/usr/bin/env bats
# What users of other launchers complain of, as far as no other test shows it (PAINS.md has the whole list): jobs that
# meet on one port, a launcher that kills who takes longer, GPUs and CPUs that are not where a script looks, steps of a
# learner's own, times that run while a job waits in the queue.
# shellcheck disable=SC2016  # expanded by the shells of learners
bats_require_minimum_version 1.5.0
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup_file() { cluster_up --nodes 2 --cpus-per-node 8 --gpus-per-node 4; }
teardown_file() { cluster_down; }
setup() { cluster_setup; }
teardown() {
  [[ -n ${BATS_TEST_COMPLETED:-} ]] || tail -n 40 ./*.out 2>/dev/null || true
  cluster_teardown
}

@test "four jobs at once on the same two nodes: each meets its own learners, whatever their ids" {
  cat >meet.py <<'PY'
import os, time
import torch.distributed as dist
dist.init_process_group("gloo")
everybody = [None] * dist.get_world_size()
dist.all_gather_object(everybody, os.environ["SLURM_JOB_ID"])
print("met", sorted(set(everybody)), len(everybody), flush=True)
time.sleep(1)  # PyTorch 2.6 locks up where a group is destroyed while a thread of its own still lets go of a tensor
dist.destroy_process_group()
PY
  printf '#!/bin/bash\nexport CUDA_VISIBLE_DEVICES=\nexec dlrun -- /usr/bin/python3 meet.py\n' >job.sh
  local jobs=() job
  for _ in 1 2 3 4; do
    job=$(submit -N2 --output=job-%j.out --dl-framework=pytorch --dl-learners=2 --dl-gpus=0 job.sh)
    jobs+=("$job")
  done
  for job in "${jobs[@]}"; do
    wait_state "$job" COMPLETED 120
    [ "$(grep -c "met \['$job'\] 2" "job-$job.out")" -eq 2 ]
  done
}

@test "learners end when they end: nobody is killed because another one was ready long before" {
  printf '#!/bin/bash\nexec dlrun --grace 1s -- sh -c %q\n' '[ $RANK = 0 ] || exit 0; sleep 8; echo "the results of learner 0"' >job.sh
  job=$(submit -N2 --output=job.out --dl-learners=2 --dl-gpus=0 job.sh)
  wait_state "$job" COMPLETED 40
  assert_contains "$(cat job.out)" 'the results of learner 0'
}

@test "each learner sees all GPUs that the job has on its node, and LOCAL_RANK is the number of its own" {
  printf '#!/bin/bash\nexec dlrun -- sh -c %q\n' 'echo "local $LOCAL_RANK of $LOCAL_WORLD_SIZE sees $CUDA_VISIBLE_DEVICES and takes $DL_LOCAL_GPUS"' >job.sh
  job=$(submit -N2 --ntasks-per-node=2 --output=job.out --dl-framework=pytorch --dl-learners=4 --dl-gpus=1 job.sh)
  wait_state "$job" COMPLETED 40
  for rank in 0 1 2 3; do
    assert_contains "$(cat job.out)" "^\[$rank\] local $((rank % 2)) of 2 sees [0-9],[0-9] and takes $((rank % 2))$"
  done
}

@test "a learner may start steps of its own; what Slurm set for the learners' step is not in their way" {
  printf '#!/bin/bash\nexec dlrun -- sh -c %q\n' '[ $RANK = 1 ] || exit 0; srun --overlap -N2 --ntasks=2 sh -c "echo step of \$SLURM_NTASKS on \$SLURMD_NODENAME"' >job.sh
  job=$(submit -N2 --ntasks=2 --cpus-per-task=2 --output=job.out --dl-learners=2 --dl-gpus=0 job.sh)
  wait_state "$job" COMPLETED 60
  assert_contains "$(cat job.out)" '^\[1\] step of 2 on [a-z]+1$'
  assert_contains "$(cat job.out)" '^\[1\] step of 2 on [a-z]+2$'
}

@test "learners are bound where that is asked for, and else may use all CPUs of the job; what Slurm does not confine is left alone" {
  local show='echo "$(sed -n "s/^Cpus_allowed_list:[[:space:]]*/cpus /p" /proc/self/status)"'
  printf '#!/bin/bash\ndlrun --job-dir free -- sh -c %q\ndlrun --job-dir bound --bind cores -- sh -c %q\n' "$show" "$show" >job.sh
  job=$(submit -N1 --ntasks=2 --cpus-per-task=4 --output=job.out --dl-learners=2 --dl-gpus=0 job.sh)
  wait_state "$job" COMPLETED 40
  [ "$(cat free/logs/latest/learner-0.log)" = "$(cat free/logs/latest/learner-1.log)" ]
  if (($(nproc) >= 2)); then [ "$(cat bound/logs/latest/learner-0.log)" != "$(cat bound/logs/latest/learner-1.log)" ]; fi
  # One of the node's CPUs is the job's, and all can be used: they may be others'.
  (($(nproc) >= 2)) || skip "one CPU cannot be divided"
  printf '#!/bin/bash\nexec dlrun --job-dir one --bind cores -- true\n' >one.sh
  job=$(submit -N1 --ntasks=1 --cpus-per-task=1 --output=one.out --dl-learners=1 --dl-gpus=0 one.sh)
  wait_state "$job" COMPLETED 40
  assert_contains "$(cat one/logs/latest/learner-0.log)" '^dl-bind: this learner is not bound: Slurm gave the job 1 of the [0-9]+ CPUs'
}

@test "times of the launcher begin when the job runs: a wait in the queue costs none of them" {
  cp "$DL_SANDBOX_DIR/etc/dl.toml" soon.toml && printf '[launcher]\nagent_timeout = "3s"\n' >>soon.toml
  printf '#!/bin/bash\nexport DL_CONFIG=%s\nexec dlrun --hang-timeout 3s -- sh -c "sleep 1; echo ran"\n' "$PWD/soon.toml" >job.sh
  job=$(submit -N2 --begin=now+8 --output=job.out --dl-learners=2 --dl-gpus=0 job.sh)
  wait_state "$job" COMPLETED 60
  [ "$(grep -c ran job.out)" -eq 2 ]
}

@test "how long learners have after SIGTERM is the user's to say" {
  local learner='trap "sleep 4; echo in order; exit 0" TERM; echo ready; while :; do sleep 0.1; done' grace
  printf '#!/bin/bash\nexec dlrun --job-dir "grace-$1" --grace "$1" -- bash -c %q\n' "$learner" >job.sh
  for grace in 1s 30s; do
    job=$(submit -N1 --output="$grace.out" --dl-learners=1 --dl-gpus=0 job.sh "$grace")
    wait_file "grace-$grace/logs/attempt-1/learner-0.log" ready 30
    on_login dlctl pause --force "$job"
    wait_file "grace-$grace/events.jsonl" HALTED 30
  done
  run ! grep -q 'in order' grace-1s/logs/latest/learner-0.log
  grep -q 'in order' grace-30s/logs/latest/learner-0.log
}

@test "lines of several learners, and dlrun's own, come whole, however fast they are written" {
  cat >chatter.py <<'PY'
import os
rank = os.environ["RANK"]
for n in range(20):
    os.write(1, b"".join(b"%d %s\n" % (n * 200 + i, rank.encode() * 150) for i in range(200)))
PY
  printf '#!/bin/bash\nexec dlrun -- /usr/bin/python3 chatter.py\n' >job.sh
  job=$(submit -N2 --output=job.out --dl-learners=4 --dl-gpus=0 job.sh)
  wait_state "$job" COMPLETED 60
  [ "$(grep -cE '^\[([0-3])\] [0-9]+ \1{150}$' job.out)" -eq 16000 ]
  run ! grep -vE '^(\[([0-3])\] [0-9]+ \2{150}|dlrun: .*)$' job.out
}
