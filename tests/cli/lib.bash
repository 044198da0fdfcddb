# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# What the tests of dlrun without Slurm begin with. In a test file:
#
#   source "$(dirname "$BATS_TEST_FILENAME")/lib.bash"
#   setup() { dlrun_setup; }

: "${top_srcdir:=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}"
: "${top_builddir:=$top_srcdir/build}"
# shellcheck source=tests/lib/jq.bash
source "$top_srcdir/tests/lib/jq.bash"

# dlrun_setup: a new folder, nothing in the environment of another job, and our catalogue in ./cat. Sets $dlrun and $learner
# (tests/lib/toy_learner.c).
dlrun_setup() {
  local name
  cd "$BATS_TEST_TMPDIR" || return 1
  for name in $(compgen -e | grep -E '^(SLURM|DL|PMIX|OMPI|JAX|TF|NCCL|GLOO)_'); do unset "$name"; done
  mkdir cat && cp "$top_srcdir"/frameworks/*/*.toml cat/
  printf '[frameworks]\ncatalogue = ["%s"]\n' "$PWD/cat" >dl.toml
  export DL_CONFIG=$PWD/dl.toml
  # shellcheck disable=SC2034  # used by the tests
  dlrun=$top_builddir/launcher/dlrun learner=$top_builddir/tests/lib/toy_learner
}

# clean_rclone_environment: nothing of another job or another configuration of rclone in the environment; its configuration is ./rclone.conf.
clean_rclone_environment() {
  local name
  for name in $(compgen -e | grep -E '^(SLURM|DL|RCLONE|AWS)_'); do
    [ "$name" = DL_TEST_RCLONE ] || unset "$name"
  done
  export RCLONE_CONFIG=$PWD/rclone.conf
}

# nvml_double_build: in setup_file, the double of NVIDIA's management library (tests/lib/nvml_double.c). nvml_double_setup: in setup, each
# test sees its GPUs, which are used as the file ./uses says.
nvml_double_build() {
  mkdir -p "$BATS_FILE_TMPDIR/lib"
  cc -shared -fPIC -o "$BATS_FILE_TMPDIR/lib/libnvidia-ml.so.1" "$top_srcdir/tests/lib/nvml_double.c" || skip "no C compiler"
}
nvml_double_setup() {
  export LD_LIBRARY_PATH=$BATS_FILE_TMPDIR/lib NVML_DOUBLE=$PWD/uses
  unset CUDA_VISIBLE_DEVICES
}

# contains TEXT PATTERN
contains() { grep -qE -- "$2" <<<"$1" || { printf 'expected: %s\nin: %s\n' "$2" "$1" >&2; return 1; }; }

# wait_grep PATTERN FILE...: until a line matches, 60 s at most: these tests run beside the clusters', in idle time.
wait_grep() {
  for _ in $(seq 600); do
    grep -qsE -- "$1" "${@:2}" && return 0
    sleep 0.1
  done
  cat "${@:2}" >&2
  return 1
}
# gone PATTERN: until no process with such a command line is left, 30 s at most.
gone() {
  for _ in $(seq 300); do
    pgrep -f -- "$1" >/dev/null || return 0
    sleep 0.1
  done
  pgrep -fa -- "$1" >&2
  return 1
}

# without_rights COMMAND...: runs it without root's rights to all files, if root runs the tests.
without_rights() {
  if [ "$(id -u)" -ne 0 ]; then
    "$@"
    return
  fi
  setpriv --bounding-set=-dac_override,-dac_read_search --inh-caps=-dac_override,-dac_read_search "$@"
}

# What a test that failed has left running.
teardown() {
  local left
  mapfile -t left < <(jobs -pr)
  if ((${#left[@]} > 0)); then kill "${left[@]}"; fi
}
