#!/usr/bin/env bats
# MPI programs on a real Slurm with PMIx: libdlckpt from C++, paused and resumed at another number of ranks; libdllearner.
bats_require_minimum_version 1.5.0
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup_file() {
  cluster_up --nodes 2 --gpus-per-node 0
  [[ -z $DL_NO_CLUSTER ]] || return 0
  command -v mpicxx >/dev/null || return 0
  mpicxx -std=c++17 -Wall -Wextra -Werror -O1 "$top_srcdir/frameworks/mpi/example/fit_mpi.cpp" -I"$stage/include" -L"$stage/lib" \
    -Wl,-rpath,"$stage/lib" -ldlckpt -o "$BATS_FILE_TMPDIR/fit_mpi"
}
teardown_file() { cluster_down; }
setup() {
  cluster_setup
  command -v mpicxx >/dev/null || skip "mpicxx is not installed"
  cp "$BATS_FILE_TMPDIR/fit_mpi" .
  # Of this cluster alone: jobs of another that runs beside it have their PMIx servers in /tmp.
  export TMPDIR=$DL_SANDBOX_DIR/pmix
  mkdir -p "$TMPDIR"
}
teardown() {
  [[ -n ${BATS_TEST_COMPLETED:-} ]] || tail -n 40 fit.out 2>/dev/null || true
  cluster_teardown
}
fit() { # LEARNERS STEPS DELAY_MS
  # Ranks that wait give their core to others: there are more of them than cores on a small machine.
  printf '#!/bin/bash\nexport OMPI_MCA_mpi_yield_when_idle=1\nexec dlrun -- ./fit_mpi %s %s\n' "$2" "$3" >fit.sh
  submit -N2 --output=fit.out --dl-framework=mpi --dl-learners="$1" --dl-gpus=0 --dl-checkpoint="$PWD/ckpt,every=10steps" fit.sh
}
ended() { in_state "$1" COMPLETED,FAILED,CANCELLED,TIMEOUT,NODE_FAIL || [[ -z $(job_state "$1") ]]; }
saved() { [[ -n $(echo ckpt/step-*) && -d $(echo ckpt/step-* | cut -d' ' -f1) ]]; }

@test "an MPI program on two nodes trains, saves and ends with the sum over all its ranks" {
  job=$(fit 4 40 0)
  wait_for 120 "job $job has ended" ended "$job"
  assert_contains "$(cat fit.out)" 'every point was used 40 to 40 times'
  assert_contains "$(on_login dlckpt ls "$PWD/ckpt")" '^ +40 .* 4 +committed'
}

@test "paused with 4 ranks and resumed with 3, every point was used as often as in an uninterrupted run" {
  job=$(fit 4 100 100)
  wait_for 60 "a checkpoint is there" saved
  on_login dlctl pause "$job"
  wait_state "$job" PENDING 40
  assert_contains "$(cat fit.out)" 'stopping at train step [0-9]+, exit status 75'
  on_login scancel "$job"
  second=$(fit 3 100 0)
  wait_for 120 "job $second has ended" ended "$second"
  assert_contains "$(cat fit.out)" 'resumed at train step'
  assert_contains "$(cat fit.out)" 'every point was used 100 to 100 times'
}

# run_on_two OPTIONS of sbatch… -- COMMAND: a job of four learners on two nodes, to its end; $job, fit.out.
run_on_two() {
  local options=()
  while [[ $1 != -- ]]; do options+=("$1"); shift; done
  shift
  printf '#!/bin/bash\nexport OMPI_MCA_mpi_yield_when_idle=1\nexec dlrun -- %s\n' "$*" >fit.sh
  job=$(submit -N2 --output=fit.out --dl-framework=generic --dl-learners=4 --dl-gpus=0 "${options[@]}" fit.sh)
}
pmix_peer() {
  [[ -x $stage/libexec/slurm-dl/dl-pmix ]] || skip "built without libpmix"
  # shellcheck disable=SC2046 # words of the compiler's command line
  "${CC:-gcc}" -Wall -Wextra -Werror -o pmix_peer "$top_srcdir/tests/cluster/pmix_peer.c" $(pkg-config --cflags --libs pmix)
}
nothing_of_pmix_left() {
  ! own_pgrep -x dl-pmix >/dev/null && [[ ! -e $TMPDIR/dl-pmix-$EUID ]]
}

# waits_once: again.py, which waits for its end when all are up, and sums up when it is started again and there is no file "hold".
waits_once() {
  [[ -x $stage/libexec/slurm-dl/dl-pmix ]] || skip "built without libpmix"
  cat >again.py <<'PY'
import os, time
from mpi4py import MPI
world = MPI.COMM_WORLD
world.Barrier()
if not os.path.exists("again"):
    world.Barrier()
    if world.rank == 0:
        open("up", "w").close()
    time.sleep(60)
while os.path.exists("hold"):
    time.sleep(0.1)
print("the sum is", world.allreduce(world.rank + 1), flush=True)
PY
  /usr/bin/python3 -c 'import mpi4py' 2>/dev/null || skip "mpi4py is not installed"
}

@test "dlrun's own PMIx servers: fences with and without data, direct modex and names between nodes, without Slurm's plugin" {
  pmix_peer
  run_on_two -- ./pmix_peer exchange
  wait_for 60 "job $job has ended" ended "$job"
  [ "$(job_state "$job")" = COMPLETED ]
  [ "$(grep -c 'sum 1406, the answer of rank 3 is 42' fit.out)" = 4 ]
  assert_contains "$(cat dl-"$job"/plan.json)" '"--mpi=none"'
  assert_contains "$(cat fit.out)" 'served by dl-pmix \(OpenPMIx'
  wait_for 10 "nothing of PMIx is left" nothing_of_pmix_left
}

@test "a PMIx program hears of its lost peer before it is ended" {
  pmix_peer
  run_on_two -- ./pmix_peer lost
  wait_for 60 "job $job has ended" ended "$job"
  [ "$(grep -c 'has heard that it has lost rank 0' fit.out)" = 3 ]
  assert_contains "$(cat fit.out)" 'learner 0 on n[12] was killed by signal 9'
  wait_for 10 "nothing of PMIx is left" nothing_of_pmix_left
}

@test "a fence with a dead member ends, and PMIx_Abort's code is the cause" {
  pmix_peer
  run_on_two -- ./pmix_peer stuck
  wait_for 60 "job $job has ended" ended "$job"
  [ "$(grep -c '^\[[0-3]\] .*let out of the fence' fit.out)" = 3 ]  # dlrun may quote the line of the first that ends
  run_on_two -- ./pmix_peer abort 7
  wait_for 60 "job $job has ended" ended "$job"
  assert_contains "$(cat fit.out)" 'learner 1 on n[12] exited with code 7: MPI_Abort with code 7'
}

@test "a killed PMIx server is named and answered by a restart, which keeps the agents" {
  waits_once
  run_on_two --dl-restarts=1 -- /usr/bin/python3 again.py
  wait_for 60 "all learners are up" test -e up
  touch again hold
  agents=$(own_pgrep -f 'libexec/slurm-dl/dl-agent$' | sort | tr '\n' ' ')
  kill -KILL "$(own_pgrep -x dl-pmix | head -n 1)"
  wait_for 60 "the restart is there" grep -q 'restart 1 of 1' fit.out
  [ "$(own_pgrep -f 'libexec/slurm-dl/dl-agent$' | sort | tr '\n' ' ')" = "$agents" ]
  rm hold
  wait_for 60 "job $job has ended" ended "$job"
  assert_contains "$(cat fit.out)" 'the PMIx server \(dl-pmix\) on n[12] was killed'
  [ "$(grep -c 'the sum is 10' fit.out)" = 4 ]
  [ "$(job_state "$job")" = COMPLETED ]
  wait_for 10 "nothing of PMIx is left" nothing_of_pmix_left
}

@test "dlrun is killed: the one in its place starts the learners again with new PMIx servers, and the old ones end" {
  waits_once
  run_on_two --dl-restarts=1 -- /usr/bin/python3 again.py
  wait_for 60 "all learners are up" test -e up
  touch again
  mapfile -t old < <(own_pgrep -x dl-pmix)
  [ "${#old[@]}" = 2 ]
  kill_process "$(jq -r .pid dl-"$job"/control.json)"
  wait_for 60 "job $job has ended" ended "$job"
  [ "$(job_state "$job")" = COMPLETED ]
  assert_contains "$(cat fit.out)" 'dlrun was killed by signal 9 \(SIGKILL\); another has taken its place'
  [ "$(grep -c 'served by dl-pmix' fit.out)" = 2 ]
  [ "$(grep -c 'the sum is 10' fit.out)" = 4 ]
  for pid in "${old[@]}"; do [ ! -e "/proc/$pid" ]; done
  wait_for 10 "nothing of PMIx is left" nothing_of_pmix_left
}

@test "agent and PMIx server of a node killed together: the sweep of the node removes what they have left" {
  waits_once
  run_on_two -- /usr/bin/python3 again.py
  wait_for 60 "all learners are up" test -e up
  server=$(own_pgrep -x dl-pmix | tail -n 1)
  kill -KILL "$(ps -o ppid= -p "$server" | tr -d ' ')" "$server"
  wait_for 60 "job $job has ended" ended "$job"
  [ "$(job_state "$job")" = FAILED ]
  wait_for 10 "nothing of PMIx is left" nothing_of_pmix_left
}

@test "PMIx left to Slurm where Slurm has no plugin for it: one sentence, and nothing is started" {
  plugins=$(on_login scontrol show config | sed -nE 's/^PluginDir += (.*)/\1/p')
  conf=$(on_login printenv SLURM_CONF)
  mkdir plugins && cp -rs "${plugins%%:*}"/. plugins && rm -f plugins/mpi_pmix*
  { grep -v "^PluginDir=" "$conf"; echo "PluginDir=$PWD/plugins"; } >slurm.conf
  printf '#!/bin/bash\nexport SLURM_CONF=%s DL_PMIX=slurm\nexec dlrun -- ./fit_mpi 2 0\n' "$PWD/slurm.conf" >fit.sh
  id=$(submit -N2 --output=fit.out --dl-framework=mpi --dl-learners=2 --dl-gpus=0 fit.sh)
  wait_for 60 "job $id has ended" ended "$id"
  assert_contains "$(cat fit.out)" "^dlrun: DL_PMIX=slurm: this Slurm has no MPI plugin 'pmix', srun --mpi=list names only .*pmi2.*; allowed: Slurm's package"
  [ "$(grep -c . fit.out)" = 1 ]
  [ "$(job_state "$id")" = FAILED ]
}

@test "MPI_Comm_spawn is refused: a program that can do without goes on, and where errors are fatal the job fails at once" {
  [[ -x $stage/libexec/slurm-dl/dl-pmix ]] || skip "built without libpmix"
  /usr/bin/python3 -c 'import mpi4py' 2>/dev/null || skip "mpi4py is not installed"
  cat >spawn.py <<'PY'
import sys
from mpi4py import MPI
world = MPI.COMM_WORLD
if sys.argv[1] == "fatal":
    world.Set_errhandler(MPI.ERRORS_ARE_FATAL)
    world.Spawn("/bin/true")
try:
    MPI.COMM_SELF.Spawn("/bin/true")
except MPI.Exception as error:
    print("refused:", error, flush=True)
print("the sum is", world.allreduce(world.rank + 1), flush=True)
PY
  run_on_two -- /usr/bin/python3 spawn.py returned
  wait_for 30 "job $job has ended" ended "$job"
  [ "$(job_state "$job")" = COMPLETED ]
  [ "$(grep -c 'refused: MPI_ERR_SPAWN' fit.out)" = 4 ]
  [ "$(grep -c 'the sum is 10' fit.out)" = 4 ]
  assert_contains "$(cat fit.out)" 'dlrun: learner [0-3] may not start more processes \(MPI_Comm_spawn\)'
  run_on_two -- /usr/bin/python3 spawn.py fatal
  wait_for 30 "job $job has ended" ended "$job"
  [ "$(job_state "$job")" = FAILED ]
  assert_contains "$(cat fit.out)" 'MPI_ERR_SPAWN: could not spawn processes'
  assert_contains "$(cat fit.out)" 'dlrun: learner 0 may not start more processes \(MPI_Comm_spawn\)'
}

@test "a learner that does not reach its PMIx server ends, and dlrun says what may be the cause" {
  [[ -x $stage/libexec/slurm-dl/dl-pmix ]] || skip "built without libpmix"
  mpicc -o allreduce "$top_srcdir/tests/cluster/mpi_allreduce.c"
  cat >unreached.sh <<'SH'
#!/bin/bash
for name in "${!PMIX_SERVER_URI@}"; do export "$name=${!name%:*}:1"; done # nobody listens there
exec ./allreduce
SH
  chmod +x unreached.sh
  run_on_two -- ./unreached.sh
  wait_for 30 "job $job has ended" ended "$job"
  [ "$(job_state "$job")" = FAILED ]
  assert_contains "$(cat fit.out)" 'dlrun: learner [0-3] has not reached the PMIx server of its node \(OpenPMIx .*DL_PMIX=slurm'
}

@test "connections of PMIx servers that are reset are taken up again; one that nobody uses may be killed" {
  cat >often.py <<'PY'
import os, time
from mpi4py import MPI
world = MPI.COMM_WORLD
if world.rank == 0:
    open("up", "w").close()
for turn in range(60):
    assert world.allreduce(1) == world.size
    time.sleep(0.1)
print("the sum is", world.allreduce(world.rank + 1), flush=True)
PY
  /usr/bin/python3 -c 'import mpi4py' 2>/dev/null || skip "mpi4py is not installed"
  run_on_two -- /usr/bin/python3 often.py
  wait_for 60 "all learners are up" test -e up
  port=$(jq -r .port "$(find . -path '*/control.json' | head -n 1)")
  on_node n2 ss -HKt dport = "$port" >/dev/null
  wait_for 60 "job $job has ended" ended "$job"
  assert_contains "$(cat fit.out)" 'the connection to its agent was broken'
  [ "$(grep -c 'the sum is 10' fit.out)" = 4 ]
  [ "$(job_state "$job")" = COMPLETED ]
  run ! grep -q 'dl-pmix.* was killed' fit.out

  printf '#!/bin/bash\nexec dlrun -- sh -c "touch none; until [ -e over ]; do sleep 0.2; done"\n' >none.sh
  job=$(submit -N2 --output=none.out --dl-framework=generic --dl-learners=2 --dl-gpus=0 none.sh)
  wait_for 30 "its learners run" test -e none
  kill -KILL "$(own_pgrep -x dl-pmix | head -n 1)"
  wait_for 30 "dlrun has said it" grep -q 'was killed' none.out
  touch over
  wait_for 60 "job $job has ended" ended "$job"
  assert_contains "$(cat none.out)" 'warning: the PMIx server \(dl-pmix\) on n[12] was killed; no learner there has used it'
  [ "$(job_state "$job")" = COMPLETED ]
}

@test "ranks of a node share memory, and DL_PMIX=slurm goes back to Slurm's plugin" {
  mpicc -o allreduce "$top_srcdir/tests/cluster/mpi_allreduce.c"
  # Without TCP between ranks of a node only shared memory is left; two nodes could not meet then.
  printf '#!/bin/bash\nexport OMPI_MCA_btl=^tcp\nexec dlrun -- ./allreduce\n' >fit.sh
  job=$(submit -N1 --output=fit.out --dl-framework=mpi --dl-learners=2 --dl-gpus=0 fit.sh)
  wait_for 60 "job $job has ended" ended "$job"
  [ "$(grep -c 'of 2 on .*: sum 1' fit.out)" = 2 ]
  on_login srun --mpi=list 2>&1 | grep -qw pmix || skip "shared memory is used; this Slurm has no mpi/pmix plugin to go back to"
  printf '#!/bin/bash\nexport DL_PMIX=slurm\nexec dlrun -- ./allreduce\n' >fit.sh
  job=$(submit -N2 --output=fit.out --dl-framework=mpi --dl-learners=4 --dl-gpus=0 fit.sh)
  wait_for 60 "job $job has ended" ended "$job"
  [ "$(grep -c 'of 4 on .*: sum 6' fit.out)" = 4 ]
  assert_contains "$(cat dl-"$job"/plan.json)" '"--mpi=pmix"'
}

@test "after a death an MPI program is started again in the allocation, also behind an interpreter" {
  cat >again.py <<'PY'
import os, signal
from mpi4py import MPI
world = MPI.COMM_WORLD
world.Barrier()
if world.rank == 1 and not os.path.exists("died"):
    open("died", "w").close()
    os.kill(os.getpid(), signal.SIGKILL)
world.Barrier()
print("the sum is", world.allreduce(world.rank + 1), flush=True)
PY
  /usr/bin/python3 -c 'import mpi4py' 2>/dev/null || skip "mpi4py is not installed"
  printf '#!/bin/bash\nexport OMPI_MCA_mpi_yield_when_idle=1\nexec dlrun -- /usr/bin/python3 again.py\n' >fit.sh
  job=$(submit -N2 --output=fit.out --dl-framework=generic --dl-learners=2 --dl-gpus=0 --dl-restarts=1 fit.sh)
  wait_for 90 "job $job has ended" ended "$job"
  assert_contains "$(cat fit.out)" 'restart 1 of 1'
  assert_contains "$(cat fit.out)" 'the sum is 3'
  [ "$(job_state "$job")" = COMPLETED ]
}

@test "libdllearner: digits are learned on two nodes as well as alone, by buckets and by a parameter server" {
  "${CXX:-g++}" -std=c++17 -Wall -Wextra -Werror -O2 "$top_srcdir/frameworks/dllearner/example/train_digits.cpp" -I"$stage/include" \
    -L"$stage/lib" -Wl,-rpath,"$stage/lib" -ldllearner -ldlckpt -o train_digits
  train() { # NODES LEARNERS OPTIONS of sbatch…: sets $good
    printf '#!/bin/bash\nexport OMPI_MCA_mpi_yield_when_idle=1\nexec dlrun -- ./train_digits %s 500 0 sync\n' \
      "$top_srcdir/frameworks/dllearner/example/digits.txt" >digits.sh
    job=$(submit -N"$1" --output=fit.out --dl-framework=dllearner --dl-learners="$2" --dl-gpus=0 "${@:3}" digits.sh)
    wait_for 60 "job $job has ended" ended "$job"
    good=$(sed -nE 's/.*: ([0-9]+) of 297 test digits are right.*weights are the same everywhere.*/\1/p' fit.out)
  }
  train 1 1
  alone=$good
  train 2 3
  together=$good
  train 2 2 --dl-servers=1
  assert_contains "$(cat fit.out)" '2 learners, sync, train step 500'
  echo "right: $alone alone, $together by three learners, $good with a server"
  ((alone >= 267 && together - alone <= 2 && alone - together <= 2 && good - alone <= 2 && alone - good <= 2))
}
