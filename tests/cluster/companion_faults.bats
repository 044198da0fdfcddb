#!/usr/bin/env bats
# Faults beside those of companion.bats while a job trains on the nodes of a companion, too: an agent, slurmd and slurmctld are killed, the job's
# own node is lost, its time is over. Nothing is lost, and no companion is left. When dlpolicyd is killed: grow_in_place.bats.
# shellcheck disable=SC2154,SC2119,SC2030,SC2031  # variables of the helpers; each test is a subshell
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
# shellcheck source=tests/cluster/companion.bash
source "$(dirname "$BATS_TEST_FILENAME")/companion.bash"

# Slurm gives up a lost node after 10 s instead of five minutes.
setup_file() { cluster_up --nodes 3 --gpus-per-node 1 --conf SlurmdTimeout=10; }
teardown_file() { cluster_down; }
setup() { companion_setup; }
teardown() {
  [[ -n ${BATS_TEST_COMPLETED:-} ]] || grep -h '^dlrun' slurm-*.out 2>/dev/null || true
  companion_teardown n1
}

# goes_with_job: the job is cancelled, and nothing is left of it on any node.
goes_with_job() {
  on_login scancel "$job"
  wait_for 60 "no companion is left" none_left "$job"
  wait_for 30 "no learner is left on any node" no_learner
}

runs_again() { (($(job_field "$job" Restarts) >= 1)) && in_state "$job" RUNNING; }

@test "kill -9 of the agent on a companion's node: the companion is given back, and the job goes on from its checkpoint, and may grow again" {
  train_alone
  grow
  saves_on
  kill_process "$(agent_of "$companion" 0)"
  wait_file "slurm-$job.out" 'learner 1 on n2 was lost: its agent \(dl-agent\) on n2 was killed; n2 is left out; 1 learner on n1' 30
  wait_file "slurm-$job.out" '^attempt 3 starts at train step [1-9]' 30
  wait_for 30 "job $job trains with 1 learner" trains_with "$job" 1
  wait_for 40 "no companion is left" none_left "$job"
  grow
  goes_with_job
}

@test "kill -9 of slurmd on a companion's node: nobody notices, and the companion goes with its job" {
  train_alone
  grow
  dl_sandbox daemon kill slurmd@n2
  saves_on
  [ "$(dlctl status --json "$job" | jq '.[0].attempt')" = 2 ]
  dl_sandbox daemon start slurmd@n2 3>&-
  saves_on
  [ "$(learners_of "$job")" = 2 ]
  goes_with_job
}

@test "kill -9 of slurmctld while a companion trains: nothing stops, and the companion goes with its job" {
  train_alone
  grow
  sleep 6 # slurmctld writes its state each 5 s: what was not written is lost for Slurm, whoever submitted it
  dl_sandbox daemon kill slurmctld
  saves_on
  dl_sandbox daemon start slurmctld 3>&-
  wait_controller 30
  saves_on
  [ "$(job_state "$companion")" = RUNNING ]
  [ "$(learners_of "$job")" = 2 ]
  [ "$(dlctl status --json "$job" | jq '.[0].attempt')" = 2 ]
  goes_with_job
}

@test "the job's own node is lost: the job goes on elsewhere from its checkpoint, and its companion does not outlive it" {
  train_alone
  grow
  saves_on
  dl_sandbox node cut n1
  wait_for 90 "companion $companion is gone" none_left "$job"
  # Slurm alone puts the job back, since the agents on a companion's nodes do not ask for that, and lets it wait for two minutes.
  wait_for 60 "job $job is back in the queue" in_state "$job" PENDING
  on_login scontrol update JobId="$job" StartTime=now+2
  wait_for 60 "job $job starts again" runs_again
  wait_file "slurm-$job.out" 'attempt [3-9] starts at train step [1-9]' 60
  [[ $(job_field "$job" NodeList) != *n1* ]]
  dl_sandbox node heal n1
  goes_with_job
}

@test "the time of the job is over while a companion trains: it saves, goes on by itself, and leaves no companion" {
  train_alone --time=10
  grow
  on_login scontrol update JobId="$job" EndTime=now+60 # dlrun asks Slurm for it now and then
  wait_file "slurm-$job.out" 'time limit.*saved at train step [1-9]' 90
  wait_for 60 "companion $companion is over" companion_is_over
  wait_file "slurm-$job.out" 'attempt 3 starts at train step [1-9]' 90
  goes_with_job
}
