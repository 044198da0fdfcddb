#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154,SC2016  # lib.bash has $stage; what mallory runs expands there
# Attacks by what is submitted: GPUs that nobody is charged for, odd spellings of them, other people's jobs, texts that
# look like a label, and very many jobs. attacks.md lists them.
bats_require_minimum_version 1.5.0
load lib.bash
load hostile.bash

setup_file() { hostile_up; }
teardown_file() { cluster_down; }
setup() { cluster_setup; }
teardown() { hostile_end; }

@test "GPUs without a tenant's account are refused, however they are asked for" {
  printf '#!/bin/bash\n#SBATCH --gpus=1\nsleep 60\n' >in_script.sh
  printf '#!/bin/bash\nsleep 60\n' >s.sh
  chmod 755 ./*.sh
  refuse_all 20 <<'END'
    no account      | sbatch --gpus=1 s.sh
    no account      | sbatch --gpus-per-node=1 s.sh
    no account      | sbatch --gpus-per-task=1 -n1 s.sh
    no account      | sbatch --gpus-per-socket=1 --sockets-per-node=1 -N1 s.sh
    no account      | sbatch --gres=gpu:1 s.sh
    no account      | sbatch --gres=gpu s.sh
    no account      | sbatch --gres=gpu:0,gpu:1 s.sh
    no account      | sbatch --dl-gpus=1 s.sh
    no account      | sbatch in_script.sh
    no account      | env SBATCH_GPUS=1 sbatch s.sh
    no account      | env SBATCH_GRES=gpu:1 sbatch s.sh
    no account      | sbatch --array=1-3 --gpus=1 s.sh
    no account      | sbatch --account= --gpus=1 s.sh
    no account      | sbatch -A '' --gpus=1 s.sh
    .               | sbatch -A ' ' --gpus=1 s.sh
    no account      | srun --gpus=1 true
    no account      | salloc --gpus=1 true
    no account      | sbatch --wckey=lab --gpus=1 s.sh
    account 'root'  | sbatch -A root --gpus=1 s.sh
    no account      | env SBATCH_ACCOUNT= sbatch --gpus=1 s.sh
END
}

@test "licences of tenants are not for users to ask for, in any spelling" {
  printf '#!/bin/bash\n#SBATCH -L dl_lab:1\nsleep 60\n' >in_script.sh
  printf '#!/bin/bash\nsleep 60\n' >s.sh
  refuse_all 15 <<'END'
    licen | sbatch -A bio -L dl_bio:1 --gpus=1 s.sh
    licen | sbatch -A bio -L dl_bio/borrow:1 --gpus=1 s.sh
    licen | sbatch -A bio -L dl_lab --gpus=1 s.sh
    licen | sbatch -A bio -L dl_lab:0 --gpus=1 s.sh
    licen | sbatch -A bio -L 'dl_lab*1' --gpus=1 s.sh
    licen | sbatch -A bio -L 'dl_lab=1' --gpus=1 s.sh
    licen | sbatch -A bio -L ' dl_lab:1' --gpus=1 s.sh
    licen | sbatch -A bio -L 'x,dl_lab:1' --gpus=1 s.sh
    licen | sbatch -A bio -L dl_lab:-1 --gpus=1 s.sh
    licen | sbatch -A bio -L dl_lab:4294967297 --gpus=1 s.sh
    licen | sbatch -A bio -L dl_nobody:1 --gpus=1 s.sh
    licen | sbatch -A bio in_script.sh
    licen | srun -A bio -L dl_lab:1 --gpus=1 true
    licen | salloc -A bio -L dl_lab:1 --gpus=1 true
    licen | sbatch --array=1-2 -L dl_lab:1 s.sh
END
}

# charged_of JOB: for how many it is charged.
charged_of() { job_field "$1" Licenses | tr ',' '\n' | sed -nE 's/^dl_[a-z]+(\/borrow)?:([0-9]+)$/\2/p' | awk '{ n += $1 } END { print n + 0 }'; }

@test "however a job spells its GPUs, it is refused or charged for those that Slurm gives it" {
  local options job held charged taken=0 count=0
  while read -r options; do
    [[ -n $options ]] || continue
    ((++count))
    job=$(mallory bash -c "sbatch --parsable -o /dev/null -A lab $options --wrap 'sleep 60'" 2>said) || {
      echo "refused: $options: $(grep -m 1 . said)"
      [ "$(on_login squeue -h -o %i | wc -l)" = 0 ]
      continue
    }
    ((++taken))
    wait_state "$job" RUNNING 20
    held=$(gpus_of "$job") charged=$(charged_of "$job")
    echo "$options: holds $held, is charged for $charged"
    # What Slurm takes for one (gpu:1,gpu:1) may be charged twice; the reverse is what the attack wants.
    ((held > 0 && charged >= held)) || return 1
    [[ $options == --gres=*,* ]] || ((charged == held)) || return 1
    on_login scancel "$job"
    wait_nodes idle 20
  done <<'END'
--gpus=2
-G gpu:2
--gres=gpu:2
--gres=gpu:1,gpu:1
--gres=gpu:2:2
--gres=gpu::2
--gres=gpu:0x2
--gres=gpu:1k
--gres=gpu:-1
--gres=GPU:1
--gres=gpu:+1
--gres=gpu:1.5
--gres=none,gpu:1
--gres=gpu:bogus:1
--gres=shard:1
--gres=mps:50
--gres=gres:gpu:1
--gres=gres/gpu:1
--gpus=bogus:1
--gpus-per-node=1 -N3
--gpus-per-node=1 --nodes=1-3
--gpus-per-task=1 -n4
--gpus-per-task=1 -N2 --ntasks-per-node=2
--gpus=2 --ntasks-per-gpu=1
--gpus-per-socket=1 --sockets-per-node=1 -N2
--gpus=1 --gpus-per-node=2
--gpus=4 --gpus-per-node=2
--gpus=3 --gpus-per-task=1
--gres=gpu:1 --gpus=2
--gres=gpu:1 --overcommit -n 9
--gpus=1 --oversubscribe
--gpus=1 --exclusive
--gpus=1 --mem-per-gpu=1
--gpus=1 --cpus-per-gpu=1
--gpus=1 -N2
--gpus=2 --use-min-nodes
--gpus=1 --contiguous
--gpus=1 --gres-flags=disable-binding
--dl-gpus=1 --dl-learners=3
--dl-gpus=1 --dl-learners=1:3
--dl-gpus=1 --gpus=2
--dl-gpus=2 --gres=gpu:1
--dl-gpus=0 --gpus=2
--dl-gpus=1 --dl-learners=2 --ntasks=4
END
  echo "$count spellings, $taken of them taken"
  ((count >= 40 && taken >= 12))
}

@test "a job takes no more GPUs from within than it was given, and none of another job's" {
  owner=$(as_user games sbatch --parsable -o /dev/null -A lab --gpus=1 -w n1 --wrap 'sleep 600' 2>/dev/null)
  wait_state "$owner" RUNNING 20
  cat >s.sh <<END
#!/bin/bash
try() { if timeout 10 "\$@" >>out 2>&1; then echo "taken: \$*"; else echo "refused: \$*"; fi >>tried; }
try srun --gpus=2 true
try srun --gres=gpu:2 true
try srun --gpus-per-task=1 -n2 true
try srun -N2 -n2 --gpus-per-node=1 true
try srun --jobid=$owner --overlap true
try srun --jobid=$owner --overlap --gpus=1 true
try sattach $owner.0
try sbatch --jobid=$owner --wrap true
try scontrol update JobId=\$SLURM_JOB_ID TresPerJob=gres:gpu:2
try scontrol update JobId=\$SLURM_JOB_ID NumNodes=3
touch ready
sleep 60
END
  chmod 755 s.sh
  job=$(borrow --gpus=1 -N1 -n1 -w n2 ./s.sh)
  wait_for 90 "it has tried" test -e ready
  cat tried out
  [ "$(wc -l <tried)" = 10 ]
  run ! grep -q ^taken tried
  [ "$(gpus_of "$job")" = 1 ]
}

@test "another user's job is not to be ended, signalled, changed, read, held or told anything" {
  job=$(as_user games sbatch --parsable -o /dev/null -A lab --gpus=1 --wrap 'sleep 600' 2>/dev/null)
  waits=$(as_user games sbatch --parsable -H -o /dev/null -A lab --gpus=1 --wrap 'sleep 600' 2>/dev/null)
  wait_state "$job" RUNNING 20
  refuse_all 20 <<END
    .           | scontrol update JobId=$waits Priority=0
    .           | scontrol update JobId=$waits Nice=1000
    .           | scontrol update JobId=$waits StartTime=now+1hour
    .           | scontrol update JobId=$waits Comment='dl:1 yields=1'
    .           | scontrol update JobId=$waits Dependency=afterok:$job
    .           | scontrol update JobId=$waits TimeLimit=1
    .           | scontrol update JobId=$job Requeue=0
    .           | scontrol hold $waits
    .           | scontrol release $waits
    .           | scontrol requeue $job
    .           | scontrol requeuehold $job
    .           | scontrol notify $job owned
    .           | scontrol write batch_script $job script.\$\$; grep sleep script.\$\$
    .           | scontrol top $waits
    .           | scontrol suspend $job
    .           | scancel $job
    .           | scancel --signal=USR2 --full $job
    .           | scancel --signal=KILL --batch $job
    belongs to  | $stage/bin/dlctl pause --force --no-wait $job
    belongs to  | $stage/bin/dlctl resume $waits
END
  wait_state "$job" RUNNING 1
  [ "$(job_field "$job" Requeue)" = 1 ]
  [ "$(job_field "$waits" Comment)" = '' ]
  wait_state "$waits" PENDING 1
}
