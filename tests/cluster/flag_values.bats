#!/usr/bin/env bats
# The values of the --dl-* flags on a real cluster: every kind of bad value in sbatch, srun, salloc, #SBATCH lines and the
# environment, and those good ones that flags.bats does not show (types of GPUs, requeue, signal, tiers). After each test no
# node is drained.
# shellcheck disable=SC2016  # much here is expanded by the shells of jobs
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup_file() { cluster_up --nodes 2 --gpus-per-node 2 --gpu-type toy; }
teardown_file() { cluster_down; }
setup() {
  cluster_setup
  [[ -e $stage/lib/slurm/spank_dl.so ]] || skip "the plugins were not built: Slurm's headers are missing"
}
teardown() {
  if [[ -n ${DL_SANDBOX_DIR:-} && -z ${BATS_TEST_SKIPPED:-} ]]; then
    run on_login sinfo -h -N -o '%N %T %E'
    cluster_teardown
    if grep -qE 'drain|down' <<<"$output"; then echo "a node was drained: $output"; return 1; fi
  fi
}

# said: what sbatch said to the last submit, without its own name.
said() { sed 's/^sbatch: //' "$BATS_TEST_TMPDIR/submit.err"; }
# output_of JOB: waits for its end and prints what it printed.
output_of() { wait_state "$1" COMPLETED,FAILED 30 && cat "slurm-$1.out"; }
# refused COMMAND PATTERN: the command fails with a message that matches; no job exists afterwards.
refused() {
  local before after
  before=$(on_login squeue -h -t all -o %i | wc -l)
  run on_login bash -c "$1"
  [ "$status" -ne 0 ] || { echo "accepted: $1"; return 1; }
  assert_contains "$output" "$2" || { echo "from: $1"; return 1; }
  after=$(on_login squeue -h -t all -o %i | wc -l)
  [ "$before" = "$after" ] || { echo "left a job: $1"; return 1; }
}

@test "--dl-gpus with a type, and 0 for a CPU job" {
  job=$(submit --dl-learners=2 --dl-gpus=toy:2 --wrap true)
  assert_contains "$(said)" '2 learners x 2 toy GPUs \(4 in all\) on 2 nodes'
  wait_state "$job" COMPLETED 20
  assert_contains "$(job_field "$job" TRES)$(job_field "$job" ReqTRES)" 'node=2' # the second from 23.02 on
  assert_contains "$(job_field "$job" TresPerTask)$(job_field "$job" TresPerNode)" 'gpu:toy[:=]2'
  job=$(submit --dl-learners=2 --dl-gpus=0 --wrap 'srun bash -c "echo none:\$CUDA_VISIBLE_DEVICES"')
  assert_contains "$(said)" '2 learners on CPUs'
  [ "$(output_of "$job" | grep -c '^none:')" -eq 2 ]
  [ -z "$(job_field "$job" TresPerTask)" ]
}

@test "--dl-framework=mpi: ranks of an MPI program" {
  command -v mpicc >/dev/null || skip "needs mpicc"
  on_login srun --mpi=list 2>&1 | grep -qw pmix || skip "this Slurm has no mpi/pmix plugin"
  mpicc -o allreduce "${top_srcdir:?}/tests/cluster/mpi_allreduce.c"
  run on_login srun --mpi=pmix --dl-framework=mpi --dl-learners=4 ./allreduce
  echo "$output"
  [ "$(grep -cE '^rank [0-3] of 4 on n[12]: sum 6$' <<<"$output")" -eq 4 ]
}

@test "--dl-checkpoint: requeued, appending, warned before its time limit; the path reaches the job" {
  job=$(submit --dl-learners=1 --dl-checkpoint="$PWD/ckpt,every=10m,keep=5" -t 10 --wrap 'echo "$DL_CHECKPOINT"')
  assert_contains "$(said)" 'checkpoint every 10m'
  [ "$(output_of "$job")" = "$PWD/ckpt,every=10m,keep=5" ]
  [ "$(job_field "$job" Requeue)" = 1 ]
  job=$(submit --dl-learners=1 --dl-checkpoint=ckpt,every=50steps --wrap 'echo "run $SLURM_RESTART_COUNT"; [ -n "$SLURM_RESTART_COUNT" ] || sleep 60')
  assert_contains "$(said)" 'checkpoint every 50 train steps'
  wait_file "slurm-$job.out" '^run $' 20
  on_login scontrol requeue "$job"
  wait_for 20 "the job is back in the queue" in_state "$job" PENDING
  wait_for 20 "Slurm takes the new start time" on_login scontrol update JobId="$job" StartTime=now
  wait_file "slurm-$job.out" '^run 1$' 30
  assert_contains "$(cat "slurm-$job.out")" '^run $'
}

@test "the signal before the time limit comes to the steps of a job with --dl-checkpoint, and spares who ignores it" {
  # Slurm looks once in half a minute, and the signal may come a minute early.
  cat >listen.py <<'END'
import signal, time
def noticed(*_):
    print("noticed", flush=True)
    raise SystemExit
signal.signal(signal.SIGUSR2, noticed)
time.sleep(60)
END
  cat >listen.sh <<'END'
#!/bin/bash
#SBATCH --dl-learners=2 --dl-checkpoint=ckpt --time=1
echo "asked for $DL_SIGNAL"
srun bash -c 'if ((SLURM_PROCID == 0)); then exec python3 listen.py; else sleep 50; echo "a plain program lives on"; fi'
END
  job=$(submit listen.sh)
  wait_file "slurm-$job.out" 'asked for USR2@15' 20
  wait_file "slurm-$job.out" noticed 90
  wait_file "slurm-$job.out" 'lives on' 60
}

@test "--dl-tier: borrow and guaranteed are the site's partitions; auto is guaranteed" {
  for row in borrow:borrow guaranteed:batch auto:batch; do
    job=$(submit --dl-learners=1 --dl-tier="${row%:*}" --dl-checkpoint=ckpt --wrap 'echo "tier $DL_TIER"')
    [ "$(job_field "$job" Partition)" = "${row#*:}" ]
    [ "$(output_of "$job")" = "tier ${row%:*}" ]
  done
  submit --dl-learners=1 --dl-tier=borrow --wrap true
  assert_contains "$(said)" 'without --dl-checkpoint all progress is lost when the borrowed GPUs are taken back'
}

@test "bad values are refused by sbatch with flag, value and what is allowed, and no job is made" {
  while IFS='|' read -r flag pattern; do
    refused "sbatch $flag --wrap true" "$pattern"
  done <<'END'
--dl-framework=nosuch|--dl-framework: 'nosuch' is not a known framework; known: .*pytorch
--dl-framework=pytroch|--dl-framework: 'pytroch' .*pytorch
--dl-framework=|--dl-framework: the value is empty; allowed: NAME
--dl-framework='a b'|--dl-framework: 'a b' is not the name of a framework; allowed
--dl-framework=../../etc|--dl-framework: '../../etc' is not the name
--dl-learners=0|--dl-learners: '0' is not a number of learners; allowed: N or MIN:MAX, from 1 to
--dl-learners=two|--dl-learners: 'two' is not a number
--dl-learners=-1|--dl-learners: '-1' is not a number
--dl-learners=4:2|--dl-learners: '4:2' has a MIN above its MAX
--dl-learners=1:2:3|--dl-learners: '1:2:3' is not a range
--dl-learners=99999999999999999999|--dl-learners: '9+' is not a number
--dl-learners=|--dl-learners: the value is empty
--dl-servers=-1|--dl-servers: '-1' is not a number of parameter servers; allowed: a whole number from 0
--dl-gpus=-1|--dl-gpus: '-1' is not a number of GPUs; allowed: \[TYPE:\]N
--dl-gpus=toy:|--dl-gpus: 'toy:' is not a number of GPUs
--dl-gpus=1.5|--dl-gpus: '1.5' is not a number
--dl-gpus=toy:0|--dl-gpus: a CPU job has no GPUs of type 'toy'
--dl-gpus=3|--dl-gpus=3: a node has 2 such GPUs; allowed: up to 2
--dl-checkpoint=|--dl-checkpoint: the value is empty
--dl-checkpoint=,keep=3|--dl-checkpoint: ',keep=3' has no PATH
--dl-checkpoint=every=10m|--dl-checkpoint: 'every=10m' has no PATH
--dl-checkpoint=p,every=0|--dl-checkpoint: '0' is not an interval
--dl-checkpoint=p,every=10x|--dl-checkpoint: '10x' is not an interval
--dl-checkpoint=p,every=1m,every=2m|--dl-checkpoint: '2m' is a second every=
--dl-checkpoint=p,keep=0|--dl-checkpoint: '0' is not a number of checkpoints to keep
--dl-checkpoint=p,often=yes|--dl-checkpoint: 'often=yes' is not an option of a checkpoint
--dl-restarts=-1|--dl-restarts: '-1' is not a number of restarts; allowed: a whole number from 0
--dl-restarts=many|--dl-restarts: 'many' is not a number
--dl-hang-timeout=soon|--dl-hang-timeout: 'soon' is not a time without progress; allowed: a TIME such as 30m
--dl-preflight=some|--dl-preflight: 'some' is not a kind of check; allowed: off, quick, full
--dl-image=/none.sqfs|--dl-image: '/none.sqfs': No such file or directory; allowed: a directory
--dl-image=oras://x|--dl-image: 'oras://x' is not the path of a container image; allowed: PATH
--dl-placement=heap|--dl-placement: 'heap' is not a placement; allowed: pack, spread
--dl-tier=gold|--dl-tier: 'gold' is not a tier; allowed: auto, guaranteed, borrow
--dl-tier=|--dl-tier: the value is empty
END
}

@test "bad values in #SBATCH lines and in the environment are refused, the latter named by the variable" {
  printf '#!/bin/bash\n#SBATCH --dl-learners=none\ntrue\n' >bad.sh
  refused "sbatch bad.sh" "--dl-learners: 'none' is not a number of learners"
  refused "DL_TIER=gold sbatch --wrap true" "DL_TIER in the environment: 'gold' is not a tier"
  refused "DL_GPUS=x srun true" "DL_GPUS in the environment: 'x' is not a number of GPUs"
}

@test "bad values are refused by srun and salloc as well" {
  for command in srun salloc; do
    refused "$command --dl-framework=nosuch true" "--dl-framework: 'nosuch' is not a known framework"
    refused "$command --dl-learners=0 true" "--dl-learners: '0' is not"
    refused "$command --dl-gpus=x true" "--dl-gpus: 'x' is not"
    refused "$command --dl-checkpoint=p,keep=x true" "--dl-checkpoint: 'x' is not"
    refused "$command --dl-restarts=x true" "--dl-restarts: 'x' is not"
    refused "$command --dl-tier=x true" "--dl-tier: 'x' is not"
  done
}

@test "what the user gave explicitly wins where it does not conflict" {
  job=$(submit --dl-learners=2 --dl-gpus=1 --nodes=2 --cpus-per-task=2 --open-mode=truncate --partition=borrow --wrap 'echo $SLURM_NNODES $SLURM_CPUS_PER_TASK')
  [ "$(output_of "$job")" = "2 2" ]
  [ "$(job_field "$job" Partition)" = borrow ]
}

@test "--nodes with hints on cores and threads says nothing of learners" {
  local hint
  for hint in --hint=nomultithread --ntasks-per-core=1 --threads-per-core=1; do
    run on_login sbatch -W -o /dev/null --nodes=1 "$hint" --dl-learners=2 --wrap 'srun true'
    [ "$status" -eq 0 ]
    run on_login sbatch --test-only --nodes=1 --ntasks=3 "$hint" --dl-learners=2 --wrap true
    assert_contains "$output" '--ntasks=3 conflicts with --dl-learners=2'
  done
}

@test "a forged request of absurd length or with control characters harms nobody" {
  long=$(printf 'x%.0s' {1..100000})
  for value in "$long" $'a\tb' '%n%n%s' '$(touch /tmp/owned)'; do
    run on_login env "SLURM_SPANK__SLURM_SPANK_OPTION_dl_dl_framework=$value" sbatch --parsable -o out --wrap true
    run on_login sbatch --dl-framework="$value" --wrap true
    [ "$status" -ne 0 ]
  done
  [ ! -e /tmp/owned ]
  run on_login scontrol ping
  assert_contains "$output" 'is UP'
}

@test "nothing of ours is in the extern step, nor in jobs without our flags" {
  job=$(submit --dl-framework=pytorch --dl-learners=1 --wrap 'sleep 20')
  wait_state "$job" RUNNING 10
  extern_pids() { on_node n1 scontrol listpids "$job" | awk '$3 == "extern" && $1 > 0 { print $1 }'; }
  # Slurm 26.05 gives the extern step no process.
  slurm_at_least 26.05 || wait_for 10 "the extern step has a process" eval '[ -n "$(extern_pids)" ]'
  for pid in $(extern_pids); do
    [ "$(tr '\0' '\n' <"/proc/$pid/environ" | grep -cE '^(RANK|WORLD_SIZE|MASTER_ADDR|DL_RANK)=')" -eq 0 ]
  done
  [ "$(grep -c "\[$job.extern\].*dl:" "$DL_SANDBOX_DIR/log/slurmd.n1.log")" -eq 0 ]
  plain=$(submit --wrap 'env | grep -E "^(DL_(FRAMEWORK|LEARNERS|GPUS|RANK|CONTROL)|RANK|WORLD_SIZE)=" || echo clean; srun bash -c "echo step:\$RANK"')
  run output_of "$plain"
  assert_contains "$output" '^clean$'
  assert_contains "$output" '^step:$'
}
