# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154  # lib.bash has $stage
# Helpers of the tests of quotas: a sandbox with two tenants.

# quota_up [options of dl-sandbox up]: 4 nodes of 2 GPUs; vision has 4 of its own, nlp 2. With --slurmdbd a user may have 3 of vision's.
quota_up() {
  local toml=$BATS_FILE_TMPDIR/dl.toml what=partition guaranteed=batch borrow=borrow more=''
  local -a licences=(--conf 'Licenses=dl_nlp:2,dl_nlp/borrow:3,dl_vision/a100:4,dl_vision/borrow:8')
  if [[ " $* " == *' --slurmdbd '* ]]; then
    what=qos guaranteed=dl-guaranteed borrow=dl-borrow licences=() # dlctl quota sync will make them
    more=$'max_user_gpus = 3\nweight = 2.5'
  fi
  cat >"$toml" <<END
[nodes]
gpus_per_node = 2
types = { a100 = 2 }
counts = { a100 = 4 }
[quota]
require_pausable = true
[tenants.vision]
quota = { a100 = 4 }
borrow_limit = 8
max_job_gpus = 6
frameworks = ["generic", "pytorch"]
$more
[tenants.nlp]
quota = 2
borrow_limit = 3
[tiers.guaranteed]
$what = "$guaranteed"
[tiers.borrow]
$what = "$borrow"
END
  [[ ! -d $stage/share/slurm-dl/frameworks.d ]] ||
    printf '[frameworks]\ncatalogue = ["%s"]\n' "$(readlink -f "$stage/share/slurm-dl/frameworks.d")" >>"$toml"
  cluster_up --nodes 4 --gpus-per-node 2 --gpu-type a100 --dl-toml "$toml" \
    "${licences[@]+"${licences[@]}"}" "$@"
}

# user_submit [options and script of sbatch]: as a user, not as root; prints the job's id.
user_submit() {
  local out
  out=$(as_user "$(some_user)" sbatch --parsable -o /dev/null "$@" 2>"$BATS_TEST_TMPDIR/submit.err") || {
    cat "$BATS_TEST_TMPDIR/submit.err" >&2
    return 1
  }
  echo "${out%%;*}"
}
said() { cat "$BATS_TEST_TMPDIR/submit.err"; }

# used LICENCE: how many are held now.
used() { on_login scontrol show lic -o | sed -nE "s|^LicenseName=$1 Total=[0-9]+ Used=([0-9]+) .*|\\1|p"; }

# race_for_the_last_gpu N: two tenants with one GPU of their own left submit N jobs each, as fast as both can; at no time does one
# run more than its own, though GPUs are free, and all have their turn.
race_for_the_last_gpu() {
  local rounds=$1 limit=0
  cat >race <<'END'
#!/bin/bash
# race ACCOUNT ROUNDS: submits as fast as it can.
for ((i = 0; i < $2; i++)); do sbatch -Q -o /dev/null -A "$1" --gpus=1 --wrap 'sleep 0.1' || exit 1; done
END
  chmod 755 race
  user_submit -A vision --gpus=3 --wrap 'sleep 300' >blocker.vision
  user_submit -A nlp --gpus=1 --wrap 'sleep 300' >blocker.nlp
  wait_state "$(cat blocker.vision)" RUNNING 20
  wait_state "$(cat blocker.nlp)" RUNNING 20
  as_user "$(some_user)" "$PWD/race" vision "$rounds" &
  as_user "$(some_user)" "$PWD/race" nlp "$rounds" &
  # Until all have ended: what runs holds at most what is own.
  while :; do
    on_login squeue -h -t RUNNING,COMPLETING -o '%a %T' >running
    if (($(grep -c '^vision RUNNING' running) > 2 || $(grep -c '^nlp RUNNING' running) > 2)); then
      cat running
      return 1
    fi
    if (($(used dl_vision/a100) > 4 || $(used dl_nlp) > 2)); then
      on_login scontrol show lic -o
      return 1
    fi
    [ -n "$(jobs -r)" ] || [ "$(on_login squeue -h -t PENDING,RUNNING -o %i | wc -l)" -gt 2 ] || break
    ((limit++ < 600)) || { echo "the race does not end" >&2; return 1; }
  done
  wait
  [ "$(on_login squeue -h -t COMPLETED -o %a | grep -c vision)" -ge "$rounds" ]
  [ "$(on_login squeue -h -t COMPLETED -o %a | grep -c nlp)" -ge "$rounds" ]
}

# has_reason JOB TEXT: what a job waits for, as Slurm says it.
has_reason() { [[ $(on_login squeue -h -j "$1" -o %r) == *$2* ]]; }
