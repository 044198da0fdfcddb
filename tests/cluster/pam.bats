#!/usr/bin/env bats
# PAM on nodes, as sites use it: pam_slurm_adopt lets only those in by ssh who have a job on the node, and makes them part of it;
# slurmd opens a PAM session for each task (UsePAM).
# shellcheck disable=SC2016  # expands in scripts of jobs
bats_require_minimum_version 1.5.0
load lib.bash

setup_file() {
  DL_PAM_ADOPT=$(find /lib/security /lib/*/security /usr/lib/*/security -name pam_slurm_adopt.so 2>/dev/null | head -n 1)
  export DL_PAM_ADOPT
  cluster_up --nodes 2 --cgroup --conf PrologFlags=Contain --conf UsePAM=1
}
teardown_file() {
  pkill -F "$BATS_FILE_TMPDIR/sshd.pid" 2>/dev/null || true
  cluster_down
}
setup() {
  [ -n "$DL_PAM_ADOPT" ] || skip "needs pam_slurm_adopt.so (libpam-slurm-adopt)"
  cluster_setup
}
teardown() { cluster_teardown; }

# open_door NODE: sshd there asks pam_slurm_adopt, and the user has a shell. What is mounted is seen on this node alone.
open_door() {
  local user
  user=$(some_user)
  mkdir -p home/.ssh run
  [ -e key ] || ssh-keygen -q -t ed25519 -N '' -f key
  [ -e host_key ] || ssh-keygen -q -t ed25519 -N '' -f host_key
  cp key.pub home/.ssh/authorized_keys
  chown -R "$user" home
  sed -E "s#^($user:.*):[^:]*:[^:]*\$#\\1:$PWD/home:/bin/bash#" /etc/passwd >passwd
  printf '%s\n' 'auth required pam_deny.so' "account required $DL_PAM_ADOPT action_adopt_failure=deny action_generic_failure=deny" \
    'session required pam_permit.so' >pam
  printf '%s\n' "HostKey $PWD/host_key" 'UsePAM yes' 'StrictModes no' "PidFile $BATS_FILE_TMPDIR/sshd.pid" 'Port 2222' >sshd_config
  on_node "$1" bash -c "mount --bind passwd /etc/passwd && mount --bind pam /etc/pam.d/sshd && mkdir -p /run/sshd &&
    /usr/sbin/sshd -f $PWD/sshd_config -E $PWD/sshd.log"
}
enter() { # NODE COMMAND
  on_login ssh -n -i key -p 2222 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR "$(some_user)@$1" "$2"
}
both_train() { [ "$(on_login dlctl status "$1" --json | jq '[.[0].ranks[] | select(.state == "PROCESSING")] | length')" = 2 ]; }
in_attempt() { grep -qs "restart $1 of 2" job.out; }

@test "a session that pam_slurm_adopt took into a job lives through restarts and sweeps of its learners, and ends with the job" {
  local job
  open_door n2
  run enter n2 true
  [ "$status" -ne 0 ]
  printf '#!/bin/sh\ndlrun --restarts 2 -- sh -c "echo $$ >learner; exec sleep 300"\n' >train.sh
  chmod 755 train.sh
  job=$(dl_sandbox exec --user "$(some_user)" -- sbatch --parsable -N2 --dl-framework=cpp --dl-learners=2 -o job.out train.sh 3>&-)
  wait_for 60 "both learners train" both_train "$job"
  assert_contains "$(enter n2 'cat /proc/self/cgroup')" "freezer:.*/job_$job/step_extern"
  { enter n2 'echo $$ >session; exec sleep 1000' || echo "ended with $?" >session.end; } 3>&- &
  wait_for 30 "the session has begun" test -s home/session
  # A learner is killed, and then an agent, whose node is swept.
  kill -9 "$(own_pgrep -fx 'sleep 300' | tail -n 1)"
  wait_for 60 "the first restart" in_attempt 1
  wait_for 60 "learners train again" both_train "$job"
  kill -9 "$(agent_of "$job" 1)"
  wait_for 60 "the second restart" in_attempt 2
  wait_for 60 "learners train again" both_train "$job"
  kill -0 "$(<home/session)"
  on_login scancel "$job"
  wait_for 60 "the session has ended with the job" test -e session.end
  run enter n2 true
  [ "$status" -ne 0 ]
}
