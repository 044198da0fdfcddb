#!/usr/bin/env bats
# The sandbox itself: what it promises in dl-sandbox(1). The cluster without accounting is brought up once; sandboxes that
# a test makes besides are its own.
# shellcheck disable=SC2016  # much here is expanded by the shells of jobs
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup_file() { cluster_up --nodes 3 --gpus-per-node 2 --gpu-type toy --grace 7; }
teardown_file() { cluster_down; }
setup() { cluster_setup; }
teardown() {
  cluster_teardown
  [[ ! -e $BATS_TEST_TMPDIR/others ]] || while read -r other; do dl_sandbox --dir "$other" down; done <"$BATS_TEST_TMPDIR/others"
}

# other NAME: the folder of one more sandbox, which teardown ends.
other() {
  local folder=$DL_SANDBOX_DIR-$1
  echo "$folder" >>"$BATS_TEST_TMPDIR/others"
  echo "$folder"
}
up_other() { dl_sandbox --dir "$1" up "${@:2}" 3>&-; }
# leftovers FOLDER: processes, interfaces, mounts and cgroups that name it or carry its mark, one per line.
leftovers() {
  local folder=$1 id=$2 pid
  for pid in $(pgrep -f -- "$folder(/| |$)"); do
    # This test's own shells have it among their words; a zombie is gone but for its parent's notice.
    grep -qE '^State:.*zombie' "/proc/$pid/status" 2>/dev/null || tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -vE 'bats|leftovers' || true
  done
  ip -o link show | grep -F -- "$id" || true
  grep -F -- "$folder" /proc/self/mountinfo || true
  find /sys/fs/cgroup -type d -name "dl-sandbox-$id" 2>/dev/null
  [[ ! -e $folder ]] || echo "$folder"
}
# shellcheck source=/dev/null
setting() { (. "$1/settings" && echo "${!2}"); }

@test "nodes have their own names, addresses and shared memory, and real-looking GPUs" {
  run on_login srun -N3 -n3 --gpus-per-task=2 bash -c 'touch /dev/shm/mine; echo $(hostname) $(ls /dev/shm) $CUDA_VISIBLE_DEVICES $(ip -4 -br addr show eth0 | tr -s " ")'
  [ "$status" -eq 0 ]
  for n in 1 2 3; do assert_contains "$output" "^n$n mine 0,1 eth0@if[0-9]+ UP 10\.77\.[0-9]+\.1$n/24"; done
  [ ! -e /dev/shm/mine ]
  assert_contains "$(on_login sinfo -h -o %G)" "gpu:toy:2"
}

@test "GPUs are handed out once: a third job of one GPU per node waits until one is free" {
  a=$(submit -N3 --gpus-per-node=toy:2 --wrap 'sleep 30')
  wait_state "$a" RUNNING 10
  b=$(submit -w n1 --gpus-per-node=1 --wrap true)
  wait_looked_at "$b" 20
  on_login scancel "$a"
  wait_state "$b" COMPLETED 20
}

@test "a user of the machine submits, runs and sees jobs; from outside with env, too" {
  user=$(some_user)
  run as_user "$user" srun -N2 id -un
  [ "$status" -eq 0 ]
  [ "$output" = "$user"$'\n'"$user" ]
  job=$(as_user "$user" sbatch --parsable -o "$PWD/out" --wrap 'id -un; hostname')
  wait_state "$job" COMPLETED 20
  [ "$(cat out)" = "$user"$'\n'n1 ]
  eval "$(dl_sandbox env)"
  run setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups srun -N3 hostname
  [ "$status" -eq 0 ]
  [ "$(sort <<<"$output" | paste -sd' ')" = "n1 n2 n3" ]
}

@test "MPI finds its peers over PMIx: an allreduce of 6 ranks on 3 nodes, as root and as a user" {
  command -v mpicc >/dev/null || skip "needs mpicc"
  on_login srun --mpi=list 2>&1 | grep -qw pmix || skip "this Slurm has no mpi/pmix plugin"
  mpicc -o "$PWD/allreduce" "${top_srcdir:?}/tests/cluster/mpi_allreduce.c"
  for user in root "$(some_user)"; do
    run as_user "$user" srun --mpi=pmix -N3 -n6 --ntasks-per-node=2 "$PWD/allreduce"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -cE '^rank [0-5] of 6 on n[123]: sum 15$' <<<"$output")" -eq 6 ]
  done
}

@test "a borrower is preempted with the grace time and requeued" {
  assert_contains "$(on_login scontrol show partition borrow)" "GraceTime=7 "
  a=$(submit -p borrow -N3 --gpus-per-node=2 --open-mode=append --wrap 'trap "" TERM; srun bash -c "trap \"echo noticed; exit 0\" TERM; echo running; sleep 60 & wait"; sleep 60')
  wait_file "slurm-$a.out" running 20
  b=$(submit -p batch -N3 --gpus-per-node=2 --wrap true)
  wait_file "slurm-$a.out" noticed 10
  wait_state "$b" COMPLETED 70
  [ "$(job_state "$a")" = PENDING ]
  [ "$(job_field "$a" Restarts)" = 1 ]
}

@test "a job beyond its memory is ended, where cgroups track jobs" {
  [[ $(dl_sandbox status --json | jq .cgroups) == true ]] || skip "no cgroups of version 1 here"
  job=$(submit --mem=64M --wrap 'head -c 300M /dev/zero | tail -n 1 | wc -c')
  wait_state "$job" OUT_OF_MEMORY,FAILED 20
  [ "$(job_state "$job")" = OUT_OF_MEMORY ]
}

@test "a job's process that leaves its session ends with the job, where cgroups track jobs" {
  [[ $(dl_sandbox status --json | jq .cgroups) == true ]] || skip "no cgroups of version 1 here"
  local tag=$((RANDOM + 100000))
  job=$(submit --wrap "setsid sleep $tag & sleep 0.5; echo started; sleep 60")
  wait_file "slurm-$job.out" started 10
  pgrep -f "^sleep $tag"
  on_login scancel "$job"
  wait_state "$job" CANCELLED 20
  wait_for 5 "the process is gone" eval "! pgrep -f '^sleep $tag'"
}

@test "node cut: nothing reaches the node, its processes go on; node heal: it is back" {
  job=$(submit -w n2 --wrap 'for i in $(seq 100); do echo $i; sleep 0.1; done')
  wait_file "slurm-$job.out" '^3$' 10
  dl_sandbox node cut n2
  run on_login timeout 2 bash -c 'exec 3<>/dev/tcp/n2/6818'
  [ "$status" -ne 0 ]
  on_login timeout 2 bash -c 'exec 3<>/dev/tcp/n1/6818'
  assert_contains "$(dl_sandbox status)" '^n2 .* cut'
  at=$(tail -n 1 "slurm-$job.out")
  wait_file "slurm-$job.out" "^$((at + 10))\$" 10
  dl_sandbox node heal n2
  wait_for 10 "n2 is reached" on_login timeout 2 bash -c 'exec 3<>/dev/tcp/n2/6818'
  wait_state "$job" COMPLETED 60
}

@test "slurmctld killed and started again: jobs and their queue are remembered" {
  a=$(submit -N3 --exclusive --wrap 'sleep 15')
  wait_state "$a" RUNNING 10
  b=$(submit -N3 --exclusive --job-name=is-to-be-kept --wrap true)
  wait_for 20 "slurmctld has written that the job waits" grep -aq is-to-be-kept "$DL_SANDBOX_DIR/state/job_state"
  dl_sandbox daemon kill slurmctld
  run on_login timeout 3 scontrol ping
  assert_contains "$output" DOWN
  [ "$(dl_sandbox status --json | jq '.daemons.slurmctld')" = null ]
  dl_sandbox daemon start slurmctld
  wait_for 20 "slurmctld answers" eval 'on_login scontrol ping | grep -q UP'
  wait_state "$a" COMPLETED 30
  wait_state "$b" COMPLETED 30
}

@test "slurmd killed and started again: its running job goes on" {
  job=$(submit -w n3 --wrap 'echo begin; sleep 4; echo end')
  wait_file "slurm-$job.out" begin 20 # it is RUNNING before that, while its prolog runs
  dl_sandbox daemon kill slurmd@n3
  sleep 1 # for so long it is away
  dl_sandbox daemon start slurmd@n3
  wait_state "$job" COMPLETED 30
  assert_contains "$(cat "slurm-$job.out")" end
}

@test "munged stopped and started again: commands work again" {
  dl_sandbox daemon stop munged
  run on_login timeout 5 squeue
  [ "$status" -ne 0 ]
  dl_sandbox daemon start munged
  wait_for 10 "squeue answers" on_login squeue
  run dl_sandbox daemon start munged
  [ "$status" -eq 1 ]
  assert_contains "$output" "munged is running already"
}

@test "exec passes on arguments, the folder, standard input and the exit status" {
  run on_login bash -c 'printf "%s|" "$@"; pwd; exit 7' x 'a b' '' '*'
  [ "$status" -eq 7 ]
  [ "$output" = "a b||*|$PWD" ]
  [ "$(echo hello | on_login cat)" = hello ]
  [ "$(dl_sandbox exec --node n2 hostname)" = n2 ]
  [ "$(on_login hostname)" = login ]
}

@test "two sandboxes side by side do not see each other, and the end of one leaves the other" {
  second=$(other second)
  up_other "$second" --nodes 2 --gpus-per-node 0
  [ "$(dl_sandbox --dir "$second" exec srun -N2 hostname | sort | paste -sd' ')" = "n1 n2" ]
  job=$(submit -N3 --wrap 'sleep 3; srun hostname')
  [ -z "$(dl_sandbox --dir "$second" exec squeue -h)" ]
  [ "$(setting "$second" SB_NET)" != "$(setting "$DL_SANDBOX_DIR" SB_NET)" ]
  dl_sandbox --dir "$second" down
  wait_state "$job" COMPLETED 20
  [ "$(grep -c '^n[123]$' "slurm-$job.out")" -eq 3 ]
}

@test "down leaves no process, interface, mount, cgroup or file, also of jobs, and is idempotent" {
  second=$(other second)
  up_other "$second" --nodes 2
  id=$(setting "$second" SB_ID)
  local tag=$((RANDOM + 100000))
  # A job that leaves its session, one with a network namespace of its own, and a command outside of any job.
  dl_sandbox --dir "$second" exec sbatch --wrap "setsid sleep $tag.1 & unshare -n sleep $tag.2 & wait" -o /dev/null
  dl_sandbox --dir "$second" exec --node n2 bash -c 'setsid sleep $1.3 >/dev/null 2>&1 </dev/null & ' x $tag 3>&-
  wait_for 10 "the jobs run" eval "[ \$(pgrep -fc '^sleep $tag.[123]') -eq 3 ]"
  run leftovers "$second" "$id"
  [ -n "$output" ]
  dl_sandbox --dir "$second" down
  run leftovers "$second" "$id"
  [ "$output" = "" ]
  run pgrep -f "^sleep $tag.[123]"
  if [[ $(dl_sandbox status --json | jq .cgroups) != true && -n $output ]]; then
    kill "$output" # without cgroups, what hides in a network namespace of its own stays
  else
    [ "$output" = "" ]
  fi
  run dl_sandbox --dir "$second" down
  [ "$status" -eq 0 ]
  [ "$output" = "" ]
}

@test "up over a crashed sandbox removes its remains; over a running one it is refused" {
  second=$(other second)
  up_other "$second" --nodes 1
  run dl_sandbox --dir "$second" up
  [ "$status" -eq 1 ]
  assert_contains "$output" "a sandbox is running in .*; end it with: dl-sandbox down"
  # The crash: the process that holds the login host is gone, slurmctld and slurmd are not.
  kill -9 "$(cut -d' ' -f1 "$second/run/login.pid")"
  old=$(cut -d' ' -f1 "$second/run/slurmctld.pid")
  run dl_sandbox --dir "$second" status
  [ "$status" -eq 1 ]
  up_other "$second" --nodes 2
  wait_for 5 "the old slurmctld is gone" eval "! kill -0 $old 2>/dev/null || grep -q zombie /proc/$old/status"
  [ "$(dl_sandbox --dir "$second" exec sinfo -h -N -o %N | sort -u | wc -l)" -eq 2 ]
}

@test "up that is killed half way leaves nothing that down does not remove" {
  second=$(other second)
  for delay in 0.1 0.2 0.35 0.5; do
    timeout -s KILL "$delay" "$top_srcdir/tests/sandbox/dl-sandbox" --dir "$second" up 3>&- || true
    dl_sandbox --dir "$second" down
    run leftovers "$second" no-id
    [ "$output" = "" ]
  done
}

@test "its folder removed by hand: down still ends the processes" {
  second=$(other second)
  up_other "$second" --nodes 1
  id=$(setting "$second" SB_ID)
  rm -rf "$second"
  dl_sandbox --dir "$second" down
  run leftovers "$second" "$id"
  [ "$output" = "" ]
}

@test "bad options are refused with the value and what is allowed, and make nothing" {
  second=$(other second)
  while IFS='|' read -r options pattern; do
    # shellcheck disable=SC2086
    run dl_sandbox --dir "$second" up $options
    [ "$status" -eq 2 ]
    assert_contains "$output" "$pattern"
    [ ! -e "$second" ]
  done <<'END'
--nodes 0|--nodes=0: a whole number from 1 to 200 is allowed
--nodes=x|--nodes=x: a whole number
--nodes|--nodes: a value is needed
--gpus-per-node -1|--gpus-per-node=-1: a whole number from 0 to 64
--grace 1h|--grace=1h: a whole number
--gpu-type A-1|--gpu-type=A-1: lower-case letters
--plugins /nonexistent|--plugins=/nonexistent: no such folder
--prefix /nonexistent|--prefix=/nonexistent: no such folder
--dl-toml /nonexistent|--dl-toml=/nonexistent: no such file
--conf nonsense|--conf=nonsense: KEY=VALUE
--surprise|unknown option '--surprise'
END
  run dl_sandbox --name 'Bad Name' up
  [ "$status" -eq 2 ]
  run dl_sandbox --dir "/tmp/$(printf 'x%.0s' {1..80})" up
  [ "$status" -eq 2 ]
  assert_contains "$output" "at most 70"
  for words in "node cut n9" "node break n1" "daemon kill sshd" "daemon pat munged" "exec" "fly"; do
    # shellcheck disable=SC2086
    run dl_sandbox $words
    [ "$status" -eq 2 ]
  done
}

@test "a folder that is not a sandbox is neither used nor removed" {
  mkdir precious && touch precious/file
  for verb in up down; do
    run dl_sandbox --dir "$PWD/precious" $verb
    [ "$status" -eq 1 ]
    assert_contains "$output" "is not (empty and not )?a sandbox"
    [ -e precious/file ]
  done
}

@test "refusals say in one sentence what is missing" {
  user=$(some_user)
  run setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups "$top_srcdir/tests/sandbox/dl-sandbox" --dir "$(other x)" up
  [ "$status" -eq 1 ]
  assert_contains "$output" "root is needed to make namespaces"
  [ "${#lines[@]}" -eq 1 ]
  # A root without the right to make namespaces, as in a plain container.
  run setpriv --bounding-set -sys_admin --inh-caps -sys_admin "$top_srcdir/tests/sandbox/dl-sandbox" --dir "$(other x)" up
  [ "$status" -eq 1 ]
  assert_contains "$output" "forbids new namespaces even to root; in a container, start it with --privileged"
  # A machine without munge: in a mount namespace where the file cannot be run.
  # shellcheck disable=SC2016
  run unshare --mount bash -c 'mount --bind /dev/null "$1" && "$2" --dir "$3" up' x "$(PATH=$PATH:/usr/sbin command -v munged)" \
    "$top_srcdir/tests/sandbox/dl-sandbox" "$(other x)"
  [ "$status" -eq 1 ]
  assert_contains "$output" "the program munged .* is missing; on Debian the package munge has it"
}

@test "settings that another user has linked to a file of root's are not read" {
  local folder=$DL_SANDBOX_DIR-theirs
  mkdir "$folder"
  echo "touch $PWD/read" >code
  ln -s "$PWD/code" "$folder/settings"
  chown -h 65534 "$folder/settings"
  run dl_sandbox --dir "$folder" status
  rm -r "$folder"
  [ "$status" -ne 0 ]
  assert_contains "$output" 'settings belongs to user 65534, not to root'
  [ ! -e read ]
}

@test "with slurmdbd: accounts, shares, QOS; the guaranteed tier preempts the borrowing one; sacct remembers" {
  for program in slurmdbd mariadbd; do
    PATH=$PATH:/usr/sbin command -v $program >/dev/null || skip "needs $program"
  done
  second=$(other dbd)
  up_other "$second" --nodes 2 --slurmdbd --grace 5
  there() { dl_sandbox --dir "$second" exec "$@" 3>&-; }
  user=$(some_user)
  run there sacctmgr -nP show assoc where user="$user" format=account,fairshare
  [ "$(sort <<<"$output" | paste -sd' ')" = "nlp|1 vision|1" ]
  assert_contains "$(there sacctmgr -nP show qos dl-borrow format=preemptmode,gracetime)" 'requeue.*00:00:05'
  assert_contains "$(there sacctmgr -nP show qos dl-guaranteed format=preempt)" dl-borrow
  borrower=$(dl_sandbox --dir "$second" exec --user "$user" sbatch --parsable -A nlp --qos dl-borrow -N2 --gpus-per-node=2 -o "$PWD/b.out" --wrap 'srun bash -c "trap : TERM; sleep 60 & wait; wait"')
  export DL_SANDBOX_DIR=$second
  wait_state "$borrower" RUNNING 20
  owner=$(submit -A vision --qos dl-guaranteed -N2 --gpus-per-node=2 --comment 'hello' --wrap true)
  wait_state "$owner" COMPLETED 70
  [ "$(job_state "$borrower")" = PENDING ]
  wait_for 20 "sacct knows the job" eval "there sacct -XnP -j $owner -o account,qos,state,comment | grep -qx 'vision|dl-guaranteed|COMPLETED|hello'"
  # A limit of a tenant holds.
  there sacctmgr -iQ modify account vision set GrpTRES=gres/gpu=1
  over=$(submit -A vision -N1 --gpus-per-node=2 --wrap true)
  wait_for 10 "the limit holds the job" eval "there squeue -h -j $over -o %r | grep -q AssocGrpGRES"
  # slurmdbd killed: jobs still run; started again: it learns of them.
  dl_sandbox daemon kill slurmdbd
  free=$(submit -A nlp -N1 --wrap true)
  wait_state "$free" COMPLETED 30
  dl_sandbox daemon start slurmdbd
  wait_for 30 "sacct learns of the job" eval "there sacct -XnP -j $free -o state | grep -qx COMPLETED"
}
