#!/usr/bin/env bats
# dlpolicyd where it is busy: real PyTorch trainings taken back from again and again, a race of a hundred jobs, arrays, and a
# save that does not fit into the grace.
# shellcheck disable=SC2154,SC2119,SC2030,SC2031  # variables of the helpers; each test is a subshell
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
# shellcheck source=tests/cluster/reclaim.bash
source "$(dirname "$BATS_TEST_FILENAME")/reclaim.bash"
# shellcheck source=tests/cluster/quota.bash
source "$(dirname "$BATS_TEST_FILENAME")/quota.bash"

example=$top_srcdir/frameworks/pytorch/example
steps=60

setup_file() { reclaim_up; }
teardown_file() { cluster_down; }
setup() { reclaim_setup; }
teardown() { reclaim_teardown; }

weights_in() { sed -n 's/.*weights sha256: //p' "$1" | tail -n 1; }
ended() { in_state "$1" COMPLETED,FAILED,CANCELLED,TIMEOUT,NODE_FAIL; }

@test "a PyTorch training that is taken back from three times over ends with the weights of an undisturbed one" {
  /usr/bin/python3 -c 'import torch, sklearn' 2>/dev/null || skip "/usr/bin/python3 has no PyTorch or no scikit-learn"
  PYTHONWARNINGS=ignore "$stage/bin/dlrun" --framework pytorch --learners 2 -- \
    /usr/bin/python3 "$example/train_digits.py" --steps $steps >reference.out 2>&1 </dev/null 3>&-
  own=$(training --account=nlp train.sh 4000 50)
  wait_state "$own" RUNNING 20
  lent=$(PYTHON=/usr/bin/python3 submit --account=nlp --output=lent.out --time=10 --dl-framework=pytorch --dl-learners=2 --dl-gpus=1 \
    --dl-checkpoint="$PWD/ck,every=20steps" "$example/train_digits.sbatch" --steps $steps --step-delay 0.2 --log-samples "$PWD")
  wait_state "$lent" RUNNING 20
  wait_charge "$lent" borrowed 10
  for claims in 1 2 3; do
    wait_for 60 "attempt $claims trains" past $((15 * claims))
    claim=$(training --account=vision train.sh 10 50)
    wait_state "$claim" COMPLETED 30
  done
  wait_for 60 "job $lent has ended" ended "$lent"
  [ -n "$(weights_in reference.out)" ]
  [ "$(weights_in lent.out)" = "$(weights_in reference.out)" ]
  [ "$(restarts_of "$own")" = 0 ]
  [ "$(restarts_of "$lent")" = 3 ]
  # Nothing was trained twice: it went on where it had been told to stop.
  stopped=$(sed -nE 's/.*dlckpt: stopping at train step ([0-9]+), saved.*/\1/p' lent.out)
  resumed=$(sed -nE 's/.*dlckpt: resumed at train step ([0-9]+) .*/\1/p' lent.out)
  [ "$(wc -l <<<"$stopped")" = 3 ]
  [ "$stopped" = "$resumed" ]
}
# past N: whether learner 0 has begun train step N.
past() { [[ -e learner-0.txt ]] && awk -v n="$1" '$1 >= n { found = 1 } END { exit !found }' learner-0.txt; }

@test "a borrower whose save does not fit into the grace goes without one, says so, and resumes from its last" {
  own=$(training --account=nlp train.sh 4000 50)
  wait_state "$own" RUNNING 20
  folder=$(mktemp -d ck.XXXXXX)
  # A save begins at the end of a train step, and two of these are longer than the grace of 15 s.
  lent=$(submit --account=nlp --dl-framework=generic --dl-learners=2 --dl-gpus=1 --dl-checkpoint="$folder,every=1steps" train.sh 4 7500)
  wait_charge "$lent" borrowed 15
  wait_file "slurm-$lent.out" 'saved at train step 1: ok' 30
  wait_for 10 "this save is durable" eval "compgen -G '$folder/step-*' >/dev/null"
  claim=$(training --account=vision train.sh 20 50)
  wait_for 5 "job $lent is asked to yield" asked "$lent" "$claim"
  wait_state "$claim" RUNNING,COMPLETED 12 # nobody waits for the deadline
  assert_contains "$(output "$lent")" 'not saved: a save takes 1[0-9] s, and 1[0-9] s are left'
  wait_state "$lent" RUNNING 20
  wait_file "slurm-$lent.out" 'attempt 2 starts at train step 1 with 1 counted' 20
}

# elements STATE ARRAY: how many of its elements are in the state; charges CHARGE ARRAY: how many of the running ones are charged so.
elements() { on_login squeue -h -r -t "$1" -j "$2" -o %i | wc -l; }
charges() {
  local id
  for id in $(on_login squeue -h -r -t RUNNING -j "$2" -o %A); do job_field "$id" AdminComment; done | grep -o " charge=$1" | wc -l
}
elements_are() { (($(elements "$1" "$2") == $3)); }
charges_are() { (($(charges "$1" "$2") == $3)); }

@test "the elements of an array are charged, lent to and taken back from one by one" {
  plain=$(submit --account=nlp --gpus=1 --array=0-4 --wrap 'sleep 600')
  wait_for 20 "four elements run" elements_are RUNNING "$plain" 4
  wait_for 10 "two are own" charges_are own "$plain" 2
  wait_for 5 "two are borrowed" charges_are borrowed "$plain" 2
  [ "$(used dl_nlp)" = 2 ]
  [ "$(elements PENDING "$plain")" = 1 ]
  on_login scancel "$plain"
  wait_nodes idle 20
  own=$(training --account=nlp train.sh 4000 50)
  wait_state "$own" RUNNING 20
  # With one checkpoint directory Slurm runs its elements one after another.
  lent=$(training --account=nlp --array=0-1%1 --output=array.%a.out train.sh 200 50)
  wait_file array.0.out 'attempt 1 starts at train step 0' 20
  wait_for 5 "it is borrowed" charges_are borrowed "$lent" 1
  wait_step "${lent}_0" 1 20
  claim=$(training --account=vision train.sh 20 50)
  wait_state "$claim" RUNNING,COMPLETED 20
  assert_contains "$(cat array.0.out)" 'lent GPUs are taken back: saved at train step'
  wait_state "$claim" COMPLETED 20
  wait_file array.0.out 'attempt 2 starts at train step [1-9]' 20
  wait_file array.0.out 'done: 200 counted, none lost' 30
  wait_file array.1.out 'attempt 1 starts' 20
}

# race_under_the_daemon N: both tenants submit N jobs of one GPU at once.
race_under_the_daemon() {
  local rounds=$1 limit=0 racers
  cat >race <<'END'
#!/bin/bash
for ((i = 0; i < $2; i++)); do sbatch -Q -o /dev/null -A "$1" --gpus=1 --wrap 'sleep 0.4' && sleep "$3" || exit 1; done
END
  chmod 755 race
  # One tenant comes and goes, so that it lends and claims by turns.
  as_user "$(some_user)" "$PWD/race" vision "$rounds" 0.3 3>&- &
  racers=$!
  as_user "$(some_user)" "$PWD/race" nlp "$rounds" 0 3>&- &
  racers="$racers $!"
  while :; do
    if (($(used dl_vision) > 2 || $(used dl_nlp) > 2)); then
      on_login scontrol show lic -o
      return 1
    fi
    on_login squeue -h -t RUNNING -o %a >running
    (($(wc -l <running) <= 4))
    jobs -rp | grep -qwE "${racers// /|}" || [ -n "$(on_login squeue -h -t PENDING,RUNNING -o %i)" ] || break
    ((limit++ < 600)) || { echo "the race does not end" >&2; return 1; }
  done
  # shellcheck disable=SC2086  # two process ids
  wait $racers
  [ "$(on_login squeue -h -t COMPLETED -o %a | grep -c vision)" -ge "$rounds" ]
  [ "$(on_login squeue -h -t COMPLETED -o %a | grep -c nlp)" -ge "$rounds" ]
  if grep -E 'failed|contradict' daemon.log; then return 1; fi
}

@test "two tenants' jobs race for the same GPUs under the daemon, a hundred of them: no quota is exceeded, and all have their turn" {
  race_under_the_daemon 50
}
