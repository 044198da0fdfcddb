# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Helpers of the cluster tests: one sandbox per file, and few words to submit and watch jobs. In a test file:
#
#   load lib.bash
#   setup_file() { cluster_up --nodes 2; }
#   teardown_file() { cluster_down; }
#   setup() { cluster_setup; }
#   teardown() { cluster_teardown; }
#   @test "..." { job=$(submit --dl-learners=2 train.sh); wait_state "$job" COMPLETED 30; }
#
# Every wait has a limit in seconds, and says what it saw when the limit passes.

: "${top_srcdir:=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}"
: "${top_builddir:=$top_srcdir/build}"
top_srcdir=$(cd "$top_srcdir" && pwd)
export top_srcdir top_builddir
# shellcheck source=tests/lib/jq.bash
source "$top_srcdir/tests/lib/jq.bash"
# The installed tree that is tested.
stage=${DL_STAGE:-$top_builddir/stage}

# Debian's PyTorch 2 has no libuv, and says so where USE_LIBUV does not.
without_libuv() { grep -qs "^__version__ = '2" /usr/lib/python3/dist-packages/torch/version.py; }
if without_libuv; then export USE_LIBUV=0; fi
# Open MPI 6.0.0rc2 (Debian unstable) by itself takes no interface of the sandbox's nodes but the loopback; started by its
# own mpirun, too.
if grep -qsE '^#define OMPI_MAJOR_VERSION +6' /usr/lib/*/openmpi/include/mpi.h; then export OMPI_MCA_btl_tcp_if_include=eth0; fi

dl_sandbox() { "$top_srcdir/tests/sandbox/dl-sandbox" "$@"; }

# why_no_cluster: a sentence when this machine cannot run one, nothing otherwise.
why_no_cluster() {
  local program
  ((EUID == 0)) || { echo "needs root"; return; }
  for program in slurmctld slurmd munged ip; do
    PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null || { echo "needs the program $program"; return; }
  done
  unshare --net --mount --uts --ipc true 2>/dev/null || echo "needs the right to make namespaces"
}

# cluster_up [options of dl-sandbox up]: for setup_file. The plugins and programs are those of $stage.
cluster_up() {
  local why sum
  why=$(why_no_cluster)
  export DL_NO_CLUSTER=$why
  [[ -z $why ]] || return 0 # cluster_setup skips each test, which bats cannot do for a whole file
  # One folder per checkout and test file: two checkouts may be tested at once, and an aborted run's remains are found.
  sum=$(printf '%s' "$top_builddir:${BATS_TEST_FILENAME:-$0}" | cksum | cut -d' ' -f1)
  export DL_SANDBOX_DIR=/tmp/dlsb-test-$sum
  dl_sandbox down || true
  if [[ -d $stage ]]; then set -- --prefix "$stage" "$@"; fi
  dl_sandbox up "$@" 3>&-
}
# cluster_down: for teardown_file. The logs of the daemons are kept beside the test's log when a test failed.
cluster_down() {
  [[ -n ${DL_SANDBOX_DIR:-} ]] || return 0
  if [[ -d $DL_SANDBOX_DIR/log && -e $BATS_FILE_TMPDIR/failed ]]; then
    local keep
    keep=$top_builddir/tests/cluster/$(basename "${BATS_TEST_FILENAME%.bats}").logs
    rm -rf "$keep" && mkdir -p "${keep%/*}" && cp -r "$DL_SANDBOX_DIR/log" "$keep" && echo "# the daemons' logs are in $keep" >&3
  fi
  dl_sandbox down
}
# cluster_setup: for setup; the test runs in a new folder that every user may write to.
cluster_setup() {
  [[ -z ${DL_NO_CLUSTER:-} ]] || skip "$DL_NO_CLUSTER"
  cd "$(work_folder)" || return 1
}
# needs_torch: for setup, behind cluster_setup; skips the test where Debian's Python has no PyTorch.
needs_torch() {
  /usr/bin/python3 -c 'import torch' 2>/dev/null || skip "/usr/bin/python3 has no PyTorch"
}
# cluster_teardown: for teardown; ends the test's jobs, and remembers a failure so that cluster_down keeps the logs.
cluster_teardown() {
  [[ -n ${DL_SANDBOX_DIR:-} ]] || return 0
  [[ -n ${BATS_TEST_COMPLETED:-} ]] || touch "$BATS_FILE_TMPDIR/failed"
  cancel_all
}

# work_folder: a new folder of this test that every user may enter and write to.
work_folder() {
  local folder
  folder=$(mktemp -d "$DL_SANDBOX_DIR/work.XXXXXX") && chmod 1777 "$folder" && echo "$folder"
}

# on_login COMMAND…, on_node NODE COMMAND…, as_user USER COMMAND…
on_login() { dl_sandbox exec -- "$@" 3>&-; }
on_node() { dl_sandbox exec --node "$1" -- "${@:2}" 3>&-; }
as_user() { dl_sandbox exec --user "$1" -- "${@:2}" 3>&-; }
# some_user: a user of this machine that is not root.
some_user() { echo "${DL_TEST_USER:-nobody}"; }

# slurm_version: of the Slurm on this machine, as "24.11.5".  slurm_at_least 23.11
slurm_version() { PATH=$PATH:/usr/sbin:/sbin slurmctld -V | sed -E 's/.* //'; }
slurm_at_least() { [[ $(printf '%s\n' "$1" "$(slurm_version)" | sort -V | head -n 1) == "$1" ]]; }

# submit [options and script of sbatch]: prints the job's id, nothing else; what sbatch said is in $BATS_TEST_TMPDIR/submit.err.
submit() {
  local out
  out=$(on_login sbatch --parsable "$@" 2>"$BATS_TEST_TMPDIR/submit.err") || { cat "$BATS_TEST_TMPDIR/submit.err" >&2; return 1; }
  echo "${out%%;*}"
}
# job_field JOB FIELD: as `scontrol show job` spells it, for example Comment, NumNodes, TresPerNode, Requeue.
job_field() {
  on_login scontrol --oneliner show job "$1" | tr '\n' ' ' | sed -nE "s/(.* |^)$2=//p" | sed -E 's/ [A-Z][A-Za-z:/]*=.*//'
}
job_state() { on_login squeue -h -t all -j "$1" -o %T 2>/dev/null | head -n 1; }
node_state() { on_login sinfo -h -N -n "$1" -o %T | head -n 1; }

# wait_for SECONDS WHAT COMMAND…: polls until the command succeeds, after two seconds less often: most commands ask Slurm, and where several
# clusters wait at once, their questions take as much CPU as what they wait for. DL_TEST_PATIENCE times as long where run-tests has set it, since
# there several clusters and everything else share the machine; a test that failed there is judged once more, alone, without it.
wait_for() {
  local limit=$(($1 * ${DL_TEST_PATIENCE:-1})) what=$2 waits_since=$SECONDS between=0.1 end
  end=$((waits_since + limit))
  shift 2
  until "$@"; do
    if ((SECONDS >= end)); then
      echo "gave up after $limit s waiting until $what" >&2
      on_login squeue -t all -o '%i %j %T %r %k' >&2 || true
      return 1
    fi
    if ((SECONDS - waits_since >= 2)); then between=0.3; fi
    sleep "$between"
  done
}
# wait_state JOB STATE[,STATE…] SECONDS
wait_state() { wait_for "$3" "job $1 is $2" in_state "$1" "$2"; }
in_state() {
  local state
  state=$(job_state "$1")
  [[ -n $state && ,$2, == *,$state,* ]]
}
# wait_completed JOB SECONDS: of a job that was preempted. Slurm from 24.05 to 25.11 puts it back once more after its end,
# two minutes later, which are not waited for here.
wait_completed() { wait_for "$2" "job $1 is COMPLETED" in_state_hurried "$1" COMPLETED; }
in_state_hurried() {
  in_state "$@" && return
  # Not at once: a node takes no job that begins in the second in which it ended.
  [[ ! -e $BATS_TEST_TMPDIR/hurried.$1 && $(job_field "$1" Comment) =~ dl:(COMPLETED|FAILED) ]] && in_state "$1" PENDING &&
    on_login scontrol update JobId="$1" StartTime=now+2 && touch "$BATS_TEST_TMPDIR/hurried.$1"
  return 1
}
# wait_file FILE PATTERN SECONDS: until a line of the file matches (it may not exist yet).
wait_file() { wait_for "$3" "$1 has a line with '$2'" grep -qsE -- "$2" "$1"; }
# wait_step JOB N SECONDS: until its learners are at train step N, as dlctl status tells it.
wait_step() { wait_for "$3" "job $1 is at train step $2" at_step "$1" "$2"; }
at_step() {
  local step
  step=$(on_login "$stage/bin/dlctl" status --json "$1" 2>/dev/null | jq '.[0].step // 0')
  [[ ${step:-0} -ge $2 ]]
}
# wait_looked_at JOB SECONDS: until Slurm has tried to start a job, and says what it waits for.
wait_looked_at() { wait_for "$2" "job $1 was looked at and waits" looked_at "$1"; }
looked_at() {
  local reason
  reason=$(job_field "$1" Reason)
  [[ -n $reason && $reason != None && $reason != Priority ]] && in_state "$1" PENDING
}
# wait_rounds N: until dlpolicyd, whose metrics are in ./metrics.prom, has looked at the cluster N times from its begin to its end.
wait_rounds() {
  local before i
  for ((i = 0; i <= $1; i++)); do
    before=$(last_round)
    wait_for 20 "dlpolicyd looks at the cluster again" other_round "$before"
  done
}
last_round() { sed -n 's/^dl_policyd_last_round_seconds //p' metrics.prom 2>/dev/null || true; }
other_round() { [[ $(last_round) != "$1" ]]; }
# kill_process [-SIGNAL] PROCESS…: sends a signal, by default SIGKILL, and waits until the processes have ended. On a busy machine one that was
# killed lives on for a moment, with its locks and ports. A zombie has none.
kill_process() {
  local signal=-KILL
  if [[ $1 == -* ]]; then
    signal=$1
    shift
  fi
  kill "$signal" "$@" && wait_for 60 "processes $* have ended" have_ended "$@"
}
have_ended() {
  local pid
  for pid in "$@"; do
    ! grep -qsE '^State:[[:space:]]+[^ZX]' "/proc/$pid/status" || return 1
  done
}
# wait_controller SECONDS: until slurmctld answers, as after its restart.
wait_controller() { wait_for "$1" "slurmctld answers" controller_answers; }
controller_answers() { on_login scontrol ping 2>/dev/null | grep -q 'is UP'; }
# starts_of_daemon: how often a dlpolicyd that writes to ./daemon.log has started. wait_started N: until it has once more than N times.
starts_of_daemon() {
  local starts=0
  [[ ! -e daemon.log ]] || starts=$(grep -cE 'started: [0-9]+ tenants' daemon.log) || true
  echo "$starts"
}
wait_started() { wait_for 30 "dlpolicyd has started" has_started "$1"; }
has_started() { (($(starts_of_daemon) > $1)); }
# wait_nodes STATE SECONDS: until all nodes have the state.
wait_nodes() { wait_for "$2" "all nodes are $1" all_nodes "$1"; }
all_nodes() { [[ $(on_login sinfo -h -N -o %T | sort -u) == "$1" ]]; }
# own_pgrep [options of pgrep] PATTERN: those processes that run on hosts of this cluster. Another test's cluster may run
# beside it, with jobs of the same numbers; a process is told by the network namespace of its host. False if there is none.
own_pgrep() {
  local file pid hosts=' ' found=1
  for file in "$DL_SANDBOX_DIR"/run/*.pid; do
    read -r pid _ <"$file" && hosts+="$(readlink "/proc/$pid/ns/net") "
  done
  for pid in $(pgrep "$@"); do
    [[ $hosts == *" $(readlink "/proc/$pid/ns/net") "* ]] && echo "$pid" && found=0
  done
  return $found
}
# agent_of JOB RANK: the process of its agent.
agent_of() {
  local pid
  for pid in $(own_pgrep -f 'libexec/slurm-dl/dl-agent$'); do
    grep -qzx "SLURM_PROCID=$2" "/proc/$pid/environ" 2>/dev/null && grep -qzx "SLURM_JOB_ID=$1" "/proc/$pid/environ" && echo "$pid" && return
  done
  return 1
}
cancel_all() {
  local user
  for user in root "$(some_user)"; do on_login scancel --user="$user" 2>/dev/null || true; done # it takes one name only
}

# assert_contains TEXT PATTERN: TEXT matches the extended regular expression, else both are shown.
assert_contains() {
  grep -qE -- "$2" <<<"$1" || { printf 'expected to match: %s\nbut it is:\n%s\n' "$2" "$1" >&2; return 1; }
}
