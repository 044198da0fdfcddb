#!/usr/bin/env bats
# Learners in a container image, run by Charliecloud on two nodes of a real Slurm: what they find, exit codes, a pause that saves,
# stacks and the end of hung ones, kills, SquashFS, MPI over PMIx. The image is made of this machine's own files.
# shellcheck disable=SC2016  # much here is expanded by the shells of learners
bats_require_minimum_version 1.5.0
# shellcheck source=tests/cluster/lib.bash
source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"

setup_file() {
  export DL_NO_IMAGE=
  command -v ch-run >/dev/null || DL_NO_IMAGE="needs Charliecloud (ch-run)"
  unshare --user true 2>/dev/null || DL_NO_IMAGE="needs user namespaces"
  [[ -z $DL_NO_IMAGE ]] || return 0
  cluster_up --nodes 2 --gpus-per-node 0
  # Not below /tmp, which Charliecloud shows anyway.
  export images
  images=$(mktemp -d /var/tmp/dl-images.XXXXXX)
  chmod 755 "$images"
  local programs=(/bin/{sh,cat,sleep,setsid,env} /usr/bin/python3)
  "$top_srcdir/tests/lib/make_image" "$images/small" "${programs[@]:0:5}"
  "$top_srcdir/tests/lib/make_image" "$images/system" "${programs[@]}" /usr/lib/python3.11 /usr/lib/python3/dist-packages/numpy \
    "$stage/lib/libdlckpt.so.1" /usr/lib/x86_64-linux-gnu/{openmpi,pmix2} /usr/share/openmpi /etc/openmpi
}
teardown_file() {
  rm -rf "${images:-/nonexistent}"
  cluster_down
}
setup() {
  [[ -z $DL_NO_IMAGE ]] || skip "$DL_NO_IMAGE"
  cluster_setup
  work=$(mktemp -d /var/tmp/dl-image-work.XXXXXX)
  chmod 1777 "$work"
  cd "$work" || return 1
  printf '#!/bin/bash\ndlrun -- "$@"\necho "dlrun ended with $?"\n' >job.sh
}
teardown() {
  [[ -n ${BATS_TEST_COMPLETED:-} ]] || tail -n 40 out 2>/dev/null || true
  [[ -n $DL_NO_IMAGE ]] || cluster_teardown
  cd / && rm -rf "${work:-/nonexistent}"
}
in_image() { submit -N2 --output=out --open-mode=append --dl-learners=2 --dl-image="$images/$1" "${@:2}"; }

@test "learners are in the image, on both nodes, as the user, with environment, working directory and exit code" {
  of_user() {
    as_user "$(some_user)" sbatch --parsable -N2 --output="$1" --dl-framework=generic --dl-learners=2 --dl-image="$images/small" job.sh "${@:2}" 2>err
  }
  job=$(of_user refused true)
  wait_state "$job" COMPLETED,FAILED 40
  assert_contains "$(cat refused)" "the image has no folder $work at which the node's is seen, and it cannot be made \(.*Permission denied\); allowed"
  mkdir -p "$images/small$work"
  job=$(of_user out sh -c 'echo "$RANK of $WORLD_SIZE in $(cat /etc/image-mark) at $PWD"
    : >here.$RANK; [ -w "$DL_PROGRESS" ] || echo no page
    until [ -e here.0 ]; do sleep 0.1; done; exit $((RANK * 7))')
  wait_state "$job" COMPLETED,FAILED 40
  for rank in 0 1; do
    assert_contains "$(cat out)" "^\[$rank\] $rank of 2 in made by make_image at $work"
    [ "$(stat -c %U here.$rank)" = "$(some_user)" ]
  done
  run ! grep -q 'no page' out
  assert_contains "$(cat out)" 'learner 1 on n2 exited with code 7'
  assert_contains "$(cat out)" 'dlrun ended with 7'
}

@test "a pause saves at an agreed train step; what goes on in the image finds dlckpt and its checkpoint" {
  cat >train.py <<'PY'
import os, time
import numpy, dlckpt
counted = numpy.zeros(4)
job = dlckpt.attach(counted=counted)
print("dlckpt of", os.path.dirname(dlckpt.__file__), "with", counted[0], "counted", flush=True)
for step in job.steps(100):
    counted += 1
    time.sleep(0.05)
print("counted", counted[0], "mark", open("/etc/image-mark").read(), flush=True)
PY
  job=$(in_image system --dl-framework=generic --dl-checkpoint="$work/ck,every=20steps" job.sh python3 train.py)
  wait_for 40 "a checkpoint is there" eval 'ls -d ck/step-* 2>/dev/null | grep -q .'
  on_login dlctl pause "$job"
  wait_for 30 "job $job is held" eval '[[ $(job_field '"$job"' Comment) == *dl:HALTED* ]]'
  on_login dlctl resume "$job"
  wait_state "$job" COMPLETED 60
  assert_contains "$(cat out)" "^\[0\] dlckpt of $work/dl-$job/image/share/slurm-dl/python/dlckpt with 0.0 counted"
  assert_contains "$(cat out)" "^\[1\] dlckpt of .* with [1-9][0-9]*.0 counted"
  assert_contains "$(cat out)" '^\[1\] counted 100.0 mark made by make_image'
}

@test "hung learners in an image: stacks are written, all processes are ended; a kill -9 inside restarts them" {
  job=$(in_image small --dl-framework=generic --dl-hang-timeout=3s --dl-restarts=2 job.sh sh -c 'setsid sleep 31414 &
    case $DL_ATTEMPT$RANK in 11) kill -9 $$ ;; 3*) exit 0 ;; esac; echo ready; while :; do sleep 31413; done')
  wait_state "$job" COMPLETED,FAILED 60
  assert_contains "$(cat out)" 'learner 1 on n2 was killed by signal 9 \(SIGKILL\); restart 1 of 2'
  assert_contains "$(cat out)" 'hangs: no progress for [0-9]+ s.*; restart 2 of 2'
  assert_contains "$(cat out)" 'dlrun ended with 0'
  for rank in 0 1; do assert_contains "$(cat "dl-$job/logs/attempt-2/learner-$rank.stacks.txt")" 'process [0-9]+: sleep 31413'; done
  run ! own_pgrep -f 'sleep 3141[34]'
}

@test "a SquashFS image that has the folders; one without them is named in the failure" {
  command -v mksquashfs >/dev/null || skip "needs mksquashfs"
  mkdir -p "$images/small$work"
  mksquashfs "$images/small" "$images/small.sqfs" -quiet -no-progress -noI -noD -noF >/dev/null
  job=$(in_image small.sqfs --dl-framework=generic job.sh sh -c 'cat /etc/image-mark; : >here.$RANK; exec sleep 0.2')
  wait_state "$job" COMPLETED 40
  assert_contains "$(cat out)" '^\[1\] made by make_image'
  assert_contains "$(cat out)" 'dlrun ended with 0'
  [ -e here.0 ]
  [ -e here.1 ]
  run ! grep -q 'left processes behind' out
  mkdir other
  job=$(in_image small.sqfs --chdir="$work/other" --output=out --dl-framework=generic --dl-checkpoint=/var/tmp job.sh true)
  wait_state "$job" COMPLETED,FAILED 40
  assert_contains "$(cat other/out)" "ch-run.*(can't bind|No such file|not found)"
}

@test "an MPI program: its ranks meet over PMIx" {
  command -v mpicxx >/dev/null || skip "needs mpicxx"
  mpicxx -std=c++17 -O1 "$top_srcdir/frameworks/mpi/example/fit_mpi.cpp" -I"$stage/include" -L"$stage/lib" \
    -Wl,-rpath,"$stage/lib" -ldlckpt -o fit_mpi
  printf '#!/bin/bash\nexport OMPI_MCA_mpi_yield_when_idle=1\nexec dlrun -- ./fit_mpi 40 0\n' >mpi.sh
  job=$(in_image system --dl-learners=4 --dl-framework=mpi --dl-gpus=0 mpi.sh)
  wait_state "$job" COMPLETED,FAILED 60
  assert_contains "$(cat out)" 'every point was used 40 to 40 times'
}

@test "what is no image is refused at submission, and in the job where nothing runs it" {
  run on_login sbatch --dl-image="$work" --wrap true
  [ "$status" -ne 0 ]
  assert_contains "$output" "dl: --dl-image: '$work' is a directory without usr or bin, so no image; allowed: a directory"
  : >a.sif
  job=$(in_image "../../..$work/a.sif" --dl-framework=generic job.sh true)
  wait_state "$job" COMPLETED,FAILED 40
  assert_contains "$(cat out)" "dlrun: DL_IMAGE: '$work/a.sif' is a SIF image, and nothing on this node runs it; looked for apptainer or"
  assert_contains "$(cat out)" 'dlrun ended with 2'
}
