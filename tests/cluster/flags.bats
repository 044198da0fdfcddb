#!/usr/bin/env bats
# The --dl-* flags end to end on a real Slurm without accounting: what the controller makes of them, what jobs find, how
# faults end, and that no node is ever drained.
# shellcheck disable=SC2016  # much here is expanded by the shells of jobs
bats_require_minimum_version 1.5.0
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup_file() { cluster_up --nodes 3 --gpus-per-node 2; }
teardown_file() { cluster_down; }
setup() { cluster_setup; }
teardown() {
  if [[ -n ${kept_toml:-} ]]; then
    printf '%s' "$kept_toml" >"$DL_SANDBOX_DIR/etc/dl.toml"
    sleep 1.1 # slurmctld looks at the file once a second
  fi
  cluster_teardown
}

# batch [options of sbatch] -- SCRIPT: submits the script and waits for its end; prints its output.
batch() {
  local options=() job out
  while [[ $1 != -- ]]; do
    options+=("$1")
    shift
  done
  printf '#!/bin/bash\n%s\n' "$2" >script
  out=$(mktemp out.XXXXXX)
  chmod 666 "$out"
  job=$(submit -o "$PWD/$out" "${options[@]}" script) || return 1
  wait_state "$job" COMPLETED,FAILED,CANCELLED,TIMEOUT 60 || return 1
  echo "$job" >job
  cat "$out"
}
said() { cat "$BATS_TEST_TMPDIR/submit.err"; }
# no_node_is_drained: all nodes are as they were.
no_node_is_drained() { wait_nodes idle 20; }

# bats test_tags=versions
@test "the request becomes nodes, tasks, GPUs, a requeueable job and a line for the user" {
  job=$(submit --dl-framework=pytorch --dl-learners=4 --dl-gpus=1 --dl-tier=borrow --dl-checkpoint=ck,every=10m --wrap 'srun true')
  [ "$(said)" = 'sbatch: dl: understood as pytorch, 4 learners x 1 GPU on 2 to 4 nodes, borrow tier, checkpoint every 10m' ]
  assert_contains "$(job_field "$job" NumNodes)" '^2(-4)?$'
  [ "$(job_field "$job" NumTasks)" = 4 ]
  assert_contains "$(job_field "$job" TresPerTask)" '^gres[:/]gpu[:=]1 *$'
  [ "$(job_field "$job" Requeue)" = 1 ]
  [ "$(job_field "$job" Partition)" = borrow ]
  wait_state "$job" COMPLETED 30
}

@test "three learners with a GPU each fit on two nodes of two" {
  run batch --dl-learners=3 --dl-gpus=1 -- 'srun bash -c "echo task \$SLURM_PROCID of \$SLURM_NTASKS on \$SLURMD_NODENAME"'
  [ "$status" -eq 0 ]
  [ "$(grep -c '^task . of 3 on' <<<"$output")" -eq 3 ]
  [ "$(grep -o 'on n.*' <<<"$output" | sort | uniq -c | awk '{print $1}' | sort | xargs)" = '1 2' ]
}

@test "an elastic job takes the nodes that are free, and no fewer than it needs" {
  blocker=$(submit -N1 --gres=gpu:2 --wrap 'sleep 60')
  wait_state "$blocker" RUNNING 20
  run batch --dl-learners=2:8 --dl-gpus=1 -- 'echo "nodes $SLURM_JOB_NUM_NODES"; srun -l hostname | wc -l'
  [ "$(said)" = 'sbatch: dl: understood as generic, 2 to 8 learners x 1 GPU on 1 to 4 nodes, guaranteed tier' ]
  [ "$output" = $'nodes 2\n4' ]
}

@test "a job finds its request in DL_ variables, with the flags on the command line, in #SBATCH lines and in the environment" {
  show='env | grep -E "^DL_(FRAMEWORK|LEARNERS|GPUS|CHECKPOINT|RESTARTS|TIER)=" | sort'
  run batch --dl-framework=mpi --dl-learners=2 --dl-gpus=0 --dl-checkpoint=/tmp/ck,keep=2 --dl-restarts=3 --dl-tier=guaranteed -- "$show"
  [ "$output" = $'DL_CHECKPOINT=/tmp/ck,keep=2\nDL_FRAMEWORK=mpi\nDL_GPUS=0\nDL_LEARNERS=2\nDL_RESTARTS=3\nDL_TIER=guaranteed' ]
  run batch -- "#SBATCH --dl-framework=mpi"$'\n'"#SBATCH --dl-learners=2"$'\n'"$show"
  [ "$output" = $'DL_FRAMEWORK=mpi\nDL_LEARNERS=2' ]
  # The command line wins over the environment, and that over the script, as sbatch(1) has it.
  DL_LEARNERS=3 DL_RESTARTS=1 run batch --dl-restarts=2 -- "#SBATCH --dl-learners=2"$'\n'"$show"
  [ "$output" = $'DL_LEARNERS=3\nDL_RESTARTS=2' ]
}

@test "a job without a flag of ours is left alone" {
  run batch -- 'env | grep -E "^(DL_FRAMEWORK|DL_LEARNERS|DL_TIER|RANK)=" || echo none'
  [ "$output" = none ]
  [ "$(job_field "$(cat job)" Partition)" = batch ]
  [ -z "$(said)" ]
}

# bats test_tags=versions
@test "--export=NONE loses nothing, in the script and in its steps" {
  run batch --export=NONE --dl-framework=pytorch --dl-learners=2 -- 'echo "$DL_FRAMEWORK $DL_LEARNERS"; srun /bin/bash -c "echo rank \$RANK of \$WORLD_SIZE"'
  assert_contains "$output" '^pytorch 2$'
  assert_contains "$output" '^rank 0 of 2$'
  assert_contains "$output" '^rank 1 of 2$'
  DL_LEARNERS=2 run batch --export=NIL -- 'echo "$DL_LEARNERS"'
  [ "$output" = 2 ]
}

# bats test_tags=versions
@test "a job finds the request that was announced, whatever --export and --export-file say" {
  run batch --dl-learners=1 --export=ALL,DL_LEARNERS=99,DL_GPUS=2,SLURM_SPANK__SLURM_SPANK_OPTION_dl_dl_learners=98 -- \
    'echo "${DL_LEARNERS:-none} ${DL_GPUS:-none}"; srun /bin/bash -c "echo step \$DL_LEARNERS"'
  assert_contains "$output" '^1 none$'
  assert_contains "$output" '^step 1$'
  assert_contains "$(said)" "dl: DL_GPUS=2 in the job's environment alone asks for nothing and is emptied; allowed: --dl-gpus=2"
  run batch --export=ALL,DL_LEARNERS=99 -- 'echo "${DL_LEARNERS:-none}"'
  [ "$output" = none ]
  if slurm_at_least 23.11; then return; fi # has no --export-file
  printf 'PATH=%s\0DL_LEARNERS=99\0_SLURM_SPANK_OPTION_dl_dl_learners=98\0DL_TIER=borrow\0' "$PATH" >of_a_file
  run batch --dl-learners=1 --export-file="$PWD/of_a_file" -- 'echo "${DL_LEARNERS:-none} ${DL_TIER:-none}"'
  [ "$output" = '1 none' ]
  assert_contains "$(said)" "dl: DL_LEARNERS=99 in the job's environment does not count: --dl-learners=1 was asked for"
}

@test "srun starts as many tasks as learners, with their framework's environment and what the user set" {
  run on_login env MASTER_PORT=4711 srun --dl-framework=pytorch --dl-learners=3 --dl-gpus=1 bash -c 'echo "$RANK/$WORLD_SIZE $LOCAL_RANK $MASTER_ADDR:$MASTER_PORT $DL_RANK"'
  [ "$status" -eq 0 ]
  assert_contains "$output" '^0/3 0 n[12]:4711 0$'
  assert_contains "$output" '^1/3 1 n[12]:4711 1$'
  assert_contains "$output" '^2/3 0 n[12]:4711 2$'
}

# in_both_ways NAME [options of sbatch]: submits a job that writes the plan of its learners, and starts them by dlrun and by a plain
# srun; they write down what they find. Before that it runs $before. Its number is in NAME.job.
in_both_ways() {
  local name=$1
  shift
  cat >"$name.sh" <<END
#!/bin/bash
set -e -o pipefail
unset OMP_NUM_THREADS PYTHONUNBUFFERED PYTHONPATH
$before
learner='env -0 >"\$(cat $name.way)/\$DL_RANK"'
mkdir $name.dlrun $name.srun
env -0 | tee $name.dlrun/inherited >$name.srun/inherited
$stage/bin/dlrun --dry-run --json -- sh -c "\$learner" | tee $name.dlrun/plan.json >$name.srun/plan.json
echo $name.dlrun >$name.way
$stage/bin/dlrun -q -- sh -c "\$learner"
echo $name.srun >$name.way
srun sh -c "\$learner"
END
  submit --output="$name.out" --dl-learners=3 --dl-gpus=1 "$@" "$name.sh" >"$name.job"
}

@test "learners of each framework find the same through dlrun, as it says in a dry run, and through a plain srun" {
  local framework name folders=() before='' catalogue=$DL_SANDBOX_DIR/etc/frameworks.d:$stage/share/slurm-dl/frameworks.d families
  mkdir -p "$DL_SANDBOX_DIR/etc/frameworks.d"
  # It has every family there is, so that each name which may differ under srun is in a plan, whatever folders frameworks/ has.
  families=$(sed -nE 's/^ +family\("([a-z_]+)".*/"\1"/p' "$top_srcdir/frameworks/families.cpp" | grep -vx '"dl"' | paste -sd, -)
  [[ $families == *'"torch"'* ]]
  printf 'summary = "of this site"\nfamilies = [%s]\n[environment]\n%s\n%s\n%s\n%s\n%s\n%s\n[[versions]]\nversion = "1"\n%s\n' "$families" \
    'SITE_PLACE = "%{rank}/%{world_size} %{local_rank}/%{local_world_size} %{node_rank}/%{num_nodes} %{gpus}:%{local_gpus}"' 'SITE_CPUS = "%{cpus}"' \
    'SITE_JOB = "%{job_id} %{attempt} %{checkpoint_dir}"' 'SITE_LOGS = "%{job_dir} %{log_dir}"' \
    'SITE_PEERS = "%{peer} of %{peers} at %{port}"' 'SITE_FIRST = "%{address} for %{rank}"' 'environment = { OMP_NUM_THREADS = "7", SITE_OF = "1" }' \
    >"$DL_SANDBOX_DIR/etc/frameworks.d/site.toml"
  sleep 1.1 # slurmctld looks at the files once a second
  in_both_ways site --dl-framework=site --dl-checkpoint=ck
  for framework in "$stage"/share/slurm-dl/frameworks.d/*.toml; do
    framework=$(basename "$framework" .toml)
    in_both_ways "$framework" --dl-framework="$framework"
  done
  in_both_ways saving --dl-framework=pytorch --dl-checkpoint=ck,every=10m --dl-restarts=2 --dl-batch=12:48,rule=linear
  before='export OMP_NUM_THREADS=3 PYTHONPATH=/mine RANK=9 MASTER_PORT=12345 DL_PROGRESS=/stale'
  in_both_ways mine --dl-framework=pytorch
  for name in *.job; do
    name=${name%.job}
    wait_state "$(cat "$name.job")" COMPLETED,FAILED,CANCELLED,TIMEOUT 300
    python3 "$top_srcdir/tests/lib/compare_environment.py" "$catalogue" "$name.dlrun/plan.json" "$name.dlrun" || { echo "above: dlrun, $name" >&2; cat "$name.out" >&2; false; }
    folders+=("$name.srun")
  done
  python3 "$top_srcdir/tests/lib/compare_environment.py" --srun "$catalogue" "${folders[@]}"
  grep -zqE '^SITE_PLACE=2/3 [01]/[1-3] [12]/[23] 1:[01]$' site.srun/2
  grep -zqx OMP_NUM_THREADS=7 site.srun/2
  grep -zqx RANK=2 mine.srun/2
  run ! grep -z '^DL_PROGRESS=' mine.srun/0
  # A difference is found.
  printf 'NEW=1\0RANK=7\0' >>mine.srun/1
  run python3 "$top_srcdir/tests/lib/compare_environment.py" --srun "$catalogue" "${folders[@]}"
  [ "$output" = "mine.srun, rank 1: RANK was to be '1' and is '7'"$'\n'"mine.srun, rank 1: NEW='1' was not said" ]
  rm -r "$DL_SANDBOX_DIR/etc/frameworks.d"
  sleep 1.1 # slurmctld looks at the files once a second
}

@test "PyTorch finds its peers through a plain srun" {
  /usr/bin/python3 -c 'import torch.distributed' 2>/dev/null || skip 'python3 has no torch'
  cat >sum.py <<'END'
import torch, torch.distributed as dist
dist.init_process_group("gloo")
t = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(t)
print("sum", int(t.item()), flush=True)
END
  run on_login srun --dl-framework=pytorch --dl-learners=3 --dl-gpus=1 /usr/bin/python3 "$PWD/sum.py"
  [ "$status" -eq 0 ]
  [ "$(grep -c '^sum 6$' <<<"$output")" -eq 3 ]
}

@test "salloc's shell has the request, and a plain srun in it starts the learners" {
  run on_login salloc --dl-framework=pytorch --dl-learners=3 --dl-gpus=1 bash -c 'echo "$DL_FRAMEWORK $DL_LEARNERS"; srun bash -c "echo rank \$RANK of \$WORLD_SIZE"'
  [ "$status" -eq 0 ]
  assert_contains "$output" 'salloc: dl: understood as pytorch, 3 learners x 1 GPU on 2 to 3 nodes'
  assert_contains "$output" '^pytorch 3$'
  [ "$(grep -c '^rank . of 3$' <<<"$output")" -eq 3 ]
}

@test "interactive jobs are not requeued" {
  on_login salloc --no-shell --dl-checkpoint=ck 2>salloc.err
  job=$(grep -oE 'allocation [0-9]+' salloc.err | head -n 1 | tr -dc 0-9)
  [ "$(job_field "$job" Requeue)" != '' ]
  on_login scontrol show job "$job" | grep -vq SIGUSR2
  on_login scancel "$job"
}

@test "a job submitted from a job does not inherit the request, but takes what the script set anew" {
  run batch --dl-framework=pytorch --dl-learners=2 --dl-checkpoint=ck -- \
    'export DL_LEARNERS=1; sbatch -W -o '"$PWD"'/inner --wrap "env | grep -E \"^DL_(FRAMEWORK|LEARNERS|CHECKPOINT|SIGNAL)=\"" 2>&1'
  assert_contains "$output" 'sbatch: dl: understood as generic, 1 learner, guaranteed tier$'
  [ "$(cat inner)" = DL_LEARNERS=1 ]
}

@test "conflicts with Slurm's own options are refused with both named" {
  while IFS='|' read -r options message; do
    # shellcheck disable=SC2086  # several options
    run submit $options --wrap true
    [ "$status" -ne 0 ] || { echo "taken: $options"; false; }
    assert_contains "$output" "sbatch: error: dl: $message"
  done <<'END'
--dl-learners=4 --ntasks=3|--ntasks=3 conflicts with --dl-learners=4
--dl-gpus=1 --gres=gpu:1|--gres or --gpus-per-node .* conflicts with --dl-gpus=1
--dl-gpus=1 --gpus=1|--gpus .* conflicts with --dl-gpus=1
--dl-gpus=1 --gpus-per-node=1|--gres or --gpus-per-node .* conflicts with --dl-gpus=1
--dl-gpus=1 --ntasks=1 --gpus-per-task=1|--gpus-per-task .* conflicts with --dl-gpus=1
--dl-gpus=3|--dl-gpus=3: a node has 2 such GPUs
--dl-learners=4 --dl-gpus=1 --nodes=1|--nodes=1 conflicts with 4 learners x 1 GPU: they need at least 2 nodes
--dl-learners=2 --nodes=3|--nodes=3 conflicts with --dl-learners=2
--dl-checkpoint=ck --no-requeue|--no-requeue conflicts with --dl-checkpoint
--dl-checkpoint=ck --array=0-3|--array=0-3 conflicts with --dl-checkpoint
--dl-tier=borrow --partition=batch|--partition=batch conflicts with --dl-tier=borrow, which means --partition=borrow here
END
}

@test "heterogeneous jobs with our flags are refused, and others are not" {
  run submit --dl-learners=2 : -n1 --wrap true
  [ "$status" -ne 0 ]
  assert_contains "$output" 'dl: --dl-\* flags are not available in heterogeneous jobs'
  job=$(submit -n1 : -n1 --wrap true)
  wait_state "$job" COMPLETED 30
}

@test "arrays get the shape for each task" {
  job=$(submit --array=0-2%1 --dl-learners=2 --dl-gpus=1 --dl-checkpoint=ck -o "$PWD/a%a" --wrap 'echo $DL_LEARNERS $SLURM_NTASKS')
  wait_for 60 'all three have written' bash -c 'cat a0 a1 a2 2>/dev/null | wc -l | grep -qx 3'
  [ "$(cat a0 a1 a2 | sort -u)" = '2 2' ]
}

@test "values that were forged past the checks fail the task with one line, and drain no node" {
  # A client without the plugin, and an environment that carries a bad value to the node.
  sed '/^PlugStackConfig/d' "$DL_SANDBOX_DIR/etc/slurm.conf" >client.conf
  for forged in dl_dl_gpus=two dl_dl_framework=torch "dl_dl_checkpoint=$(printf 'a\001b')" "dl_dl_tier=$(printf '%05000d' 0)"; do
    # slurmctld takes it out of a batch job, to which it was not announced; a step brings it to the node.
    job=$(on_login env SLURM_CONF="$PWD/client.conf" "_SLURM_SPANK_OPTION_$forged" sbatch --parsable -o "$PWD/batch.out" --wrap 'echo ran')
    wait_state "$job" COMPLETED 30
    [ "$(cat batch.out)" = ran ]
    run on_login env SLURM_CONF="$PWD/client.conf" "_SLURM_SPANK_OPTION_$forged" srun sh -c 'echo ran'
    [ "$status" -ne 0 ]
    [ "$(grep -c 'dl: --dl-' <<<"$output")" -eq 1 ] || { echo "$output"; false; }
    [ "$(grep -c '^ran' <<<"$output")" -eq 0 ]
  done
  no_node_is_drained
}

@test "a framework that only the node does not know fails the step and drains no node" {
  run batch --dl-framework=pytorch --dl-learners=2 -- 'SLURM_SPANK__SLURM_SPANK_OPTION_dl_dl_framework= ; srun --dl-framework=torch true'
  assert_contains "$output" "dl: --dl-framework: 'torch' is not a known framework; known: "
  no_node_is_drained
}

@test "the configuration is read again when it changes, and a broken one changes nothing" {
  kept_toml=$(cat "$DL_SANDBOX_DIR/etc/dl.toml"; echo)
  printf '%s\n[defaults]\nframework = "mpi"\n' "$kept_toml" >"$DL_SANDBOX_DIR/etc/dl.toml"
  sleep 1.1 # slurmctld looks at the file once a second
  job=$(submit --dl-learners=1 --wrap true)
  assert_contains "$(said)" 'dl: understood as mpi, 1 learner'
  echo '[defaults' >"$DL_SANDBOX_DIR/etc/dl.toml"
  sleep 1.1 # as above
  for _ in 1 2 3; do job=$(submit --dl-learners=1 --wrap true); done
  assert_contains "$(said)" 'dl: understood as mpi, 1 learner'
  [ "$(grep -c 'dl.toml:1: .*the former configuration stays in force' "$DL_SANDBOX_DIR/log/slurmctld.log")" -eq 1 ]
  wait_state "$job" COMPLETED 30
  # A controller that starts with it refuses our flags, and serves all others.
  dl_sandbox daemon stop slurmctld
  dl_sandbox daemon start slurmctld
  run submit --dl-learners=1 --wrap true
  assert_contains "$output" "dl: --dl-\* flags cannot be used at the moment: this cluster's dl.toml is not usable"
  job=$(submit --wrap true)
  wait_state "$job" COMPLETED 30
  printf '%s' "$kept_toml" >"$DL_SANDBOX_DIR/etc/dl.toml"
  sleep 1.1 # as above
  job=$(submit --dl-learners=1 --wrap true)
  assert_contains "$(said)" 'dl: understood as generic, 1 learner'
  wait_state "$job" COMPLETED 30
}

@test "users cannot move a job into a tier's partition; root can, and other changes are free" {
  user=$(some_user)
  job=$(as_user "$user" sbatch --parsable -H -p batch --wrap true 2>/dev/null)
  run as_user "$user" scontrol update JobId="$job" Partition=borrow
  [ "$status" -ne 0 ]
  assert_contains "$output" 'Access/permission denied'
  [ "$(job_field "$job" Partition)" = batch ]
  as_user "$user" scontrol update JobId="$job" Comment=mine TimeLimit=5
  # Without slurmdbd slurmctld finds no association for the new partition, and refuses with whatever errno was last
  # (_update_job() in job_mgr.c); up to 24.11 that is none.
  on_login scontrol update JobId="$job" Partition=borrow || { slurm_at_least 25.05 && skip "root cannot either: Slurm says 'Resource temporarily unavailable'"; }
  [ "$(job_field "$job" Partition)" = borrow ]
}

@test "users other than root have the flags too" {
  user=$(some_user)
  run as_user "$user" srun --dl-framework=pytorch --dl-learners=2 --dl-gpus=1 bash -c 'echo "$(id -un) $RANK/$WORLD_SIZE"'
  [ "$status" -eq 0 ]
  assert_contains "$output" "^$user 1/2$"
}

@test "the warning before the time limit does not end a plain task that knows nothing of it" {
  run batch --dl-checkpoint=ck -- 'echo "$DL_SIGNAL"; srun bash -c "kill -USR2 \$\$; echo alive"'
  [ "$output" = $'USR2@120\nalive' ]
  # With the user's own --signal, it is the user's business.
  run batch --dl-checkpoint=ck --signal=USR2@30 -- 'srun bash -c "trap \"echo caught\" USR2; kill -USR2 \$\$; true"'
  [ "$output" = caught ]
}

@test "after all this no node is drained" {
  no_node_is_drained
}
