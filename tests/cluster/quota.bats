#!/usr/bin/env bats
# Quotas of tenants on a real Slurm without accounting: who is charged, what is refused, and that slurmctld itself keeps
# the cap, whatever a user tries. The same with slurmdbd: quota_slurmdbd.bats.
# shellcheck disable=SC2016,SC2119  # some is expanded by the shells of jobs
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
# shellcheck source=tests/cluster/quota.bash
source "$(dirname "$BATS_TEST_FILENAME")/quota.bash"

setup_file() {
  quota_up
  [[ -n ${DL_NO_CLUSTER:-} ]] || cp "$DL_SANDBOX_DIR/etc/dl.toml" "$BATS_FILE_TMPDIR/good.toml"
}
teardown_file() { cluster_down; }
setup() { cluster_setup; }
teardown() {
  [[ -n ${DL_NO_CLUSTER:-} ]] || good_config
  cluster_teardown
}
# good_config: what a test has changed in dl.toml is undone.
good_config() {
  cmp -s "$BATS_FILE_TMPDIR/good.toml" "$DL_SANDBOX_DIR/etc/dl.toml" || {
    cp "$BATS_FILE_TMPDIR/good.toml" "$DL_SANDBOX_DIR/etc/dl.toml"
    sleep 1.1 # slurmctld looks at the file once a second
  }
}

@test "a GPU job needs the account of a tenant, and is told which there are" {
  run user_submit --gres=gpu:1 --wrap true
  [ "$status" -ne 0 ]
  assert_contains "$output" "dl: GPUs belong to tenants, and this job has no account; allowed: --account=NAME with one of nlp, vision"
  run user_submit -A physics --gres=gpu:1 --wrap true
  [ "$status" -ne 0 ]
  assert_contains "$output" "dl: account 'physics' is not a tenant"
  user_submit --wrap true # without GPUs nothing is asked
}

# bats test_tags=versions
@test "jobs with and without our flags are charged to their tenant, by sbatch, srun and salloc" {
  job=$(user_submit -H -A vision --gres=gpu:2 --wrap true)
  [ "$(job_field "$job" Licenses)" = dl_vision/a100:2 ]
  assert_contains "$(job_field "$job" AdminComment)" '^dl:1 tenant=vision tier=auto learners=1 gpus=2 .*charge=own'
  job=$(user_submit -H -A vision --dl-learners=3 --dl-gpus=1 --wrap true)
  [ "$(job_field "$job" Licenses)" = dl_vision/a100:3 ]
  job=$(user_submit -H -A vision -n 3 --gpus-per-task=a100:1 --wrap true)
  [ "$(job_field "$job" Licenses)" = dl_vision/a100:3 ]
  job=$(user_submit -H -A vision -N 2 --gpus-per-node=1 --wrap true)
  [ "$(job_field "$job" Licenses)" = dl_vision/a100:2 ]
  job=$(user_submit -H -A vision --gpus=4 --wrap true)
  [ "$(job_field "$job" Licenses)" = dl_vision/a100:4 ]
  run as_user "$(some_user)" srun -A vision -n1 --gres=gpu:a100:1 bash -c 'scontrol show job $SLURM_JOB_ID'
  assert_contains "$output" 'Licenses=dl_vision/a100:1'
  run as_user "$(some_user)" salloc -A nlp --gpus=1 bash -c 'scontrol show job $SLURM_JOB_ID'
  assert_contains "$output" 'Licenses=dl_nlp:1'
}

@test "what a tenant can never have is refused at submission, with the number" {
  while IFS='|' read -r options message; do
    # shellcheck disable=SC2086  # several options
    run user_submit $options --wrap true
    [ "$status" -ne 0 ] || { echo "taken: $options"; false; }
    assert_contains "$output" "$message"
  done <<'END'
-A vision --gpus=7|exceed what one job of tenant 'vision' may have, 6 GPUs
-A vision --gres=gpu:h100:1|dl: GPU type 'h100' is not one of this cluster's; allowed: a100
-A vision --dl-tier=guaranteed --gpus=5|a guaranteed job of 5 GPUs of type 'a100' exceeds the quota of tenant 'vision', 4 GPUs
-A nlp --gpus=6|6 GPUs of type 'a100' exceed the quota of 2; tenant 'nlp' may borrow 3 GPUs
-A nlp --gres=gpu:3|a learner with 3 GPUs of type 'a100' fits on no node; the largest has 2
-A nlp --gpus=3|3 GPUs would be borrowed, which needs a job that can give them back
-A nlp -n 3 --gres=gpu:1|3 tasks may get 1 to 3 nodes
-A nlp --exclusive -N 3|6 GPUs of type 'a100' exceed the quota of 2; tenant 'nlp' may borrow 3
-A vision --dl-framework=mpi --gpus=1|framework 'mpi' is not one of tenant 'vision'; allowed: --dl-framework with generic, pytorch
-A nlp -L dl_vision/a100:1|names that begin with dl_ stand for GPUs of tenants
-A nlp -n1 --gpus=1 : -n1 --gpus=1|dl: GPUs are charged to tenants, which a heterogeneous job cannot be
END
}

@test "an exclusive job is charged for the whole nodes that it gets" {
  job=$(user_submit -A nlp --exclusive --wrap 'sleep 60')
  [ "$(job_field "$job" Licenses)" = dl_nlp:2 ]
  wait_state "$job" RUNNING 20
  assert_contains "$(on_login scontrol show -d job "$job")" 'GRES=gpu:a100:2'
}

@test "a job beyond the quota is borrowed from the start, in the tier that Slurm may take from" {
  job=$(user_submit -H -A vision --gpus=5 --dl-checkpoint=ck --wrap true)
  assert_contains "$(said)" 'dl: tenant vision: 5 GPUs borrowed'
  [ "$(job_field "$job" Partition)" = borrow ]
  # More than may be borrowed is within the quota, which slurmctld counts.
  job=$(user_submit -H -A nlp --gpus=4 --dl-checkpoint=ck --wrap true)
  [ "$(job_field "$job" Licenses)" = dl_nlp:1,dl_nlp/borrow:3 ]
  assert_contains "$(job_field "$job" AdminComment)" 'charge=borrowed own=1'
  job=$(user_submit -H -A nlp --dl-learners=3 --dl-gpus=1 --dl-checkpoint=ck --wrap true)
  [ "$(job_field "$job" Licenses)" = dl_nlp/borrow:3 ]
  [ "$(job_field "$job" Partition)" = borrow ]
  assert_contains "$(job_field "$job" AdminComment)" 'learners=3 gpus=1 .*pausable=1 .*charge=borrowed'
}

@test "slurmctld keeps the cap: a tenant's own GPUs run out, though the cluster has more" {
  first=$(user_submit -A nlp --gpus=2 --wrap 'sleep 60')
  wait_state "$first" RUNNING 20
  second=$(user_submit -A nlp --gpus=1 --wrap 'sleep 60')
  other=$(user_submit -A vision --gpus=4 --wrap 'sleep 60')
  wait_state "$other" RUNNING 20
  [ "$(job_state "$second")" = PENDING ]
  wait_for 20 "job $second waits for licences" has_reason "$second" Licenses
  on_login scancel "$first"
  wait_state "$second" RUNNING 20
}

@test "each element of an array is charged" {
  job=$(user_submit -A nlp --array=1-4 --gpus=1 --wrap 'sleep 60')
  wait_for 20 'two elements run' eval '[ "$(on_login squeue -h -r -j '"$job"' -t RUNNING -o %i | wc -l)" -eq 2 ]'
  wait_for 20 'the others wait for licences' has_reason "$job" Licenses
  [ "$(on_login squeue -h -r -j "$job" -t RUNNING -o %i | wc -l)" -eq 2 ]
  on_login scontrol show lic -o | grep -q '^LicenseName=dl_nlp Total=2 Used=2 '
}

@test "users cannot change what they are charged, and root can" {
  job=$(user_submit -H -A vision --gpus=2 --wrap true)
  for change in Licenses= Licenses=dl_vision/a100:1 Account=nlp NumNodes=2 NumTasks=4 Gres=gpu:2 TresPerJob=gpu:4 \
    OverSubscribe=NO Partition=borrow QOS=other; do
    run as_user "$(some_user)" scontrol update JobId="$job" "$change"
    [ "$status" -ne 0 ] || { echo "taken: $change"; false; }
  done
  run as_user "$(some_user)" scontrol update JobId="$job" AdminComment=x
  [ "$status" -ne 0 ]
  as_user "$(some_user)" scontrol update JobId="$job" Comment=mine
  [ "$(job_field "$job" Licenses)" = dl_vision/a100:2 ]
  on_login scontrol update JobId="$job" Licenses=dl_vision/borrow:2
  on_login scontrol release "$job"
  wait_state "$job" COMPLETED 20
  running=$(user_submit -A vision --gpus=2 --wrap 'sleep 60')
  wait_state "$running" RUNNING 20
  run as_user "$(some_user)" scontrol update JobId="$running" Licenses=
  [ "$status" -ne 0 ]
  on_login scontrol show lic -o | grep -q '^LicenseName=dl_vision/a100 Total=4 Used=2 '
  on_login scontrol update JobId="$running" Licenses=dl_vision/borrow:2
  on_login scontrol show lic -o | grep -q '^LicenseName=dl_vision/a100 Total=4 Used=0 '
  on_login scontrol show lic -o | grep -q '^LicenseName=dl_vision/borrow Total=8 Used=2 '
}

@test "a forged environment gains nothing" {
  run as_user "$(some_user)" env _SLURM_SPANK_OPTION_dl_dl_tier=guaranteed SLURM_SPANK__SLURM_SPANK_OPTION_dl_dl_gpus=0 DL_GPUS=0 \
    SPANK_DL_TENANT=vision DL_TIER=guaranteed sbatch --parsable -o /dev/null -H -A nlp --gpus=1 --wrap true
  # Presets of two kinds ask for GPUs: a clear refusal is as good as a charge.
  if [ "$status" -eq 0 ]; then
    job=$(grep -oE '^[0-9]+' <<<"$output")
    [ "$(job_field "$job" Licenses)" = dl_nlp:1 ]
  else
    assert_contains "$output" 'dl: '
  fi
}

@test "two tenants' jobs that race for the last of their own GPUs never exceed them, in a hundred jobs" {
  race_for_the_last_gpu 50
}

@test "a broken dl.toml does not open the cluster, and slurmctld's restart neither" {
  printf '[tenants.vision]\nquota = -1\n' >"$DL_SANDBOX_DIR/etc/dl.toml"
  sleep 1.1 # slurmctld looks at the file once a second
  job=$(user_submit -H -A nlp --gpus=1 --wrap true)
  [ "$(job_field "$job" Licenses)" = dl_nlp:1 ]
  dl_sandbox daemon stop slurmctld
  dl_sandbox daemon start slurmctld
  wait_controller 60
  run user_submit -H -A nlp --gpus=1 --wrap true
  [ "$status" -ne 0 ]
  assert_contains "$output" 'dl: GPUs cannot be given out at the moment'
  run as_user "$(some_user)" scontrol update JobId="$job" Licenses=
  [ "$status" -ne 0 ]
  user_submit -H --wrap true
  good_config
  user_submit -H -A nlp --gpus=1 --wrap true
  # A slurmctld that was just restarted starts jobs on nodes that have not registered yet, and gives them no GPUs.
  wait_nodes idle 60
}

@test "where the site limits what a job takes beside its GPUs, no job leaves a node's other GPUs without CPUs or memory" {
  sed -i 's/^\[quota\]$/&\nmax_cpus_per_gpu = 2\nmax_memory_per_gpu = "64MiB"/' "$DL_SANDBOX_DIR/etc/dl.toml"
  sleep 1.1 # slurmctld looks at the file once a second
  while IFS='|' read -r options message; do
    # shellcheck disable=SC2086  # several options
    run user_submit -A vision $options --wrap true
    [ "$status" -ne 0 ] || { echo "taken: $options"; false; }
    assert_contains "$output" "$message"
  done <<'END'
--gpus=1 -c 3|dl: the job asks for 3 CPUs with 1 GPU on 1 node, and would leave other GPUs there without; allowed: 2 CPUs for each GPU
--gpus=1 -n 4 -N 1|the job asks for 4 CPUs with 1 GPU
--gpus=1 --mincpus=4|the job asks for 4 CPUs with 1 GPU
--gpus=1 --cpus-per-gpu=3|the job asks for 3 CPUs with 1 GPU
--dl-learners=1 --dl-gpus=1 -c 4|the job asks for 4 CPUs with 1 GPU
--gpus=1 --mem=0|the job asks for all memory of its nodes with 1 GPU on 1 node
--gpus=1 --mem-per-cpu=0|the job asks for all memory of its nodes with 1 GPU on 1 node
--gpus=1 --mem=65M|the job asks for 65.0 MiB of memory with 1 GPU
--gpus=1 -c 2 --mem-per-cpu=33M|the job asks for 66.0 MiB of memory with 1 GPU
--gpus=1 --mem-per-gpu=65M|allowed: 64.0 MiB for each GPU
END
  whole=$(user_submit -H -A vision --gres=gpu:a100:2 -c 4 --mem=0 --wrap true)
  for change in NumCPUs=4 MinCPUsNode=4 MinMemoryNode=0 MinMemoryCPU=500; do
    run as_user "$(some_user)" scontrol update JobId="$whole" "$change"
    [ "$status" -ne 0 ] || { echo "taken: $change"; false; }
  done
  on_login scancel "$whole"
  # Six jobs that take all that they may: four nodes of two GPUs and four CPUs have room for all of them.
  jobs=()
  for tenant in vision vision vision vision nlp nlp; do
    jobs+=("$(user_submit -A "$tenant" --gpus=1 -c 2 --mem=64M --wrap 'sleep 60')")
  done
  for job in "${jobs[@]}"; do wait_state "$job" RUNNING 20; done
  on_login scancel "${jobs[@]}"
}

nlp_owns() {
  local counts
  counts=$(on_login "$stage/bin/dlctl" quota --json | jq -c '.tenants[] | select(.tenant == "nlp") | [.quota, .own]') && [ "$counts" = "[2,$1]" ]
}
fair_share() { on_login "$stage/bin/dlctl" quota --json | jq ".tenants[] | select(.tenant == \"$1\") | .fair_share"; }
nothing_lent() { [[ $(fair_share "$1") =~ ^0(\.0*)?$ ]]; } # jq 1.7 says 0.0 where 1.6 says 0
lent_counts() { [[ $(fair_share "$1") =~ ^(0\.0*[1-9]|[1-9]) ]]; }
@test "dlctl config check says where dl.toml differs from what Slurm has" {
  run on_login "$stage/bin/dlctl" config check
  assert_contains "$output" ': good$'
  [[ $output != *'warning: ['* && $output != *'does not answer'* ]]
  sed -e 's/^partition = "borrow"/partition = "borow"/' -e 's/a100 = 2 }/a100 = 4 }/' -e 's/^borrow_limit = 3/borrow_limit = 5/' \
    "$DL_SANDBOX_DIR/etc/dl.toml" >other.toml
  run on_login "$stage/bin/dlctl" config check "$PWD/other.toml"
  [ "$status" -eq 0 ]
  assert_contains "$output" '^warning: \[tiers.borrow\]: Slurm has no partition .borow.; it has batch, borrow$'
  assert_contains "$output" '^warning: \[nodes.types\] a100 = 4: a node of Slurm.s has up to 2 of them$'
  assert_contains "$output" '^warning: \[tenants\]: Slurm does not have the licences .*dl_nlp/borrow.*allowed: dlctl quota sync$'
}

# bats test_tags=versions
@test "dlctl quota and why read Slurm's records through the module for this Slurm, and tell fair shares" {
  series=$(slurm_version | cut -d. -f1-2)
  module=$(find "$stage" -path "*/slurm-dl/slurm-$series/observe.so")
  [ -n "$module" ] || skip "no module for Slurm $series is installed"
  # A slurmctld that was just restarted starts jobs on nodes that have not registered yet, and gives them no GPUs.
  wait_nodes idle 60
  job=$(user_submit -A nlp --gpus=2 --wrap 'sleep 60')
  wait_state "$job" RUNNING 20
  # Jobs of the tests before may still be completing on its GPUs.
  wait_for 15 "dlctl counts the job's GPUs" nlp_owns 2
  run on_login "$stage/bin/dlctl" why "$job"
  [ "$status" -eq 0 ]
  assert_contains "$output" "^job $job runs"
  # By what is held beyond the quota: nlp has nothing lent yet, and more when it has.
  assert_contains "$(on_login "$stage/bin/dlctl" quota)" '^TENANT .* FAIR SHARE'
  wait_for 15 "what was lent before has ended" nothing_lent nlp
  lent=$(user_submit -A nlp --dl-tier=borrow --dl-framework=generic --dl-learners=2 --dl-gpus=1 --dl-checkpoint=ck --wrap 'sleep 60')
  wait_state "$lent" RUNNING 20
  wait_for 15 "what is lent counts in the fair share" lent_counts nlp
  assert_contains "$(on_login "$stage/bin/dlctl" --version)" "quota and why: for Slurm (.*, )?$series"
}
