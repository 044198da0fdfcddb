#!/usr/bin/env bats
# Until when a job may run that Slurm ends before its learners run, or while another dlrun takes the place of one that died:
# for KillWait of slurm.conf. Slurm's commands are doubles, and srun starts no agent, so that no learner ever runs.
# shellcheck disable=SC2016  # expanded by the doubles
bats_require_minimum_version 1.5.0
# shellcheck source=tests/cli/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup() {
  dlrun_setup
  local host
  host=$(hostname)
  export SLURM_JOB_ID=7 SLURM_JOB_NODELIST=$host SLURM_NNODES=1 SLURM_NTASKS=1 SLURM_TASKS_PER_NODE=1 SLURM_JOB_CPUS_PER_NODE=2
  mkdir bin
  printf '%s\n' '#!/bin/sh' 'case "$*" in' '"show config") echo "KillWait                = 60 sec" ;;' \
    '"show job"*) cat job.txt ;;' 'esac' >bin/scontrol
  # It ends with dlrun, or once dlrun's guard has removed that file.
  printf '%s\n' '#!/bin/sh' 'touch asked-for-agents' 'while [ -e job/control.json ]; do sleep 0.1; done' >bin/srun
  chmod 755 bin/*
  export PATH=$PWD/bin:$PATH
  job_is RUNNING 0
  "$dlrun" --preflight=off --job-dir job -- true >out 2>&1 3>&- &
  guard=$!
  for _ in $(seq 600); do
    [[ ! -e asked-for-agents ]] || return 0
    sleep 0.1
  done
  cat out >&2
  return 1
}

# job_is STATE RESTARTS: what Slurm says of the job from now on.
job_is() {
  {
    printf 'JobId=7 JobName=train\n   UserId=%s(%s) GroupId=users(100) MCS_label=N/A\n' "$(id -un)" "$(id -u)"
    printf '   JobState=%s Reason=None Dependency=(null)\n   Requeue=1 Restarts=%s BatchFlag=1 Reboot=0 ExitCode=0:0\n' "$@"
    printf '   RunTime=00:00:01 TimeLimit=1-00:00:00 TimeMin=N/A\n   NodeList=%s\n   NumNodes=1 NumCPUs=2\n\n' "$(hostname)"
  } >new
  mv new job.txt
}

# The seconds that were left until the newest deadline when it was noted.
seconds_left() { jq -s '[.[] | select(.memory.stop.deadline_ms) | (.memory.stop.deadline_ms - .time_ms) / 1000] | last | ceil' job/events.jsonl; }

# goes_back: dlrun ends, and Slurm was to end the job in KillWait.
goes_back() {
  local status=0
  wait "$guard" || status=$?
  [ "$status" -eq 76 ] || { echo "ended with $status" >&2; cat out >&2; return 1; }
  contains "$(cat out)" "^dlrun: requeued by Slurm: $1\$"
  # Less than it was at the signal, since this machine may be slow.
  (($(seconds_left) > 40 && $(seconds_left) <= 60)) || { cat job/events.jsonl >&2; return 1; }
}

@test "a job that Slurm ends before its learners run has KillWait of slurm.conf" {
  job_is PENDING 1
  kill "$guard"
  goes_back 'stopped before training began'
}

@test "a job that Slurm ends while another dlrun takes the place of one that died has KillWait of slurm.conf" {
  job_is PENDING 1
  kill -9 "$(jq -r .pid job/control.json)"
  goes_back 'dlrun died before the learners had saved'
}
